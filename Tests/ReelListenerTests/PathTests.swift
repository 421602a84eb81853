import ReelListener
import Testing

@Suite struct PathTests {
    private func path(_ text: String) -> ServedPath { ServedPath(Array(text.utf8)[...]) }

    @Test(
        "A path is decoded once, and none leads out of the tree",
        arguments: [
            ("/", .top), ("/files", .tree([], isFolder: false)), ("/files/", .tree([], isFolder: true)),
            ("/files/a/b.mkv", .tree(["a", "b.mkv"], isFolder: false)), ("/files/a/", .tree(["a"], isFolder: true)),
            ("/files/50%2525", .tree(["50%25"], isFolder: false)), ("/files/%C3%BC%3F", .tree(["ü?"], isFolder: false)),
            ("/files/100%", .tree(["100%"], isFolder: false)), ("/f%69les/", .tree([], isFolder: true)),
            ("/files/..", .nowhere), ("/files/%2e%2E/x", .nowhere), ("/files/./x", .nowhere), ("/files//x", .nowhere),
            ("/files/a//", .nowhere), ("/files/a%2Fb", .nowhere), ("/files/a%00", .nowhere), ("/files/%FF", .nowhere),
            ("//", .nowhere), ("", .nowhere), ("*", .nowhere), ("files/", .nowhere), ("/other", .nowhere),
            ("/dav", .tree([], isFolder: false, root: .dav)), ("/dav/a/", .tree(["a"], isFolder: true, root: .dav)),
            ("/dav/../files/", .nowhere), ("/dav/./a:b", .tree(["a:b"], isFolder: false, root: .dav)),
            ("/dav/.", .nowhere), ("/dav/././a", .nowhere), ("/dav/a/./b", .nowhere),
        ] as [(String, ServedPath)])
    func table(text: String, expected: ServedPath) {
        #expect(path(text) == expected)
    }

    @Test("The path of a folder in a redirect cannot name another host, and holds no line end")
    func redirect() {
        #expect(ServedPath.tree(["a\r\nb", "javascript:x"], isFolder: true).text == "/files/a%0D%0Ab/javascript%3Ax/")
    }

    @Test(
        "Only requests that name this machine are answered",
        arguments: [
            ("localhost", true), ("LOCALHOST:80", true), ("127.0.0.1:1", true), ("[::1]", true), ("[::1]:9", true),
            ("evil.example", false), ("localhost.evil.example", false), ("127.0.0.1.evil.example:80", false),
            ("", false), ("localhost:80@evil", false), ("::1", false),
        ])
    func hosts(host: String, isAnswered: Bool) {
        let admission = Admission(credentials: nil, reach: .loopback)
        let refusal = admission.refusal(ServedRequest(method: "GET", target: "/", headers: [("Host", host)]))
        #expect((refusal == nil) == isAnswered)
        // A whole URL as target overrides the header.
        let request = ServedRequest(
            method: "GET", target: "http://\(host)/files/?m3u", headers: [("Host", "localhost")])
        #expect((admission.refusal(request) == nil) == isAnswered)
        #expect(Admission(credentials: nil, reach: .socket).refusal(request) == nil)
    }

    @Test("A modern request without a host is refused, an old one is not")
    func noHost() {
        let admission = Admission(credentials: nil, reach: .loopback)
        #expect(admission.refusal(ServedRequest(method: "GET", target: "/", headers: []))?.status == 421)
        #expect(admission.refusal(ServedRequest(method: "GET", target: "/", headers: [], isModern: false)) == nil)
    }

