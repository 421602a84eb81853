import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// Mounts that share a bucket.
@Suite(.serialized) struct TierTests {
    /// A source with a film, and a bucket that is a tier for any number of mounts of it.
    private final class Fleet: Sendable {
        let film: FileOrigin
        let server: ScriptedServer
        let bucket: ScriptedBucket
        /// The origin answers no request that begins here.
        let held: Shared<ByteRange?>
        /// The next body that is sent as a whole breaks off after this many bytes.
        let cut: Shared<Int64?>
        /// nil for that of the program.
        private let patience: Duration?
        private let mounts = Mutex<[VolumeFixture]>([])

        /// - Parameter isPatient: no mount takes the bucket, or another mount, for one that is away because the
        ///   machine is busy: for tests that count what each was asked for.
        init(
            length: Int64 = 3 << 20 + 12_345, version: FileOrigin.Version? = nil, isPatient: Bool = false
        ) throws {
            patience = isPatient ? .seconds(60) : nil
            let film = FileOrigin(version ?? FileOrigin.Version(length: length))
            let (held, cut) = (Shared<ByteRange?>(nil), Shared<Int64?>(nil))
            (self.film, self.held, self.cut) = (film, held, cut)
            server = try ScriptedServer { request in
                if let held = held.value, let asked = request.range(of: film.version.length),
                    held.contains(asked.lower)
                {
                    return [.wait(Gate())]
                }
                guard request.path == "/film.mkv" else { return ServerStep.answer(404) }
                let answer = film.answer(request)
                guard let count = cut.value, case .head(200, _)? = answer.first else { return answer }
                cut.set(nil)
                return [answer[0], .generated(film.version.bytes, ByteRange(0, count)), .reset]
            }
            bucket = try ScriptedBucket()
        }

        func mount(
            key: SecretBytes? = nil, connections: Int = 16
        ) throws -> VolumeFixture {
            let fixture = try VolumeFixture(
                server.url("/film.mkv").text, timeout: patience.map { $0 * 2 } ?? .seconds(10), prebuffer: 0,
                tier: bucket.place(key: key, connections: connections, patience: patience))
            mounts.withLock { $0.append(fixture) }
            return fixture
        }

        func end() {
            for mount in mounts.withLock({ $0 }) { mount.remove() }
            server.stop()
            bucket.stop()
        }

        var slices: Int { Int((film.version.length + TierSlice.size - 1) / TierSlice.size) }

        /// Bytes that the origin sends meanwhile. - Parameter least: a moment later, where need be.
        func sent(atLeast least: Int64 = 0, _ body: () throws -> Void) rethrows -> Int64 {
            let before = server.bodyBytesSent
            try body()
            return server.bodyBytesSent(atLeast: before + least) - before
        }

        /// Reads the film in order. - Returns: the longest wait.
        @discardableResult
        func play(_ mount: VolumeFixture) throws -> Duration {
            try mount.play(film)
        }

        /// A mount plays the film, and writes all of it into the bucket.
        func fill(key: SecretBytes? = nil) throws {
            let mount = try mount(key: key)
            try play(mount)
            try #require(eventually { bucket.objects.count == slices }, "\(bucket.objects.count) objects")
            try #require(eventually { mount.volume.status().tier!.writtenBytes == film.version.length })
        }
    }

    /// What the head of a film and the look at its version cost at the origin.
    private static let proof: Int64 = 700_000

    @Test(arguments: [false, true])
    func aSecondMountReadsFromTheTierAndAsksTheOriginForTheVersion(_ isEncrypted: Bool) throws {
        let fleet = try Fleet(isPatient: true)
        defer { fleet.end() }
        let key = isEncrypted ? SecretBytes(count: 32) : nil
        try fleet.fill(key: key)
        let second = try fleet.mount(key: key)
        let sent = try fleet.sent { try fleet.play(second) }
        #expect(sent < Self.proof, "\(sent)")
        let tier = try #require(second.volume.status().tier)
        #expect(tier.readBytes > fleet.film.version.length - Self.proof && tier.writtenBytes == 0)
        #expect(second.volume.status().reads["tier"] ?? 0 > 0)
        // Neither in the clear nor under a name that reveals it.
        let sample = fleet.film.expectedBytes(ByteRange(3 << 20, 3 << 20 + 64))
        let isInTheClear = fleet.bucket.objects.values.contains { $0.holds(sample) }
        #expect(isInTheClear != isEncrypted)
        #expect(fleet.bucket.objects.keys.allSatisfy { !$0.contains("film.mkv") })
    }

