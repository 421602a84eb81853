import CCurl
import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// TLS: certificates are checked, and what is secret does not leave it.
@Suite struct SecureTests {
    @Test func anUnknownCertificateIsRefusedAndAKnownOneTaken() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        let door = try SecureDoor(before: server)
        defer { door.stop() }
        try withTransport(to: ScriptedServer { _ in [] }) { origin in
            let failure = origin.fetch(door.url("/")).failure
            guard case .untrusted(let text) = failure else { throw Unexpected(failure) }
            #expect(text.hasPrefix("the origin's certificate is not trusted (") && text.contains("localhost"))
        }
        try withTransport(to: server) {
            $0.certificateAuthorities = door.certificate
        } _: { origin in
            let record = origin.fetch(door.url("/"))
            #expect(record.failure == nil && record.heads.first?.status == 200 && !record.bytes.isEmpty)
            // The same certificate for another name.
            let failure = origin.fetch(door.url("/", host: "127.0.0.1")).failure
            guard case .untrusted = failure else { throw Unexpected(failure) }
        }
    }

    @Test func ofWhatSpeaksNoTLSTheCertificateIsNotBlamed() throws {
        let server = try ScriptedServer { _ in [] }
        try withTransport(to: server) { origin in
            let url = ResourceURL("https://127.0.0.1:\(server.port)/")!
            let failure = try #require(origin.fetch(url, stallLimit: .seconds(2)).failure)
            #expect(!failure.reason.contains("certificate is not trusted"), "\(failure)")
        }
        let noTLS = OriginFailure(CURLE_USE_SSL_FAILED, hasHead: false, errno: 0, at: server.url("/"))
        #expect(noTLS.reason.hasPrefix("the origin offers no TLS ("))
        let key = OriginFailure(CURLE_SSL_CERTPROBLEM, hasHead: false, errno: 0, at: server.url("/"))
        #expect(key.reason.hasPrefix("the client certificate, or its key, is of no use ("))
    }

    /// Sources and targets differ in scheme, host or port: what `.netrc` says of the name is for the source's origin
    /// alone, whether another is asked for by name or by a redirect.
    @Test func netrcIsForTheSourcesOriginAlone() throws {
        let netrc = try TemporaryFile("machine localhost login me password mine\ndefault login any password where\n")
        let secrets = ["localhost": "Basic bWU6bWluZQ==", "127.0.0.1": "Basic YW55OndoZXJl"]
        let file = ServerStep.answer(body: "x")
        let redirecting: ScriptedServer.Script = { request in
            request.query.map { ServerStep.answer(302, [("Location", $0)]) } ?? file
        }
        let (plain, inner) = (try ScriptedServer(redirecting), try ScriptedServer(redirecting))
        let (other, otherInner) = (try ScriptedServer(redirecting), try ScriptedServer(redirecting))
        let door = try SecureDoor(before: inner)
        let servers = [plain, inner, other, otherInner]
        defer {
            door.stop()
            for server in servers.dropFirst() { server.stop() }
        }
        // Where a request for the second arrives is the first.
        let places: [(server: ScriptedServer, url: ResourceURL)] = [
            (plain, plain.url("/", host: "localhost")), (plain, plain.url("/")),
            (other, other.url("/", host: "localhost")),
            (inner, door.url("/")),
        ]
        for source in places {
            try withTransport(to: otherInner) {
                $0.netrcFile = netrc.path
                $0.certificateAuthorities = door.certificate
                $0.trustedOrigins = [source.url.origin]
            } _: { origin in
                for target in places {
                    let mine = source.url == target.url ? secrets[target.url.host] : nil
                    #expect(origin.fetch(target.url).failure == nil)
                    #expect(target.server.requests.last?["authorization"] == mine, "\(source.url) names \(target.url)")
                    let redirected = ResourceURL(source.url.text + "?" + target.url.text + "there")!
                    #expect(origin.fetch(redirected).failure == nil)
                    #expect(target.server.requests.last?.path == "/there")
                    #expect(
                        target.server.requests.last?["authorization"] == mine,
                        "\(source.url) redirects to \(target.url)")
                    let first = source.server.requests.last { $0.query != nil }
                    #expect(first?["authorization"] == secrets[source.url.host], "\(source.url)")
                }
            }
        }
        // A list of the user's own may name any.
        try withTransport(to: plain) {
            $0.netrcFile = netrc.path
            $0.certificateAuthorities = door.certificate
        } _: { origin in
            for target in places {
                #expect(origin.fetch(target.url).failure == nil)
                #expect(target.server.requests.last?["authorization"] == secrets[target.url.host])
            }
        }
    }
}
