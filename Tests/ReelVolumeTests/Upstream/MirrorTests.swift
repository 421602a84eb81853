import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// Two origins of one tree.
@Suite struct MirrorTests {
    private static let length = MirrorPair.length
    /// A read that waits for it is given up by the test long before.
    private static let patience = Duration.seconds(120)

    private typealias Pair = MirrorPair

    /// What ends a first origin in mid-film.
    @Test(arguments: [
        FileOrigin.Fault.resetAfter(200_000), .resetAfter(0), .shortBody(after: 300_000), .stallAfter(100_000), .silent,
        .status(503, retryAfter: nil), .status(404, retryAfter: nil), .htmlWith200, .noContentRange,
        .drip(piece: 1000, pause: .milliseconds(100)),
    ])
    func theSecondTakesOverInMidFilm(_ fault: FileOrigin.Fault) throws {
        let pair = try Pair(timeout: Self.patience)
        defer { pair.end() }
        _ = try pair.play(at: 1 << 20) { pair.film.fault = fault }
        #expect(pair.mirror.bytes > 0 && pair.mirror.leftOut == 0)
        #expect(eventually { pair.told.value.contains { $0.from == "mirror" && $0.why == "probe" } })
        let blocks = pair.told.value.filter { $0.from == "mirror" && $0.why == "probe" }
        #expect(blocks.count == 1 && blocks[0].bytes <= BlockSize.block)
    }

    /// The source is well again, though it has failed a moment before.
    @Test(arguments: [
        FileOrigin.Fault.resetAfter(200_000), .shortBody(after: 300_000), .stallAfter(100_000), .silent,
        .status(503, retryAfter: nil), .drip(piece: 1000, pause: .milliseconds(100)),
    ])
    func theFirstTakesOverWhereTheSecondFailsInItsTurn(_ fault: FileOrigin.Fault) throws {
        // Longer than what is fetched ahead before the second fails.
        let pair = try Pair(length: 24 << 20, timeout: Self.patience)
        defer { pair.end() }
        try pair.fixture.play(pair.film) { place in
            if place == 1 << 20 { pair.film.fault = .status(503, retryAfter: nil) }
            if place == 3 << 20 { (pair.film.fault, pair.copy.fault) = (nil, fault) }
        }
        let status = pair.fixture.volume.status().mirrors!
        #expect(status[0].bytes > 1 << 20 && status[1].bytes > 0)
    }

    /// The source may answer later that it has other bytes.
    @Test func whatAMirrorGaveUnprovenIsComparedWithTheSourceAsSoonAsThatAnswers() throws {
        for isRight in [true, false] {
            let pair = try Pair(isRight ? nil : FileOrigin.Version(seed: 2, length: Self.length))
            defer { pair.end() }
            pair.film.fault = Pair.unwell
            let file = try pair.fixture.open("film.mkv").get()
            defer { pair.fixture.volume.close(file) }
            #expect(pair.fixture.read(file, 0, 100_000).isRight(pair.copy, 0, 100_000))
            #expect(pair.mirror.leftOut == 0)
            (pair.film.fault, pair.copy.fault) = (nil, Pair.unwell)
            let answer = pair.fixture.read(file, 4 << 20, 100_000)
            #expect(eventually { pair.told.value.contains { $0.from == "origin" && $0.why == "probe" } })
            pair.copy.fault = nil
            if isRight {
                // The handle goes on at the source.
                #expect(answer.isRight(pair.film, 4 << 20, 100_000))
                #expect(pair.mirror.leftOut == 0)
            } else {
                // It reads one version to its end.
                #expect(answer == .failure(.stale))
                #expect(pair.fixture.read(file, 0, 100_000).isRight(pair.copy, 0, 100_000))
                #expect(pair.mirror.leftOut == 1)
                #expect(pair.mirror.lastLeftOut?.hasSuffix("its bytes are others") == true)
            }
            let before = pair.asked.count
            _ = try pair.play()
            // It may be asked whether it has the file, as the source has failed a moment before.
            #expect(isRight || pair.asked.dropFirst(before).allSatisfy { $0["range"] == "bytes=0-0" })
            #expect(pair.mirror.leftOut == (isRight ? 0 : 1))
            let proofs = pair.told.value.filter { $0.from == "origin" && $0.why == "probe" && $0.bytes > 1 }
            #expect(proofs.count == 1 && proofs.allSatisfy { $0.bytes <= BlockSize.block }, "\(proofs)")
        }
    }