    /// A file is known by its name and length, and a tag distinguishes two versions of one server, not two servers.
    @Test func aSourceReadsNoSliceOfAnotherSource() throws {
        let films = [FileOrigin(length: 3 << 20), FileOrigin(length: 3 << 20, seed: 2)]
        let server = try ScriptedServer { request in
            let film = request.path.hasPrefix("/one/") ? films[0] : films[1]
            return request.path.hasSuffix("/") ? MirrorPair.page(["film.mkv"], 3 << 20) : film.answer(request)
        }
        defer { server.stop() }
        let bucket = try ScriptedBucket()
        defer { bucket.stop() }
        func mount(_ path: String) throws -> VolumeFixture {
            try VolumeFixture(
                server.url(path).text, prebuffer: 0, cacheKey: .name, tier: bucket.place(patience: .seconds(60)))
        }
        let one = try mount("/one/")
        defer { one.remove() }
        try one.play(films[0])
        #expect(eventually { one.volume.status().tier!.writtenBytes == 3 << 20 })
        let two = try mount("/two/")
        defer { two.remove() }
        try two.play(films[1])
        #expect(two.volume.status().tier?.readBytes == 0)
        // Another mount of the same source does.
        let again = try mount("/one/")
        defer { again.remove() }
        try again.play(films[0])
        #expect(again.volume.status().tier!.readBytes > 2 << 20)
    }

    /// What may become of a tier that has all of the film.
    @Test(arguments: [
        ScriptedBucket.Fault.status(503), .status(403), .silent, .stallAfter(300_000), .drip, .resetAfter(200_000),
        .wrongBytes, .swapped,
    ])
    func whateverTheTierAnswersTheBytesAreRight(_ fault: ScriptedBucket.Fault) throws {
        let fleet = try Fleet()
        defer { fleet.end() }
        try fleet.fill()
        fleet.bucket.fault = fault
        let before = fleet.bucket.count("GET")
        let second = try fleet.mount()
        try fleet.play(second)
        let tier = try #require(second.volume.status().tier)
        switch fault {
        case .wrongBytes, .swapped: #expect(tier.damagedObjects > 0)
        default:
            #expect(tier.isAvoided)
            // Those that were under way, and no further ones.
            #expect(fleet.bucket.count("GET") - before < 12)
        }
    }

    /// Each request would else take a way that leads nowhere, and its end would count as an answer of the bucket.
    @Test func aBucketThatRedirectsIsLeftOutAndItsRedirectsAreNotFollowed() throws {
        let fleet = try Fleet(length: 12 << 20)
        defer { fleet.end() }
        let other = try ScriptedServer([:])
        defer { other.stop() }
        fleet.bucket.fault = .redirect(other.port)
        let mount = try fleet.mount()
        try fleet.play(mount)
        #expect(mount.volume.status().tier?.isAvoided == true && fleet.bucket.count("GET") < 12)
        #expect(eventually { mount.volume.status().tier!.leftOutBytes > 0 })
        #expect(other.requests.isEmpty)
    }

    @Test func aTierThatRefusesConnectionsIsAskedOnceAndTheOriginServes() throws {
        let fleet = try Fleet()
        defer { fleet.end() }
        try fleet.fill()
        fleet.bucket.stop()
        let second = try fleet.mount()
        try fleet.play(second)
        #expect(second.volume.status().tier?.isAvoided == true)
    }

    @Test func damagedObjectsAreWrittenAnewAndServeTheNextMount() throws {
        let fleet = try Fleet(isPatient: true)
        defer { fleet.end() }
        try fleet.fill()
        let whole = fleet.bucket.objects
        fleet.bucket.change { objects in
            for (place, name) in whole.keys.sorted().enumerated() {
                let last = objects[name]!.removeLast()
                if place.isMultiple(of: 2) { objects[name]!.append(last ^ 4) }
            }
        }
        let second = try fleet.mount()
        try fleet.play(second)
        #expect(second.volume.status().tier.map { $0.damagedObjects > 0 } == true)
        // A mount that finds the tier slow, as on a busy machine, asks the origin and leaves it as it is.
        let isWhole = try (0..<4).contains { round in
            if round > 0 { try fleet.play(try fleet.mount()) }
            return eventually { fleet.bucket.objects == whole }
        }
        #expect(isWhole)
        let third = try fleet.mount()
        #expect(try fleet.sent { try fleet.play(third) } < Self.proof)
        #expect(third.volume.status().tier?.damagedObjects == 0)
    }

