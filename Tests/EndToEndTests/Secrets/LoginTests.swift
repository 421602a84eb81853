import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// Logins at real servers: each way as a user gives it.
    @Suite(.enabled(if: geteuid() == 0, "needs root")) struct LoginTests {
        @Test("An option logs in at nginx and Apache, without which they refuse", arguments: Login.allCases)
        func option(login: Login) throws {
            try withScene { scene in
                let servers = try LoginServers(scene)
                defer { servers.stop() }
                let mount = try scene.mount(
                    servers.url(login), try login.options(scene).flatMap { ["-o", "\($0.name)=\($0.value)"] },
                    environment: ["HOME": scene.work("")])
                Login.readAll(mount.path)
                // A challenge, and a token that the server does not take any more.
                #expect(servers.refusals == ([.digest, .tokenCommand].contains(login) ? 1 : 0))
                if login == .tokenCommand { #expect(contents(scene.work("print.runs")) == "x\nx\n") }
                if login == .setCookie { #expect(try status(servers.url(login) + "film%201.mkv") == "403") }
                try mount.unmount()
                guard let refusal = login.refusal else { return }
                let refused = try scene.tryMount(
                    servers.url(login), ["--timeout", "5", "--cache-dir", scene.work("other")],
                    environment: ["HOME": "/nonexistent"])
                #expect(refused.status == 32 && refused.errors.contains(refusal), "\(refused)")
            }
        }

        @Test("Each login is a line of fstab")
        func fstab() throws {
            try withNamespace { space in
                let servers = try LoginServers(space.scene)
                defer { servers.stop() }
                func place(_ login: Login) -> String { "\(space.scene.folder)/\(login)" }
                let lines = try Login.allCases.map { login in
                    mkdir(place(login), 0o755)
                    let options = try login.options(space.scene).map { ",\($0.name)=\($0.value)" }.joined()
                    let escaped = options.split(separator: " ").joined(separator: #"\040"#)
                    return "\(servers.url(login)) \(place(login)) reelfs ro,nofail,_netdev,timeout=9\(escaped) 0 0\n"
                }
                try space.write(lines.joined(), to: "/etc/fstab")
                // mount(8) hands no HOME on: root's is that of the user database.
                #expect(try space.run(["mount", "--bind", space.scene.work(""), "/root"]).status == 0)
                let end = try space.run(["mount", "-a"])
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(space.mounts.count == lines.count)
                for login in Login.allCases { Login.readAll(space.outside(place(login))) }
                #expect(servers.refusals == 2, "\(servers.nginx.requests)")
            }
        }

        @Test("Each login is a table of a catalogue")
        func catalogue() throws {
            try withScene { scene in
                let servers = try LoginServers(scene)
                defer { servers.stop() }
                let tables = try Login.allCases.map { login in
                    let options = try login.options(scene).map { option in
                        "\(option.name.split(separator: "_").joined(separator: "-")) = \"\(option.value)\"\n"
                    }
                    return "[[source]]\npath = \"\(login)\"\nsource = \"\(servers.url(login))\"\n" + options.joined()
                }
                let mount = try scene.mount(
                    try scene.secret("all.toml", tables.joined()), environment: ["HOME": scene.work("")])
                for login in Login.allCases { Login.readAll(mount.file("\(login)")) }
                #expect(servers.refusals == 2, "\(servers.nginx.requests)")
                try mount.unmount()
            }
        }

        /// The status of a request without any login.
        private func status(_ url: String) throws -> String {
            try ChildProcess.run(["curl", "--noproxy", "*", "-so", "/dev/null", "-w", "%{http_code}", url]).output
        }

        @Test("A server that demands a certificate gets it, with its encrypted key too")
        func certificate() throws {
            try withScene { scene in
                let servers = try LoginServers(scene)
                defer { servers.stop() }
                let (url, cert, key) = (servers.url(.certificate), scene.work("cert.pem"), scene.work("key.pem"))
                let without = try scene.tryMount(url, ["-o", "cacert=\(cert)"])
                #expect(without.status == 32 && without.errors.contains("400"), "\(without)")
                let unknown = try scene.tryMount(url, ["-o", "cert=\(cert),key=\(key)"])
                #expect(unknown.status == 32 && unknown.errors.contains("certificate"), "\(unknown)")
                try ChildProcess.check([
                    "openssl", "pkcs8", "-topk8", "-in", key, "-passout", "pass:hunter2", "-out", key + ".locked",
                ])
                chmod(key + ".locked", 0o600)
                let words = "cert=\(cert),key=\(key).locked,cacert=\(cert)"
                let locked = try scene.tryMount(url, ["-o", words])
                #expect(locked.status == 1 && locked.errors.contains("passphrase="), "\(locked)")
                let other = try scene.secret("other", "passphrase=hunter3\n")
                let wrong = try scene.tryMount(url, ["-o", words + ",credentials=\(other)"])
                #expect(wrong.status == 1 && wrong.errors.contains("does not open with the passphrase"), "\(wrong)")
                try ChildProcess.check(["openssl", "genrsa", "-out", key + ".other", "2048"])
                chmod(key + ".other", 0o600)
                let strange = try scene.tryMount(url, ["-o", "cert=\(cert),key=\(key).other,cacert=\(cert)"])
                #expect(
                    strange.status == 1 && strange.errors.contains("is not the key of the certificate"), "\(strange)")
                let phrase = try scene.secret("phrase", "passphrase=hunter2\n")
                let opened = try scene.mount(url, ["-o", words + ",credentials=\(phrase)"])
                Login.readAll(opened.path)
                try opened.unmount()
            }
        }

        @Test("Apache: Digest costs one request more an origin, over many files and four readers")
        func digest() throws {
            try withScene { scene in
                let servers = try LoginServers(scene)
                defer { servers.stop() }
                let server = servers.apache
                let right = try scene.secret("right", "username=joe\npassword=hunter2\n")
                let mount = try scene.mount(server.url, ["-o", "credentials=\(right)"])
                Login.readAll(mount.path)
                let statuses = server.requests.map { $0.prefix(3) }
                #expect(statuses.count { $0 == "401" } == 1, "\(server.requests)")
                #expect(statuses.count > Login.films.count && statuses.dropFirst().allSatisfy { $0.hasPrefix("20") })
                try mount.unmount()
                let wrong = try scene.secret("wrong", "username=joe\npassword=sesame\n")
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
            "A token command that fails, hangs, prints noise or too much refuses the mount, and its output is hidden")
        func tokenFailures() throws {
            let server = try anywhereServer(FileOrigin(length: 1000))
            defer { server.stop() }
            try withScene { scene in
                for script in [
                    "echo sesame; exit 3", "exec sleep 1000", "echo sesame sesame", "while :; do echo sesame; done",
                    "true",
                    "echo sesame >&2; exit 1",
                ] {
                    let command = try scene.secret("print", "#!/bin/sh\n\(script)\n", mode: 0o700)
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
                let file = try scene.secret("file", text, mode: mode)
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
