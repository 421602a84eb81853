import Logging
import ReelCore
import ReelFilesystem
import TestKit
import Testing

@testable import ReelVolume

/// An origin that goes away and comes back, without a kernel.
@Suite struct OutageTests {
    private let length: Int64 = 30_000_000
    /// The deadline of what must not wait for it: the test gives a call up after a quarter of it.
    private let patience = Duration.seconds(120)

    private func script(_ films: [String: FileOrigin]) -> ScriptedServer.Script {
        { request in
            if request.path == "/" {
                let lines = films.keys.sorted().map {
                    "<a href=\"\($0)\">\($0)</a>  21-Nov-2026 10:00  \(30_000_000)\n"
                }
                return ServerStep.answer(
                    200, [("Content-Type", "text/html")],
                    body: "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
                        + lines.joined() + "</pre></html>")
            }
            return films[String(request.path.dropFirst())]?.answer(request) ?? ServerStep.answer(404)
        }
    }

    @Test func aStoppedServerFailsReadsAtOnceAndOneThatIsBackIsNoticedWithoutBeingAsked() throws {
        let film = FileOrigin(length: length)
        let server = try ScriptedServer(script(["film.mkv": film]))
        defer { server.stop() }
        let log = Shared<[RequestRecord]>([])
        let fixture = try VolumeFixture(server.url("/").text, timeout: patience) { record in
            log.change { $0.append(record) }
        }
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.read(file, 0, 4096).isRight(film, 0, 4096))
        server.stop()
        #expect(fixture.read(file, 20_000_000, 4096) == .failure(.offline))
        #expect(fixture.volume.status().outages.map(\.kind) == ["unreachable"])
        for offset in 21...28 { #expect(fixture.read(file, Int64(offset) << 20, 4096) == .failure(.offline)) }
        #expect(fixture.read(file, 0, 4096).isRight(film, 0, 4096))
        #expect(fixture.names() == .success(["film.mkv"]))
        fixture.expire()
        fixture.volume.close(try fixture.open("film.mkv").get())
        let second = try ScriptedServer(port: server.port, script(["film.mkv": film]))
        defer { second.stop() }
        #expect(eventually { fixture.volume.status().outages.isEmpty })
        #expect(fixture.read(file, 20_000_000, 4096).isRight(film, 20_000_000, 4096))
        fixture.volume.close(file)
        fixture.stop()
        // Two short retries opened the circuit. Later reads tried once, the open of what is remembered asked nobody.
        let tries = log.value.filter { $0.failure != nil && $0.why == "retry" }
        #expect(tries.allSatisfy { $0.range.map { $0[0] < 21 << 20 } ?? false }, "\(tries)")
        #expect(!log.value.contains { $0.failure != nil && $0.why == "probe" })
    }