    @Test(arguments: [
        ScriptedBucket.Fault.dropsWrites, .truncated, .ignoresConditions, .knowsNoCondition, .failsFirstWrites,
    ])
    func whateverBecomesOfWhatIsWrittenTheNextMountReadsRightBytes(_ fault: ScriptedBucket.Fault) throws {
        let fleet = try Fleet(isPatient: true)
        defer { fleet.end() }
        fleet.bucket.fault = fault
        let first = try fleet.mount()
        try fleet.play(first)
        #expect(eventually { first.volume.status().tier!.writtenBytes == fleet.film.version.length })
        let second = try fleet.mount()
        let isLost =
            switch fault {
            case .dropsWrites, .truncated: true
            default: false
            }
        let sent = try fleet.sent(atLeast: isLost ? fleet.film.version.length : 0) { try fleet.play(second) }
        switch fault {
        case .dropsWrites, .truncated: #expect(sent >= fleet.film.version.length)
        default: #expect(sent < Self.proof)
        }
    }

    @Test func aTierThatTakesNothingIsStillRead() throws {
        let fleet = try Fleet(length: 6 << 20)
        defer { fleet.end() }
        try fleet.fill()
        let half = fleet.bucket.objects.keys.sorted().prefix(2)
        fleet.bucket.change { objects in for name in half { objects[name] = nil } }
        fleet.bucket.refusesWrites = true
        let second = try fleet.mount()
        try fleet.play(second)
        let tier = try #require(second.volume.status().tier)
        #expect(!tier.isAvoided && tier.readBytes > 1 << 20 && tier.writtenBytes == 0)
        #expect(eventually { second.volume.status().tier!.leftOutBytes > 0 })
        #expect(second.volume.status().tier?.trouble?.hasPrefix("the bucket answers ") == true)
    }

    @Test func anErrorOfOneSliceIsThatOfOneSlice() throws {
        let fleet = try Fleet(length: 6 << 20, isPatient: true)
        defer { fleet.end() }
        try fleet.fill()
        fleet.bucket.fault = .errorOf(4)
        let second = try fleet.mount()
        let sent = try fleet.sent { try fleet.play(second) }
        #expect(sent < 1 << 20 + Self.proof, "\(sent)")
        #expect(second.volume.status().tier?.isAvoided == false)
        #expect(fleet.bucket.server.requests.count { $0.method == "GET" } > 4)
    }

    @Test func aSliceIsWrittenOnce() throws {
        let fleet = try Fleet(isPatient: true)
        defer { fleet.end() }
        try fleet.fill()
        #expect(fleet.bucket.writes == fleet.slices)
        #expect(fleet.bucket.server.requests.allSatisfy { $0.method == "GET" || $0["if-none-match"] == "*" })
        // One that lacks the reads of the others writes nothing over theirs.
        let before = fleet.bucket.objects
        let second = try fleet.mount()
        try fleet.play(second)
        #expect(fleet.bucket.objects == before && second.volume.status().tier?.writtenBytes == 0)
    }

    @Test func anotherVersionAnotherKeyAndAFileWithoutValidatorShareNothing() throws {
        let fleet = try Fleet(isPatient: true)
        defer { fleet.end() }
        try fleet.fill()
        let length = fleet.film.version.length
        let other = try fleet.mount(key: SecretBytes(count: 32))
        #expect(try fleet.sent(atLeast: length) { try fleet.play(other) } >= length)
        fleet.film.change(to: FileOrigin.Version(seed: 9, length: length, entityTag: "\"v2\""))
        let second = try fleet.mount()
        #expect(try fleet.sent(atLeast: length) { try fleet.play(second) } >= length)
        try #require(eventually { fleet.bucket.objects.count == 3 * fleet.slices })
        fleet.film.change(to: FileOrigin.Version(seed: 10, length: length, entityTag: nil, lastModified: nil))
        let third = try fleet.mount()
        #expect(try fleet.sent(atLeast: length) { try fleet.play(third) } >= length)
        #expect(third.volume.status().tier?.writtenBytes == 0)
        #expect(fleet.bucket.objects.count == 3 * fleet.slices)
    }

    @Test func aFilmThatWasOpenedOncePlaysWithoutItsOrigin() throws {
        let fleet = try Fleet(isPatient: true)
        defer { fleet.end() }
        try fleet.fill()
        let ninth = try fleet.mount()
        let file = try ninth.open("film.mkv").get()
        #expect(ninth.read(file, 0, 1000).isRight(fleet.film, 0, 1000))
        ninth.volume.close(file)
        fleet.server.stop()
        try ninth.restart()
        try fleet.play(ninth)
    }

