import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelHTTP

/// Pausing, cancelling, stalling, ending: the life of a request.
@Suite struct FlowTests {
    /// Pauses after pieces that a seed chooses, resumed by another thread, in every way a body can be framed.
    @Test(arguments: 1...8)
    func pausingNeitherLosesNorDoublesBytes(seed: UInt64) throws {
        let file = FileOrigin(length: 20_000_000, seed: seed)
        let faults: [FileOrigin.Fault?] = [
            nil, .drip(piece: 500_000, pause: .milliseconds(2)), .chunkedWithoutLength, .untilClose,
        ]
        file.fault = faults[Int(seed % 4)]
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            let pauses = Atomic<Int>(0)
            let recorder = Recorder(answer: { record in
                guard UInt64(record.bytes.count) / 1000 % (seed + 1) == 0 || record.pieces.count % 3 == 0 else {
                    return .more
                }
                pauses.add(1, ordering: .relaxed)
                return .pause
            })
            let range = ByteRange(seed % 4 < 2 ? 12_345 : 0, 20_000_000)
            let id = origin.start(OriginRequest(url: server.url("/film"), range: range), recorder)
            #expect(
                eventually {
                    id.resume(); return recorder.isEnded
                }, "seed \(seed)")
            let record = recorder.finished()
            #expect(record.failure == nil && record.bytes.count == Int(range.count), "seed \(seed)")
            let difference = record.bytes.withUnsafeBytes {
                file.version.bytes.firstDifference(in: $0, from: range.lower)
            }
            #expect(difference == nil, "seed \(seed)")
            #expect(pauses.load(ordering: .relaxed) > 3)
            #expect(server.bodyBytesSent(atLeast: range.count) == range.count)
        }
    }

    @Test func aPausedRequestTakesNoBytesAndDoesNotStall() throws {
        let file = FileOrigin(length: 100_000_000)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            let recorder = Recorder(answer: { $0.pieces.count == 1 ? .pause : .stop })
            let id = origin.start(
                OriginRequest(url: server.url("/film"), stallLimit: .seconds(1)), recorder)
            #expect(eventually { recorder.byteCount > 0 })
            let paused = recorder.byteCount
            // Another request that does stall says when the limit has passed for both.
            file.fail(.silent, times: 2)
            for _ in 0..<2 {
                #expect(origin.fetch(server.url("/film"), stallLimit: .seconds(1)).failure == .timedOut)
            }
            #expect(recorder.byteCount == paused && !recorder.isEnded)
            id.resume()
            #expect(recorder.finished().failure == .cancelled)
        }
    }

    @Test(arguments: [FileOrigin.Fault.silent, .stallAfter(0), .stallAfter(500_000)])
    func aStallEndsInItsTime(fault: FileOrigin.Fault) throws {
        let file = FileOrigin(length: 1_000_000)
        file.fault = fault
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            // Whose time is another one.
            let other = Recorder()
            origin.start(OriginRequest(url: server.url("/film"), stallLimit: .seconds(120)), other)
            let start = ContinuousClock.now
            let record = origin.fetch(server.url("/film"), stallLimit: .seconds(2))
            #expect(record.failure == .timedOut && ContinuousClock.now - start > .seconds(2))
            #expect(!other.isEnded)
            if case .stallAfter(let count) = fault { #expect(record.bytes.count == count) }
        }
    }

    @Test func slowBytesAreNoStallAndAreHandedOnAtOnce() throws {
        let gate = Gate()
        let server = try ScriptedServer { _ in
            [.head(200, [("Content-Length", "6")]), .body([1]), .wait(gate), .body([2, 3, 4, 5, 6])]
        }
        try withTransport(to: server) { origin in
            let recorder = Recorder()
            origin.start(OriginRequest(url: server.url("/")), recorder)
            #expect(eventually { recorder.byteCount == 1 }, "the first byte waits for the others")
            gate.open()
            #expect(recorder.finished().bytes == [1, 2, 3, 4, 5, 6])
        }
        let file = FileOrigin(length: 30)
        file.fault = .drip(piece: 1, pause: .milliseconds(100))
        let slow = try ScriptedServer(["/film": file])
        try withTransport(to: slow) { origin in
            let record = origin.fetch(slow.url("/film"), stallLimit: .seconds(2))
            #expect(record.failure == nil && record.bytes.elementsEqual(file.expectedBytes(ByteRange(0, 30))))
        }
    }

    @Test func fastBytesAreGathered() throws {
        let file = FileOrigin(length: 32 << 20)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/film"), ByteRange(0, 32 << 20))
            #expect(record.bytes.count == 32 << 20)
            #expect(record.pieces.max()! <= BufferPool.bufferSize)
            #expect(record.pieces.count < (32 << 20) / (16 << 10) / 2, "curl's pieces of 16 KiB come as they are")
        }
    }

    @Test func stopAndCancelEndTheConnection() throws {
        let file = FileOrigin(length: 1)
        file.fault = .endlessBody
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            let stopped = origin.fetch(
                server.url("/film"), into: Recorder(answer: { $0.bytes.count > 3_000_000 ? .stop : .more }))
            #expect(stopped.failure == .cancelled && stopped.bytes.count > 3_000_000)
            let recorder = Recorder(answer: { _ in .pause })
            let id = origin.start(OriginRequest(url: server.url("/film")), recorder)
            #expect(eventually { recorder.byteCount > 0 })
            id.cancel()
            #expect(recorder.finished().failure == .cancelled)
            #expect(eventually { server.openConnectionCount == 0 })
            id.cancel()
            id.resume()
        }
    }

    @Test func shutdownEndsAllRequestsAndLaterOnes() throws {
        let file = FileOrigin(length: 10_000_000)
        file.fail(.silent, times: 5)
        file.fault = .stallAfter(1000)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            let recorders = (0..<40).map { _ in Recorder() }
            for (number, recorder) in recorders.enumerated() {
                origin.start(OriginRequest(url: server.url("/film?\(number)")), recorder)
            }
            #expect(eventually { server.requests.count == 16 })
            origin.shutdown()
            #expect(recorders.allSatisfy { $0.isEnded }, "shutdown returned before the last receiver was called")
            for recorder in recorders { #expect(recorder.finished().failure == .cancelled) }
            let late = Recorder()
            origin.start(OriginRequest(url: server.url("/film")), late)
            #expect(late.finished().failure == .cancelled)
            origin.shutdown()
        }
    }

    @Test func theLastReferenceMayGoOnTheTransportsOwnThread() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        defer { server.stop() }
        var configuration = TransportConfiguration(version: "test")
        configuration.usesProxies = false
        let held = Mutex<CurlOrigin?>(try CurlOrigin(configuration))
        let recorder = Recorder(judge: { _ in
            let last = held.withLock { $0.take() }
            _ = last
            return nil
        })
        held.withLock { _ = $0?.start(OriginRequest(url: server.url("/")), recorder) }
        #expect(recorder.finished().ends == 1)
    }

    @Test func receiversMayStartAndCancelRequests() throws {
        let file = FileOrigin(length: 1000)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            let inner = Recorder()
            let url = server.url("/film")
            let outer = Recorder(judge: { [unowned origin] _ in
                origin.start(OriginRequest(url: url), inner)
                origin.start(OriginRequest(url: url), Recorder()).cancel()
                return nil
            })
            #expect(origin.fetch(url, into: outer).failure == nil)
            #expect(inner.finished().bytes.count == 1000)
        }
    }

    @Test func aRequestThatIsCancelledBeforeItsStartEndsAtItsStartAndIsNotSent() throws {
        let server = try ScriptedServer(["/film": FileOrigin(length: 1000)])
        try withTransport(to: server) { origin in
            let (handle, recorder) = (RequestHandle(), Recorder())
            handle.cancel()
            origin.start(handle, OriginRequest(url: server.url("/film")), recorder)
            #expect(recorder.finished().failure == .cancelled)
            #expect(server.requests.isEmpty)
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func aRequestThatAnotherThreadCancelsAroundItsStartEndsOnce(seed: UInt64) throws {
        let server = try ScriptedServer(["/film": FileOrigin(length: 100_000, seed: seed)])
        try withTransport(to: server) { origin in
            var runs: [(Recorder, Thread)] = []
            for _ in 0..<60 {
                let (handle, recorder) = (RequestHandle(), Recorder())
                let canceller = try #require(Thread("canceller") { handle.cancel() })
                origin.start(handle, OriginRequest(url: server.url("/film")), recorder)
                runs.append((recorder, canceller))
            }
            for (recorder, canceller) in runs {
                canceller.join()
                // What came first of the two is not for the test to say.
                let record = recorder.finished()
                #expect(record.failure == .cancelled || record.bytes.count == 100_000)
            }
            // After all of them nothing more is reported.
            #expect(origin.fetch(server.url("/film")).failure == nil)
            #expect(runs.allSatisfy { $0.0.record.ends == 1 })
        }
    }

    @Test func aResumeThatComesBeforeThePauseHasReturnedIsNotLost() throws {
        let server = try ScriptedServer(["/film": FileOrigin(length: 3_000_000)])
        try withTransport(to: server) { origin in
            let handle = RequestHandle()
            let recorder = Recorder(answer: { _ in
                Thread("resumer") { handle.resume() }?.join()
                return .pause
            })
            origin.start(handle, OriginRequest(url: server.url("/film"), stallLimit: .seconds(60)), recorder)
            let record = recorder.finished()
            #expect(record.failure == nil && record.bytes.count == 3_000_000)
        }
    }

    @Test func aRequestThatIsPromotedBeforeItsStartGoesWithTheDemandedOnes() throws {
        let gate = Gate()
        let server = try ScriptedServer { request in
            request.path == "/held" ? [.wait(gate)] + ServerStep.answer(body: "x") : ServerStep.answer(body: "x")
        }
        try withTransport(to: server, { $0.connectionsPerOrigin = 1 }) { origin in
            origin.start(OriginRequest(url: server.url("/held")), Recorder())
            #expect(eventually { server.requests.count == 1 })
            let (ahead, promoted, handle) = (Recorder(), Recorder(), RequestHandle())
            origin.start(OriginRequest(url: server.url("/ahead"), isDemanded: false), ahead)
            handle.promote()
            origin.start(handle, OriginRequest(url: server.url("/promoted"), isDemanded: false), promoted)
            let isIn = Gate()
            origin.perform { isIn.open() }
            #expect(isIn.wait())
            gate.open()
            ahead.finished()
            promoted.finished()
            #expect(server.requests.map(\.path) == ["/held", "/promoted", "/ahead"])
        }
    }

    @Test func nobodyThereIsUnreachableAtOnce() throws {
        let server = try ScriptedServer { _ in [] }
        let closed = server.url("/secret?token=secret", credentials: "me:secret")
        server.stop()
        let name = ResourceURL("http://me:secret@no-such-host.invalid/secret?token=secret")!
        try withTransport(to: server) { origin in
            for url in [closed, name] {
                // One that was waited for would be a stall.
                let failure = origin.fetch(url, stallLimit: .seconds(120)).failure
                guard case .unreachable(let text) = failure else { throw Unexpected(failure) }
                #expect(!text.contains("secret") && text.contains(url.host))
            }
        }
    }

    @Test func whilePlayersNeedTheLineOthersGetTheirShareOfIt() throws {
        let file = FileOrigin(length: 50_000_000)
        let server = try ScriptedServer(["/film": file, "/scan": FileOrigin(length: 50_000_000)])
        let line = Line()
        try withTransport(to: server) {
            $0.line = line
        } _: { origin in
            // A line that was never seen to bring anything leaves 1 MiB a second.
            line.tell(ObjectIdentifier(line), ahead: 0, now: now() + .seconds(60))
            let (others, later, player) = (Recorder(), Recorder(), Recorder())
            let handle = RequestHandle()
            handle.rank = .player
            let scanned = origin.start(OriginRequest(url: server.url("/scan")), others)
            #expect(eventually { others.byteCount > 0 })
            origin.start(OriginRequest(url: server.url("/scan"), range: ByteRange(0, 1000)), later)
            origin.start(handle, OriginRequest(url: server.url("/film")), player)
            player.finished()
            #expect(player.byteCount == 50_000_000)
            // A sixteenth of what the line brought at best, which on a busy machine is a larger part of what came.
            #expect(others.byteCount < 25_000_000)
            // It becomes a player's, too.
            scanned.rank = .player
            #expect(others.finished().bytes.count == 50_000_000)
            // The player has gone.
            line.tell(ObjectIdentifier(line), ahead: nil, now: now())
            #expect(later.finished().bytes.count == 1000)
        }
    }

    /// `/film` is short; of all else the first half comes, and the rest once the gate is open.
    private func server(_ gate: Gate) throws -> ScriptedServer {
        let half = [UInt8](repeating: 7, count: 4_000_000)
        return try ScriptedServer { request in
            if request.path == "/film" { return ServerStep.answer(body: "film") }
            return [.head(200, [("Content-Length", "8000000")]), .body(half), .wait(gate), .body(half)]
        }
    }

    @Test func requestsOfCommandsMakeWayForAProgramThatBeginsToWaitButForNoListing() throws {
        let gate = Gate()
        let server = try server(gate)
        try withTransport(to: server) {
            $0.line = Line()
        } _: { origin in
            let (all, once) = (Recorder(yields: true), Recorder())
            for (path, recorder) in [("/all", all), ("/other", once)] {
                origin.start(OriginRequest(url: server.url(path), isDemanded: false, reason: .prefetch), recorder)
            }
            #expect(eventually { all.byteCount > 0 && once.byteCount > 0 })
            let listing = Recorder()
            origin.start(OriginRequest(url: server.url("/film"), reason: .listing), listing)
            listing.finished()
            #expect(!all.isEnded)
            let film = Recorder()
            origin.start(OriginRequest(url: server.url("/film"), reason: .head), film)
            film.finished()
            #expect(all.finished().failure == .cancelled)
            // Of what cannot be asked for again the rest comes later.
            #expect(!once.isEnded)
            gate.open()
            #expect(once.finished().bytes.count == 8_000_000)
        }
    }

    /// Some of their bodies are due at the same look.
    @Test func aRedirectWithoutItsBodyEndsWhatMakesWayForItOnce() throws {
        let server = try ScriptedServer { request in
            if request.path == "/film" { return ServerStep.answer(200, body: "film") }
            let place = request.path == "/begun" ? 10 : Int64(request.path.dropFirst("/copied".count))!
            return [
                .pause(.microseconds(500 * place)), .head(302, [("Location", "/film"), ("Content-Length", "5")]),
                .stall,
            ]
        }
        try withTransport(to: server) {
            $0.line = Line()
            $0.connectionsPerOrigin = 32
        } _: { origin in
            let (film, ahead) = (Recorder(), (0..<24).map { _ in Recorder(yields: true) })
            let handle = RequestHandle()
            handle.rank = .beginner
            origin.start(handle, OriginRequest(url: server.url("/begun")), film)
            for (number, recorder) in ahead.enumerated() {
                let handle = RequestHandle()
                handle.rank = .filler
                origin.start(handle, OriginRequest(url: server.url("/copied\(number)")), recorder)
            }
            #expect(film.finished().failure == nil)
            for recorder in ahead {
                let failure = recorder.finished().failure
                #expect(failure == nil || failure == .cancelled)
            }
        }
    }

    @Test func whatACopyHasAskedForAheadMakesWayForAProgramThatBeginsAFile() throws {
        let gate = Gate()
        let server = try server(gate)
        try withTransport(to: server) {
            $0.line = Line()
        } _: { origin in
            let (ahead, waited) = (Recorder(yields: true), Recorder())
            for recorder in [ahead, waited] {
                let handle = RequestHandle()
                handle.rank = .filler
                origin.start(handle, OriginRequest(url: server.url("/copied")), recorder)
            }
            #expect(eventually { ahead.byteCount > 0 && waited.byteCount > 0 })
            for rank in [LineRank.reader, .player, .beginner] {
                #expect(!ahead.isEnded)
                let (film, handle) = (Recorder(), RequestHandle())
                handle.rank = rank
                origin.start(handle, OriginRequest(url: server.url("/film"), reason: .head), film)
                film.finished()
            }
            #expect(ahead.finished().failure == .cancelled)
            #expect(!waited.isEnded)
            gate.open()
            #expect(waited.finished().bytes.count == 8_000_000)
        }
    }
}
