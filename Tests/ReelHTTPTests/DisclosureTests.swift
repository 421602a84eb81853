import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// What each hop of a request may carry, as a table and on the wire.
@Suite struct DisclosureTests {
    private static let places = [
        "http://a/", "http://a:81/", "http://b/", "https://a/", "https://a:81/", "https://b/", "http://a:80/x",
        "https://A:443/",
    ]

    @Test(arguments: places, places)
    func secretsStayAtTheOrigin(source: String, target: String) throws {
        let (source, target) = (try #require(ResourceURL(source)), try #require(ResourceURL(target)))
        let isSame = source.origin == target.origin
        for isTrusted in [false, true] {
            for isPublic in [false, true] {
                let may = Disclosure(from: source, at: target, isTrusted: isTrusted, isPublic: isPublic)
                #expect(may.credentials == isSame && may.secrets == (isSame && isTrusted))
                #expect(may.headers == (isSame || isPublic))
                #expect(may.ownCookies == (isSame || source.scheme == "http" || target.scheme == "https"))
            }
        }
    }

    /// A place that answers with what its query says: `?STATUS,URL` redirects.
    private static let script: ScriptedServer.Script = { request in
        guard let words = request.query?.split(separator: ",", maxSplits: 1), words.count == 2 else {
            return ServerStep.answer(body: "x")
        }
        return ServerStep.answer(
            Int(words[0])!, [("Location", String(words[1])), ("Set-Cookie", "set=\(words[0]); Path=/")])
    }

    /// Everything that must not arrive elsewhere, as it stands in a request.
    private static let secrets = [
        "bWU6c2VjcmV0", "header-secret", "request-secret", "cookie-secret", "bmV0OnJj", "token-secret", "set=",
    ]

    private struct Place {
        var server: ScriptedServer
        var url: ResourceURL
        /// In front of the server.
        var door: SecureDoor?
    }

    enum Login: CaseIterable { case url, netrc, token }

    /// All of: schemes, hosts and ports of source and target, statuses, methods.
    @Test(arguments: Login.allCases)
    func nothingSecretArrivesWhereItShouldNot(login: Login) throws {
        let servers = try (0..<4).map { _ in try ScriptedServer(Self.script) }
        let doors = try [SecureDoor(before: servers[2]), SecureDoor(before: servers[3])]
        defer {
            for door in doors { door.stop() }
            for server in servers { server.stop() }
        }
        let places = [
            Place(server: servers[0], url: servers[0].url("/", host: "localhost")),
            Place(server: servers[0], url: servers[0].url("/")),
            Place(server: servers[1], url: servers[1].url("/", host: "localhost")),
            Place(server: servers[2], url: doors[0].url("/"), door: doors[0]),
            Place(server: servers[2], url: doors[0].url("/", host: "other.localhost"), door: doors[0]),
            Place(server: servers[3], url: doors[1].url("/"), door: doors[1]),
        ]
        let netrc = try TemporaryFile("default login net password rc\n")
        let authorities = try TemporaryFile(doors.map { contents(of: $0.certificate) }.joined())
        for source in places {
            let before = doors.map(\.connections.count)
            try withTransport(to: ScriptedServer { _ in [] }) {
                $0.trustedOrigins = [source.url.origin]
                $0.certificateAuthorities = authorities.path
                $0.headers = [("X-Header", "header-secret")]
                $0.cookies = ["localhost", "127.0.0.1", "other.localhost"].map {
                    "\($0)\tFALSE\t/\tFALSE\t0\tname\tcookie-secret"
                }
                $0.clientCertificate = ClientCertificate((source.door ?? doors[0]).clientCertificate)
                if login == .netrc { $0.netrcFile = netrc.path }
                if login == .token { $0.tokenSource = { deliver in deliver("token-secret") } }
            } _: { origin in
                for target in places {
                    for status in [301, 302, 303, 307, 308] {
                        for (method, isPublic) in [("GET", false), ("PROPFIND", false), ("PROPFIND", true)] {
                            try check(source, target, status, method, isPublic, login, origin)
                        }
                    }
                }
            }
            // Only the source's own name has seen the certificate.
            for (door, before) in zip(doors, before) {
                for connection in door.connections.dropFirst(before) {
                    let isSource = source.door === door && source.url.host == connection.name
                    #expect(connection.isShown == isSource, "\(source.url) at \(connection.name)")
                }
            }
        }
    }

    private func check(
        _ source: Place, _ target: Place, _ status: Int, _ method: String, _ isPublic: Bool, _ login: Login,
        _ origin: CurlOrigin
    ) throws {
        let pair = login == .url ? ResourceURL.Credentials(user: "me", password: "secret") : nil
        let isSame = source.url.isSameOrigin(as: target.url)
        let isFollowed = method == "GET" || status != 303 && (isSame || isPublic)
        let text = "\(source.url.text)?\(status),\(target.url.text)there"
        var request = OriginRequest(url: ResourceURL(text)!.with(credentials: pair), stallLimit: .seconds(5))
        request.method = method
        request.headers = [("X-Request", isPublic ? "depth" : "request-secret")]
        request.isPublic = isPublic
        let counts = (source.server.requests.count, target.server.requests.count)
        let recorder = Recorder()
        origin.start(request, recorder)
        let what = "\(source.url) → \(target.url), \(status) \(method)"
        #expect((recorder.finished().failure == nil) == isFollowed, "\(what): \(recorder.record)")
        let first = source.server.requests[counts.0]
        let expected = ["url": "Basic bWU6c2VjcmV0", "netrc": "Basic bmV0OnJj", "token": "Bearer token-secret"]
        #expect(first["authorization"] == expected["\(login)"], "\(what)")
        #expect(first["x-header"] == "header-secret" && first["x-request"] != nil, "\(what)")
        #expect(first["cookie"]?.contains("cookie-secret") == true, "\(what)")
        guard isFollowed else { return }
        let last = try #require(target.server.requests.last)
        #expect(
            last.path == "/there" && last["x-request"] == (isSame || isPublic ? first["x-request"] : nil), "\(what)")
        let seen = Self.secrets.filter { secret in last.headers.contains { $0.value.contains(secret) } }
        if isSame {
            #expect(last["authorization"] == first["authorization"] && last["x-header"] == "header-secret", "\(what)")
            #expect(last["cookie"]?.contains("set=\(status)") == true, "\(what)")
        } else {
            #expect(seen.isEmpty && last["authorization"] == nil && last["cookie"] == nil, "\(what)")
        }
    }
}

extension ClientCertificate {
    init(_ files: (certificate: String, key: String)) {
        self.init(certificate: files.certificate, key: files.key, passphrase: nil)
    }
}