    @Test func mountsOneAfterTheOtherFetchAFilmOnce() throws {
        let fleet = try Fleet(length: 8 << 20, isPatient: true)
        defer { fleet.end() }
        let sent = try fleet.sent {
            try fleet.fill()
            for _ in 1..<8 { try fleet.play(try fleet.mount()) }
        }
        #expect(sent < fleet.film.version.length + 8 * Self.proof, "\(sent)")
    }

    @Test(arguments: [nil, ScriptedBucket.Fault.ignoresConditions, .knowsNoCondition])
    func mountsThatPlayAtOnceFetchAFilmAboutOnce(_ fault: ScriptedBucket.Fault?) throws {
        let fleet = try Fleet(length: 16 << 20, isPatient: true)
        defer { fleet.end() }
        fleet.bucket.fault = fault
        let mounts = try (0..<8).map { _ in try fleet.mount() }
        let sent = fleet.sent {
            let readers = mounts.map { mount in startJoinable { (try? fleet.play(mount)) != nil } }
            for reader in readers { #expect(reader.join()) }
        }
        // On a busy machine some wait too long for another one, and ask the origin. Without claims it is 8.
        #expect(sent < (fault == nil ? 2 : 5) * fleet.film.version.length, "\(sent)")
    }

    @Test func aBucketWhoseConnectionsAreAllBusyKeepsNoReadWaiting() throws {
        let fleet = try Fleet(length: 12 << 20)
        defer { fleet.end() }
        try fleet.fill()
        let second = try fleet.mount(connections: 1)
        let file = try second.open("film.mkv").get()
        defer { second.volume.close(file) }
        // Bytes come, and so slowly that no block is whole for long.
        fleet.bucket.fault = .drip
        fleet.held.change { $0 = ByteRange(7 << 20, 8 << 20) }
        let asked = fleet.bucket.server.requests.count
        let slow = second.park(file, 7 << 20, 4096)
        #expect(eventually { fleet.bucket.server.requests.count > asked })
        #expect(second.read(file, 3 << 20, 4096).isRight(fleet.film, 3 << 20, 4096))
        #expect(slow.answerCount == 0, "the bucket was not busy")
    }

    @Test func aSeekReadsTheBlocksThatItWantsAndLittleElse() throws {
        let fleet = try Fleet(length: 12 << 20, isPatient: true)
        defer { fleet.end() }
        try fleet.fill()
        let second = try fleet.mount()
        let file = try second.open("film.mkv").get()
        defer { second.volume.close(file) }
        let before = fleet.bucket.server.bodyBytesSent
        let place: Int64 = 7 << 20 + 500_000
        #expect(second.read(file, place, 4096).isRight(fleet.film, place, 4096))
        #expect(fleet.bucket.server.bodyBytesSent - before < 1 << 20)
    }

    /// A film of two slices, of which the bucket has the first, and from now on the origin sends the whole film to each
    /// request.
    private func withHalf(_ body: (Fleet, VolumeFixture, any FileHandle) throws -> Void) throws {
        let fleet = try Fleet(length: 1 << 20 + 600_000)
        defer { fleet.end() }
        try fleet.fill()
        let last = try #require(fleet.bucket.objects.min { $0.value.count < $1.value.count })
        fleet.bucket.change { $0[last.key] = nil }
        let mount = try fleet.mount()
        let file = try mount.open("film.mkv").get()
        defer { mount.volume.close(file) }
        // The request for the end has its answer.
        try #require(eventually { mount.cached("film.mkv") > 0 })
        fleet.film.fault = .noRanges
        try body(fleet, mount, file)
    }

    /// A body that comes whole has no second try beside it, and cannot go on where the bucket's slices end.
    @Test(arguments: [nil, ScriptedBucket.Fault.drip])
    func aBodyThatComesWholeComesFromTheOrigin(_ fault: ScriptedBucket.Fault?) throws {
        try withHalf { fleet, mount, file in
            fleet.bucket.fault = fault
            fleet.cut.set(1000)
            let place: Int64 = 1 << 20 + 4096
            #expect(mount.read(file, place, 4096).isRight(fleet.film, place, 4096))
            #expect(fleet.cut.value == nil && mount.volume.status().tier?.readBytes == 0)
        }
    }

    @Test func aReadOverTheEndOfTheBucketsSlicesIsAnsweredByAnOriginThatSendsTheWhole() throws {
        try withHalf { fleet, mount, file in
            let place: Int64 = 1 << 20 - 65_536
            #expect(mount.read(file, place, 131_072).isRight(fleet.film, place, 131_072))
            #expect(mount.volume.status().tier?.readBytes == BlockSize.block)
        }
    }
}
