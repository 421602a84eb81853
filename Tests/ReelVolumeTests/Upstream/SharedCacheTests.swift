import Glibc
import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// A shared cache in front of a source, as a script: what is asked of which, and what a cache can spoil.
@Suite struct SharedCacheTests {
    private static let length: Int64 = 32 << 20
    /// No byte of this can have come where the first mebibyte of the film was played.
    private static let behindReadahead = ByteRange(10 << 20, 12 << 20)
    private static let piece: Int64 = 1 << 20

    /// In virtual time. - Parameter fault: nil for connections that are refused.
    @Test(arguments: [
        nil, FileOrigin.Fault.silent, .stallAfter(100_000), .resetAfter(200_000), .status(503, retryAfter: nil),
    ])
    func noReadWaitsLongForACacheThatFailsInMidFilm(_ fault: FileOrigin.Fault?) throws {
        let film = FileOrigin(length: Self.length)
        let (kept, isAway) = (FileOrigin(film.version), Shared(false))
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": { film.answer($0) }, "http://shared": { isAway.value ? nil : kept.answer($0) },
        ]
        try SimulatedWorld.run(servers) { world in
            let via = SharedCache(ResourceURL("http://shared/film.mkv")!)
            let options = VolumeOptions(timeout: .seconds(120), prebuffer: 0, via: via, alignment: Self.piece)
            let mount = try world.mount("http://origin/film.mkv", options)
            let longest = try mount.play(film) { place in
                guard place == 8 << 20 else { return }
                if let fault { kept.fault = fault } else { isAway.set(true) }
            }
            #expect(longest < .milliseconds(1500), "\(longest)")
            #expect(mount.volume.status().mirrors![1].bytes >= 8 << 20)
        }
    }

    /// A source with a film, and a shared cache that answers for it below another path.
    private struct Pair {
        let film: FileOrigin
        let kept: FileOrigin
        let source: ScriptedServer
        let cache: ScriptedServer
        let fixture: VolumeFixture
        let told = Shared<[RequestRecord]>([])
        /// Sent with each answer of the cache.
        let marks = Shared<[(name: String, value: String)]>([])

        /// - Parameters:
        ///   - kept: what the cache has, nil for the same.
        ///   - listed: the length in the listing, nil if it gives none.
        init(
            _ kept: FileOrigin.Version? = nil, listed: Int64? = SharedCacheTests.length, credentials: String? = nil,
            getsCredentials: Bool = false, isDown: Bool = false
        ) throws {
            let film = FileOrigin(length: SharedCacheTests.length)
            let other = FileOrigin(kept ?? film.version)
            (self.film, self.kept) = (film, other)
            let page = MirrorPair.page(["film.mkv"], listed)
            source = try MirrorPair.server("/films/", page, film)
            cache = try MirrorPair.server("/kept/films/", page, other, marks: marks)
            if isDown { source.stop() }
            let log = told
            fixture = try VolumeFixture(
                source.url("/films/").withLogin(credentials), prebuffer: 0,
                via: SharedCache(
                    cache.url("/kept/films/"), avoidance: .milliseconds(100), getsCredentials: getsCredentials)
            ) { record in log.change { $0 += [record] } }
        }

        func end() {
            fixture.remove()
            source.stop()
            cache.stop()
        }

        func asked(_ server: ScriptedServer) -> [ServerRequest] {
            server.requests.filter { $0.path.hasSuffix(".mkv") }
        }
        var status: VolumeStatus.Mirror { fixture.volume.status().mirrors![1] }

        /// Reads in order.
        func play(_ range: ByteRange = ByteRange(0, 3 << 20)) throws { _ = try fixture.play(film, range) }

        /// Looks into each piece from one on, until the cache is asked again.
        func isAskedAgain(from first: Int64) throws -> Bool {
            let before = asked(cache).count
            let file = try fixture.open("film.mkv").get()
            defer { fixture.volume.close(file) }
            var number = first
            return eventually {
                let offset = number * SharedCacheTests.piece + 300_000
                guard offset < SharedCacheTests.length else { return asked(cache).count > before }
                #expect(fixture.read(file, offset, 4096).isRight(film, offset, 4096))
                number += 1
                usleep(120_000)
                return asked(cache).count > before
            }
        }
    }

    // MARK: What is asked of which

    @Test func aFilmComesThroughItInWholePiecesEachOnce() throws {
        let pair = try Pair()
        defer { pair.end() }
        try pair.play(ByteRange(0, Self.length))
        #expect(pair.asked(pair.source).isEmpty && pair.source.requests.isEmpty)
        let asked = pair.asked(pair.cache)
        let ranges = asked.compactMap { $0.range(of: Self.length) }.sorted { $0.lower < $1.lower }
        #expect(ranges.count == asked.count)
        for range in ranges {
            #expect(range.lower % Self.piece == 0 && (range.upper % Self.piece == 0 || range.upper == Self.length))
        }
        #expect(ranges.reduce(0) { $0 + $1.count } == Self.length, "\(ranges)")
        #expect(asked.allSatisfy { $0["if-range"] == nil })
        #expect(asked.contains { $0["reelfs-version"] == "\"v1\"" })
        #expect(eventually { pair.told.value.contains { $0.from == "via" && $0.why == "head" } })
        #expect(pair.fixture.volume.status().reads["mirror"] == 0 && pair.status.bytes >= Self.length)
    }

    @Test func lengthsThatNoListingTellsAreAskedOfTheSource() throws {
        let pair = try Pair(listed: nil)
        defer { pair.end() }
        #expect(try pair.fixture.lookup("film.mkv").get().attributes.length == Self.length)
        #expect(pair.asked(pair.cache).isEmpty && pair.asked(pair.source).count == 1)
    }

    @Test func aFolderIsSeenThroughItOnceAndListedAnewByTheSource() throws {
        let pair = try Pair()
        defer { pair.end() }
        #expect(try pair.fixture.names().get() == ["film.mkv"])
        #expect(pair.source.requests.isEmpty)
        try pair.fixture.restart()
        #expect(
            eventually {
                _ = pair.fixture.names()
                return pair.source.requests.contains { $0.path == "/films/" }
            })
    }

    @Test func aNewMountPlaysThroughItWhileTheSourceIsDown() throws {
        let pair = try Pair(isDown: true)
        defer { pair.end() }
        #expect(try pair.fixture.names().get() == ["film.mkv"])
        try pair.play()
    }

    @Test(arguments: [false, true])
    func credentialsGoThereWhereTheUserSaysSo(_ isGiven: Bool) throws {
        let pair = try Pair(credentials: "me:s3cret", getsCredentials: isGiven)
        defer { pair.end() }
        try pair.play(ByteRange(0, 2 << 20))
        #expect(!pair.cache.requests.isEmpty)
        #expect(pair.cache.requests.allSatisfy { ($0["authorization"] != nil) == isGiven })
        // A list of the source's that has not been fetched for long is asked of the source itself.
        pair.kept.fault = .status(503, retryAfter: nil)
        try pair.play(ByteRange(5 << 20, 6 << 20))
        #expect(pair.asked(pair.source).allSatisfy { $0["authorization"] != nil })
    }

    @Test(arguments: [false, true])
    func signaturesAreInNoURLThatItSees(_ isGiven: Bool) throws {
        let film = FileOrigin(length: 300_000)
        let query = "a=1&X-Amz-Date=20240501T123456Z&X-Amz-Expires=99999999999&X-Amz-Signature=one"
        let list = ServerStep.answer(
            200, [("Content-Type", "audio/x-mpegurl")], body: "#EXTM3U\n/films/film.mkv?\(query)\n")
        let source = try ScriptedServer { request in
            if request.path == "/films/list.m3u" { return list }
            return request.query == query ? film.answer(request) : ServerStep.answer(403)
        }
        defer { source.stop() }
        let cache = try ScriptedServer { request in
            if request.path == "/kept/list.m3u" { return list }
            return request["reelfs-signature"] == query ? film.answer(request) : ServerStep.answer(403)
        }
        defer { cache.stop() }
        let fixture = try VolumeFixture(
            source.url("/films/list.m3u").text, prebuffer: 0,
            via: SharedCache(cache.url("/kept/list.m3u"), getsCredentials: isGiven))
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(file) }
        #expect(fixture.read(file, 0, 300_000).isRight(film, 0, 300_000))
        let asked = cache.requests.filter { $0.path.hasSuffix(".mkv") }
        #expect(!asked.isEmpty && asked.allSatisfy { $0.target == "/kept/film.mkv?a=1" }, "\(asked.map(\.target))")
        // Its length, which no list gives, is asked of the source in any case.
        let bytes = source.requests.filter { $0.path.hasSuffix(".mkv") && $0["range"] != "bytes=0-0" }
        #expect(bytes.isEmpty == isGiven)
    }

    @Test func itsHitsAndTheirAgeAreTold() throws {
        let pair = try Pair()
        defer { pair.end() }
        pair.marks.set([("X-Cache", "MISS")])
        try pair.play(ByteRange(0, 1 << 20))
        let first = try #require(pair.status.shared)
        #expect(first.hits == 0 && first.misses > 0 && first.age == nil)
        pair.marks.set([("X-Cache", "Hit from somewhere"), ("Age", "77")])
        try pair.play(ByteRange(5 << 20, 6 << 20))
        let second = try #require(pair.status.shared)
        // Bytes that were asked for ahead may have come meanwhile.
        #expect(second.hits > 0 && second.misses >= first.misses && second.age == 77)
    }

    // MARK: What it can spoil

    @Test(arguments: [
        FileOrigin.Fault.resetAfter(200_000), .resetAfter(0), .shortBody(after: 300_000), .stallAfter(100_000), .silent,
        .status(502, retryAfter: nil), .status(504, retryAfter: nil), .status(403, retryAfter: nil),
        .status(404, retryAfter: nil), .htmlWith200, .noContentRange, .wrongContentRange, .wrongTotal, .gzip, .noRanges,
        .wholeToRange, .changedETag,
    ])
    func theSourceTakesOverAndItIsAskedAgainWhenItIsWell(_ fault: FileOrigin.Fault) throws {
        let pair = try Pair()
        defer { pair.end() }
        try pair.play(ByteRange(0, 1 << 20))
        pair.kept.fault = fault
        // A read that waited for a cache that does not answer would fail at its deadline.
        try pair.play(Self.behindReadahead)
        #expect(!pair.asked(pair.source).isEmpty)
        pair.kept.fault = nil
        #expect(try pair.isAskedAgain(from: 20))
    }

    @Test func theSourceTakesOverWhereItRefusesConnectionsAndItIsAskedAgainWhenItIsBack() throws {
        let pair = try Pair()
        defer { pair.end() }
        try pair.play(ByteRange(0, 1 << 20))
        pair.cache.stop()
        try pair.play(Self.behindReadahead)
        #expect(pair.asked(pair.source).count > 0)
        // The tree does without it.
        #expect(pair.fixture.volume.isTrusted)
        let kept = pair.kept
        let again = try ScriptedServer(port: pair.cache.port) { kept.answer($0) }
        defer { again.stop() }
        let file = try pair.fixture.open("film.mkv").get()
        defer { pair.fixture.volume.close(file) }
        var number: Int64 = 20
        let isAsked = eventually {
            let offset = number * Self.piece + 300_000
            if offset < Self.length {
                #expect(pair.fixture.read(file, offset, 4096).isRight(pair.film, offset, 4096))
            }
            number += 1
            usleep(300_000)
            return again.requests.contains { $0["reelfs-version"] != nil }
        }
        #expect(isAsked)
    }

    /// What it may have instead of the film.
    private static let lies: [FileOrigin.Version] = [
        FileOrigin.Version(seed: 2, length: length, entityTag: "\"v2\"", lastModified: 1_700_000_001),
        FileOrigin.Version(seed: 2, length: length - 7, entityTag: "\"v2\""),
        FileOrigin.Version(seed: 2, length: length, entityTag: nil, lastModified: 1_700_000_001),
    ]

    @Test(arguments: 0..<3)
    func anotherVersionThereIsNeverShownAndTheFilmIsLookedForAgain(_ number: Int) throws {
        let pair = try Pair()
        defer { pair.end() }
        try pair.play(ByteRange(0, 1 << 20))
        pair.kept.change(to: Self.lies[number])
        try pair.play(Self.behindReadahead)
        #expect(pair.status.leftOut > 0 && pair.status.isAvoided == false)
        pair.kept.change(to: pair.film.version)
        #expect(try pair.isAskedAgain(from: 20))
    }

    @Test func anOldVersionThereIsFoundOutByTheNextOpen() throws {
        let old = FileOrigin.Version(seed: 2, length: Self.length, entityTag: "\"v0\"", lastModified: 1_600_000_000)
        let pair = try Pair(old)
        defer { pair.end() }
        let file = try pair.fixture.open("film.mkv").get()
        #expect(pair.fixture.read(file, 0, 4096).isRight(pair.kept, 0, 4096))
        pair.fixture.volume.close(file)
        pair.fixture.expire()
        try pair.play()
        #expect(pair.status.leftOut > 0)
    }

    @Test func aLengthThatContradictsTheListingIsAskedOfTheSource() throws {
        let old = FileOrigin.Version(seed: 2, length: Self.length - 9, entityTag: "\"v0\"", lastModified: 1_600_000_000)
        let pair = try Pair(old)
        defer { pair.end() }
        try pair.play()
    }

    @Test func aNewVersionAtTheSourceIsSeenWhateverItKeeps() throws {
        let pair = try Pair()
        defer { pair.end() }
        try pair.play(ByteRange(0, 1 << 20))
        pair.film.change(
            to: FileOrigin.Version(seed: 3, length: Self.length, entityTag: "\"v2\"", lastModified: 1_700_000_009))
        pair.fixture.expire()
        try pair.play()
        #expect(pair.asked(pair.source).contains { $0["if-none-match"] == "\"v1\"" })
    }

    @Test func aFileThatTheSourceHasNoMoreIsNotLookedForThere() throws {
        let pair = try Pair(listed: nil)
        defer { pair.end() }
        pair.film.fault = .status(404, retryAfter: nil)
        guard case .failure = pair.fixture.lookup("film.mkv") else {
            Issue.record("a file that is gone was found")
            return
        }
        #expect(pair.asked(pair.cache).isEmpty)
    }

    /// Right bytes, or an error; and no error where the source is well.
    @Test func randomFaultsOfItChangeNothing() throws {
        var random = SeededGenerator()
        print("seed \(random.seed)")
        let pair = try Pair()
        defer { pair.end() }
        let faults: [FileOrigin.Fault?] = [
            nil, nil, .resetAfter(70_000), .status(503, retryAfter: nil), .status(404, retryAfter: nil),
            .shortBody(after: 200_000), .wrongContentRange, .gzip, .changedETag, .tooLongBody, .wrongTotal, .noRanges,
            .redirectLoop, .hugeHeader, .untilClose,
        ]
        // An old version there is what a mount first sees; see `anOldVersionThereIsFoundOutByTheNextOpen`.
        try pair.play(ByteRange(0, 1))
        for _ in 0..<40 {
            pair.kept.fault = faults.randomElement(using: &random)!
            let version = (Self.lies + [pair.film.version]).randomElement(using: &random)!
            if Bool.random(using: &random) { pair.kept.change(to: version) }
            let file = try pair.fixture.open("film.mkv").get()
            let offset = Int64.random(in: 0..<(31 << 20), using: &random)
            #expect(pair.fixture.read(file, offset, 200_000).isRight(pair.film, offset, 200_000))
            pair.fixture.volume.close(file)
        }
    }
}

extension ResourceURL {
    /// The login as a user writes it. - Parameter credentials: nil: without.
    fileprivate func withLogin(_ credentials: String?) -> String {
        credentials.map { text.replacing("http://", with: "http://\($0)@", maxReplacements: 1) } ?? text
    }
}
