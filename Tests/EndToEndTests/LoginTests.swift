import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// Logins at real servers: each way as a user gives it.
    @Suite(.enabled(if: geteuid() == 0, "needs root")) struct LoginTests {
        private static let names = (1...6).map { "film \($0).mkv" }

        /// A folder of small films, and the text of each.
        private func fill(_ folder: String) throws {
            mkdir(folder, 0o755)
            for name in Self.names { try writeFile(folder + "/" + name, "the bytes of \(name)".utf8) }
        }

        /// Reads all films, by several threads at once.
        private func readAll(_ mount: Mounted) {
            let threads = (0..<4).map { number in
                startThread {
                    for name in number.isMultiple(of: 2) ? Self.names : Self.names.reversed() {
                        #expect(contents(mount.file(name)) == "the bytes of \(name)")
                    }
                }
            }
            for thread in threads { thread.join() }
        }

        private func secret(_ scene: Scene, _ name: String, _ text: String, mode: mode_t = 0o600) throws -> String {
            try writeFile(scene.work(name), text.utf8)
            chmod(scene.work(name), mode)
            return scene.work(name)
        }

        /// nginx with a folder behind each kind of login, and one behind a certificate.
        private func startNginx(_ scene: Scene) throws -> (plain: RealServer, securePort: UInt16) {
            let place = scene.work("nginx")
            mkdir(place, 0o755)
            chmod(scene.folder, 0o755)
            for name in ["basic", "bearer", "cookie", "open"] { try fill(scene.work(name)) }
            try writeFile(place + "/users", "joe:{PLAIN}hunter2\n".utf8)
            try makeCertificate(scene.work("cert.pem"), key: scene.work("key.pem"), names: "DNS:localhost")
            chmod(scene.work("key.pem"), 0o600)
            let taken = try ScriptedServer { _ in [] }
            taken.stop()
            let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            let server = try RealServer(root: scene.folder, place: place) { server in
                try writeFile(
                    place + "/configuration",
                    """
                    user root; daemon off; master_process off; pid \(place)/pid; error_log stderr;
                    events {}
                    http {
                        \(folders.map { "\($0)_temp_path \(place)/\($0);" }.joined())
                        map $http_authorization $bearer { default 0; "Bearer t2" 1; }
                        log_format short '$status $body_bytes_sent $request_method $request_uri';
                        access_log \(place)/access.log short;
                        root \(scene.folder)/work;
                        autoindex on;
                        server {
                            listen 127.0.0.1:\(server.port);
                            location /basic/ { auth_basic films; auth_basic_user_file \(place)/users; }
                            location /bearer/ { if ($bearer = 0) { return 401; } }
                            location /cookie/ { if ($cookie_session != "sesame") { return 403; } }
                        }
                        server {
                            listen 127.0.0.1:\(taken.port) ssl;
                            ssl_certificate \(scene.work("cert.pem"));
                            ssl_certificate_key \(scene.work("key.pem"));
                            ssl_client_certificate \(scene.work("cert.pem"));
                            ssl_verify_client on;
                        }
                    }
                    """.utf8)
                return ["nginx", "-c", place + "/configuration", "-p", place]
            }
            return (server, taken.port)
        }

        @Test("nginx: Basic, a token of a command that is run again after a 401, cookies, a client certificate")
        func nginx() throws {
            guard RealServer.Kind.nginx.isInstalled else { return }
            try withScene { scene in
                let (server, securePort) = try startNginx(scene)
                defer { server.stop() }
                let login = try secret(scene, "login", "username=joe\npassword=hunter2\n")
                let command = try secret(
                    scene, "print", "#!/bin/sh\necho x >> $0.runs\necho t$(wc -l < $0.runs)\n", mode: 0o700)
                let cookies = try secret(
                    scene, "cookies", "# Netscape\n#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\tsesame\n")
                for (folder, option, status) in [
                    ("basic", "credentials=\(login)", 401), ("bearer", "token_command=\(command) films", 401),
                    ("cookie", "cookies=\(cookies)", 403),
                ] {
                    let refused = try scene.tryMount(server.url + folder + "/", ["--timeout", "5"])
                    #expect(refused.status == 32 && refused.errors.contains("\(status)"), "\(refused)")
                    let before = server.requests.count
                    let mount = try scene.mount(server.url + folder + "/", ["-o", option])
                    readAll(mount)
                    let answers = server.requests.dropFirst(before).map { $0.prefix(3) }
                    // The first token is refused, and the second is taken from then on.
                    #expect(answers.count { $0 == "401" || $0 == "403" } == (folder == "bearer" ? 1 : 0))
                    try mount.unmount()
                }
                #expect(contents(command + ".runs") == "x\nx\n")
                let secure = "https://localhost:\(securePort)/open/"
                let (cert, key) = (scene.work("cert.pem"), scene.work("key.pem"))
                let without = try scene.tryMount(secure, ["-o", "cacert=\(cert)"])
                #expect(without.status == 32 && without.errors.contains("400"), "\(without)")
                let unknown = try scene.tryMount(secure, ["-o", "cert=\(cert),key=\(key)"])
                #expect(unknown.status == 32 && unknown.errors.contains("certificate"), "\(unknown)")
                let mount = try scene.mount(secure, ["-o", "cert=\(cert),key=\(key),cacert=\(cert)"])
                readAll(mount)
                try mount.unmount()
                // An encrypted key.
                try ChildProcess.check([
                    "openssl", "pkcs8", "-topk8", "-in", key, "-passout", "pass:hunter2", "-out", key + ".locked",
                ])
                chmod(key + ".locked", 0o600)
                let words = "cert=\(cert),key=\(key).locked,cacert=\(cert)"
                let locked = try scene.tryMount(secure, ["-o", words])
                #expect(locked.status == 1 && locked.errors.contains("passphrase="), "\(locked)")
                let phrase = try secret(scene, "phrase", "passphrase=hunter2\n")
                let opened = try scene.mount(secure, ["-o", words + ",credentials=\(phrase)"])
                readAll(opened)
                try opened.unmount()
            }
        }

        @Test("Apache: Digest costs one request more an origin, over many files and four readers")
        func digest() throws {
            guard RealServer.Kind.apache2.isInstalled else { return }
            try withScene { scene in
                let (root, place) = (scene.work("films"), scene.work("apache"))
                chmod(scene.folder, 0o755)
                try fill(root)
                mkdir(place, 0o755)
                let sum = try ChildProcess.run(["sh", "-c", "printf joe:films:hunter2 | md5sum | cut -c1-32"]).output
                try writeFile(place + "/users", "joe:films:\(sum)".utf8)
                let names = [
                    "mpm_event", "authz_core", "authz_user", "authn_core", "authn_file", "auth_digest", "autoindex",
                    "dir", "mime",
                ]
                let modules = names.map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }
                let server = try RealServer(root: root, place: place) { server in
                    try writeFile(
                        place + "/configuration",
                        """
                        \(modules.joined(separator: "\n"))
                        ServerRoot \(place)
                        PidFile \(place)/pid
                        DefaultRuntimeDir \(place)
                        Mutex posixsem
                        Listen 127.0.0.1:\(server.port)
                        ServerName localhost
                        ErrorLog \(place)/error
                        LogFormat "%>s %b %m %U" short
                        CustomLog \(place)/access.log short
                        TypesConfig /etc/mime.types
                        DocumentRoot \(root)
                        <Directory "\(root)">
                            Options Indexes
                            IndexOptions FancyIndexing
                            AuthType Digest
                            AuthName films
                            AuthDigestProvider file
                            AuthUserFile \(place)/users
                            Require valid-user
                        </Directory>
                        """.utf8)
                    return ["apache2", "-X", "-f", place + "/configuration"]
                }
                defer { server.stop() }
                let right = try secret(scene, "right", "username=joe\npassword=hunter2\n")
                let mount = try scene.mount(server.url, ["-o", "credentials=\(right)"])
                readAll(mount)
                let statuses = server.requests.map { $0.prefix(3) }
                #expect(statuses.count { $0 == "401" } == 1, "\(server.requests)")
                #expect(statuses.count > Self.names.count && statuses.dropFirst().allSatisfy { $0.hasPrefix("20") })
                try mount.unmount()
                let wrong = try secret(scene, "wrong", "username=joe\npassword=sesame\n")
                let before = server.requests.count
                let refused = try scene.tryMount(
                    server.url, ["-o", "credentials=\(wrong)", "--cache-dir", scene.work("other")])
                #expect(refused.status == 32 && refused.errors.contains("401"), "\(refused)")
                #expect(server.requests.count - before <= 6, "\(server.requests)")
                let seen = try ChildProcess.run([
                    program, "doctor", "--cache-dir", scene.cache, "--credentials", wrong, server.url,
                ])
                #expect(seen.status == 1 && seen.output.contains("user and password"), "\(seen)")
            }
        }

        @Test(
            "A token command that fails, hangs, prints noise or too much refuses the mount, and its output is not told")
        func tokenFailures() throws {
            let server = try anywhereServer(FileOrigin(length: 1000))
            defer { server.stop() }
            try withScene { scene in
                for script in [
                    "echo sesame; exit 3", "exec sleep 1000", "echo sesame sesame", "while :; do echo sesame; done",
                    "true",
                    "echo sesame >&2; exit 1",
                ] {
                    let command = try secret(scene, "print", "#!/bin/sh\n\(script)\n", mode: 0o700)
                    let words = ["--token-command", command, "--timeout", "1"]
                    let end = try scene.tryMount(server.address, words)
                    #expect(end.status == 32 && !end.errors.contains("sesame"), "\(script): \(end)")
                    let seen = try ChildProcess.run(
                        [program, "doctor", "--cache-dir", scene.cache] + words + [server.address])
                    #expect(seen.status == 1 && !seen.output.contains("sesame"), "\(script): \(seen)")
                }
                // While a command hangs, a probe looks whether the origin answers at all.
                #expect(server.requests.allSatisfy { $0["authorization"] == nil && $0["range"] == "bytes=0-0" })
                #expect(server.requests.count <= 2)
            }
        }

        @Test(
            "A file that others may read, or of another form, is refused in one sentence",
            arguments: [
                ("cookies", "127.0.0.1\tFALSE\t/\tFALSE\t0\ta\tsesame\n", 0o644, "chmod 600"),
                ("cookies", "session=sesame\n", 0o600, "line 1"),
                ("cert", "sesame", 0o600, "no certificate"), ("cacert", "sesame", 0o644, "no certificate"),
                ("key", "sesame", 0o600, "cert=FILE"),
                ("cert", "-----BEGIN CERTIFICATE-----\nsesame\n", 0o600, "no private key"),
                ("cert", "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nsesame\n", 0o644, "chmod 600"),
                ("cacert", "-----BEGIN CERTIFICATE-----\n", 0o666, "chmod go-w"),
            ] as [(String, String, mode_t, String)])
        func refusedFiles(option: String, text: String, mode: mode_t, named: String) throws {
            try withScene { scene in
                let file = try secret(scene, "file", text, mode: mode)
                let end = try scene.tryMount("https://127.0.0.1:1/", ["-o", "\(option)=\(file)"])
                #expect(end.status == 1 && end.errors.contains(named) && !end.errors.contains("sesame"), "\(end)")
                #expect(end.errors.split(separator: "\n").count == 1)
            }
        }

        @Test("A local list has no origin for a certificate or a token")
        func localList() throws {
            try withScene { scene in
                try writeFile(scene.work("list.m3u"), "http://127.0.0.1:1/a.mp3\n".utf8)
                let end = try scene.tryMount(scene.work("list.m3u"), ["-o", "token_command=true"])
                #expect(end.status == 1 && end.errors.contains("URL as source"), "\(end)")
            }
        }
    }
}

extension ChildProcess {
    /// Runs a program that must succeed.
    fileprivate static func check(_ words: [String]) throws {
        let end = try run(words)
        guard end.status == 0 else { throw ChildError(words: words, reason: end.errors) }
    }
}
