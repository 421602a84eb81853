import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// What is sent, to whom, and what is refused.
@Suite struct RequestTests {
    private let server: ScriptedServer

    init() throws {
        server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
    }

    @Test func headersAndUserAgentAreTheUsers() throws {
        try withTransport(to: server) {
            $0.headers = [("X-One", "1"), ("X-Empty", ""), ("Cookie", "a=b; c=ä")]
            $0.userAgent = "player/1"
        } _: { origin in
            _ = origin.fetch(server.url("/a%20b?c=d%26"))
            let request = server.requests[0]
            #expect(request.target == "/a%20b?c=d%26" && request.method == "GET")
            #expect(request["x-one"] == "1" && request["x-empty"] == "" && request["cookie"] == "a=b; c=ä")
            #expect(request["user-agent"] == "player/1" && request["range"] == nil && request["authorization"] == nil)
        }
    }

    @Test func headersGoOnlyToTheNamedOrigins() throws {
        try withTransport(to: server) {
            $0.headers = [("X-One", "1")]
            $0.trustedOrigins = ["http://127.0.0.1:\(server.port)"]
        } _: { origin in
            _ = origin.fetch(server.url("/"))
            _ = origin.fetch(server.url("/", host: "localhost"))
            #expect(server.requests.map { $0["x-one"] } == ["1", nil])
        }
    }

    @Test func anOriginGetsTheSecretsFromTheRequestOnThatFollowsItsTrust() throws {
        try withTransport(to: server) {
            $0.headers = [("X-One", "1")]
            $0.cookies = ["127.0.0.1\tFALSE\t/\tFALSE\t0\tname\tvalue"]
            $0.trustedOrigins = []
        } _: { origin in
            _ = origin.fetch(server.url("/"))
            origin.trust([server.url("/").origin])
            _ = origin.fetch(server.url("/"))
            _ = origin.fetch(server.url("/", host: "localhost"))
            #expect(server.requests.map { $0["x-one"] } == [nil, "1", nil])
            #expect(server.requests.map { $0["cookie"] } == [nil, "name=value", nil])
        }
    }

    @Test func credentialsComeFromTheURLElseFromNetrc() throws {
        let netrc = try TemporaryFile("machine 127.0.0.1 login from password netrc\n")
        try withTransport(to: server) {
            $0.netrcFile = netrc.path
        } _: { origin in
            _ = origin.fetch(server.url("/"))
            _ = origin.fetch(server.url("/", credentials: "me:secret"))
            _ = origin.fetch(server.url("/", host: "localhost"))
            let sent = server.requests.map { $0["authorization"] }
            #expect(sent == ["Basic ZnJvbTpuZXRyYw==", "Basic bWU6c2VjcmV0", nil])
        }
    }

    @Test(arguments: [
        ("X-A", "1\r\nEvil: 2", TransportError.badHeaderValue("X-A")), ("X-A", "1\nEvil: 2", .badHeaderValue("X-A")),
        ("X-A", "1\0", .badHeaderValue("X-A")), ("X A", "1", .badHeaderName), ("X:A", "1", .badHeaderName),
        ("X-A\r\nEvil", "1", .badHeaderName), ("", "1", .badHeaderName), ("rAnGe", "x", .reservedHeader("rAnGe")),
        ("Accept-Encoding", "gzip", .reservedHeader("Accept-Encoding")),
    ])
    func headersThatAddOrContradictAreRefused(name: String, value: String, error: TransportError) throws {
        defer { server.stop() }
        var configuration = TransportConfiguration(version: "test")
        configuration.headers = [(name, value)]
        #expect(throws: error) { try CurlOrigin(configuration) }
        configuration.headers = []
        configuration.userAgent = "a\r\nEvil: 1"
        #expect(throws: TransportError.badHeaderValue("User-Agent")) { try CurlOrigin(configuration) }
    }

    @Test(arguments: ["\"a\r\nEvil: 1\"", "\"a\nEvil: 1\"", "\"\0\""])
    func validatorsThatAddLinesAreRefused(validator: String) throws {
        try withTransport(to: server) { origin in
            let conditions: [OriginRequest.Condition] = [
                .ifRange(validator), .ifChanged(entityTag: validator, lastModified: nil),
                .ifChanged(entityTag: nil, lastModified: validator),
            ]
            for condition in conditions {
                let failure = origin.fetch(server.url("/"), if: condition).failure
                guard case .wrongAnswer = failure else { throw Unexpected(failure) }
            }
            #expect(server.requests.isEmpty)
        }
    }

    @Test func whatCannotBeAskedForIsRefused() throws {
        try withTransport(to: server) { origin in
            for (url, range) in [
                (server.url("/"), ByteRange(5, 5)), (server.url("/", credentials: "a%00b:c"), ByteRange(0, 1)),
            ] {
                let failure = origin.fetch(url, range).failure
                guard case .wrongAnswer = failure else { throw Unexpected(failure) }
            }
            #expect(server.requests.isEmpty)
        }
    }

    /// `Location: /a\rEvil: 1` and the like: the URL encodes what may not stand in it.
    @Test func aRedirectCannotAddLines() throws {
        let server = try ScriptedServer { request in
            request.path == "/"
                ? [.raw("HTTP/1.1 302 Found\r\nLocation: /a\rEvil: 1 b\r\nContent-Length: 0\r\n\r\n")]
                : ServerStep.answer(body: "x")
        }
        try withTransport(to: server) { origin in
            _ = origin.fetch(server.url("/"))
            #expect(server.requests.allSatisfy { $0["evil"] == nil })
            #expect(server.requests.count < 2 || server.requests[1].path == "/a%0DEvil:%201%20b")
        }
    }
}
