import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// What is fetched before anybody asks for it: ends of files, next items; and what is not.
@Suite struct AheadTests {
    private static let length: Int64 = 12 << 20

    /// A listing with exact lengths, and one file behind all of its names.
    private func withFolder(
        _ names: [String], cap: Int64 = 1 << 30, prebuffer: Int64 = 4 << 20,
        _ body: (VolumeFixture, FileOrigin, ScriptedServer) throws -> Void
    ) throws {
        let film = FileOrigin(length: Self.length)
        // The same bytes: what is played is recognised by its type as well.
        let text = FileOrigin(FileOrigin.Version(length: Self.length, mediaType: "text/plain"))
        let lines = names.map { "<a href=\"\($0)\">\($0)</a>      21-Nov-2026 10:00      \(Self.length)\n" }
        let page =
            "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre><a href=\"../\">../</a>\n"
            + lines.joined() + "</pre><hr></body></html>"
        let server = try ScriptedServer { request in
            request.path == "/"
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
                : (request.path.hasSuffix(".txt") ? text : film).answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, cap: cap, prebuffer: prebuffer)
        defer { fixture.remove() }
        try body(fixture, film, server)
    }

    private func ranges(_ server: ScriptedServer, _ path: String) -> [ByteRange] {
        server.requests.filter { $0.path == path }.compactMap { $0.range(of: Self.length) }
    }

    private let tail = Readahead.tail(of: length)!

