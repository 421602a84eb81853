import Glibc
import TestKit
import Testing

/// The HTTP server behind the proxies of `mount-helpers`, with TLS.
@Suite struct ProxyTests {
    private static let film = FileOrigin(length: 3 << 20 + 77)
    private static let kinds = [RealServer.Kind.nginx, .caddy]

    /// The example as it stands, with a certificate and ports of this test.
    private func proxy(
        _ kind: RealServer.Kind, _ scene: Scene, of serving: Serving, port: UInt16
    ) throws -> RealServer {
        let text = try #require(contents("\(repository)/mount-helpers/\(kind.rawValue)-listen.example"))
        let (certificate, key) = (scene.work("cert.pem"), scene.work("key.pem"))
        try makeCertificate(certificate, key: key, names: "DNS:films.example")
        return try RealServer(root: scene.work(""), place: scene.work("proxy")) { server in
            if kind == .nginx {
                let places = [
                    ("127.0.0.1:8080", "127.0.0.1:\(serving.port)"), ("listen 443 ssl", "listen 127.0.0.1:\(port) ssl"),
                    ("listen 80;", "listen 127.0.0.1:\(server.port);"),
                    ("/etc/ssl/films.example.pem", certificate), ("/etc/ssl/private/films.example.key", key),
                ]
                return try server.nginx(places.reduce(text) { $0.replacing($1.0, with: $1.1) })
            }
            let site = "https://films.example:\(port) {\n\tbind 127.0.0.1\n\ttls \(certificate) \(key)"
            let places = [
                ("127.0.0.1:8080", "127.0.0.1:\(serving.port)"), ("\nfilms.example {", "\n" + site),
            ]
            let lines = places.reduce(text) { $0.replacing($1.0, with: $1.1) }
            let file = server.place + "/Caddyfile"
            let door = "http://:\(server.port) {\n\tbind 127.0.0.1\n}\n"
            try writeFile(file, "{\n\tadmin off\n\tauto_https off\n}\n\(door)\(lines)".utf8)
            return ["caddy", "run", "--adapter", "caddyfile", "--config", file]
        }
    }

    @Test("Page, ranges, events, calls, playlists and WebDAV come through the example's proxy", arguments: kinds)
    func examples(kind: RealServer.Kind) throws {
        guard kind.isInstalled else { try Test.cancel("\(kind.rawValue) is not installed") }
        let origin = try filmServer(Self.film)
        defer { origin.stop() }
        try withScene { scene in
            let login = try scene.secret("login", "username=ann\npassword=open sesame\n")
            let port = try freePort()
            let name = "https://films.example:\(port)"
            let options = ["--listen-credentials", login, "--listen-origin", name]
            try withServing(origin.address, cache: scene.cache, options) { serving in
                let server = try proxy(kind, scene, of: serving, port: port)
                defer { server.stop() }
                let base = [
                    "curl", "-sS", "--cacert", scene.work("cert.pem"), "--resolve", "films.example:\(port):127.0.0.1",
                ]
                func ask(_ path: String, _ words: [String] = [], user: String? = "ann:open sesame") throws -> (
                    status: String, body: String
                ) {
                    let known = user.map { ["-u", $0] } ?? []
                    let end = try ChildProcess.run(base + known + ["-w", "\n%{http_code}"] + words + [name + path])
                    #expect(end.status == 0, "\(end.errors)")
                    let lines = end.output.split(separator: "\n", omittingEmptySubsequences: false)
                    return (String(lines.last ?? ""), lines.dropLast().joined(separator: "\n"))
                }
                #expect(try ask("/", user: nil).status == "401")
                #expect(try ask("/").body.contains("<title>"))
                let part = try ask("/files/film.mkv", ["-r", "1000000-1999999", "-o", scene.work("part")])
                #expect(part.status == "206")
                #expect(try readWhole(scene.work("part")) == Array(Self.film.whole[1_000_000...1_999_999]))
                #expect(try ask("/files/film.mkv", ["-o", scene.work("film")]).status == "200")
                #expect(Self.film.difference(inFile: scene.work("film")) == nil)
                #expect(try ask("/files/?m3u").body.contains("\n\(name)/files/film.mkv"))
                #expect(try ask("/files").status == "301")
                let depth = ["-X", "PROPFIND", "-H", "Depth: 1"]
                let listing = try ask("/dav/", depth)
                #expect(listing.status == "207" && listing.body.contains("film.mkv"))
                for (page, status) in [(name, "200"), ("https://evil.example", "403"), ("null", "403")] {
                    let call = ["-H", "Origin: \(page)", "-d", "path=film.mkv"]
                    #expect(try ask("/api/v1/pin", call).status == status, "\(page)")
                }
                // Two messages, a second apart, of an answer that has no end.
                let events = try ChildProcess(base + ["-N", "-u", "ann:open sesame", name + "/api/v1/events"])
                #expect(
                    eventually(within: .seconds(20)) { events.said.output.split(separator: "data: ").count > 2 },
                    "\(events.said)")
                events.signal(SIGTERM)
                _ = try events.wait(within: .seconds(5))
                if kind == .nginx { #expect(try ask("/", ["-H", "Host: evil.example"]).status == "421") }
                for number in 0..<10 { #expect(try ask("/", user: "ann:\(number)").status == "401") }
                #expect(try ask("/", user: "ann:10").status == "429")
                // Whoever does not come through the proxy is another one, also with what it could have written.
                let login = "Authorization: Basic YW5uOm9wZW4gc2VzYW1l"
                #expect(
                    try RawAnswer(serving.port, "GET", "/files/", [login, "X-Forwarded-For: 1.2.3.4"]).status == 200)
            }
        }
    }
}
