import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// Following, forgetting and refusing redirects, and what is never sent to another host.
@Suite struct RedirectTests {
    private let range = ByteRange(0, 100_000)

    @Test(arguments: [301, 302, 303, 307, 308])
    func everyKindIsFollowedWithTheSameRange(status: Int) throws {
        let file = FileOrigin(length: 200_000)
        let server = try ScriptedServer { request in
            request.path == "/a/film"
                ? ServerStep.answer(status, [("Location", "../b/film?x=1")], body: "moved") : file.answer(request)
        }
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/a/film"), range, if: .ifRange("\"v1\""))
            #expect(record.failure == nil && record.bytes.elementsEqual(file.expectedBytes(range)))
            #expect(record.heads.map(\.url.text) == [server.url("/b/film?x=1").text])
            #expect(server.requests.map(\.target) == ["/a/film", "/b/film?x=1"])
            #expect(server.requests.allSatisfy { $0["range"] == "bytes=0-99999" && $0["if-range"] == "\"v1\"" })
            #expect(server.connectionCount == 1, "the body of a redirect is read, so its connection is used again")
        }
    }

    @Test func aPlaceIsRememberedUntilItExpires() throws {
        let file = FileOrigin(length: 200_000)
        file.fault = .redirectExpires(uses: 2)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            for _ in 0..<3 {
                let record = origin.fetch(server.url("/film"), range)
                #expect(
                    record.failure == nil && record.bytes.elementsEqual(file.expectedBytes(range))
                        && record.heads.count == 1)
            }
            let asked = ["/film", "/film?signature=1"] + ["/film?signature=1"]
            let again = ["/film?signature=1", "/film", "/film?signature=2"]
            #expect(server.requests.map(\.target) == asked + again)
        }
    }

    @Test(arguments: [401, 403, 404, 410])
    func theOriginalIsAskedAgain(status: Int) throws {
        let file = FileOrigin(length: 200_000)
        let server = try ScriptedServer { request in
            if request.path == "/film" { return ServerStep.answer(302, [("Location", "/there")]) }
            return request.number < 2 ? file.answer(request) : ServerStep.answer(status)
        }
        try withTransport(to: server) { origin in
            #expect(origin.fetch(server.url("/film"), range).failure == nil)
            #expect(origin.fetch(server.url("/film"), range).failure == .status(status, retryAfter: nil))
            // A place that was new a moment ago may be used up as well; one that is gone is gone.
            let again = status < 404 ? ["/film", "/there"] : []
            #expect(server.requests.map(\.path) == ["/film", "/there", "/there", "/film", "/there"] + again)
        }
    }

    @Test func aRefusalThatItsReceiverTakesIsForgottenLikeAnyOther() throws {
        let server = try ScriptedServer { request in
            switch (request.path, request.number) {
            case ("/list", let number): ServerStep.answer(302, [("Location", "/place\(number)")])
            case ("/place0", 1): ServerStep.answer(body: "here")
            default: ServerStep.answer(404)
            }
        }
        try withTransport(to: server) { origin in
            for status in [200, 404, 404] {
                var request = OriginRequest(url: server.url("/list"))
                request.accepted = [200, 404]
                let recorder = Recorder()
                origin.start(request, recorder)
                #expect(recorder.finished().heads.map(\.status) == [status])
            }
            let again = ["/place0", "/list", "/place3", "/list", "/place5"]
            #expect(server.requests.map(\.path) == ["/list", "/place0"] + again)
        }
    }

    @Test func aPlaceThatCannotBeReachedIsForgotten() throws {
        let file = FileOrigin(length: 200_000)
        let away = try ScriptedServer(["/there": file])
        let target = away.url("/there").text
        let server = try ScriptedServer { request in
            request.number == 0 ? ServerStep.answer(302, [("Location", target)]) : file.answer(request)
        }
        try withTransport(to: server) { origin in
            #expect(origin.fetch(server.url("/film"), range).failure == nil)
            away.stop()
            let record = origin.fetch(server.url("/film"), range)
            #expect(record.failure == nil && record.heads[0].url.text == server.url("/film").text)
        }
    }

    @Test func aPlaceThatRedirectsOnIsForgottenAndTheOriginalIsAskedAtOnce() throws {
        let file = FileOrigin(length: 200_000)
        let server = try ScriptedServer { request in
            switch (request.target, request.number) {
            case ("/film", let number): ServerStep.answer(302, [("Location", "/link?\(number)")])
            case ("/link?0", 2...): ServerStep.answer(302, [("Location", "/ended")])
            case ("/ended", _): ServerStep.answer(200, [("Content-Type", "text/html")], body: "<html>")
            default: file.answer(request)
            }
        }
        try withTransport(to: server) { origin in
            for _ in 0..<3 {
                let record = origin.fetch(server.url("/film"), range)
                #expect(record.failure == nil && record.bytes.elementsEqual(file.expectedBytes(range)))
            }
            let again = ["/film", "/link?3", "/link?3"]
            #expect(server.requests.map(\.target) == ["/film", "/link?0", "/link?0"] + again)
        }
    }

    @Test func aPlaceThatHangsUpWithoutAHeadIsForgotten() throws {
        let file = FileOrigin(length: 200_000)
        let isOver = Shared(false)
        let server = try ScriptedServer { request in
            if request.path == "/film" { return ServerStep.answer(302, [("Location", isOver.value ? "/new" : "/old")]) }
            return request.path == "/old" && isOver.value ? [.close] : file.answer(request)
        }
        try withTransport(to: server) { origin in
            #expect(origin.fetch(server.url("/film"), range).failure == nil)
            isOver.set(true)
            #expect(origin.fetch(server.url("/film"), range).failure != nil)
            #expect(origin.fetch(server.url("/film"), range).failure == nil)
            #expect(server.requests.last?.path == "/new")
        }
    }

    @Test func aPlaceWhoseHeadIsRefusedIsNotRemembered() throws {
        let server = try ScriptedServer { request in
            request.path == "/film"
                ? ServerStep.answer(302, [("Location", "/login")])
                : ServerStep.answer(200, [("Content-Type", "text/html")], body: "<html>")
        }
        try withTransport(to: server) { origin in
            for _ in 0..<2 {
                let recorder = Recorder(judge: { _ in .wrongAnswer("a page") })
                _ = origin.fetch(server.url("/film"), range, into: recorder)
            }
            #expect(server.requests.map(\.path) == ["/film", "/login", "/film", "/login"])
        }
    }

    /// A login page has a status of 200, and may hold links.
    @Test func aListingIsAskedForAtItsOwnURL() throws {
        let server = try ScriptedServer { request in
            switch (request.path, request.number) {
            case ("/films/", 0): ServerStep.answer(302, [("Location", "/login")])
            case ("/login", _): ServerStep.answer(body: "log in")
            default: ServerStep.answer(body: "films")
            }
        }
        try withTransport(to: server) { origin in
            func list() -> [UInt8] {
                let recorder = Recorder()
                origin.start(OriginRequest(url: server.url("/films/"), reason: .listing), recorder)
                return recorder.finished().bytes
            }
            #expect(list() == Array("log in".utf8))
            #expect(list() == Array("films".utf8))
            #expect(server.requests.map(\.path) == ["/films/", "/login", "/films/"])
        }
    }

    @Test func whetherItChangedIsAskedAtTheOriginal() throws {
        let file = FileOrigin(length: 200_000)
        let server = try ScriptedServer { request in
            request.path == "/film" ? ServerStep.answer(302, [("Location", "/there")]) : file.answer(request)
        }
        try withTransport(to: server) { origin in
            _ = origin.fetch(server.url("/film"), range)
            _ = origin.fetch(server.url("/film"), if: .ifChanged(entityTag: "\"v1\"", lastModified: nil))
            #expect(server.requests.map(\.path) == ["/film", "/there", "/film", "/there"])
        }
    }

    @Test func loopsEnd() throws {
        let file = FileOrigin(length: 1)
        file.fault = .redirectLoop
        let server = try ScriptedServer { request in
            switch request.path {
            case "/self": file.answer(request)
            case "/a": ServerStep.answer(302, [("Location", "/b")])
            default: ServerStep.answer(302, [("Location", "/a")])
            }
        }
        try withTransport(to: server) { origin in
            #expect(origin.fetch(server.url("/self")).failure == .wrongAnswer("too many redirects"))
            #expect(origin.fetch(server.url("/a")).failure == .wrongAnswer("too many redirects"))
        }
    }

    @Test func tenAreFollowedAndTheEleventhIsNot() throws {
        let server = try ScriptedServer { request in
            let left = Int(request.path.dropFirst()) ?? 0
            return left == 0 ? ServerStep.answer(body: "here") : ServerStep.answer(302, [("Location", "/\(left - 1)")])
        }
        try withTransport(to: server) { origin in
            #expect(origin.fetch(server.url("/10")).bytes == Array("here".utf8))
            #expect(origin.fetch(server.url("/11")).failure == .wrongAnswer("too many redirects"))
            #expect(server.requests.map(\.path).suffix(11) == (1...11).reversed().map { "/\($0)" }[...])
        }
    }

    @Test(arguments: ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "http://", "javascript:1"])
    func otherSchemesAreRefused(location: String) throws {
        let server = try ScriptedServer { _ in ServerStep.answer(302, [("Location", location)]) }
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/"))
            guard case .wrongAnswer = record.failure else { throw Unexpected(record.failure) }
            #expect(server.requests.count == 1)
        }
    }

    @Test func anotherHostLearnsNoSecret() throws {
        let file = FileOrigin(length: 200_000)
        let server = try ScriptedServer { request in
            let other = "http://localhost:\(request["host"]!.split(separator: ":").last!)"
            return switch request.path {
            case "/away": ServerStep.answer(302, [("Location", other + "/home")])
            case "/home":
                ServerStep.answer(302, [("Location", other.replacingLocalhost + "/film")])
            default: file.answer(request)
            }
        }
        let netrc = try TemporaryFile("machine localhost login wrong password host\ndefault login any password where\n")
        try withTransport(to: server) {
            $0.headers = [("X-Token", "secret"), ("Authorization", "Bearer secret")]
            $0.netrcFile = netrc.path
        } _: { origin in
            let record = origin.fetch(server.url("/away", credentials: "me:pa%3Ass"), range)
            #expect(record.failure == nil)
            let requests = server.requests
            #expect(requests.map(\.path) == ["/away", "/home", "/film"])
            #expect(requests.map { $0["x-token"] } == ["secret", nil, "secret"])
            #expect(requests.map { $0["authorization"] } == ["Bearer secret", nil, "Bearer secret"])
        }
    }

    /// The same with credentials alone, on the first request and when the place is remembered.
    @Test func credentialsStayAtHome() throws {
        let file = FileOrigin(length: 200_000)
        let server = try ScriptedServer { request in
            let port = request["host"]!.split(separator: ":").last!
            return request.path == "/away"
                ? ServerStep.answer(302, [("Location", "http://evil:trick@localhost:\(port)/film")])
                : file.answer(request)
        }
        try withTransport(to: server) { origin in
            let url = server.url("/away", credentials: "me:secret")
            for _ in 0..<2 { #expect(origin.fetch(url, range).failure == nil) }
            #expect(server.requests.map { $0["authorization"] } == ["Basic bWU6c2VjcmV0", nil, nil])
            #expect(server.requests.allSatisfy { !$0.target.contains("@") })
        }
    }

    @Test func theMemoryForgetsTheLeastRecentlyUsed() {
        var memory = RedirectMemory(limit: 16)
        func request(_ number: Int) -> OriginRequest { OriginRequest(url: ResourceURL("http://h/\(number)")!) }
        func remember(_ number: Int) {
            memory.remember(ResourceURL("http://u:p@other/\(number)")!, for: request(number))
        }
        func isKnown(_ number: Int) -> Bool { memory.place(for: request(number)) != nil }
        for number in 0..<16 { remember(number) }
        #expect((0..<16).allSatisfy(isKnown))
        let used = isKnown(0)
        remember(16)
        #expect(used && isKnown(0) && !isKnown(1) && isKnown(16))
        #expect(memory.place(for: request(16))?.credentials == nil)
        for number in 17..<1000 { remember(number) }
        #expect((0..<1000).count { isKnown($0) } <= 16 && isKnown(999))
    }
}

extension String {
    fileprivate var replacingLocalhost: String { "http://127.0.0.1" + dropFirst("http://localhost".count) }
}