    @Test func aFilmThatAMirrorToldOfGoesOnAtASourceWithAnotherTag() throws {
        let pair = try Pair(FileOrigin.Version(length: Self.length, entityTag: "\"other\""))
        defer { pair.end() }
        let unwell = FileOrigin.Fault.status(503, retryAfter: nil)
        pair.film.fault = unwell
        let file = try pair.fixture.open("film.mkv").get()
        defer { pair.fixture.volume.close(file) }
        #expect(pair.fixture.read(file, 0, 100_000).isRight(pair.film, 0, 100_000))
        (pair.film.fault, pair.copy.fault) = (nil, unwell)
        #expect(pair.fixture.read(file, 4 << 20, 100_000).isRight(pair.film, 4 << 20, 100_000))
        #expect(pair.mirror.leftOut == 0)
    }

    @Test func theSecondTakesOverWhereTheFirstRefusesConnections() throws {
        let pair = try Pair(timeout: Self.patience)
        defer { pair.end() }
        _ = try pair.play(at: 1 << 20) { pair.first.stop() }
        #expect(pair.mirror.bytes > 0)
    }

    /// In virtual time. - Returns: the longest wait of a player.
    private func longestWait(
        _ event: @escaping (_ place: Int64, _ film: FileOrigin, _ copy: FileOrigin, _ isAway: Shared<Bool>) -> Void
    ) throws -> Duration {
        let film = FileOrigin(length: 24 << 20)
        let (copy, isAway) = (FileOrigin(film.version), Shared(false))
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": { isAway.value ? nil : film.answer($0) }, "http://mirror": { copy.answer($0) },
        ]
        return try SimulatedWorld.run(servers) { world in
            let options = VolumeOptions(
                timeout: Self.patience, prebuffer: 0, mirrors: [ResourceURL("http://mirror/film.mkv")!])
            let mount = try world.mount("http://origin/film.mkv", options)
            let longest = try mount.play(film) { event($0, film, copy, isAway) }
            #expect(mount.volume.status().mirrors![1].bytes > 0)
            return longest
        }
    }

    /// - Parameter fault: nil for connections that are refused.
    @Test(arguments: [
        nil, FileOrigin.Fault.resetAfter(200_000), .resetAfter(0), .shortBody(after: 300_000), .stallAfter(100_000),
        .silent, .status(503, retryAfter: nil), .status(404, retryAfter: nil), .htmlWith200, .noContentRange,
        .drip(piece: 1000, pause: .milliseconds(100)),
    ])
    func noReadWaitsLongForTheSecondToTakeOver(_ fault: FileOrigin.Fault?) throws {
        let longest = try longestWait { place, film, _, isAway in
            guard place == 1 << 20 else { return }
            if let fault { film.fault = fault } else { isAway.set(true) }
        }
        // What fails at once takes no time to find out.
        switch fault {
        case .silent, .stallAfter, .drip: #expect(longest < .milliseconds(1500), "\(longest)")
        default: #expect(longest < .seconds(1), "\(longest)")
        }
    }

    @Test(arguments: [
        FileOrigin.Fault.resetAfter(200_000), .shortBody(after: 300_000), .stallAfter(100_000), .silent,
        .status(503, retryAfter: nil), .drip(piece: 1000, pause: .milliseconds(100)),
    ])
    func noReadWaitsLongForTheFirstToTakeOver(_ fault: FileOrigin.Fault) throws {
        let longest = try longestWait { place, film, copy, _ in
            if place == 1 << 20 { film.fault = .status(503, retryAfter: nil) }
            if place == 3 << 20 { (film.fault, copy.fault) = (nil, fault) }
        }
        #expect(longest < .milliseconds(1500), "\(longest)")
    }

    @Test func readsThatWaitForAMirrorAreCountedAsItsOwn() throws {
        let pair = try Pair(isDown: true)
        defer { pair.end() }
        let file = try pair.fixture.open("film.mkv").get()
        defer { pair.fixture.volume.close(file) }
        // Where nothing is fetched ahead, whatever is faster.
        #expect(pair.fixture.read(file, 4 << 20, 100_000).isRight(pair.film, 4 << 20, 100_000))
        let status = pair.fixture.volume.status()
        #expect(status.misses > 0 && status.reads["mirror"] == status.misses, "\(status.misses): \(status.reads)")
        #expect(status.reads["origin"] == 0)
        #expect(status.firstByteSeconds[pair.second.url("/").origin]?.total ?? 0 > 0)
    }

    /// In virtual time: on a busy machine the first may look silent, or slow, and the mirror takes its turn.
    @Test func aMirrorIsNotAskedWhereTheFirstIsWell() throws {
        let film = FileOrigin(length: Self.length)
        let (copy, asked) = (FileOrigin(film.version), Shared(0))
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": { film.answer($0) },
            "http://mirror": {
                asked.change { $0 += 1 }
                return copy.answer($0)
            },
        ]
        try SimulatedWorld.run(servers) { world in
            let options = VolumeOptions(prebuffer: 0, mirrors: [ResourceURL("http://mirror/film.mkv")!])
            let mount = try world.mount("http://origin/film.mkv", options)
            let file = try mount.open("film.mkv").get()
            defer { mount.volume.close(file) }
            // Slower than the line, so that no second connection is wanted.
            for offset in stride(from: 0, to: Self.length, by: 1 << 17) {
                #expect(mount.read(file, offset, 1 << 17).isRight(film, offset, 1 << 17))
                Simulation.sleep(.milliseconds(50))
            }
            #expect(asked.value == 0 && mount.volume.status().mirrors![0].bytes >= Self.length)
        }
    }

    /// In virtual time: `http://origin` has a film, and `http://mirror` is its mirror.
    private func withOpenFilm(
        _ servers: [String: SimulatedTransport.Server],
        _ body: @escaping (SimulatedWorld.Mount, any FileHandle) throws -> Void
    ) throws {
        try SimulatedWorld.run(servers) { world in
            let options = VolumeOptions(
                timeout: Self.patience, prebuffer: 0, mirrors: [ResourceURL("http://mirror/film.mkv")!])
            let mount = try world.mount("http://origin/film.mkv", options)
            let file = try mount.open("film.mkv").get()
            defer { mount.volume.close(file) }
            try body(mount, file)
        }
    }

    /// In virtual time. A second body of the source would only end the first.
    @Test func aSlowBodyOfTheSourceGoesOnWhereNoMirrorHasTheFile() throws {
        let film = FileOrigin(length: Self.length)
        let (place, length, asked) = (2 << 20 as Int64, Self.length, Shared(0))
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": { request in
                if let range = request.range(of: length), range.count > 1,
                    range.overlaps(ByteRange(place, place + 1 << 17))
                {
                    asked.change { $0 += 1 }
                }
                return film.answer(request)
            },
            "http://mirror": { _ in ServerStep.answer(404) },
        ]
        try withOpenFilm(servers) { mount, file in
            // A block to compare a mirror with.
            #expect(mount.read(file, 0, 1 << 17).isRight(film, 0, 1 << 17))
            film.fault = .drip(piece: 4096, pause: .milliseconds(100))
            #expect(mount.read(file, place, 1 << 17).isRight(film, place, 1 << 17))
            #expect(asked.value == 1)
        }
    }

    /// Not when their request ends: that may be a film later.
    @Test func bytesOfAMirrorAreInStatusWhenAReaderHasThem() throws {
        let film = FileOrigin(length: Self.length)
        let copy = FileOrigin(film.version)
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": { _ in nil }, "http://mirror": { copy.answer($0) },
        ]
        try withOpenFilm(servers) { mount, file in
            for offset in stride(from: 0, to: Self.length, by: 1 << 17) {
                #expect(mount.read(file, offset, 1 << 17).isRight(film, offset, 1 << 17))
                #expect(mount.volume.status().mirrors![1].bytes >= offset + 1 << 17)
            }
        }
    }

    /// What a mirror may have instead of the film.
    private static let lies: [(FileOrigin.Version, String)] = [
        (FileOrigin.Version(seed: 2, length: length), "its bytes are others"),
        (FileOrigin.Version(length: length + 1), "its length is another"),
        (
            FileOrigin.Version(length: length, entityTag: "\"v2\"", lastModified: 1_700_000_001),
            "its tag and date are others"
        ),
        (FileOrigin.Version(length: length, entityTag: "W/\"v1\"", lastModified: nil), "its tag and date are others"),
    ]

    @Test(arguments: 0..<4)
    func aMirrorThatDisagreesIsLeftOutAndSaidOnce(_ number: Int) throws {
        let (version, reason) = Self.lies[number]
        let pair = try Pair(version, timeout: .seconds(2))
        defer { pair.end() }
        let file = try pair.fixture.open("film.mkv").get()
        defer { pair.fixture.volume.close(file) }
        #expect(pair.fixture.read(file, 0, 100_000).isRight(pair.film, 0, 100_000))
        // What the mirror is compared with is a whole block.
        #expect(eventually { pair.fixture.volume.files.all.allSatisfy { !$0.isFetching } })
        pair.film.fault = .status(501, retryAfter: nil)
        var asked: [Int] = []
        for place in [2, 3, 4] as [Int64] {
            let answer = pair.fixture.read(file, place << 20, 100_000)
            #expect(answer == .failure(.failed))
            asked.append(pair.asked.count)
        }
        #expect(pair.mirror.leftOut == 1 && pair.mirror.lastLeftOut?.hasSuffix(reason) == true)
        #expect(asked[0] > 0 && asked[0] == asked[2])
        pair.film.fault = nil
        #expect(eventually { pair.fixture.read(file, 5 << 20, 100_000).isRight(pair.film, 5 << 20, 100_000) })
    }

    /// Each 256th other film has the same byte at a place where the source broke off after one.
    @Test func aByteProvesNothing() throws {
        try withServices { services, _, _ in
            let table = FileTable(services)
            let url = ResourceURL("http://a/film.mkv")!
            let information = ContentInformation(
                length: Self.length, validator: Validator(entityTag: EntityTag("\"1\""), lastModified: 1))
            let file = try #require(try table.openNow(url, information))
            func put(_ range: ByteRange) throws {
                try GeneratedBytes(seed: 1).bytes(range).withUnsafeBytes {
                    try file.object.write($0, at: range.lower)
                }
            }
            let block = BlockSize.bytes(of: 3, length: Self.length)
            try put(ByteRange(0, 1))
            #expect(services.upstream.cachedBlock(of: url, information)?.range == nil)
            try put(block)
            #expect(services.upstream.cachedBlock(of: url, information)?.range == block)
            table.close(file)
        }
    }

    @Test func aMirrorWithAnotherTagAndTheSameDateIsAskedWithItsOwnTag() throws {
        let pair = try Pair(FileOrigin.Version(length: Self.length, entityTag: "\"other\""))
        defer { pair.end() }
        _ = try pair.play(at: 1 << 20) { pair.film.fault = .status(503, retryAfter: nil) }
        #expect(pair.mirror.leftOut == 0)
        let conditions = pair.asked.compactMap { $0["if-range"] }
        #expect(!conditions.isEmpty && conditions.allSatisfy { $0 == "\"other\"" })
        // What is there belongs to the first origin's version: with it back, nothing is fetched again.
        pair.film.fault = nil
        let before = pair.fixture.receivedBytes
        pair.fixture.expire()
        _ = try pair.play()
        #expect(pair.fixture.receivedBytes - before <= 1)
    }

    @Test func bothServeOneFilmWhereBothAreSlow() throws {
        let pair = try Pair()
        defer { pair.end() }
        // A tenth of what the reader takes.
        pair.film.fault = .drip(piece: 16_000, pause: .milliseconds(20))
        pair.copy.fault = .drip(piece: 16_000, pause: .milliseconds(20))
        var sent: [(Int64, Int64)] = []
        _ = try pair.fixture.play(pair.film) { _ in
            sent.append((pair.first.bodyBytesSent, pair.second.bodyBytesSent))
        }
        let status = pair.fixture.volume.status().mirrors!
        #expect(status[0].bytes > 1 << 20 && status[1].bytes > 1 << 20)
        // At the same time: during many reads that waited, both sent something.
        let waited = zip(sent, sent.dropFirst()).filter { $0 != $1 }
        let both = waited.count { $0.0 < $1.0 && $0.1 < $1.1 }
        #expect(4 * both > waited.count, "\(both) of \(waited.count)")
    }

    @Test func aMirrorGetsNoneOfTheFirstsSecrets() throws {
        let pair = try Pair(credentials: "me:s3cret")
        defer { pair.end() }
        _ = try pair.play(at: 1 << 20) { pair.film.fault = .status(503, retryAfter: nil) }
        #expect(pair.first.requests.contains { $0["authorization"] != nil })
        #expect(!pair.asked.isEmpty && pair.second.requests.allSatisfy { $0["authorization"] == nil })
    }

    /// A list of one film, whose link has that query, and a mirror of the list.
    /// - Parameter source: answers for all but the list.
    private func withList(
        query: String, source: @escaping @Sendable (ServerRequest) -> [ServerStep], mirror: FileOrigin,
        _ body: (VolumeFixture, _ source: ScriptedServer, _ mirror: ScriptedServer, any FileHandle) throws -> Void
    ) throws {
        let first = try ScriptedServer { request in
            guard request.path == "/films/list.m3u" else { return source(request) }
            let list = "#EXTM3U\n/films/film.mkv?\(query)\n"
            return ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: list)
        }
        defer { first.stop() }
        let second = try ScriptedServer { mirror.answer($0) }
        defer { second.stop() }
        let fixture = try VolumeFixture(
            first.url("/films/list.m3u").text, prebuffer: 0, mirrors: [second.url("/pub/list.m3u")])
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(file) }
        try body(fixture, first, second, file)
    }

    @Test(arguments: [
        "a=1&X-Amz-Date=20240501T123456Z&X-Amz-Expires=99999999999&X-Amz-Signature=one", "a=1&token=one",
    ])
    func signaturesOfLinksAreInNoURLThatAMirrorSees(_ query: String) throws {
        let film = FileOrigin(length: 300_000)
        try withList(query: query, source: { _ in ServerStep.answer(503) }, mirror: film) {
            fixture, first, second, file in
            #expect(fixture.read(file, 0, 300_000).isRight(film, 0, 300_000))
            #expect(first.requests.contains { $0.query == query })
            let targets = Set(second.requests.map(\.target))
            #expect(targets == ["/pub/film.mkv?a=1"])
        }
    }

    /// It is compared under the name that the cache has for it, also where nothing but the length says which it is.
    @Test(arguments: ["\"v1\"", nil])
    func theSignatureOfALinkIsInNoKeyOfTheCache(_ tag: String?) throws {
        let film = FileOrigin(FileOrigin.Version(length: 3 << 20, entityTag: tag, lastModified: nil))
        let other = FileOrigin(FileOrigin.Version(seed: 2, length: 3 << 20, entityTag: tag, lastModified: nil))
        try withList(query: "X-Amz-Signature=secret", source: { film.answer($0) }, mirror: other) {
            fixture, first, _, file in
            #expect(fixture.read(file, 0, 100_000).isRight(film, 0, 100_000))
            fixture.store.commit()
            #expect(fixture.read(file, 2 << 20, 100_000).isRight(film, 2 << 20, 100_000))
            let keys = Set(fixture.store.objects().map(\.key))
            #expect(keys == [first.url("/films/film.mkv").text])
        }
    }

    @Test func theListingOfAMirrorAnswersWhereTheFirstIsNotThere() throws {
        let pair = try Pair(isDown: true)
        defer { pair.end() }
        #expect(try pair.fixture.names().get() == ["film.mkv"])
        _ = try pair.play()
        #expect(pair.mirror.bytes >= Self.length)
    }

    @Test func aListingThatIsThereDoesNotShrinkToThatOfAMirror() throws {
        let pair = try Pair(listing: ["a.mkv", "b.mkv", "film.mkv"])
        defer { pair.end() }
        #expect(try pair.fixture.names().get() == ["a.mkv", "b.mkv", "film.mkv"])
        pair.first.stop()
        try pair.fixture.restart()
        #expect(try pair.fixture.names().get() == ["a.mkv", "b.mkv", "film.mkv"])
        _ = try pair.play()
    }

    /// Right bytes, or an error.
    @Test func randomFaultsOfBothLeaveRightBytesOrAnError() throws {
        var random = SeededGenerator()
        print("seed \(random.seed)")
        let pair = try Pair(length: 8 << 20, timeout: .seconds(2))
        defer { pair.end() }
        let faults: [FileOrigin.Fault?] = [
            nil, nil, .resetAfter(70_000), .status(503, retryAfter: nil), .status(404, retryAfter: nil),
            .shortBody(after: 200_000), .wrongContentRange, .gzip, .changedETag,
            .drip(piece: 50_000, pause: .milliseconds(5)),
            .tooLongBody, .wrongTotal,
        ]
        var right = 0
        for _ in 0..<40 {
            pair.film.fault = faults.randomElement(using: &random)!
            pair.copy.fault = faults.randomElement(using: &random)!
            guard case .success(let file) = pair.fixture.open("film.mkv") else { continue }
            let offset = Int64.random(in: 0..<(7 << 20), using: &random)
            let answer = pair.fixture.read(file, offset, 200_000)
            if case .success = answer {
                right += 1
                #expect(answer.isRight(pair.film, offset, 200_000))
            }
            pair.fixture.volume.close(file)
        }
        #expect(right > 5)
    }
}
