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

    /// A place that answers with what its query says: `?STATUS,URL` redirects. The first one of a request sets a cookie
    /// and, if it is to, wants Digest.
    private static func script(_ login: Login) -> ScriptedServer.Script {
        return { request in
            let isFirst = request.path == "/"
            if login == .digest, isFirst, request["authorization"]?.hasPrefix("Digest ") != true {
                return ServerStep.answer(401, [("WWW-Authenticate", "Digest realm=r, qop=auth, nonce=n")])
            }
            guard let words = request.query?.split(separator: ",", maxSplits: 1), words.count == 2 else {
                return ServerStep.answer(body: "x")
            }
            let cookie = isFirst ? [("Set-Cookie", "set=\(words[0]); Path=/")] : []
            return ServerStep.answer(Int(words[0])!, [("Location", String(words[1]))] + cookie)
        }
    }

    /// Everything that must not arrive elsewhere, as it stands in a request.
    private static let secrets = [
        "bWU6c2VjcmV0", "header-secret", "request-secret", "cookie-secret", "bmV0OnJj", "token-secret", "set=",
        "username=",
    ]

    private struct Place {
        var server: ScriptedServer
        var url: ResourceURL
        /// In front of the server.
        var door: SecureDoor?
    }

    enum Login: CaseIterable {
        case url, netrc, token, digest

        /// Whether a request proves who asks. - Parameter target: path and query, which a Digest login names.
        func isIn(_ request: ServerRequest) -> Bool {
            let given = request["authorization"] ?? ""
            return switch self {
            case .url: given == "Basic bWU6c2VjcmV0"
            case .netrc: given == "Basic bmV0OnJj"
            case .token: given == "Bearer token-secret"
            case .digest:
                given.hasPrefix("Digest username=\"me\", ") && given.contains("uri=\"\(request.target)\"")
                    && given.contains("response=")
            }
        }
    }

    /// Asks each place with all that there is of secrets, through a transport of its own.
    /// - Parameter body: gets the source and all places.
    private func withPlaces(_ login: Login, _ body: (Place, [Place], CurlOrigin) throws -> Void) throws {
        let servers = try (0..<4).map { _ in try ScriptedServer(Self.script(login)) }
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
                // The first request to an origin that wants Digest is Basic.
                if login == .digest { #expect(origin.fetch(source.url.with(credentials: Self.pair)).failure == nil) }
                try body(source, places, origin)
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

    /// All of: schemes, hosts and ports of source and target, statuses, methods; the statuses with one login alone,
    /// unless long tests are run, and one of those that keep the method and of those that do not with the others.
    @Test(arguments: Login.allCases)
    func nothingSecretArrivesWhereItShouldNot(login: Login) throws {
        try withPlaces(login) { source, places, origin in
            for target in places {
                for status in LongTests.areRun || login == .url ? [301, 302, 303, 307, 308] : [302, 307] {
                    for (method, isPublic) in [("GET", false), ("PROPFIND", false), ("PROPFIND", true)] {
                        try check(source, target, status, method, isPublic, login, origin)
                    }
                }
            }
        }
    }

    /// All of: source, the place that it redirects to, and the one that this redirects to.
    @Test(arguments: Login.allCases)
    func nothingSecretArrivesOverTwoHops(login: Login) throws {
        try withPlaces(login) { source, places, origin in
            for middle in places {
                for target in places {
                    let text = "\(source.url.text)?302,\(middle.url.text)hop?302,\(target.url.text)there"
                    let request = request(text, "GET", isPublic: false, login)
                    let recorder = Recorder()
                    origin.start(request, recorder)
                    let what = "\(source.url) → \(middle.url) → \(target.url)"
                    #expect(recorder.finished().failure == nil, "\(what): \(recorder.record)")
                    for (place, path) in [(source, "/"), (middle, "/hop"), (target, "/there")] {
                        let seen = try #require(place.server.requests.last { $0.path == path })
                        check(seen, from: source, at: place, isPublic: false, login, what + ", " + path)
                    }
                }
            }
        }
    }

    private static let pair = ResourceURL.Credentials(user: "me", password: "secret")

    private func request(_ text: String, _ method: String, isPublic: Bool, _ login: Login) -> OriginRequest {
        let hasPair = login == .url || login == .digest
        var request = OriginRequest(
            url: ResourceURL(text)!.with(credentials: hasPair ? Self.pair : nil), stallLimit: .seconds(5))
        request.method = method
        request.headers = [("X-Request", isPublic ? "depth" : "request-secret")]
        request.isPublic = isPublic
        return request
    }

    /// One request as its place has seen it.
    private func check(
        _ seen: ServerRequest, from source: Place, at place: Place, isPublic: Bool, _ login: Login, _ what: String
    ) {
        let isSame = source.url.isSameOrigin(as: place.url)
        #expect((seen["x-request"] != nil) == (isSame || isPublic), "\(what)")
        if isSame {
            #expect(login.isIn(seen) && seen["x-header"] == "header-secret", "\(what): \(seen.headers)")
            #expect(seen["cookie"]?.contains("cookie-secret") == true, "\(what)")
        } else {
            let found = Self.secrets.filter { secret in seen.headers.contains { $0.value.contains(secret) } }
            #expect(found.isEmpty && seen["authorization"] == nil && seen["cookie"] == nil, "\(what): \(found)")
        }
    }

    private func check(
        _ source: Place, _ target: Place, _ status: Int, _ method: String, _ isPublic: Bool, _ login: Login,
        _ origin: CurlOrigin
    ) throws {
        let isSame = source.url.isSameOrigin(as: target.url)
        let isFollowed = method == "GET" || status != 303 && (isSame || isPublic)
        let counts = (source.server.requests.count, target.server.requests.count)
        let recorder = Recorder()
        origin.start(
            request("\(source.url.text)?\(status),\(target.url.text)there", method, isPublic: isPublic, login), recorder
        )
        let what = "\(source.url) → \(target.url), \(status) \(method)"
        #expect((recorder.finished().failure == nil) == isFollowed, "\(what): \(recorder.record)")
        check(source.server.requests[counts.0], from: source, at: source, isPublic: isPublic, login, what)
        guard isFollowed else { return }
        let last = try #require(target.server.requests.last)
        #expect(last.path == "/there", "\(what)")
        check(last, from: source, at: target, isPublic: isPublic, login, what)
        if isSame { #expect(last["cookie"]?.contains("set=\(status)") == true, "\(what)") }
    }
}

extension ClientCertificate {
    init(_ files: (certificate: String, key: String)) {
        self.init(certificate: files.certificate, key: files.key, passphrase: nil)
    }
}
