import Glibc
import TestKit
import Testing

/// A way to log in, with a folder of small films behind it at a real server.
enum Login: String, CaseIterable, Sendable {
    case password, netrc, token, tokenCommand, cookies, setCookie, certificate, digest

    static let films = (1...6).map { "film \($0).mkv" }

    /// What the server answers without it, nil for nothing at all, or its page.
    var refusal: String? {
        switch self {
        case .password, .netrc, .token, .tokenCommand, .digest: "401"
        case .cookies: "403"
        case .setCookie, .certificate: nil
        }
    }

    /// The options of a mount, with the files that they name.
    func options(_ scene: Scene) throws -> [(name: String, value: String)] {
        switch self {
        case .password, .digest:
            return [("credentials", try scene.secret("joe", "username=joe\npassword=hunter2\n"))]
        case .netrc:
            _ = try scene.secret(".netrc", "machine localhost login joe password hunter2\n")
            return []
        case .token: return [("credentials", try scene.secret("t2", "token=t2\n"))]
        case .tokenCommand:
            // The first token that it prints is not good any more.
            let script = "#!/bin/sh\n[ \"$1\" = films ] && echo x >> $0.runs && echo t$(wc -l < $0.runs)\n"
            unlink(scene.work("print.runs"))
            return [("token_command", try scene.secret("print", script, mode: 0o700) + " films")]
        case .cookies:
            let lines = "# Netscape\n#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\tsesame\n"
            return [("cookies", try scene.secret("jar", lines))]
        case .setCookie: return []
        case .certificate:
            let certificate = scene.work("cert.pem")
            return [("cert", certificate), ("key", scene.work("key.pem")), ("cacert", certificate)]
        }
    }

    /// Reads all films, by several threads at once.
    static func readAll(_ folder: String) {
        let threads = (0..<4).map { number in
            startThread {
                for name in number.isMultiple(of: 2) ? films : films.reversed() {
                    #expect(contents(folder + "/" + name) == text(of: name), "\(folder)")
                }
            }
        }
        for thread in threads { thread.join() }
    }

    fileprivate static func text(of film: String) -> String { "the bytes of \(film)" }
}

/// nginx and Apache with a folder behind each kind of login.
struct LoginServers {
    let nginx: RealServer
    let apache: RealServer
    private let securePort: UInt16

    /// Cancels the test where the machine lacks one of them.
    init(_ scene: Scene) throws {
        for kind in [RealServer.Kind.nginx, .apache2] where !kind.isInstalled {
            try Test.cancel("\(kind.rawValue) is not installed")
        }
        chmod(scene.folder, 0o755)
        for login in Login.allCases {
            mkdir(scene.work("\(login)"), 0o755)
            for film in Login.films { try writeFile(scene.work("\(login)/\(film)"), Login.text(of: film).utf8) }
        }
        let (certificate, key) = (scene.work("cert.pem"), scene.work("key.pem"))
        try makeCertificate(certificate, key: key, names: "DNS:localhost")
        chmod(key, 0o600)
        var securePort: UInt16 = 0
        nginx = try RealServer(root: scene.work(""), place: scene.work("nginx")) { server in
            securePort = try freePort()
            try writeFile(server.place + "/users", "joe:{PLAIN}hunter2\n".utf8)
            let demand = "auth_basic films; auth_basic_user_file \(server.place)/users;"
            return try server.nginx(
                """
                map $http_authorization $bearer { default 0; "Bearer t2" 1; }
                root \(server.root);
                autoindex on;
                server {
                    listen 127.0.0.1:\(server.port);
                    location /password/ { \(demand) }
                    location /netrc/ { \(demand) }
                    location ~ ^/token { if ($bearer = 0) { return 401; } }
                    location /cookies/ { if ($cookie_session != "sesame") { return 403; } }
                    location = /setCookie/ { add_header Set-Cookie "visit=sesame; Path=/setCookie/"; }
                    location /setCookie/ { if ($cookie_visit != "sesame") { return 403; } }
                }
                server {
                    listen 127.0.0.1:\(securePort) ssl;
                    ssl_certificate \(certificate);
                    ssl_certificate_key \(key);
                    ssl_client_certificate \(certificate);
                    ssl_verify_client on;
                }
                """)
        }
        self.securePort = securePort
        do {
            apache = try RealServer(root: scene.work("digest"), place: scene.work("apache")) { server in
                try server.apache(
                    modules: ["autoindex"], folder: "Options Indexes\nIndexOptions FancyIndexing", login: .digest)
            }
        } catch {
            nginx.stop()
            throw error
        }
    }

    func stop() {
        nginx.stop()
        apache.stop()
    }

    /// The address of the folder behind a login.
    func url(_ login: Login) -> String {
        switch login {
        case .digest: apache.url
        case .certificate: "https://localhost:\(securePort)/certificate/"
        // A name of its own, so that what ~/.netrc says serves no other login.
        case .netrc: "http://localhost:\(nginx.port)/netrc/"
        default: "\(nginx.url)\(login)/"
        }
    }

    /// Requests that were refused, of all so far.
    var refusals: Int {
        (nginx.requests + apache.requests).count { $0.hasPrefix("401 ") || $0.hasPrefix("403 ") }
    }
}

extension Scene {
    /// Writes a file that only its owner reads. - Returns: its path.
    func secret(_ name: String, _ text: String, mode: mode_t = 0o600) throws -> String {
        try writeFile(work(name), text.utf8)
        chmod(work(name), mode)
        return work(name)
    }
}
