import Logging
import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Files whose places a resolver gives.
@Suite struct ResolverTests {
    @Test func eightQuestionsForOneURLAreOne() throws {
        let gates = [Gate(), Gate()]
        let finder = ScriptedFinder { question, number in
            if number <= gates.count { gates[number - 1].wait() }
            return .success(PlaceAnswer(url: question.url))
        }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let resolver = Resolver(finder, timeout: .seconds(60), logger) { _, _ in }
        defer { resolver.stop() }
        let url = try #require(ResourceURL("http://pages.invalid/film.mkv"))
        /// Asks eight times before the answer comes.
        func ask(after refusal: Resolver.Refusal?, _ gate: Gate) throws -> [UInt64] {
            let places = Monitor<[Resolver.Place?]>([])
            for _ in 0..<8 { resolver.place(of: url, after: refusal) { place in places.withLock { $0.append(place) } } }
            gate.open()
            let all = try #require(places.wait(atMost: .seconds(10)) { $0.count == 8 ? $0 : nil })
            return all.compactMap { $0?.number }
        }
        let first = try ask(after: nil, gates[0])
        #expect(first.count == 8 && Set(first).count == 1)
        let refusal = Resolver.Refusal(number: first[0], status: 403)
        let second = try ask(after: refusal, gates[1])
        #expect(second.count == 8 && Set(second).count == 1 && second[0] != first[0])
        // A refusal of the first place that comes late is none of the second one.
        #expect(try ask(after: refusal, gates[1]) == second)
        #expect(finder.asked.map(\.reason) == [.open, .failed] && finder.asked.last?.status == 403)
    }

    @Test func playersAreAskedForFirstAndLengthsLast() throws {
        let (first, others) = (Gate(), Gate())
        let finder = ScriptedFinder { question, number in
            if number <= 4 { (number == 1 ? first : others).wait(within: .seconds(60)) }
            return .success(PlaceAnswer(url: question.url))
        }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let resolver = Resolver(finder, timeout: .seconds(60), logger) { _, _ in }
        defer { resolver.stop() }
        defer { others.open() }
        let answers = Monitor(0)
        @discardableResult
        func ask(_ name: String, _ reason: OriginRequest.Reason, by rank: LineRank = .reader) -> RequestHandle {
            let handle = RequestHandle()
            handle.rank = rank
            let asker = Resolver.Asker(handle: handle, isDemanded: reason != .ahead, reason: reason)
            resolver.place(of: ResourceURL("http://pages.invalid/\(name)")!, for: asker) { _ in
                answers.withLock { $0 += 1 }
            }
            return handle
        }
        // All threads are busy; later one of them goes on.
        for name in 0..<4 { ask("\(name)", .demand) }
        #expect(eventually { finder.asked.count == 4 })
        for name in ["ahead", "shared"] { ask(name, .ahead) }
        ask("length", .probe)
        let promoted = ask("promoted", .ahead)
        ask("read", .demand)
        ask("film", .demand, by: .player)
        ask("shared", .demand, by: .beginner)
        promoted.promote()
        first.open()
        _ = try #require(answers.wait(atMost: .seconds(30)) { $0 == 8 ? $0 : nil })
        let asked = finder.asked.dropFirst(4).map { String($0.url.path.dropFirst()) }
        #expect(asked == ["shared", "film", "promoted", "read", "ahead", "length"])
    }

    @Test func anAnswerHoldsUntilItsEndAndAllWaitForTheNextOne() throws {
        let film = FileOrigin(length: 8 << 20)
        let links = ExpiringLinks(film)
        try withVolume(of: links) { server, number in
            .success(PlaceAnswer(url: server.url(links.next()), lifetime: number == 1 ? .milliseconds(1) : nil))
        } _: { fixture, finder in
            _ = try fixture.play(film)
            #expect(finder.asked.map(\.reason) == [.open, .expired])
        }
    }