    @Test func headAndTailOfMediaAreAskedForTogether() throws {
        try withFolder(["film.mkv", "notes.txt"]) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(eventually { ranges(server, "/film.mkv").count == 2 })
            #expect(Set(ranges(server, "/film.mkv")) == [ByteRange(0, Readahead.firstOfMedia), tail])
            #expect(fixture.read(file, tail.lower, 1000).isRight(film, tail.lower, 1000))
            #expect(fixture.read(file, 0, 1000).isRight(film, 0, 1000))
            #expect(ranges(server, "/film.mkv").count == 2)
            fixture.volume.close(file)
            let notes = try fixture.open("notes.txt").get()
            #expect(fixture.read(notes, 0, 1000).isRight(film, 0, 1000))
            #expect(ranges(server, "/notes.txt") == [ByteRange(0, Readahead.first)])
            fixture.volume.close(notes)
        }
    }

    /// Two blocks of the first films, one of all others: a person opens no more than thirty-two in a row.
    @Test func onlyTheFirstOfManyGetTheSecondBlock() throws {
        let names = (0..<60).map { "f\($0).mkv" }
        try withFolder(names) { fixture, _, server in
            let start = ContinuousClock.now
            for name in names { fixture.volume.close(try fixture.open(name).get()) }
            // Where the opens take longer, the budget is refilled for all.
            let isFast = ContinuousClock.now - start < .seconds(20)
            let firsts = names.map { name in ranges(server, "/" + name).contains(ByteRange(0, Readahead.firstOfMedia)) }
            #expect(firsts.prefix(32).allSatisfy { $0 } && (firsts.contains(false) || !isFast))
        }
    }

    /// Whichever answer comes first, and whatever the second says: never two versions in one file.
    @Test(arguments: 0..<8) func aTailOfAnotherVersionIsNoPartOfTheFile(round: Int) throws {
        try withFolder(["film.mkv"]) { fixture, film, server in
            let faults: [FileOrigin.Fault] = [.changedETag, .status(503, retryAfter: nil), .noRanges, .wrongTotal]
            // Of two requests that are made together either may be the one that the fault meets.
            film.fail(faults[round % 4], times: 1)
            let opened = fixture.open("film.mkv")
            guard case .success(let file) = opened else {
                // Stale if the beginning gave another length than the listing: the kernel opens such a file again.
                let excused: [Result<Bool, VolumeError>] = [.failure(.failed), .failure(.stale)]
                return #expect(excused.contains(opened.map { _ in true }), "round \(round)")
            }
            let version = film.version
            for offset in [0, tail.lower, Self.length / 2, tail.lower - 1000] {
                let count = min(Self.length - offset, 2000)
                let answer = fixture.read(file, offset, Int(count))
                if case .success(let bytes) = answer {
                    #expect(
                        bytes.elementsEqual(version.bytes.bytes(ByteRange(offset, offset + count))), "round \(round)")
                }
            }
            fixture.volume.close(file)
        }
    }

    @Test func aScanOfBeginningsFetchesBeginningsAndEnds() throws {
        let names = (0..<40).map { "film\($0).mkv" }
        try withFolder(names) { fixture, film, server in
            for name in names {
                let file = try fixture.open(name).get()
                #expect(fixture.read(file, 0, 64 << 10).isRight(film, 0, 64 << 10))
                fixture.volume.close(file)
            }
            #expect(eventually { server.requests.count { $0.path != "/" } == 2 * names.count })
            #expect(
                fixture.volume.status().bytesFromOrigin <= Int64(names.count + 1)
                    * (Readahead.firstOfMedia + tail.count))
        }
    }

    @Test func theNextFileIsThereWhenOneWasPlayedThrough() throws {
        try withFolder(["a10.mkv", "a2.mkv", "a1.mkv", "a1.srt"]) { fixture, film, server in
            let file = try fixture.open("a1.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            fixture.volume.close(file)
            #expect(eventually { self.ranges(server, "/a2.mkv").contains { $0.upper == Self.length } })
            let status = fixture.volume.status()
            #expect(eventually { fixture.cached("a2.mkv") >= 4 << 20 })
            #expect(status.bytesFromOrigin <= 2 * Self.length + 1 << 20)
            let known = ranges(server, "/a2.mkv").count
            let next = try fixture.open("a2.mkv").get()
            for offset in stride(from: Int64(0), to: 1 << 20, by: 128 << 10) {
                #expect(fixture.read(next, offset, 128 << 10).isRight(film, offset, 128 << 10))
            }
            // What lies behind it may be asked for ahead.
            #expect(ranges(server, "/a2.mkv").dropFirst(known).allSatisfy { $0.lower >= 4 << 20 })
            #expect(ranges(server, "/a10.mkv").isEmpty)
            fixture.volume.close(next)
        }
    }

    @Test func withAPrebufferOfNothingNothingIsFetched() throws {
        try withFolder(["a1.mkv", "a2.mkv"], prebuffer: 0) { fixture, film, server in
            let file = try fixture.open("a1.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            fixture.volume.close(file)
            let again = try fixture.open("a1.mkv").get()
            #expect(fixture.readAll(again).isRight(film, 0, Self.length))
            fixture.volume.close(again)
            #expect(ranges(server, "/a2.mkv").isEmpty)
        }
    }

    /// The next item, its end, and four times as much in all, of which the rest is to leave half of the budget.
    @Test(arguments: [1 << 20, 4 << 20, 7 << 20, 64 << 20, 1 << 30] as [Int64])
    func theBudgetHasRoomForTheNextItem(prebuffer: Int64) throws {
        try withFolder([], prebuffer: prebuffer) { fixture, film, server in
            fixture.volume.services.budget.withLock { budget in
                let moment = now()
                let (head, more) = (
                    budget.spend(prebuffer + tail.count, on: .nextItem, now: moment),
                    budget.spend(3 * prebuffer, on: .moreOfNextItem, now: moment)
                )
                #expect(head && more)
            }
        }
        // Whatever somebody writes on the command line.
        #expect(VolumeOptions(prebuffer: .max).prebuffer.multipliedReportingOverflow(by: 10).overflow == false)
    }

    /// Head and end of a short file are the same bytes.
    @Test func theBudgetIsSpentOnWhatIsFetched() throws {
        try withFolder(["film.mkv"]) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(eventually { fixture.cached("film.mkv") == Readahead.firstOfMedia + tail.count })
            let remote = fixture.volume.files.all[0]
            let rest = Self.length - Readahead.firstOfMedia - tail.count
            fixture.volume.services.budget.withLock { $0 = SpeculationBudget(perMinute: rest) }
            remote.prefetch([ByteRange(0, Self.length), ByteRange(4 << 20, Self.length), tail], as: .tail)
            #expect(eventually { fixture.cached("film.mkv") == Self.length })
            fixture.volume.close(file)
        }
    }

    /// Who looks while another closes what was fetched: one of the two does it.
    @Test func whatWasFetchedIsClosedOnce() throws {
        try withFolder(["a1.mkv", "a2.mkv", "z.mkv"]) { fixture, film, server in
            let isOver = Atomic(false)
            let lookers = (0..<3).map { _ in
                startJoinable {
                    while !isOver.load(ordering: .relaxed) { _ = fixture.volume.prebuffer.tick(now()) }
                    return true
                }
            }
            for _ in 0..<LongTests.many(40, elseOnly: 20) {
                let file = try fixture.open("a1.mkv").get()
                for offset in stride(from: Int64(0), to: Self.length, by: 1 << 20) {
                    #expect(fixture.read(file, offset, 1 << 20).isRight(film, offset, 1 << 20))
                }
                fixture.volume.close(file)
                #expect(eventually { fixture.cached("a2.mkv") == Self.length })
                // It goes elsewhere, and comes back.
                fixture.volume.close(try fixture.open("z.mkv").get())
            }
            isOver.store(true, ordering: .relaxed)
            #expect(lookers.allSatisfy { $0.join() })
            #expect(eventually { !fixture.volume.prebuffer.tick(now()) })
            #expect(fixture.volume.files.all.allSatisfy { $0.openHandles == 0 })
        }
    }

    // MARK: Expectations

    /// What was fetched of the next item does not count as wasted as long as a film may last; then it is.
    @Test func theNextItemIsExpectedForLong() throws {
        try withFolder(["a1.mkv", "a2.mkv", "a3.mkv"]) { fixture, film, server in
            let file = try fixture.open("a1.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            fixture.volume.close(file)
            let files = fixture.volume.files
            // The whole of the first one is there, so more than the usual head follows.
            #expect(eventually { fixture.cached("a2.mkv") == Self.length })
            #expect(eventually { !fixture.volume.prebuffer.tick(now()) })
            // A file leaves once its last request has ended, which may be later than its last byte.
            #expect(
                eventually {
                    _ = files.tick(now() + .seconds(3600))
                    return files.all.map { $0.url.text.suffix(6) } == ["a2.mkv"] && files.all[0].isDone
                })
            // On a machine that stands still for a second, a hedge brings a few bytes twice.
            let doubled = fixture.volume.status().wasted
            #expect(doubled < Self.length / 8)
            _ = files.tick(now() + .seconds(4 * 3600))
            #expect(files.all.isEmpty)
            #expect(fixture.volume.status().wasted == doubled + Self.length)
        }
    }

    @Test func aNextItemThatNobodyExpectsAnyMoreIsInVain() throws {
        try withFolder(["a1.mkv", "a2.mkv", "z.mkv"]) { fixture, film, server in
            let file = try fixture.open("a1.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            fixture.volume.close(file)
            #expect(eventually { fixture.cached("a2.mkv") == Self.length })
            #expect(eventually { !fixture.volume.prebuffer.tick(now()) })
            let other = try fixture.open("z.mkv").get()
            #expect(fixture.volume.status().wasted >= Self.length)
            fixture.volume.close(other)
        }
    }

    /// Reads of a complete file need not reach us: by passthrough, or from the page cache.
    @Test func aCompleteFileThatStaysOpenIsPlayedAndAScanIsNot() throws {
        let names = (1...6).map { "a\($0).mkv" }
        try withFolder(names) { fixture, film, server in
            for name in names.dropLast() {
                let file = try fixture.open(name).get()
                // From the end: what is played goes forward.
                for offset in stride(from: Self.length - 1 << 20, through: 0, by: -1 << 20) {
                    #expect(fixture.read(file, offset, 1 << 20).isRight(film, offset, 1 << 20))
                }
                fixture.volume.close(file)
            }
            #expect(names.dropLast().allSatisfy { fixture.cached($0) == Self.length })
            #expect(eventually { !fixture.volume.prebuffer.tick(now()) })
            let scanned = try names.dropLast().map { try fixture.open($0).get() }
            _ = fixture.volume.prebuffer.tick(now() + .seconds(31))
            for file in scanned { fixture.volume.close(file) }
            for name in names.dropLast() {
                fixture.volume.close(try fixture.open(name).get())
                _ = fixture.volume.prebuffer.tick(now() + .seconds(31))
            }
            #expect(ranges(server, "/a6.mkv").isEmpty)
            let played = try fixture.open("a5.mkv").get()
            _ = fixture.volume.prebuffer.tick(now() + .seconds(29))
            #expect(ranges(server, "/a6.mkv").isEmpty)
            _ = fixture.volume.prebuffer.tick(now() + .seconds(31))
            #expect(eventually { fixture.cached("a6.mkv") >= 4 << 20 })
            fixture.volume.close(played)
        }
    }
}
