import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Prefetches of files and folders, without a kernel.
@Suite struct PrefetchTests {
    /// Two folders with films, of which the second is not listed before a prefetch comes there.
    private func withTree(
        cap: Int64 = 1 << 30, lengths: [String: Int64] = ["a.mkv": 3_000_001, "s/b.mkv": 5_000_000, "s/t/c.mkv": 10],
        timeout: Duration = .seconds(10), _ body: (VolumeFixture, ScriptedServer, [String: FileOrigin]) throws -> Void
    ) throws {
        let films = Dictionary(
            uniqueKeysWithValues: lengths.sorted { $0.key < $1.key }.enumerated().map {
                ($1.key, FileOrigin(length: $1.value, seed: UInt64($0 + 1)))
            })
        let server = try ScriptedServer { request in
            let path = String(request.path.dropFirst())
            if let film = films[path] { return film.answer(request) }
            guard path.isEmpty || path.hasSuffix("/") else { return ServerStep.answer(404) }
            let below = films.filter { $0.key.hasPrefix(path) }.map { ($0.key.dropFirst(path.count), $0.value) }
            let names = Set(below.map { name, _ in name.prefix { $0 != "/" } + (name.contains("/") ? "/" : "") })
            let lines = names.sorted().map { name in
                let length = films[path + name].map { "\($0.version.length)" } ?? "-"
                return "<a href=\"\(name)\">\(name)</a>      21-Nov-2026 10:00      \(length)\n"
            }
            let page = "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>"
            return ServerStep.answer(
                200, [("Content-Type", "text/html")],
                body: page + "<a href=\"../\">../</a>\n" + lines.joined() + "</pre><hr></body></html>")
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, cap: cap, timeout: timeout, prebuffer: 0)
        defer { fixture.remove() }
        try body(fixture, server, films)
    }

    /// Runs one to its end.
    private func prefetch(_ fixture: VolumeFixture, _ request: PrefetchRequest) throws -> PrefetchStatus {
        let volume = fixture.volume
        let number = try volume.prefetches.start(request, volume.maintenance)
        let end = now() + .seconds(30)
        let status = volume.prefetches.watch(number, until: { _ in false }, isOver: { now() > end }) { _ in }
        return try #require(status)
    }

    /// All connections are taken, and the one that becomes free is the reader's.
    @Test func anOpenOfAProgramGoesBeforeOneOfAPrefetch() throws {
        let (one, others) = (Gate(), Gate())
        defer { [one, others].forEach { $0.open() } }
        let film = FileOrigin(length: 100_000)
        let taken = (0..<16).map { "f\($0).mkv" }
        let server = try ScriptedServer { request in
            let name = request.path.dropFirst()
            if name.isEmpty {
                let lines = (taken + ["fetched.mkv", "read.mkv"]).map {
                    "<a href=\"\($0)\">\($0)</a> 21-Nov-2026 10:00 100000\n"
                }
                let page = "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>"
                return ServerStep.answer(
                    200, [("Content-Type", "text/html")],
                    body: page + "<a href=\"../\">../</a>\n" + lines.joined() + "</pre><hr></body></html>")
            }
            return name == "fetched.mkv"
                ? film.answer(request) : [.wait(name == "f0.mkv" ? one : others)] + film.answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, prebuffer: 0)
        defer { fixture.remove() }
        let volume = fixture.volume
        let opened = Monitor(0)
        func open(_ name: String) throws {
            let entry = try fixture.lookup(name).get()
            volume.open(entry.node) { result in
                if case .success(let file) = result { volume.close(file) }
                opened.withLock { $0 += 1 }
            }
        }
        func asked(_ name: String) -> Bool { server.requests.contains { $0.path == "/" + name } }
        for name in taken { try open(name) }
        #expect(eventually { taken.allSatisfy { asked($0) } })
        let number = try volume.prefetches.start(PrefetchRequest(paths: ["fetched.mkv"]), volume.maintenance)
        _ = volume.prefetches.watch(number, until: { $0.phase != .listing }, isOver: { false }) { _ in }
        try open("read.mkv")
        one.open()
        #expect(eventually { asked("read.mkv") })
        #expect(!asked("fetched.mkv"))
        others.open()
        #expect(eventually { opened.withLock { $0 } == taken.count + 1 })
        let end = volume.prefetches.watch(number, until: { $0.phase == .done }, isOver: { false }) { _ in }
        #expect(end?.phase == .done)
    }