    @Test func aResolverThatGivesNoPlaceIsARefusalAndPlaysWhatIsCached() throws {
        let film = FileOrigin(length: 4 << 20)
        let links = ExpiringLinks(film)
        let isWell = Shared(true)
        try withVolume(of: links, timeout: .seconds(4)) { server, _ in
            isWell.value ? .success(PlaceAnswer(url: server.url(links.next()))) : .failure(PlaceFailure("ill"))
        } _: { fixture, _ in
            var file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 0, 100_000).isRight(film, 0, 100_000))
            fixture.volume.close(file)
            isWell.set(false)
            try fixture.restart()
            fixture.expire()
            file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 0, 100_000).isRight(film, 0, 100_000))
            #expect(fixture.read(file, 3 << 20, 100_000) == .failure(.accessDenied))
            isWell.set(true)
            #expect(fixture.read(file, 3 << 20, 100_000).isRight(film, 3 << 20, 100_000))
            fixture.volume.close(file)
        }
    }

    @Test func aResolverThatFailsOnceAfterARefusalLeavesNoTroubleOfThePlace() throws {
        let film = FileOrigin(length: 4 << 20)
        let links = ExpiringLinks(film)
        let isWell = Shared(true)
        // Another origin than that of the list.
        try withVolume(of: links, timeout: .seconds(4)) { server, _ in
            guard isWell.value else { return .failure(PlaceFailure("ill")) }
            return .success(PlaceAnswer(url: ResourceURL("http://localhost:\(server.port)\(links.next())")!))
        } _: { fixture, _ in
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 0, 100_000).isRight(film, 0, 100_000))
            isWell.set(false)
            links.revoke()
            #expect(fixture.read(file, 3 << 20, 100_000) == .failure(.accessDenied))
            isWell.set(true)
            #expect(fixture.read(file, 3 << 20, 100_000).isRight(film, 3 << 20, 100_000))
            let origins = fixture.volume.status().origins ?? []
            #expect(origins.allSatisfy { $0.trouble == nil }, "\(origins)")
            fixture.volume.close(file)
        }
    }

    @Test func anOpenOfCachedBytesWaitsForNoResolverThatHangs() throws {
        let film = FileOrigin(length: 1 << 20)
        let (links, gate) = (ExpiringLinks(film), Gate())
        try withVolume(of: links, timeout: .seconds(100)) { server, number in
            if number > 1 { gate.wait(within: .seconds(100)) }
            return .success(PlaceAnswer(url: server.url(links.next())))
        } _: { fixture, finder in
            defer { gate.open() }
            _ = try fixture.play(film)
            try fixture.restart()
            fixture.expire()
            // `open` gives up after half a minute, and the resolver would take longer.
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, 1 << 20))
            #expect(finder.asked.count == 2)
            fixture.volume.close(file)
        }
    }

    @Test func headersGoToTheResolvedPlaceAndNoFurther() throws {
        let film = FileOrigin(length: 1 << 20)
        let last = try ScriptedServer(["/film": film])
        defer { last.stop() }
        let server = try ScriptedServer { request in
            request.path == "/list.m3u"
                ? ScriptedFinder.list() : ServerStep.answer(302, [("Location", last.url("/film").text)])
        }
        defer { server.stop() }
        let finder = ScriptedFinder { _, _ in
            .success(PlaceAnswer(url: server.url("/link"), headers: [("X-Secret", "s3cret")]))
        }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0, finder: finder)
        defer { fixture.remove() }
        _ = try fixture.play(film)
        #expect(server.requests.filter { $0.path == "/link" }.allSatisfy { $0["x-secret"] == "s3cret" })
        #expect(server.requests.filter { $0.path == "/list.m3u" }.allSatisfy { $0["x-secret"] == nil })
        #expect(!last.requests.isEmpty && last.requests.allSatisfy { $0["x-secret"] == nil })
    }

    @Test func anotherVersionAtTheNextPlaceEndsTheHandle() throws {
        let film = FileOrigin(length: 8 << 20)
        let links = ExpiringLinks(film, uses: 2)
        try withVolume(of: links) { server, number in
            if number > 1 { film.change(to: FileOrigin.Version(seed: 7, length: 8 << 20, entityTag: "\"v2\"")) }
            return .success(PlaceAnswer(url: server.url(links.next())))
        } _: { fixture, _ in
            let file = try fixture.open("film.mkv").get()
            var outcomes: Set<String> = []
            for offset in stride(from: Int64(0), to: 8 << 20, by: 1 << 20) {
                switch fixture.read(file, offset, 4096) {
                case .success(let bytes):
                    #expect(bytes == GeneratedBytes(seed: 1).bytes(ByteRange(offset, offset + 4096)))
                case .failure(let error): outcomes.insert("\(error)")
                }
            }
            #expect(outcomes == ["stale"])
            fixture.volume.close(file)
        }
    }

    @Test func aKeyOfTheResolverJoinsTwoPages() throws {
        let film = FileOrigin(length: 2 << 20)
        let name = Shared("one.mkv")
        let server = try ScriptedServer { request in
            request.path == "/list.m3u" ? ScriptedFinder.list([name.value]) : film.answer(request)
        }
        defer { server.stop() }
        let finder = ScriptedFinder { _, _ in .success(PlaceAnswer(url: server.url("/film"), key: "tt0133093")) }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0, finder: finder)
        defer { fixture.remove() }
        for page in ["one.mkv", "two.mkv"] {
            name.set(page)
            try fixture.restart()
            let file = try fixture.open(page).get()
            #expect(fixture.read(file, 1 << 20, 200_000).isRight(film, 1 << 20, 200_000))
            fixture.volume.close(file)
        }
        #expect(fixture.store.objects().map(\.key) == ["key:tt0133093"])
    }

    @Test func aPinFromBeforeTheKeyWasKnownHoldsForItAndCanBeTakenBack() throws {
        let film = FileOrigin(length: 2 << 20)
        let server = try ScriptedServer { request in
            request.path == "/list.m3u" ? ScriptedFinder.list() : film.answer(request)
        }
        defer { server.stop() }
        let finder = ScriptedFinder { _, _ in .success(PlaceAnswer(url: server.url("/film"), key: "tt0133093")) }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0, finder: finder)
        defer { fixture.remove() }
        _ = try fixture.volume.maintenance.pin("film.mkv", true)
        _ = try fixture.play(film)
        #expect(fixture.store.objects().map(\.isPinned) == [true])
        _ = try fixture.volume.maintenance.pin("film.mkv", false)
        _ = try fixture.play(film)
        #expect(try fixture.store.objects().map(\.isPinned) == [false] && fixture.store.pins().isEmpty)
    }

    /// Nobody could make a URL of a key that the resolver gave, where the file is in a folder.
    @Test func aRepairLeavesAnOpenFileWhereItIs() throws {
        let film = FileOrigin(length: 8 << 20)
        let folder = ServerStep.listing([("film.mkv", film.version.length)])
        let server = try ScriptedServer { request in
            switch request.path {
            case "/": ServerStep.answer(200, [("Content-Type", "text/html")], body: Self.root)
            case "/sub/": folder
            default: film.answer(request)
            }
        }
        defer { server.stop() }
        let finder = ScriptedFinder { _, _ in .success(PlaceAnswer(url: server.url("/film"), key: "tt0133093")) }
        let fixture = try VolumeFixture(server.url("/").text, prebuffer: 0, finder: finder)
        defer { fixture.remove() }
        let file = try fixture.open("sub/film.mkv").get()
        #expect(fixture.read(file, 0, 100_000).isRight(film, 0, 100_000))
        fixture.store.commit()
        try flip(fixture, at: 5)
        let report = try withoutStartingChildren { try fixture.volume.maintenance.verify(nil, repairs: true) }
        #expect(report.damagedBlocks == 1 && report.refetchedBlocks == 1, "\(report)")
        #expect(fixture.volume.files.all.first?.url.path == "/sub/film.mkv")
        #expect(fixture.read(file, 6 << 20, 100_000).isRight(film, 6 << 20, 100_000))
        fixture.volume.close(file)
    }

    private static let root =
        "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
        + "<a href=\"sub/\">sub/</a>  21-Nov-2026 10:00  -\n</pre></html>"
}