    @Test func readsThatWaitFailTogetherWhenTheOriginTurnsOutToBeUnreachable() throws {
        let film = FileOrigin(length: length)
        let server = try ScriptedServer(script(["film.mkv": film]))
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), timeout: patience)
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        server.stop()
        let readers = (0..<8).map { number in
            startJoinable { fixture.read(file, (2 + Int64(number) * 3) << 20, 4096) == .failure(.offline) }
        }
        for reader in readers { #expect(reader.join()) }
        fixture.volume.close(file)
    }

    @Test func anOriginThatAcceptsAndNeverAnswersIsWaitedForOnce() throws {
        let film = FileOrigin(length: length)
        let isMute = Shared(false)
        let good = script(["film.mkv": film])
        let server = try ScriptedServer { isMute.value ? [.stall] : good($0) }
        defer { server.stop() }
        // The transport knows after two seconds what a read would wait two minutes for.
        let fixture = try VolumeFixture(server.url("/").text, timeout: patience, outageAfter: .seconds(2))
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.read(file, 0, 4096).isRight(film, 0, 4096))
        isMute.set(true)
        let first = fixture.park(file, 20_000_000, 4096)
        #expect(eventually { fixture.volume.status().outages.map(\.kind) == ["silent"] })
        #expect(fixture.read(file, 25_000_000, 4096) == .failure(.timedOut))
        #expect(first.answerCount == 0)
        #expect(fixture.read(file, 0, 4096).isRight(film, 0, 4096))
        isMute.set(false)
        // A probe that waits is given up within seconds, the next one is answered.
        #expect(eventually(within: .seconds(30)) { fixture.volume.status().outages.isEmpty })
        #expect(fixture.read(file, 15_000_000, 4096).isRight(film, 15_000_000, 4096))
        fixture.volume.close(file)
    }

    @Test func oneFileThatIsNeverAnsweredTakesNoOtherAway() throws {
        let (slow, good) = (FileOrigin(length: length), FileOrigin(length: length, seed: 7))
        let server = try ScriptedServer(script(["good.mkv": good, "slow.mkv": slow]))
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), timeout: .seconds(3))
        defer { fixture.remove() }
        let file = try fixture.open("good.mkv").get()
        slow.fault = .silent
        for round in 0..<2 {
            let result = fixture.open("slow.mkv").map { _ in true }
            #expect(result == .failure(.timedOut))
            let offset = Int64(10 + round * 8) << 20
            #expect(fixture.read(file, offset, 4096).isRight(good, offset, 4096))
            #expect(fixture.volume.status().outages.isEmpty)
        }
        fixture.volume.close(file)
    }

    @Test func hundredsOfReadsOfASilentFileKeepNoOtherFileWaiting() throws {
        let (silent, good) = (FileOrigin(length: length), FileOrigin(length: length, seed: 7))
        let server = try ScriptedServer(script(["good.mkv": good, "silent.mkv": silent]))
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), timeout: patience)
        defer { fixture.remove() }
        let file = try fixture.open("silent.mkv").get()
        silent.fault = .silent
        var buffer = [UInt8](repeating: 0, count: 4096)
        for number in 0..<300 {
            let offset = 1_000_000 + Int64(number) * 90_000
            buffer.withUnsafeMutableBytes { buffer in
                _ = fixture.volume.read(file, offset: offset, into: buffer) { TestRead() }
            }
        }
        #expect(eventually { server.requests.count { $0.path == "/silent.mkv" } >= 9 })
        let other = try fixture.open("good.mkv").get()
        for place in [Int64(0), 10_000_000, 20_000_000] {
            #expect(fixture.read(other, place, 4096).isRight(good, place, 4096))
        }
        fixture.volume.close(other)
        fixture.volume.close(file)
    }

    @Test func aNameThatNobodyKnowsIsUnreachable() throws {
        let start = ContinuousClock.now
        #expect(throws: SourceError.self) {
            try VolumeFixture("http://nobody.invalid/films/", timeout: patience)
        }
        #expect(ContinuousClock.now - start < patience / 3)
    }

    @Test func aRedirectToAPlaceThatRefusesTakesNoOtherFileOfItsOriginAway() throws {
        let (good, moved) = (FileOrigin(length: length), FileOrigin(length: length))
        let away = try ScriptedServer([:])
        moved.fault = .redirect(to: away.url("/film").text)
        away.stop()
        let server = try ScriptedServer(script(["good.mkv": good, "moved.mkv": moved]))
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), timeout: .seconds(3))
        defer { fixture.remove() }
        let file = try fixture.open("good.mkv").get()
        // Three tries each, and the row that opens a circuit takes less than half a second.
        for _ in 0..<3 { #expect(fixture.openError("moved.mkv") == .unreachable) }
        #expect(fixture.volume.status().outages.isEmpty)
        #expect(fixture.read(file, 20_000_000, 4096).isRight(good, 20_000_000, 4096))
        fixture.volume.close(file)
    }

    @Test func serverErrorsAreNoOutage() throws {
        let film = FileOrigin(length: length)
        let server = try ScriptedServer(script(["film.mkv": film]))
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), timeout: .seconds(2))
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        film.fault = .status(503, retryAfter: nil)
        #expect(fixture.read(file, 20_000_000, 4096) == .failure(.failed))
        #expect(fixture.volume.status().outages.isEmpty)
        film.fault = nil
        // At the same place the kernel's second question would be answered as the first.
        #expect(fixture.read(file, 15_000_000, 4096).isRight(film, 15_000_000, 4096))
        fixture.volume.close(file)
    }

    @Test func aKnownSourceIsMountedInTwoSecondsAlthoughNobodyAnswers() throws {
        let film = FileOrigin(length: length)
        let isMute = Shared(false)
        let good = script(["film.mkv": film])
        let server = try ScriptedServer { isMute.value ? [.stall] : good($0) }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), timeout: patience)
        defer { fixture.remove() }
        #expect(fixture.names() == .success(["film.mkv"]))
        isMute.set(true)
        fixture.stop()
        let start = ContinuousClock.now
        try fixture.start()
        #expect(ContinuousClock.now - start < patience / 3)
        #expect(fixture.names() == .success(["film.mkv"]))
    }

    @Test func oneNotFoundLeavesACachedFilePlayableAndASecondDoesNot() throws {
        let film = FileOrigin(length: 1_000_000)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, 1_000_000))
        fixture.volume.close(file)
        fixture.expire()
        film.fault = .status(404, retryAfter: nil)
        let again = try fixture.open("film.mkv").get()
        #expect(fixture.readAll(again).isRight(film, 0, 1_000_000))
        fixture.volume.close(again)
        // Any other answer starts the count again: what was counted of the five seconds is lost.
        let soon = ContinuousClock.now + .seconds(2)
        #expect(eventually { ContinuousClock.now > soon })
        film.fault = .status(403, retryAfter: nil)
        #expect(fixture.openError("film.mkv") == .accessDenied)
        film.fault = .status(404, retryAfter: nil)
        let start = ContinuousClock.now
        #expect(eventually(within: .seconds(8)) { fixture.openError("film.mkv") == .stale })
        #expect(ContinuousClock.now - start > .seconds(4.9))
        film.fault = nil
        #expect(fixture.openError("film.mkv") == nil)
        // Said once more after it was there: that is the first time again.
        film.fault = .status(404, retryAfter: nil)
        fixture.expire()
        #expect(fixture.openError("film.mkv") == nil)
    }
}

extension VolumeFixture {
    /// nil where it can be opened.
    func openError(_ path: String) -> VolumeError? {
        switch open(path) {
        case .failure(let error): return error
        case .success(let file):
            volume.close(file)
            return nil
        }
    }
}
