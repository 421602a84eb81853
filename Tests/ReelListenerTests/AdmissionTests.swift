import ReelCore
import ReelListener
import Testing

@testable import ReelHTTP

/// Who is let in where others than this machine's users can connect.
@Suite struct AdmissionTests {
    private static let login = (user: "Aladdin", password: "open sesame")
    private static let right = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    private static let wrong = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZR=="
    private static let network = Reach.network(names: ["nas", "nas.local"])

    private func request(
        _ authorization: String? = nil, from client: String? = nil, forwarded: String? = nil, host: String = "nas",
        _ method: String = "GET", _ target: String = "/files/"
    ) throws -> ServedRequest {
        let fields = [("Host", host), ("Authorization", authorization), ("X-Forwarded-For", forwarded)]
        var request = ServedRequest(
            method: method, target: target, headers: fields.compactMap { name, value in value.map { (name, $0) } })
        if let client { request.client = try #require(ClientPlace(client)) }
        return request
    }

    @Test(
        "On the network a request names an address, this machine's names or a proxy's",
        arguments: [
            ("192.168.1.2:8080", true), ("[fd00::1]:8080", true), ("[fe80::1%eth0]", true), ("NAS:8080", true),
            ("nas.local", true), ("localhost", true), ("films.example", true), ("films.example:444", true),
            ("evil.example", false), ("192.168.1.2.evil.example", false), ("nas.evil.example", false), ("", false),
            ("[evil]", false), ("fd00::1", false), ("nas.local:80@evil", false),
        ])
    func hosts(host: String, isAnswered: Bool) throws {
        let origins = [try #require(ServedOrigin("https://films.example"))]
        let admission = Admission(credentials: Self.login, reach: Self.network, origins: origins)
        #expect(admission.refusal(try request(Self.right, host: host))?.status == (isAnswered ? nil : 421))
        #expect(admission.refusal(try request(host: host))?.status == (isAnswered ? 401 : 421))
        // On loopback only the proxy's name is added.
        let loopback = Admission(credentials: nil, reach: .loopback, origins: origins)
        let isOwn = host == "localhost" || host.hasPrefix("films.example")
        #expect(loopback.refusal(try request(host: host))?.status == (isOwn ? nil : 421))
    }

    @Test(
        "The origin of a proxy is a scheme and a host, perhaps with a port",
        arguments: [
            ("https://films.example", "https://films.example"), ("HTTPS://Films.Example/", "https://films.example"),
            ("https://films.example:443", "https://films.example"), ("http://nas.lan:8080", "http://nas.lan:8080"),
            ("http://[fd00::1]:8080/", "http://[fd00::1]:8080"), ("http://a:443", "http://a:443"),
            ("films.example", nil), ("https://", nil), ("https://a/b", nil), ("https://a?", nil), ("ftp://a", nil),
            ("https://u:p@a", nil), ("https://a:", nil), ("https://a:0", nil), ("https://a:65536", nil), ("*", nil),
            ("https://*.example", nil), ("https://a b", nil),
        ] as [(String, String?)])
    func originTexts(text: String, expected: String?) {
        #expect(ServedOrigin(text)?.text == expected)
    }

    @Test("A page of a named origin calls, also where the proxy names this server in Host")
    func origins() throws {
        let named = [try #require(ServedOrigin("https://films.example"))]
        for (origin, site, isIn) in [
            ("https://films.example", nil, true), ("https://films.example", "same-origin", true),
            ("https://films.example", "cross-site", false), ("http://films.example", nil, false),
            ("https://films.example:8443", nil, false), ("null", nil, false),
        ] as [(String, String?, Bool)] {
            for reach in [Reach.loopback, .socket] {
                let fields = [("Host", "127.0.0.1:8080"), ("Origin", origin), ("Sec-Fetch-Site", site)]
                let request = ServedRequest(
                    method: "POST", target: "/api/v1/pin",
                    headers: fields.compactMap { name, value in value.map { (name, $0) } })
                let admission = Admission(credentials: nil, reach: reach, origins: named)
                #expect(admission.refusal(request, isCall: true)?.status == (isIn ? nil : 403), "\(origin)")
            }
        }
    }

    @Test("After ten wrong passwords in a minute an address waits for its end, and no other one does")
    func wrongLogins() throws {
        let admission = Admission(credentials: Self.login, reach: Self.network)
        func status(_ authorization: String?, _ client: String, _ second: Int) throws -> Int? {
            admission.refusal(try request(authorization, from: client), at: .seconds(second))?.status
        }
        for second in 0..<10 {
            #expect(try status(Self.wrong, "192.168.1.9", 100 + second) == 401)
            // Who asks without a login guesses nothing.
            #expect(try status(nil, "192.168.1.9", 100 + second) == 401)
        }
        #expect(try status(Self.wrong, "192.168.1.9", 120) == 429)
        #expect(try status(Self.right, "192.168.1.9", 120) == 429)
        #expect(try status(Self.right, "::ffff:192.168.1.9", 120) == 429)
        #expect(try status(Self.right, "192.168.1.8", 120) == nil)
        let refusal = admission.refusal(try request(Self.right, from: "192.168.1.9"), at: .seconds(120))
        #expect(refusal?.headers.first { $0.name == "Retry-After" }?.value == "41")
        #expect(try status(Self.right, "192.168.1.9", 161) == nil)
        // A new minute begins with the next wrong one.
        for _ in 0..<10 { #expect(try status(Self.wrong, "192.168.1.9", 200) == 401) }
        #expect(try status(Self.right, "192.168.1.9", 259) == 429)
        #expect(try status(Self.right, "192.168.1.9", 260) == nil)
        // All of a /64 is one client.
        for number in 0..<10 { #expect(try status(Self.wrong, "fd00:0:0:7::\(number)", 300) == 401) }
        #expect(try status(Self.right, "fd00:0:0:7:1::1", 300) == 429)
        #expect(try status(Self.right, "fd00:0:0:8::1", 300) == nil)
    }

    @Test("A token is not guessed without bound either, and what changes nothing needs none")
    func wrongTokens() throws {
        let admission = Admission(credentials: nil, token: "a-token-of-somebody", reach: .loopback)
        func status(_ token: String?, _ second: Int, isChanging: Bool = true) throws -> Int? {
            let asked = try request(token.map { "Bearer " + $0 }, host: "localhost")
            return admission.refusal(asked, isCall: true, isChanging: isChanging, at: .seconds(second))?.status
        }
        for second in 0..<10 {
            #expect(try status("guess", 100 + second) == 401 && status(nil, 100 + second) == 401)
        }
        #expect(try status("guess", 120) == 429 && status("a-token-of-somebody", 120) == 429)
        #expect(try status(nil, 120, isChanging: false) == nil && status("guess", 120, isChanging: false) == nil)
        #expect(try status("a-token-of-somebody", 161) == nil)
    }

    @Test("Any number of addresses takes bounded memory, and has a bound together")
    func manyAddresses() throws {
        let admission = Admission(credentials: Self.login, reach: Self.network)
        func status(_ authorization: String, _ number: Int, _ second: Int) throws -> Int? {
            let client = "10.\(number >> 16 & 255).\(number >> 8 & 255).\(number & 255)"
            return admission.refusal(try request(authorization, from: client), at: .seconds(second))?.status
        }
        let looked = try (0..<5000).count { try status(Self.wrong, $0, 10) == 401 }
        #expect(looked == WrongLogins.mostClients + WrongLogins.limit)
        #expect(try status(Self.right, 6000, 11) == 429)
        #expect(try status(Self.right, 0, 11) == nil)
        #expect(try status(Self.right, 6000, 71) == nil)
        // The table has room again.
        for _ in 0..<10 { #expect(try status(Self.wrong, 7000, 72) == 401) }
        #expect(try status(Self.right, 7000, 72) == 429 && status(Self.right, 7001, 72) == nil)
    }

    @Test("Behind a named proxy on this machine the client is the last one forwarded for, elsewhere what sent it")
    func forwarded() throws {
        let origins = [try #require(ServedOrigin("https://films.example"))]
        func wait(_ origins: [ServedOrigin], _ client: String, _ forwarded: String, _ others: String) throws -> Int? {
            let admission = Admission(credentials: Self.login, reach: Self.network, origins: origins)
            for _ in 0..<10 {
                _ = admission.refusal(try request(Self.wrong, from: client, forwarded: forwarded), at: .zero)
            }
            return admission.refusal(try request(Self.right, from: client, forwarded: others), at: .zero)?.status
        }
        #expect(try wait(origins, "127.0.0.1", "9.9.9.9, 1.2.3.4", "8.8.8.8, 1.2.3.4") == 429)
        #expect(try wait(origins, "::1", "1.2.3.4", "1.2.3.4, 5.6.7.8") == nil)
        #expect(try wait(origins, "127.0.0.1", "[fd00::1]:80", "fd00::2") == 429)
        #expect(try wait(origins, "127.0.0.1", "unknown", "none") == 429)
        #expect(try wait(origins, "192.168.1.9", "1.2.3.4", "5.6.7.8") == 429)
        #expect(try wait([], "127.0.0.1", "1.2.3.4", "5.6.7.8") == 429)
    }

    private func challenges(_ refusal: ServedAnswer?) -> [String] {
        refusal?.headers.filter { $0.name == "WWW-Authenticate" }.map(\.value) ?? []
    }

    @Test("On the network Digest is offered before Basic, by SHA-256 before MD5, and elsewhere Basic alone")
    func offers() throws {
        for reach in [Reach.loopback, .socket] {
            let admission = Admission(credentials: Self.login, reach: reach)
            #expect(challenges(admission.refusal(try request(host: "localhost"))).map { $0.prefix(5) } == ["Basic"])
        }
        let offered = challenges(Admission(credentials: Self.login, reach: Self.network).refusal(try request()))
        #expect(offered.map { $0.prefix(6) } == ["Digest", "Digest", "Basic "])
        #expect(offered[0].contains("algorithm=SHA-256,") && offered[1].contains("algorithm=MD5,"))
        #expect(offered.allSatisfy { $0.contains("realm=\"reelfs\"") })
    }

    @Test(
        "A proof of the password is taken for its own request and a day, for a change five minutes, then asked for again",
        arguments: 0..<2)
    func digest(which: Int) throws {
        let admission = Admission(credentials: Self.login, reach: Self.network)
        let offer = challenges(admission.refusal(try request(), at: .seconds(50)))[which]
        var session = try #require(LoginChallenge.parse(offer).first.flatMap { DigestSession($0) })
        func proof(_ method: String = "GET", _ target: String = "/files/", _ password: String = "open sesame") -> String
        {
            session.answer(method, target, ResourceURL.Credentials(user: "Aladdin", password: password)) ?? ""
        }
        func refusal(_ proof: String, _ second: Int, _ method: String = "GET", _ target: String = "/files/") throws
            -> ServedAnswer?
        {
            admission.refusal(
                try request(proof, from: "10.0.0.1", method, target), isChanging: method == "POST",
                at: .seconds(second))
        }
        #expect(try refusal(proof(), 50) == nil && refusal(proof(), 86_450) == nil)
        #expect(try refusal(proof("POST"), 350, "POST") == nil && refusal(proof("POST"), 351, "POST")?.status == 401)
        #expect(try refusal(proof("GET", "/files/?m3u"), 60, "GET", "/files/?m3u") == nil)
        #expect(try refusal(proof().replacing("Digest", with: "dIGEST"), 60) == nil)
        // Not for another request.
        #expect(try refusal(proof(), 60, "POST")?.status == 401)
        #expect(try refusal(proof(), 60, "GET", "/metrics")?.status == 400)
        // Of another password, server or time.
        #expect(try refusal(proof("GET", "/files/", "open"), 60)?.status == 401)
        #expect(challenges(try refusal(proof("GET", "/files/", "open"), 60)).allSatisfy { !$0.contains("stale") })
        let late = try refusal(proof(), 86_451)
        #expect(late?.status == 401)
        #expect(challenges(late).count { $0.hasPrefix("Digest") && $0.contains("stale=true") } == 2)
        let other = Admission(credentials: Self.login, reach: Self.network)
        #expect(
            challenges(other.refusal(try request(proof()), at: .seconds(60))).contains { $0.contains("stale=true") })
        // Three were wrong so far; a right one that is late counts as none.
        for _ in 0..<20 { #expect(try refusal(proof(), 90_000)?.status == 401) }
        for _ in 0..<10 { #expect(try refusal(proof("GET", "/files/", "open"), 90_000)?.status == 401) }
        #expect(try refusal(proof(), 90_001)?.status == 429)
    }

    @Test(
        "What is no whole proof is wrong",
        arguments: [
            "Digest", "Digest ,,,", "Digest =", "Digest username=\"Aladdin", "Digest a=\"\\", "Digest username",
            "Digest username=\"Aladdin\", realm=\"reelfs\", qop=auth, nonce=\"\", uri=\"/\", nc=1, cnonce=\"\", response=\"\"",
            "Digest username=\"Aladdin\", realm=\"reelfs\", algorithm=SHA-512, response=\"\"",
        ])
    func noProof(header: String) throws {
        let admission = Admission(credentials: Self.login, reach: Self.network)
        #expect(admission.refusal(try request(header))?.status == 401)
    }
}