    @Test func aFolderIsFetchedWithAllBelowItAndPlaysWithoutTheOrigin() throws {
        try withTree { fixture, server, films in
            let status = try prefetch(fixture, PrefetchRequest(paths: [""]))
            #expect(status.phase == .done && status.failures.isEmpty && status.error == nil)
            #expect((status.files, status.doneFiles, status.bytes) == (3, 3, 8_000_011))
            #expect(status.doneBytes == status.bytes)
            server.stop()
            try fixture.restart()
            for (path, film) in films {
                let file = try fixture.open(path).get()
                #expect(fixture.readAll(file).isRight(film, 0, film.version.length), "\(path)")
                fixture.volume.close(file)
            }
        }
    }

    @Test func whatIsThereIsNotFetchedAgain() throws {
        try withTree { fixture, server, films in
            _ = try prefetch(fixture, PrefetchRequest(paths: ["s"]))
            let before = server.requests.count { films[String($0.path.dropFirst())] != nil }
            let status = try prefetch(fixture, PrefetchRequest(paths: ["s", "s/b.mkv"]))
            #expect(status.phase == .done && status.doneFiles == 3)
            #expect(server.requests.count { films[String($0.path.dropFirst())] != nil } == before)
        }
    }

    @Test func aCancelledOneKeepsWhatCameAndAnotherGoesOnFromThere() throws {
        try withTree(lengths: ["a.mkv": 40 << 20]) { fixture, server, films in
            let volume = fixture.volume
            let slow = PrefetchRequest(paths: ["a.mkv"], rate: RateSchedule(rate: 8 << 20))
            let number = try volume.prefetches.start(slow, volume.maintenance)
            #expect(eventually { volume.prefetches.all.first.map { $0.doneBytes > 4 << 20 } ?? false })
            #expect(volume.prefetches.cancel(below: "b.mkv") == 0)
            #expect(volume.prefetches.cancel(below: "a.mkv") == 1)
            #expect(eventually { volume.prefetches.all.first?.phase == .cancelled })
            #expect(!volume.prefetches.cancel(number))
            let came = fixture.receivedBytes
            #expect(came < 40 << 20)
            let status = try prefetch(fixture, PrefetchRequest(paths: [""]))
            #expect(status.phase == .done && status.doneBytes == 40 << 20)
            // A block that was not whole may come again.
            #expect(fixture.receivedBytes <= 40 << 20 + 2 << 20)
            let file = try fixture.open("a.mkv").get()
            #expect(fixture.readAll(file).isRight(films["a.mkv"]!, 0, 40 << 20))
            fixture.volume.close(file)
        }
    }

    @Test("A prefetch is cancelled by any spelling of its path, or of a folder above it")
    func cancelSpelling() throws {
        try withTree(lengths: ["s/b.mkv": 40 << 20]) { fixture, _, _ in
            let prefetches = fixture.volume.prefetches
            for (path, end, count) in [("s", "s/", 1), ("/s//", "s", 1), ("s/b.mkv", "//s/", 1), ("s", "s/b.mkv", 0)] {
                let slow = PrefetchRequest(paths: [path], rate: RateSchedule(rate: 1 << 20))
                let number = try prefetches.start(slow, fixture.volume.maintenance)
                #expect(prefetches.cancel(below: end) == count, "\(path) \(end)")
                prefetches.cancel(number)
                // The next one is alone.
                #expect(eventually { prefetches.all.allSatisfy { $0.phase == .cancelled } })
            }
        }
    }

