import Glibc
import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// Files whose places a resolver tells.
@Suite struct ResolverTests {
    /// A resolver whose every answer is the test's.
    private final class Finder: PlaceFinder {
        private let questions = Mutex<[PlaceQuestion]>([])
        private let answer: @Sendable (PlaceQuestion, Int) -> Result<PlaceAnswer, PlaceFailure>

        init(_ answer: @escaping @Sendable (PlaceQuestion, Int) -> Result<PlaceAnswer, PlaceFailure>) {
            self.answer = answer
        }

        var asked: [PlaceQuestion] { questions.withLock { $0 } }

        func find(_ question: PlaceQuestion, within _: Duration) -> Result<PlaceAnswer, PlaceFailure> {
            let number = questions.withLock { questions in
                questions.append(question)
                return questions.count
            }
            return answer(question, number)
        }

        func stop() {}
    }

    /// Serves a film under links that end: each after so many requests, or after a time.
    private final class Links: Sendable {
        let film: FileOrigin
        private let uses: Int?
        private let lifetime: Duration?
        private let state = Mutex<(number: Int, uses: Int, madeAt: Duration)>((0, 0, .zero))
        private let seen = Mutex<Set<String>>([])

        init(_ film: FileOrigin, uses: Int? = nil, lifetime: Duration? = nil) {
            (self.film, self.uses, self.lifetime) = (film, uses, lifetime)
        }

        var links: Int { state.withLock { $0.number } }

        func next() -> String {
            state.withLock { state in
                state = (state.number + 1, 0, now())
                return "/link/\(state.number)"
            }
        }

        func answer(_ request: ServerRequest) -> [ServerStep] {
            let isGood = state.withLock { state in
                guard request.path == "/link/\(state.number)" else { return false }
                state.uses += 1
                return uses.map { state.uses <= $0 } ?? true
                    && lifetime.map { now() - state.madeAt < $0 } ?? true
            }
            return isGood ? film.answer(request) : ServerStep.answer(403)
        }
    }

    private static func list(_ films: [String] = ["film.mkv"]) -> [ServerStep] {
        ServerStep.answer(
            200, [("Content-Type", "audio/x-mpegurl")],
            body: "#EXTM3U\n" + films.map { "http://pages.invalid/\($0)\n" }.joined())
    }

    private func with(
        _ links: Links, timeout: Duration = .seconds(10),
        _ finder: (ScriptedServer) -> Finder, _ body: (VolumeFixture, Finder, ScriptedServer) throws -> Void
    ) throws {
        let server = try ScriptedServer { $0.path == "/list.m3u" ? Self.list() : links.answer($0) }
        defer { server.stop() }
        let made = finder(server)
        let fixture = try VolumeFixture(
            server.url("/list.m3u").text, timeout: timeout, prebuffer: 0, finder: made)
        defer { fixture.remove() }
        try body(fixture, made, server)
    }

