import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelCore
@testable import ReelVolume

/// Bytes that the origin sends, and what is said of them.
@Suite struct TrafficTests {
    private func withFilms(
        _ count: Int, length: Int64, cap: Int64 = 1 << 30, timeout: Duration = .seconds(10),
        _ fault: FileOrigin.Fault? = nil,
        answer: @escaping @Sendable (ServerRequest, FileOrigin) -> [ServerStep] = { $1.answer($0) },
        _ body: (VolumeFixture, FileOrigin, ScriptedServer) throws -> Void
    ) throws {
        let film = FileOrigin(length: length)
        film.fault = fault
        let lines = (0..<count).map {
            "<a href=\"\($0).bin\">\($0).bin</a>      21-Nov-2026 10:00      \(length)\n"
        }
        let page =
            "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre><a href=\"../\">../</a>\n"
            + lines.joined() + "</pre><hr></body></html>"
        let server = try ScriptedServer { request in
            request.path == "/"
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: page) : answer(request, film)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, cap: cap, timeout: timeout)
        defer { fixture.remove() }
        try body(fixture, film, server)
    }

    /// Runs until nothing is under way.
    private func settle(_ fixture: VolumeFixture) -> VolumeStatus {
        #expect(
            eventually {
                fixture.volume.files.all.allSatisfy { $0.ask { $0.ledger.planner.streams.isEmpty } }
            })
        return fixture.volume.status()
    }

    @Test(arguments: 0..<LongTests.many(6, elseOnly: 3)) func whatStatusTellsAddsUpToWhatTheOriginSent(round: Int)
        throws
    {
        var random = SeededGenerator(seed: UInt64(round) + 40)
        // A third of the rounds in a cache that is too small, so that bytes leave unread.
        try withFilms(4, length: 9_000_000, cap: round % 3 == 0 ? 12 << 20 : 1 << 30) { fixture, film, server in
            var handles: [any FileHandle] = []
            for name in 0..<4 { handles.append(try fixture.open("\(name).bin").get()) }
            for _ in 0..<40 {
                let file = handles.randomElement(using: &random)!
                var offset = Int64.random(in: 0..<8_000_000, using: &random)
                for _ in 0..<Int.random(in: 1...12, using: &random) where offset < 8_900_000 {
                    #expect(fixture.read(file, offset, 100_000).isRight(film, offset, 100_000), "round \(round)")
                    offset += 100_000
                }
            }
            for file in handles { fixture.volume.close(file) }
            let status = settle(fixture)
            // What was under way to a request that was let go of never comes in.
            #expect(status.bytesFromOrigin == fixture.receivedBytes, "round \(round)")
            let sent = server.bodyBytesSent(atLeast: status.bytesFromOrigin)
            #expect(status.bytesFromOrigin <= sent, "round \(round)")
            #expect(status.demanded + status.speculative == status.bytesFromOrigin, "round \(round)")
            #expect(status.wasted <= status.speculative && status.demanded > 0, "round \(round)")
        }
    }

    /// A megabyte read in a row of each: where the budget is used up it costs these and nothing more. `ReadaheadTests`
    /// and `SpeculationBudgetTests` show how large the budget is, and how it comes back.
    @Test func aScanThatReadsAMegabyteOfEachCostsItsMegabytes() throws {
        let count = 20
        try withFilms(count, length: 1 << 30) { fixture, film, server in
            fixture.volume.services.budget.withLock { $0 = SpeculationBudget(perMinute: 0) }
            let before = fixture.volume.status().bytesFromOrigin
            for name in 0..<count {
                let file = try fixture.open("\(name).bin").get()
                for offset in stride(from: Int64(0), to: 1 << 20, by: 128 << 10) {
                    #expect(fixture.read(file, offset, 128 << 10).isRight(film, offset, 128 << 10))
                }
                fixture.volume.close(file)
            }
            let status = settle(fixture)
            #expect(status.bytesFromOrigin - before == Int64(count) << 20)
        }
    }

    /// Each paused body holds a connection.
    @Test func ofManyBodiesThatComeWholeNoMorePauseThanRun() throws {
        let count = 40
        try withFilms(count, length: 64 << 20, .noRanges) { fixture, film, server in
            let handles = try (0..<count).map { number in
                let file = try fixture.open("\(number).bin").get()
                #expect(fixture.read(file, 0, 64 << 10).isRight(film, 0, 64 << 10))
                return file
            }
            // All that still run pause, and the oldest of them let go.
            #expect(
                eventually {
                    let streams = fixture.volume.files.all.map { $0.ask { $0.ledger.planner.streams.all } }
                    return streams.count == count && streams.allSatisfy { $0.allSatisfy(\.isPaused) }
                        && streams.count { !$0.isEmpty } == 16
                })
            // Whoever has lost his goes on all the same.
            for file in handles {
                #expect(fixture.read(file, 3 << 20, 64 << 10).isRight(film, 3 << 20, 64 << 10))
            }
            for file in handles { fixture.volume.close(file) }
        }
    }

    /// The kernel reads a complete file itself: nothing of that comes by here.
    @Test func whatTheKernelReadsItselfIsNotInVain() throws {
        try withFilms(1, length: 9_000_000) { fixture, film, server in
            let file = try fixture.open("0.bin").get()
            let remote = fixture.volume.files.all[0]
            // Fetched, not read.
            remote.prefetch([ByteRange(0, 9_000_000)], as: .tail)
            #expect(eventually { remote.isComplete && remote.ask { $0.ledger.isIdle } })
            #expect(remote.unread > 8_000_000)
            // A machine that is busy may have asked for a piece twice.
            let wasted = fixture.volume.status().wasted
            remote.object.share()
            fixture.volume.close(file)
            #expect(remote.unread == 0 && fixture.volume.status().wasted == wasted)
            #expect(
                eventually {
                    _ = fixture.volume.files.tick(now() + .seconds(11))
                    return fixture.volume.files.all.isEmpty
                })
            #expect(fixture.volume.status().wasted == wasted)
        }
    }

    @Test func whatLeavesTheCacheUnreadIsToldAtOnce() throws {
        try withFilms(1, length: 9_000_000) { fixture, film, server in
            let file = try fixture.open("0.bin").get()
            #expect(fixture.read(file, 0, 4096).isRight(film, 0, 4096))
            let remote = fixture.volume.files.all[0]
            #expect(eventually { remote.ask { $0.ledger.isIdle } })
            let (unread, wasted) = (remote.unread, fixture.volume.status().wasted)
            #expect(unread > 0)
            _ = remote.drop(0..<100)
            #expect(fixture.volume.status().wasted == wasted + unread)
            fixture.volume.close(file)
        }
    }

    @Test func aProbeOfAServerWithoutRangesCostsNoFilm() throws {
        try withFilms(1, length: 400 << 20, .noRanges) { fixture, film, server in
            let file = try fixture.open("0.bin").get()
            #expect(fixture.read(file, 0, 64 << 10).isRight(film, 0, 64 << 10))
            let remote = fixture.volume.files.all[0]
            #expect(eventually { remote.ask { $0.ledger.planner.streams.all.first?.isPaused } == true })
            #expect(fixture.volume.status().bytesFromOrigin <= 4 << 20)
            // Whoever reads on gets it all.
            for offset in stride(from: Int64(0), to: 24 << 20, by: 1 << 20) {
                #expect(fixture.read(file, offset, 1 << 20).isRight(film, offset, 1 << 20))
            }
            #expect(server.requests.count { $0.path == "/0.bin" } == 1)
            fixture.volume.close(file)
        }
    }

    /// Without ranges what was evicted before it was read would have to come from the first byte again.
    @Test func aFilmWithoutRangesPlaysThroughACacheThatCannotHoldIt() throws {
        let length: Int64 = 96 << 20
        try withFilms(1, length: length, cap: 32 << 20, .noRanges) { fixture, film, server in
            let file = try fixture.open("0.bin").get()
            for offset in stride(from: Int64(0), to: length, by: 1 << 20) {
                #expect(fixture.read(file, offset, 1 << 20).isRight(film, offset, 1 << 20))
            }
            #expect(server.requests.count { $0.path == "/0.bin" } == 1)
            fixture.volume.close(file)
            let status = settle(fixture)
            #expect(status.demanded + status.speculative == status.bytesFromOrigin)
        }
    }

    /// Requests that run ahead of their readers, and stay away, hold every connection to the origin.
    @Test func aReaderGetsTheConnectionOfOneWhoWaitsForNothing() throws {
        let gate = Gate()
        defer { gate.open() }
        // Longer than a read is waited for here: none is helped by another one's end.
        try withFilms(
            20, length: 64 << 20, timeout: .seconds(120),
            answer: { request, film in
                guard let range = request.range(of: 64 << 20), range.count > 1 << 20 else {
                    return film.answer(request)
                }
                return film.answer(request).flatMap { step -> [ServerStep] in
                    guard case .generated(let bytes, let range) = step else { return [step] }
                    let middle = range.lower + 512 << 10
                    return [
                        .generated(bytes, ByteRange(range.lower, middle)), .wait(gate),
                        .generated(bytes, ByteRange(middle, range.upper)),
                    ]
                }
            }
        ) { fixture, film, server in
            let handles = try (0..<20).map { try fixture.open("\($0).bin").get() }
            for file in handles {
                for offset in stride(from: Int64(0), to: 5 << 18, by: 128 << 10) {
                    #expect(fixture.read(file, offset, 128 << 10).isRight(film, offset, 128 << 10))
                }
            }
            for file in handles { fixture.volume.close(file) }
        }
    }
}