    @Test("A file of another version than what is cached is fetched, though it is no longer")
    func otherVersion() throws {
        try withTree { fixture, server, films in
            let film = films["a.mkv"]!
            let request = PrefetchRequest(paths: ["a.mkv"])
            #expect(try prefetch(fixture, request).phase == .done)
            let asked = server.requests.count
            #expect(try prefetch(fixture, request).phase == .done)
            #expect(server.requests.count == asked)
            film.change(to: FileOrigin.Version(seed: 99, length: 2_000_003, entityTag: "\"new\""))
            fixture.volume.maintenance.expireListings()
            _ = fixture.names()
            #expect(eventually { fixture.lookup("a.mkv").map(\.attributes.length) == .success(2_000_003) })
            #expect(try prefetch(fixture, request).phase == .done)
            server.stop()
            let file = try fixture.open("a.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, 2_000_003))
            fixture.volume.close(file)
        }
    }

    @Test("A file without an end is given up once half of the cache is full of it")
    func endless() throws {
        let film = FileOrigin(length: 1 << 40)
        film.fault = .endlessBody
        let server = try ScriptedServer(["/live.ts": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/live.ts").text, cap: 64 << 20, prebuffer: 0)
        defer { fixture.remove() }
        // So that it is looked at before all of the cache is full.
        fixture.volume.line.limit.schedule = RateSchedule(rate: 64 << 20)
        let status = try prefetch(fixture, PrefetchRequest(paths: [""]))
        #expect(status.failures.first?.reason.contains("half of the cache") == true, "\(status) \(status.failures)")
    }

    @Test func whatTheCacheCannotHoldIsRefusedWithTheNumbersAndNothingIsAskedFor() throws {
        try withTree(cap: 6 << 20) { fixture, server, films in
            let status = try prefetch(fixture, PrefetchRequest(paths: [""], pins: true))
            #expect(status.phase == .refused)
            #expect(status.refusal?.needed == 8_000_011 && status.refusal?.pinned == 0)
            #expect(status.refusal.map { $0.cap <= 6 << 20 } == true)
            #expect(server.requests.allSatisfy { films[String($0.path.dropFirst())] == nil })
            #expect(try fixture.store.pins().isEmpty)
            // What fits alone does not beside what is pinned.
            #expect(try prefetch(fixture, PrefetchRequest(paths: ["a.mkv"], pins: true)).phase == .done)
            let second = try prefetch(fixture, PrefetchRequest(paths: ["s"]))
            #expect(second.phase == .refused && second.refusal?.pinned == 3_000_001)
            // It counts once where it is among the files that are asked for.
            #expect(try prefetch(fixture, PrefetchRequest(paths: ["a.mkv"])).phase == .done)
        }
    }

    @Test func aServerWithoutRangesAndOneThatBreaksOffGiveTheWholeFile() throws {
        for fault in [FileOrigin.Fault.noRanges, .resetAfter(700_000)] {
            try withTree(lengths: ["a.mkv": 3_000_001]) { fixture, _, films in
                if case .resetAfter = fault {
                    films["a.mkv"]!.fail(fault, times: 3)
                } else {
                    films["a.mkv"]!.fault = fault
                }
                let status = try prefetch(fixture, PrefetchRequest(paths: [""]))
                #expect(status.phase == .done && status.failures.isEmpty, "\(fault) \(status)")
                let file = try fixture.open("a.mkv").get()
                #expect(fixture.readAll(file).isRight(films["a.mkv"]!, 0, 3_000_001), "\(fault)")
                fixture.volume.close(file)
            }
        }
    }

    @Test func aFileThatIsRefusedIsNamedAndTheOthersCome() throws {
        try withTree { fixture, _, films in
            films["s/b.mkv"]!.fault = .status(403, retryAfter: nil)
            let status = try prefetch(fixture, PrefetchRequest(paths: [""]))
            #expect(status.phase == .done && status.doneFiles == 2 && status.failedFiles == 1)
            #expect(status.failures == [PrefetchStatus.Failure(path: "s/b.mkv", reason: "the origin refuses access")])
        }
    }

    @Test func oneOfWhichNothingCanBeHadSaysWhyAndEndsAfterItsPatience() throws {
        try withTree { fixture, server, _ in
            _ = try fixture.lookup("a.mkv").get()
            server.stop()
            let volume = fixture.volume
            let seen = Monitor<[PrefetchStatus]>([])
            let request = PrefetchRequest(paths: ["a.mkv"], patience: .seconds(1))
            let number = try volume.prefetches.start(request, volume.maintenance)
            let status = try #require(
                volume.prefetches.watch(number, until: { _ in false }, isOver: { false }) { status in
                    seen.withLock { $0.append(status) }
                })
            let reason = try #require(seen.withLock { $0.last { $0.phase == .waiting }?.error })
            #expect(status.phase == .failed && status.error == "nothing came for 1 s: \(reason)", "\(status)")
            let waiting = try volume.prefetches.start(
                PrefetchRequest(paths: ["a.mkv"], patience: nil), volume.maintenance)
            #expect(eventually { volume.prefetches.all.last?.phase == .waiting })
            // Its thread may not have heard of the first.
            let ended = (1...2).map { _ in volume.prefetches.cancel(waiting) }
            #expect(ended == [true, false])
        }
    }

    /// A limit lets a second's bytes come at once.
    @Test func theRateOfBytesThatComeInBurstsIsTheirMean() {
        for window in [2, 10] as [Int64] {
            var meter = RateMeter(of: .seconds(window))
            for second in 1...60 as ClosedRange<Int64> {
                meter.add(1000, .seconds(second))
                guard second > 3 * window else { continue }
                for part in 1...9 {
                    let rate = meter.perSecond(.seconds(second) + .milliseconds(100 * part))
                    #expect((500...1000).contains(rate), "\(rate) at \(second).\(part)")
                }
            }
        }
    }

    @Test func bytesThatACommandWantsAreNoReadaheadAndNoWaste() throws {
        try withTree(lengths: ["a.mkv": 20 << 20]) { fixture, _, _ in
            let status = try prefetch(fixture, PrefetchRequest(paths: [""]))
            #expect(status.phase == .done)
            let volume = fixture.volume.status()
            #expect(volume.wasted == 0 && volume.demanded > 19 << 20)
            #expect(volume.prefetches?.map(\.phase) == [.done])
        }
    }

    @Test func offlineOnlyWholeFilesAreShownNothingIsAskedForAndBackOnAllIsThere() throws {
        // The test gives a read up long before its deadline.
        try withTree(timeout: .seconds(120)) { fixture, server, films in
            #expect(try fixture.names().get().sorted() == ["a.mkv", "s"])
            #expect(try fixture.names("s").get().sorted() == ["b.mkv", "t"])
            #expect(try prefetch(fixture, PrefetchRequest(paths: ["s/b.mkv"])).phase == .done)
            let half = try fixture.open("a.mkv").get()
            #expect(try fixture.read(half, 0, 4096).get() == films["a.mkv"]!.expectedBytes(ByteRange(0, 4096)))
            #expect(eventually { fixture.volume.files.all.allSatisfy { !$0.isFetching } })
            fixture.volume.setOffline(true)
            let before = server.requests.count
            #expect(try fixture.names().get() == ["s"])
            #expect(try fixture.names("s").get() == ["b.mkv"])
            #expect(fixture.lookup("a.mkv").failure == .notFound)
            let file = try fixture.open("s/b.mkv").get()
            #expect(fixture.readAll(file).isRight(films["s/b.mkv"]!, 0, 5_000_000))
            fixture.volume.close(file)
            #expect(fixture.read(half, 2 << 20, 4096) == .failure(.offline))
            fixture.volume.close(half)
            #expect(server.requests.count == before)
            #expect(fixture.volume.status().isOffline == true)
            fixture.volume.setOffline(false)
            #expect(try fixture.names().get().sorted() == ["a.mkv", "s"])
            let again = try fixture.open("a.mkv").get()
            #expect(fixture.readAll(again).isRight(films["a.mkv"]!, 0, 3_000_001))
            fixture.volume.close(again)
        }
    }

    @Test("A view of what is cached shows whole files and asks for nothing, while the volume goes on fetching")
    func cachedView() throws {
        try withTree { fixture, server, films in
            let half = try fixture.open("a.mkv").get()
            #expect(try fixture.read(half, 0, 4096).get() == films["a.mkv"]!.expectedBytes(ByteRange(0, 4096)))
            #expect(try prefetch(fixture, PrefetchRequest(paths: ["s/b.mkv"])).phase == .done)
            #expect(eventually { fixture.volume.files.all.allSatisfy { !$0.isFetching } })
            let view = CachedView(fixture.volume)
            let caller = ViewCaller(filesystem: view)
            let before = server.requests.count
            #expect(try caller.names().get() == ["s"])
            #expect(try caller.names("s").get() == ["b.mkv"])
            #expect(caller.lookup("a.mkv").failure == .notFound)
            let known = try fixture.lookup("a.mkv").get().node
            #expect(caller.wait { view.open(known, $0) }.failure == .offline)
            let file = try caller.open("s/b.mkv").get()
            #expect(caller.readAll(file).isRight(films["s/b.mkv"]!, 0, 5_000_000))
            // A hole below an open file.
            #expect(try fixture.volume.maintenance.evict("s/b.mkv").bytes > 4 << 20)
            #expect(caller.read(file, 2 << 20, 4096) == .failure(.offline))
            let unlisted = try fixture.lookup("s/t").get().node
            #expect(
                caller.wait { (done: @escaping Completion<any DirectoryHandle>) in view.openDirectory(unlisted, done) }
                    .failure == .offline)
            #expect(server.requests.count == before)
            #expect(try fixture.names().get().sorted() == ["a.mkv", "s"])
            #expect(fixture.read(half, 2 << 20, 4096).isRight(films["a.mkv"]!, 2 << 20, 4096))
            caller.filesystem.close(file)
            fixture.volume.close(half)
        }
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
