import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// What an origin does wrong, and what a reader sees of it: right bytes, or an error.
@Suite struct FaultTests {
    private let length: Int64 = 3_000_000

    private func withFilm(
        timeout: Duration = .seconds(10), fault: FileOrigin.Fault? = nil,
        _ body: (VolumeFixture, FileOrigin, ScriptedServer) throws -> Void
    ) throws {
        let film = FileOrigin(length: length)
        film.fault = fault
        let server = try ScriptedServer(["/film.mkv": film, "/page/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"), timeout: timeout)
        defer { fixture.remove() }
        try body(fixture, film, server)
    }

    /// Faults that pass: whoever reads notices nothing.
    @Test(arguments: [
        FileOrigin.Fault.shortBody(after: 100_000), .resetAfter(300_000), .status(503, retryAfter: nil),
        .status(429, retryAfter: 1), .noRanges, .wholeToRange, .headRefused,
        .drip(piece: 200_000, pause: .milliseconds(1)),
    ])
    func passingFaultIsRecoveredFrom(_ fault: FileOrigin.Fault) throws {
        try withFilm { fixture, film, _ in
            film.fail(fault, times: 2)
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
        }
    }

    @Test(arguments: [
        FileOrigin.Fault.noRanges, .wholeToRange, .drip(piece: 500_000, pause: .milliseconds(1)),
    ])
    func lastingOddityIsLivedWith(_ fault: FileOrigin.Fault) throws {
        try withFilm { fixture, film, server in
            film.fault = fault
            let file = try fixture.open("film.mkv").get()
            #expect(
                fixture.read(file, 2_500_000, 1000) == .success(film.expectedBytes(ByteRange(2_500_000, 2_501_000))))
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
            server.stop()
            try fixture.restart()
            let again = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(again).isRight(film, 0, length))
            fixture.volume.close(again)
        }
    }

    /// Answers that are no bytes of the file: an error, never a byte.
    @Test(arguments: [
        (FileOrigin.Fault.wrongContentRange, VolumeError.failed), (.wrongTotal, .failed), (.noContentRange, .failed),
        (.gzip, .failed), (.htmlWith200, .failed), (.hugeHeader, .failed), (.redirectLoop, .failed),
        (.status(404, retryAfter: nil), .stale), (.status(410, retryAfter: nil), .stale),
        (.status(401, retryAfter: nil), .accessDenied), (.status(403, retryAfter: nil), .accessDenied),
        (.status(501, retryAfter: nil), .failed), (.status(416, retryAfter: nil), .failed),
    ])
    func uselessAnswerIsAnError(_ fault: FileOrigin.Fault, _ expected: VolumeError) throws {
        try withFilm(timeout: .seconds(3)) { fixture, film, _ in
            let file = try fixture.open("film.mkv").get()
            let start = film.expectedBytes(ByteRange(0, 1000))
            #expect(fixture.read(file, 0, 1000) == .success(start))
            film.fault = fault
            // Behind what the first request brought.
            #expect(fixture.read(file, 2_000_000, 1000) == .failure(expected))
            #expect(fixture.read(file, 0, 1000) == .success(start))
            film.fault = nil
            if expected != .stale {
                // At the same place the kernel's second question may be answered as the first.
                #expect(
                    fixture.read(file, 3_000_000, 1000) == .success(film.expectedBytes(ByteRange(3_000_000, 3_001_000)))
                )
            }
            fixture.volume.close(file)
        }
    }

    @Test("A wrong length that came once, under the right tag, is not believed forever")
    func wrongTotalHeals() throws {
        let film = FileOrigin(length: 3_000_000)
        film.fail(.wrongTotal)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        let first = try fixture.open("film.mkv").get()
        #expect(fixture.read(first, 0, 1000) == .failure(.failed))
        fixture.volume.close(first)
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, 3_000_000))
        fixture.volume.close(file)
    }

    @Test(arguments: [FileOrigin.Fault.silent, .stallAfter(10_000)])
    func stalledAnswerEndsAtTheDeadline(_ fault: FileOrigin.Fault) throws {
        try withFilm(timeout: .seconds(2)) { fixture, film, _ in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            film.fault = fault
            #expect(fixture.read(file, 1_500_000, 1000) == .failure(.timedOut))
            fixture.volume.close(file)
        }
    }

    /// The same in virtual time: neither sooner nor later. In a longer one, second tries would bring the bytes.
    @Test(arguments: [FileOrigin.Fault.silent, .stallAfter(10_000)])
    func stalledAnswerEndsNoLaterThanTheDeadline(_ fault: FileOrigin.Fault) throws {
        let film = FileOrigin(length: length)
        try SimulatedWorld.run(["http://origin": { film.answer($0) }]) { world in
            let mount = try world.mount("http://origin/film.mkv", VolumeOptions(timeout: .seconds(2)))
            let file = try mount.open("film.mkv").get()
            defer { mount.volume.close(file) }
            #expect(try mount.read(file, 0, 1000).get().count == 1000)
            film.fault = fault
            let start = now()
            #expect(mount.read(file, 1_500_000, 1000) == .failure(.timedOut))
            let time = now() - start
            #expect(time > .seconds(1.9) && time < .seconds(2.2), "\(time)")
        }
    }

    /// One request that is never answered: the second try is.
    @Test(arguments: [FileOrigin.Fault.silent, .stallAfter(10_000)])
    func aSilentConnectionIsPassedBy(_ fault: FileOrigin.Fault) throws {
        // The test gives a read up long before its deadline.
        try withFilm(timeout: .seconds(120)) { fixture, film, _ in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            film.fail(fault)
            // The request that is silent may be the one for the end of the film.
            #expect(fixture.read(file, 1_500_000, 50_000).isRight(film, 1_500_000, 50_000))
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
        }
    }

    @Test func anotherVersionUnderAnOpenHandleIsStaleAndANewOpenSeesItWhole() throws {
        try withFilm { fixture, film, _ in
            let old = film.version
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get() == old.bytes.bytes(ByteRange(0, 1000)))
            film.change(to: .init(seed: 9, length: 2_500_000, entityTag: "\"v2\"", lastModified: 1_700_000_500))
            #expect(fixture.read(file, 2_000_000, 1000) == .failure(.stale))
            #expect(try fixture.read(file, 0, 1000).get() == old.bytes.bytes(ByteRange(0, 1000)))
            let new = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(new).isRight(film, 0, 2_500_000))
            #expect(try fixture.read(file, 0, 1000).get() == old.bytes.bytes(ByteRange(0, 1000)))
            fixture.volume.close(file)
            fixture.volume.close(new)
        }
    }

    /// Evidence against what was confirmed a moment ago ends its freshness: the next open asks, once, and hears what is
    /// so now.
    @Test(arguments: [
        FileOrigin.Fault.changedETag, .wrongTotal, .status(401, retryAfter: nil), .status(403, retryAfter: nil),
        .status(404, retryAfter: nil), .status(410, retryAfter: nil), .status(416, retryAfter: nil),
    ])
    func whatTheOriginContradictsIsAskedForAtTheNextOpen(_ fault: FileOrigin.Fault) throws {
        try withFilm { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            film.fault = fault
            #expect(throws: VolumeError.self) { try fixture.read(file, 2_000_000, 1000).get() }
            film.fault = nil
            let before = server.requests.count
            let again = try fixture.open("film.mkv").get()
            // Without a condition: a 304 would confirm what has just been contradicted.
            let asked = { server.requests[before...].filter { $0.range(of: length) == ByteRange(0, 1) } }
            #expect(asked().count == 1 && asked().allSatisfy { $0["if-none-match"] == nil })
            #expect(fixture.read(again, 2_500_000, 1000).isRight(film, 2_500_000, 1000))
            fixture.volume.close(try fixture.open("film.mkv").get())
            #expect(asked().count == 1)
            fixture.volume.close(file)
            fixture.volume.close(again)
        }
    }

    /// The same the other way round: who may not read any more, or whose file is gone, hears so from the next open.
    @Test func aRefusalOfBytesIsARefusalOfTheNextOpen() throws {
        try withFilm { fixture, film, _ in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            film.fault = .status(403, retryAfter: nil)
            #expect(fixture.read(file, 2_000_000, 1000) == .failure(.accessDenied))
            #expect(fixture.open("film.mkv").map { _ in true } == .failure(.accessDenied))
            fixture.volume.close(file)
        }
    }

    /// A server that is unwell has said nothing of the file.
    @Test func anErrorOfTheServerLeavesWhatIsKnownFresh() throws {
        try withFilm(timeout: .seconds(2)) { fixture, film, _ in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            film.fault = .status(501, retryAfter: nil)
            #expect(fixture.read(file, 2_000_000, 1000) == .failure(.failed))
            // Bytes ahead of the reader may still be asked for.
            let probes = { try fixture.volume.maintenance.explain("film.mkv").requests.filter { $0.why == "probe" } }
            let before = try probes().count
            #expect(before > 0)
            fixture.volume.close(try fixture.open("film.mkv").get())
            #expect(try probes().count == before)
            fixture.volume.close(file)
        }
    }

    @Test func aWeakTagThatTurnsStrongIsTheSameVersion() throws {
        try withFilm { fixture, film, server in
            var version = film.version
            version.entityTag = "W/\"v1\""
            film.change(to: version)
            let file = try fixture.open("film.mkv").get()
            _ = try fixture.readAll(file).get()
            fixture.volume.close(file)
            version.entityTag = "\"v1\""
            film.change(to: version)
            fixture.expire()
            let before = fixture.volume.status().bytesFromOrigin
            let again = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(again).isRight(film, 0, length))
            fixture.volume.close(again)
            #expect(fixture.volume.status().bytesFromOrigin - before <= 1)
        }
    }

    @Test func withoutTagAndDateTheLengthTellsTheVersion() throws {
        try withFilm { fixture, film, _ in
            film.change(to: .init(seed: 3, length: length, entityTag: nil, lastModified: nil))
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
            film.change(to: .init(seed: 4, length: length + 1, entityTag: nil, lastModified: nil))
            fixture.expire()
            let new = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(new).isRight(film, 0, length + 1))
            fixture.volume.close(new)
        }
    }

    @Test func aRedirectThatExpiresIsFollowedAgainFromTheOriginalURL() throws {
        try withFilm { fixture, film, _ in
            film.fault = .redirectExpires(uses: 1)
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
        }
    }

    @Test(arguments: [FileOrigin.Fault.chunkedWithoutLength, .untilClose])
    func aFileOfUnknownLengthIsReadToItsEndWhichTellsTheLength(_ fault: FileOrigin.Fault) throws {
        try withFilm(fault: fault) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(file.wantsDirectIO)
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
            let count = server.requests.count
            let again = try fixture.open("film.mkv").get()
            #expect(!again.wantsDirectIO)
            #expect(try fixture.lookup("film.mkv").get().attributes.length == length)
            #expect(fixture.readAll(again).isRight(film, 0, length))
            fixture.volume.close(again)
            #expect(server.requests.count == count)
        }
    }

    @Test func aLoginPageInThePlaceOfAFilmTakesNothingAway() throws {
        let film = FileOrigin(length: length)
        let server = try ScriptedServer { film.answer($0) }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/stream/123"))
        defer { fixture.remove() }
        let file = try fixture.open("123").get()
        #expect(fixture.readAll(file).isRight(film, 0, length))
        fixture.volume.close(file)
        fixture.expire()
        film.fault = .htmlWith200
        let again = try fixture.open("123").get()
        #expect(fixture.readAll(again).isRight(film, 0, length))
        fixture.volume.close(again)
    }

    @Test func oneAnswerOfAnotherVersionIsForgottenOnceTheOldOneIsConfirmed() throws {
        try withFilm { fixture, film, _ in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            film.fail(.changedETag)
            #expect(fixture.read(file, 2_000_000, 1000) == .failure(.stale))
            let again = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(again).isRight(film, 0, length))
            fixture.volume.close(again)
            fixture.volume.close(file)
        }
    }

    /// One of several servers may have another version for a while.
    @Test(arguments: [nil, "W/\"v1\""])
    func aVersionThatComesBackIsReadAgain(_ tag: String?) throws {
        try withFilm { fixture, film, _ in
            var first = film.version
            if let tag { first.entityTag = tag }
            let other = FileOrigin.Version(seed: 5, length: length, entityTag: "\"v2\"", lastModified: 1_700_000_500)
            for version in [first, other, first] {
                film.change(to: version)
                fixture.expire()
                let file = try fixture.open("film.mkv").get()
                #expect(try fixture.read(file, 0, 1000).get().count == 1000)
                fixture.volume.close(file)
            }
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
        }
    }

    @Test func anAbandonedBodyWithoutAnEndLeavesTheCache() throws {
        try withFilm(fault: .endlessBody) { fixture, film, _ in
            // The handle goes with its last holder, as the kernel's does.
            func readABit() throws {
                let file = try fixture.open("film.mkv").get()
                #expect(try fixture.read(file, 0, 100_000).get().count == 100_000)
                #expect(!files(below: fixture.directory + "/cache/objects").isEmpty)
                fixture.volume.close(file)
            }
            try readABit()
            #expect(eventually(within: .seconds(20)) { files(below: fixture.directory + "/cache/objects").isEmpty })
        }
    }

    @Test func anEndlessBodyIsReadAsFarAsSomebodyReads() throws {
        try withFilm(fault: .endlessBody) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 100_000).get().count == 100_000)
            // The origin has to wait: it may run ahead by the lead and what is in buffers.
            let status = fixture.volume.status()
            #expect(status.bytesFromOrigin < 64 << 20)
            fixture.volume.close(file)
        }
    }
}