    @Test func aFilmPlaysToItsEndOverAHundredLinksThatExpire() throws {
        let film = FileOrigin(length: 60 << 20)
        // An answer is cut with its link, so that a film takes many.
        let links = Links(film, uses: 2)
        let server = try ScriptedServer { request in
            if request.path == "/list.m3u" { return Self.list() }
            let steps = links.answer(request)
            guard let range = request.range(of: film.version.length), range.count > 300_000,
                case .head(206, let headers)? = steps.first
            else { return steps }
            let part = ByteRange(range.lower, range.lower + 250_000)
            return [.head(206, headers), .generated(film.version.bytes, part), .close]
        }
        defer { server.stop() }
        let finder = Finder { _, _ in .success(PlaceAnswer(url: server.url(links.next()))) }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0, finder: finder)
        defer { fixture.remove() }
        let longest = try fixture.play(film)
        #expect(longest < .seconds(1))
        #expect(links.links >= 100)
        #expect(finder.asked.first == PlaceQuestion(url: finder.asked[0].url, reason: .open, status: nil))
        #expect(finder.asked.dropFirst().allSatisfy { $0.reason == .failed && $0.status == 403 })
    }

    @Test func aFilmPlaysOverLinksThatExpireWhileItPlays() throws {
        let film = FileOrigin(length: 24 << 20)
        let links = Links(film, lifetime: .milliseconds(50))
        try with(links) { server in
            Finder { _, _ in .success(PlaceAnswer(url: server.url(links.next()), lifetime: .milliseconds(50))) }
        } _: { fixture, finder, _ in
            let longest = try fixture.play(film, pause: .milliseconds(10))
            #expect(longest < .seconds(1))
            #expect(links.links > 5 && finder.asked.count == links.links)
        }
    }

    @Test func eightReadersShareLinksThatServeThreeRequestsEach() throws {
        let film = FileOrigin(length: 16 << 20)
        let links = Links(film, uses: 3)
        try with(links) { server in
            Finder { _, _ in .success(PlaceAnswer(url: server.url(links.next()))) }
        } _: { fixture, finder, _ in
            let readers = (0..<8).map { reader in
                startJoinable {
                    guard let file = try? fixture.open("film.mkv").get() else { return false }
                    defer { fixture.volume.close(file) }
                    return (0..<8).allSatisfy { piece in
                        let offset = (Int64(reader) * 2 + Int64(piece) * 5) % 16 << 20
                        return fixture.read(file, offset, 100_000).isRight(film, offset, 100_000)
                    }
                }
            }
            #expect(readers.allSatisfy { $0.join() })
            #expect(finder.asked.count == links.links)
        }
    }

    @Test func anAnswerHoldsUntilItsEndAndAllWaitForTheNextOne() throws {
        let film = FileOrigin(length: 8 << 20)
        let links = Links(film)
        try with(links) { server in
            Finder { _, number in
                .success(PlaceAnswer(url: server.url(links.next()), lifetime: number == 1 ? .milliseconds(1) : nil))
            }
        } _: { fixture, finder, _ in
            _ = try fixture.play(film)
            #expect(finder.asked.map(\.reason) == [.open, .expired])
        }
    }

    @Test func aResolverThatGivesNoPlaceIsARefusalAndPlaysWhatIsCached() throws {
        let film = FileOrigin(length: 4 << 20)
        let links = Links(film)
        let isWell = Shared(true)
        try with(links, timeout: .seconds(4)) { server in
            Finder { _, _ in
                isWell.value ? .success(PlaceAnswer(url: server.url("/link/0"))) : .failure(PlaceFailure("ill"))
            }
        } _: { fixture, finder, _ in
            var file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 0, 100_000).isRight(film, 0, 100_000))
            fixture.volume.close(file)
            isWell.value = false
            try fixture.restart()
            fixture.expire()
            file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 0, 100_000).isRight(film, 0, 100_000))
            #expect(fixture.read(file, 3 << 20, 100_000) == .failure(.accessDenied))
            isWell.value = true
            #expect(fixture.read(file, 3 << 20, 100_000).isRight(film, 3 << 20, 100_000))
            fixture.volume.close(file)
        }
    }

    @Test func headersGoToTheResolvedPlaceAndNoFurther() throws {
        let film = FileOrigin(length: 1 << 20)
        let last = try ScriptedServer(["/film": film])
        defer { last.stop() }
        let server = try ScriptedServer { request in
            request.path == "/list.m3u"
                ? Self.list() : ServerStep.answer(302, [("Location", last.url("/film").text)])
        }
        defer { server.stop() }
        let finder = Finder { _, _ in
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
        let links = Links(film, uses: 2)
        try with(links) { server in
            Finder { _, number in
                if number > 1 { film.change(to: FileOrigin.Version(seed: 7, length: 8 << 20, entityTag: "\"v2\"")) }
                return .success(PlaceAnswer(url: server.url(links.next())))
            }
        } _: { fixture, _, _ in
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
            request.path == "/list.m3u" ? Self.list([name.value]) : film.answer(request)
        }
        defer { server.stop() }
        let finder = Finder { _, _ in .success(PlaceAnswer(url: server.url("/film"), key: "tt0133093")) }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0, finder: finder)
        defer { fixture.remove() }
        for page in ["one.mkv", "two.mkv"] {
            name.value = page
            try fixture.restart()
            let file = try fixture.open(page).get()
            #expect(fixture.read(file, 1 << 20, 200_000).isRight(film, 1 << 20, 200_000))
            fixture.volume.close(file)
        }
        #expect(fixture.store.objects().map(\.key) == ["key:tt0133093"])
    }
}