    @Test(
        "Only the right user and password are let in",
        arguments: [
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", true), ("basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ== ", true),
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZR==", false), ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ", false),
            ("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", false), ("Basic", false), ("", false),
        ])
    func credentials(header: String, isIn: Bool) {
        let admission = Admission(credentials: ("Aladdin", "open sesame"), reach: .socket)
        let request = ServedRequest(method: "GET", target: "/", headers: [("Authorization", header)])
        #expect(admission.refusal(request)?.status == (isIn ? nil : 401))
        #expect(admission.refusal(ServedRequest(method: "GET", target: "/", headers: []))?.status == 401)
    }

    @Test(
        "What changes something wants the token, as a bearer or as a password",
        arguments: [
            ("Bearer open-sesame-open", true), ("bearer  open-sesame-open ", true), ("Bearer open-sesame-opem", false),
            // user:open-sesame-open, :open-sesame-open, user:other
            ("Basic dXNlcjpvcGVuLXNlc2FtZS1vcGVu", true), ("Basic Om9wZW4tc2VzYW1lLW9wZW4=", true),
            ("Basic dXNlcjpvdGhlcg==", false), ("Basic *", false), ("Bearer", false), ("open-sesame-open", false),
            ("", false),
        ])
    func tokens(header: String, isIn: Bool) {
        let admission = Admission(credentials: nil, token: "open-sesame-open", reach: .socket)
        let request = ServedRequest(method: "POST", target: "/", headers: [("Authorization", header)])
        #expect(admission.refusal(request, isCall: true, isChanging: true)?.status == (isIn ? nil : 401))
        #expect(admission.refusal(request, isCall: true) == nil)
        #expect(Admission(credentials: nil, reach: .socket).refusal(request, isChanging: true)?.status == 403)
        // With credentials the token is nothing.
        let other = Admission(credentials: ("Aladdin", "open sesame"), token: "open-sesame-open", reach: .socket)
        #expect(other.refusal(request, isCall: true, isChanging: true)?.status == 401)
    }

    @Test(
        "A page of another site, or of another port, calls nothing",
        arguments: [
            ("http://localhost:8080", true), ("HTTP://LOCALHOST:8080", true), ("https://localhost:8080", true),
            (nil, true), ("null", false), ("http://localhost", false), ("http://localhost:8081", false),
            ("http://127.0.0.1:8080", false), ("https://films.example", false), ("", false),
        ] as [(String?, Bool)])
    func origins(origin: String?, isIn: Bool) {
        let headers = [("Host", "localhost:8080")] + (origin.map { [("Origin", $0)] } ?? [])
        let request = ServedRequest(method: "POST", target: "/", headers: headers)
        for reach in [Reach.loopback, .socket] {
            let admission = Admission(credentials: nil, reach: reach)
            #expect(admission.refusal(request, isCall: true)?.status == (isIn ? nil : 403))
            #expect(admission.refusal(request) == nil)
        }
    }

    @Test(
        "Behind a proxy the server's own page calls, and no other one, whether the proxy passes Host on or not",
        arguments: [
            ("films.example", "https://films.example", nil, true),
            ("films.example", "https://films.example", "same-origin", true),
            ("127.0.0.1:8080", "https://films.example", "same-origin", true),
            ("127.0.0.1:8080", "https://films.example", nil, false),
            ("127.0.0.1:8080", "https://films.example", "same-site", false),
            ("films.example", "https://evil.example", "cross-site", false),
            ("films.example", "https://evil.example", nil, false),
            ("films.example", "https://films.example:8443", "same-site", false),
            ("films.example", "null", "same-origin", false), ("films.example", nil, "cross-site", false),
            ("films.example", nil, "none", true), ("films.example", "https://evil.example", "none", false),
        ] as [(String, String?, String?, Bool)])
    func proxies(host: String, origin: String?, site: String?, isIn: Bool) {
        let fields = [("Host", host), ("Origin", origin), ("Sec-Fetch-Site", site)]
        let request = ServedRequest(
            method: "POST", target: "/api/v1/pin",
            headers: fields.compactMap { name, value in value.map { (name, $0) } })
        let admission = Admission(credentials: nil, reach: .socket)
        #expect(admission.refusal(request, isCall: true)?.status == (isIn ? nil : 403))
    }

    @Test(
        "A page of another site has nothing shown or fetched; a link that a person follows has",
        arguments: [
            ("/files/film.mkv", "cross-site", nil, "video", false), ("/files/", "cross-site", nil, "image", false),
            ("/api/v1/status", "cross-site", nil, "empty", false), ("/metrics", "cross-site", nil, nil, false),
            ("/files/film.mkv", "cross-site", nil, "document", false),
            ("/files/film.mkv", "cross-site", "?1", "document", true),
            ("/files/film.mkv", "cross-site", "?1", "iframe", false), ("/files/", "cross-site", "?1", nil, false),
            ("/files/film.mkv", "same-site", nil, "video", true), ("/files/film.mkv", nil, nil, nil, true),
            ("/files/film.mkv", "same-origin", nil, "video", true), ("/files/film.mkv", "none", "?1", "document", true),
            ("/", "cross-site", nil, "empty", true),
        ] as [(String, String?, String?, String?, Bool)])
    func embedding(path: String, site: String?, user: String?, place: String?, isIn: Bool) {
        let fields = [
            ("Host", "localhost"), ("Sec-Fetch-Site", site), ("Sec-Fetch-User", user), ("Sec-Fetch-Dest", place),
        ]
        let request = ServedRequest(
            method: "GET", target: path, headers: fields.compactMap { name, value in value.map { (name, $0) } })
        for reach in [Reach.loopback, .socket] {
            let admission = Admission(credentials: nil, reach: reach)
            #expect(admission.refusal(request)?.status == (isIn ? nil : 403))
        }
    }

    @Test(
        "An address is a port, a host with a port, or the path of a socket; all but loopback are of the network",
        arguments: [
            ("127.0.0.1:80", .loopback("127.0.0.1", port: 80)), ("[::1]:0", .loopback("::1", port: 0)),
            ("80", .loopback("127.0.0.1", port: 80)), ("localhost:80", .loopback("127.0.0.1", port: 80)),
            (":80", .loopback("127.0.0.1", port: 80)), ("LocalHost:80", .loopback("127.0.0.1", port: 80)),
            ("unix:/run/x", .unix("/run/x")), ("unix:x", nil),
            ("0.0.0.0:80", .network("0.0.0.0", port: 80)), ("192.168.1.2:80", .network("192.168.1.2", port: 80)),
            ("127.0.0.2:80", .network("127.0.0.2", port: 80)), ("[::]:80", .network("::", port: 80)),
            ("[fe80::1%eth0]:80", .network("fe80::1%eth0", port: 80)), ("NAS.lan:80", .network("nas.lan", port: 80)),
            ("[0:0:0:0:0:0:0:1]:80", .network("0:0:0:0:0:0:0:1", port: 80)),
            ("127.0.0.1", nil), ("localhost", nil), ("", nil), ("127.0.0.1:65536", nil), ("127.0.0.1:", nil),
            ("::1:80", nil), ("127.0.0.1:-1", nil), ("[nas]:80", nil), ("[::1:80", nil), ("[]:80", nil),
            ("http://nas:80", nil), ("a b:80", nil), ("*:80", nil), (":", nil), ("[::1]", nil),
        ] as [(String, ListenAddress?)])
    func addresses(text: String, expected: ListenAddress?) {
        #expect(ListenAddress(text) == expected)
    }
}
