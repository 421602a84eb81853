import Glibc
import ReelCore
import TestKit
import Testing

/// A real FTP or SFTP server on loopback over one directory.
enum FileServer: String, CaseIterable, Sendable {
    /// LIST alone.
    case vsftpd
    /// The same with TLS from the first byte, and after AUTH TLS.
    case ftps, ftpes
    /// MLSD as well.
    case pyftpdlib
    /// The same after AUTH TLS, and sessions are wanted.
    case proftpd
    case rcloneFTP
    case sshd
    case rclone

    static let user = "viewer"
    static let password = "open/sesame@home"
    /// The login as a URL has it.
    static let login = "viewer:open%2Fsesame%40home@"

    /// Skips the test where the server is not installed.
    func requireInstalled() throws {
        guard try isInstalled() else { try Test.cancel("\(rawValue) is not installed") }
    }

    private func isInstalled() throws -> Bool {
        switch self {
        case .vsftpd, .ftps, .ftpes: isProgram("vsftpd")
        case .proftpd: try unpackedServer("proftpd") != nil
        case .sshd: isProgram("sshd")
        case .rclone: isProgram("rclone")
        case .rcloneFTP: try pythonServer("rclone") != nil
        case .pyftpdlib: access("/usr/lib/python3/dist-packages/pyftpdlib/__init__.py", R_OK) == 0
        }
    }

    private var isSFTP: Bool { self == .sshd || self == .rclone }
    private var isSecure: Bool { [.ftps, .ftpes, .proftpd].contains(self) }

    /// - Parameter place: an empty directory for configuration and keys.
    func start(root: String, place: String) throws -> RealServer {
        mkdir(place, 0o755)
        if self == .sshd {
            mkdir("/run/sshd", 0o755)
            for key in ["host", "user"] {
                let end = try ChildProcess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place + "/" + key])
                try #require(end.status == 0, "\(end.errors)")
            }
        }
        if isSecure { try makeCertificate(place + "/cert.pem", key: place + "/key.pem", names: "IP:127.0.0.1") }
        return try RealServer(root: root, place: place) { server in
            try words(root: root, place: place, port: server.port)
        }
    }

    private func words(root: String, place: String, port: UInt16) throws -> [String] {
        let file = place + "/configuration"
        switch self {
        case .vsftpd, .ftps, .ftpes:
            let secure = """
                ssl_enable=YES
                implicit_ssl=\(self == .ftps ? "YES" : "NO")
                allow_anon_ssl=YES
                force_anon_logins_ssl=YES
                force_anon_data_ssl=YES
                require_ssl_reuse=YES
                ssl_ciphers=HIGH
                rsa_cert_file=\(place)/cert.pem
                rsa_private_key_file=\(place)/key.pem

                """
            try writeFile(
                file,
                """
                listen=YES
                listen_address=127.0.0.1
                listen_port=\(port)
                background=NO
                anonymous_enable=YES
                anon_root=\(root)
                no_anon_password=YES
                run_as_launching_user=YES
                secure_chroot_dir=\(place)
                xferlog_enable=NO
                seccomp_sandbox=NO
                \(isSecure ? secure : "")
                """.utf8)
            return ["vsftpd", file]
        case .pyftpdlib:
            return [
                "/usr/bin/python3", "-u", "-m", "pyftpdlib", "-i", "127.0.0.1", "-p", "\(port)", "-d", root, "-u",
                Self.user, "-P", Self.password,
            ]
        case .proftpd:
            let program = try #require(try unpackedServer("proftpd"))
            let hash = try ChildProcess.run(["openssl", "passwd", "-6", Self.password]).output.filter { $0 != "\n" }
            try writeFile(place + "/users", "\(Self.user):\(hash):\(getuid()):\(getgid())::\(root):/bin/sh\n".utf8)
            chmod(place + "/users", 0o600)
            let modules = program.dropLast("sbin/proftpd".utf8.count) + "lib/proftpd"
            try writeFile(
                file,
                """
                ServerType standalone
                Port \(port)
                DefaultAddress 127.0.0.1
                SocketBindTight on
                UseReverseDNS off
                PidFile \(place)/pid
                ScoreboardFile \(place)/scoreboard
                <IfModule mod_delay.c>
                DelayTable none
                </IfModule>
                WtmpLog off
                TransferLog none
                AuthUserFile \(place)/users
                AuthOrder mod_auth_file.c
                RootLogin on
                DefaultRoot \(root)
                ModulePath \(modules)
                LoadModule mod_tls.c
                <IfModule !mod_xfer.c>
                LoadModule mod_xfer.c
                </IfModule>
                <IfModule !mod_ls.c>
                LoadModule mod_ls.c
                </IfModule>
                TLSEngine on
                TLSLog \(place)/log
                TLSRequired on
                TLSRSACertificateFile \(place)/cert.pem
                TLSRSACertificateKeyFile \(place)/key.pem

                """.utf8)
            return [program, "-n", "-c", file]
        case .sshd:
            // Of more than ten connections that are not logged in yet it would drop some by chance.
            try writeFile(
                file,
                """
                Port \(port)
                ListenAddress 127.0.0.1
                HostKey \(place)/host
                PidFile none
                AuthorizedKeysFile \(place)/user.pub
                StrictModes no
                UsePAM no
                MaxStartups 100
                Subsystem sftp internal-sftp

                """.utf8)
            return ["/usr/sbin/sshd", "-D", "-e", "-f", file]
        case .rclone, .rcloneFTP:
            return [
                self == .rclone ? "rclone" : try #require(try pythonServer("rclone")), "serve",
                self == .rclone ? "sftp" : "ftp", root, "--addr", "127.0.0.1:\(port)", "--config",
                place + "/rclone.conf",
                "--cache-dir", place, "--user", Self.user, "--pass", Self.password,
            ]
        }
    }

    func source(_ server: RealServer, root: String) -> String {
        let place = "127.0.0.1:\(server.port)"
        switch self {
        case .vsftpd: return "ftp://\(place)/"
        case .ftps, .ftpes: return "\(rawValue)://\(place)/"
        case .pyftpdlib, .rcloneFTP: return "ftp://\(Self.login)\(place)"
        case .proftpd: return "ftpes://\(Self.login)\(place)"
        case .sshd: return "sftp://\(place)\(root)"
        case .rclone: return "sftp://\(Self.login)\(place)/"
        }
    }

    /// The options of a mount that trusts the server.
    func options(_ server: RealServer, place: String) throws -> [String] {
        guard isSFTP else { return isSecure ? ["--cacert", place + "/cert.pem"] : [] }
        let scan = try ChildProcess.run(["ssh-keyscan", "-p", "\(server.port)", "127.0.0.1"])
        try writeFile(place + "/known_hosts", scan.output.utf8)
        return ["--ssh-known-hosts", place + "/known_hosts"] + (self == .sshd ? ["--ssh-key", place + "/user"] : [])
    }
}

extension EndToEnd {
    /// Folders of FTP and SFTP servers.
    @Suite struct FileServerTests {
        /// - Parameter body: gets the source and the options that mount it.
        private func withServer(
            _ kind: FileServer, _ names: [String], _ body: (Scene, RealServer, String, String, [String]) throws -> Void
        ) throws {
            try kind.requireInstalled()
            try withScene { scene in
                try withServer(kind, names, in: scene) { try body(scene, $0, $1, $2, $3) }
            }
        }

        private func withServer(
            _ kind: FileServer, _ names: [String], in scene: Scene,
            _ body: (RealServer, String, String, [String]) throws -> Void
        ) throws {
            try kind.requireInstalled()
            let (root, place) = (scene.work("root"), scene.work("server"))
            try makeOddTree(root, folder: "colon:folder", names: names)
            let server = try kind.start(root: root, place: place)
            defer { server.stop() }
            try body(server, root, kind.source(server, root: root), try kind.options(server, place: place))
        }

        @Test("A file server's tree is the local tree, also after the server has gone", arguments: FileServer.allCases)
        func sameTree(_ kind: FileServer) throws {
            try kind.requireInstalled()
            try withScene { scene in
                let (root, place) = (scene.work("root"), scene.work("server"))
                let longest = String(repeating: "x", count: 251) + ".mkv"
                // What a name does to commands and listings is the same inside of TLS, where each file costs more.
                let isPlainTwin = kind == .ftps || kind == .ftpes
                let names = isPlainTwin ? Array(ServerTests.oddNames.prefix(4)) : ServerTests.oddNames
                try makeOddTree(root, folder: "colon:folder", names: names + [longest, "-rf", "a -> b"])
                #expect(mkdir(root + "/empty", 0o755) == 0)
                let server = try kind.start(root: root, place: place)
                let (source, options) = (kind.source(server, root: root), try kind.options(server, place: place))
                do {
                    defer { server.stop() }
                    let mount = try scene.mount(source, options)
                    try expectSame(root, mount.path)
                    let line = try #require(contents("/proc/\(mount.pid)/cmdline"))
                    #expect(!line.contains("sesame"))
                    try mount.unmount()
                }
                let mount = try scene.mount(source, options)
                try expectSame(root, mount.path)
                let found = try ChildProcess.run(["grep", "-r", "sesame", scene.cache])
                #expect(found.status == 1, "the cache knows the password: \(found.output)")
            }
        }

        @Test("Data connections resume the session of their own control connection, so that few logins serve a tree")
        func sessions() throws {
            try withServer(.proftpd, Array(ServerTests.oddNames.prefix(12))) { scene, _, root, source, options in
                func connections() -> Int {
                    (contents(scene.work("server/log")) ?? "").split(separator: "\n").count {
                        $0.contains("requested, starting TLS handshake")
                    }
                }
                // libcurl 8.5, for one, takes another for each file where it has to be TLS.
                let film = "ftp" + source.dropFirst("ftpes".count) + "/plain.mp4"
                let words = ["curl", "-sk", "--ssl-reqd", "-o", "/dev/null", film, "-o", "/dev/null", film]
                #expect(try ChildProcess.run(words).status == 0)
                let ofTwo = connections()
                let mount = try scene.mount(source, options)
                try expectSame(root, mount.path)
                if ofTwo > 1 { try Test.cancel("this libcurl uses no control connection again") }
                // Otherwise a login a file. On a busy machine more files are read at a time.
                let ofMount = connections() - ofTwo
                #expect(ofTwo == 1 && ofMount > 0 && ofMount <= 6, "\(ofMount) control connections")
            }
        }

        @Test("Data connections behind a new control connection resume none of the old one's sessions")
        func sessionsOfTheNextConnection() throws {
            try withServer(.proftpd, []) { scene, server, root, source, options in
                let film = GeneratedBytes(seed: 8)
                let length: Int64 = 64 << 20
                try writeFile(root + "/film.mkv", film.bytes(ByteRange(0, length)))
                for name in ["first", "second"] { try writeFile("\(root)/\(name).mkv", name.utf8) }
                let log = scene.work("requests")
                let mount = try scene.mount(source, options + ["--request-log", log])
                do {
                    let file = try OpenDescriptor(mount.file("film.mkv"))
                    // To cut a body off costs its control connection.
                    for place in 1...6 {
                        let offset = Int64(place * 7 % 8) << 23
                        let bytes = try file.bytes(at: offset, count: 70_000)
                        #expect(bytes.elementsEqual(film.bytes(ByteRange(offset, offset + 70_000))), "\(offset)")
                    }
                }
                #expect(contents(mount.file("first.mkv")) == "first")
                server.endSessions()
                #expect(contents(mount.file("second.mkv")) == "second")
                try mount.unmount()
                let failed = (contents(log) ?? "").split(separator: "\n").filter { $0.contains("broke off") }
                #expect(failed.isEmpty)
            }
        }

        /// rclone leaves links out.
        @Test("A folder comes whole over SFTP where the line has no room for it")
        func heldBack() throws {
            try withServer(.sshd, []) { scene, _, root, source, options in
                #expect(mkdir(root + "/many", 0o755) == 0)
                // libcurl asks for the target of each link in between.
                let films = (0..<40).map { "film \($0 + 100).mkv" }
                for film in films { #expect(symlink("../film", "\(root)/many/\(film)") == 0) }
                let mount = try scene.mount(source, options + ["--limit-rate", "2K"])
                #expect(try names(in: mount.file("many")).sorted() == films)
            }
        }

        @Test("Links lead to what they lead to on the server", arguments: [FileServer.vsftpd, .pyftpdlib, .sshd])
        func links(_ kind: FileServer) throws {
            try withServer(kind, ["film.mkv"]) { scene, _, root, source, options in
                #expect(symlink("sub", root + "/folder link") == 0 && symlink("film.mkv", root + "/file link") == 0)
                let mount = try scene.mount(source, options)
                // Follows them, as the mount shows what they lead to.
                try expectSame(root, mount.path)
            }
        }

        @Test(
            "A file is read from several places at a time",
            arguments: LongTests.all(FileServer.allCases, elseOnly: [.vsftpd, .proftpd, .sshd]))
        func readers(_ kind: FileServer) throws {
            try withServer(kind, []) { scene, _, root, source, options in
                let film = GeneratedBytes(seed: 7)
                let length: Int64 = 24 << 20 + 11
                try writeFile(root + "/film.mkv", film.bytes(ByteRange(0, length)))
                let mount = try scene.mount(source, options)
                let whole = try ChildProcess(["cmp", root + "/film.mkv", mount.file("film.mkv")])
                let file = try OpenDescriptor(mount.file("film.mkv"))
                var random = SeededGenerator()
                for _ in 0..<12 {
                    let offset = Int64.random(in: 0..<length - 70_000, using: &random)
                    let bytes = try file.bytes(at: offset, count: 70_000)
                    #expect(
                        bytes.elementsEqual(film.bytes(ByteRange(offset, offset + 70_000))),
                        "seed \(random.seed): \(offset)")
                }
                let end = try whole.wait(within: .seconds(40))
                #expect(end.status == 0, "\(end.output)\(end.errors)")
            }
        }

        @Test("A wrong password is refused", arguments: [FileServer.pyftpdlib, .vsftpd, .rclone])
        func wrongPassword(_ kind: FileServer) throws {
            try withServer(kind, []) { scene, server, _, source, options in
                let scheme = source.prefix { $0 != "/" }
                let end = try scene.tryMount("\(scheme)//viewer:wrong@127.0.0.1:\(server.port)/", options)
                #expect(end.status != 0 && end.errors.contains("the origin answers 401"), "\(end.errors)")
            }
        }

        @Test("A file server whose certificate is not trusted is not asked")
        func certificate() throws {
            try withServer(.ftps, []) { scene, _, _, source, _ in
                let end = try scene.tryMount(source)
                #expect(end.status != 0 && end.errors.contains("certificate is not trusted"), "\(end.errors)")
            }
        }

        @Test("An SFTP server whose key is unknown, or another one, is not asked")
        func hostKeys() throws {
            try withServer(.sshd, []) { scene, server, _, source, options in
                let unknown = try scene.tryMount(source, ["--ssh-known-hosts", scene.work("none")])
                let remedy = "`ssh-keyscan -p \(server.port) 127.0.0.1 >> '\(scene.work("none"))'`"
                #expect(unknown.status != 0 && unknown.errors.contains("is not known"), "\(unknown.errors)")
                #expect(unknown.errors.contains(remedy), "\(unknown.errors)")
                let usual = try scene.tryMount(source)
                #expect(usual.errors.contains("127.0.0.1 >> ~/.ssh/known_hosts`"), "\(usual.errors)")
                let other = scene.work("other")
                _ = try ChildProcess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other])
                let key = try #require(contents(other + ".pub")).split(separator: " ")[1]
                try writeFile(options[1], "[127.0.0.1]:\(server.port) ssh-ed25519 \(key)\n".utf8)
                let changed = try scene.tryMount(source, options)
                #expect(changed.status != 0 && changed.errors.contains("another host key"), "\(changed.errors)")
                let doctor = try ChildProcess.run([program, "doctor", source, "--cache-dir", scene.cache] + options)
                #expect(doctor.output.contains("another host key"), "\(doctor.output)\(doctor.errors)")
            }
        }

        @Test("A key that an SFTP server does not take is a refusal, also of a source that is remembered")
        func otherKey() throws {
            try withServer(.sshd, []) { scene, _, _, source, options in
                let other = scene.work("other")
                _ = try ChildProcess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other])
                let wrong = [options[0], options[1], "--ssh-key", other]
                let unknown = try scene.tryMount(source, wrong)
                #expect(unknown.status == 32 && unknown.errors.contains("the origin answers 401"), "\(unknown)")
                try scene.mount(source, options).unmount()
                let known = try scene.mountAnswered(source, wrong)
                #expect(known.status == 0 && known.errors.contains("mounted from what is remembered"), "\(known)")
                let mount = scene.folder + "/mount"
                let status = try ChildProcess.run([program, "status", mount]).output
                #expect(status.contains(": the origin answers 401, since 20"), "\(status)")
                #expect(try ChildProcess.run([program, "umount", mount]).status == 0)
            }
        }

        @Test(
            "A file of a file server is a folder with that file, also after the server has gone",
            arguments: LongTests.all(FileServer.allCases, elseOnly: [.vsftpd, .sshd]))
        func oneFile(_ kind: FileServer) throws {
            let name = "a #1 film.m3u8"
            func look(_ scene: Scene, _ source: String, _ options: [String]) throws {
                let film = (source.hasSuffix("/") ? source : source + "/") + "a%20%231%20film.m3u8"
                let mount = try scene.mount(film, options)
                #expect(try names(in: mount.path) == [name])
                try expectSame(scene.work("root/" + name), mount.file(name))
                try mount.unmount()
            }
            try withScene { scene in
                var known = ("", [String]())
                try withServer(kind, [name], in: scene) { _, _, source, options in
                    known = (source, options)
                    try look(scene, source, options)
                }
                try look(scene, known.0, known.1)
            }
        }

        @Test("doctor examines a file server", arguments: [FileServer.pyftpdlib, .sshd])
        func doctor(_ kind: FileServer) throws {
            try withServer(kind, ["film.mkv"]) { scene, _, _, source, options in
                let words = [program, "doctor", source, "--cache-dir", scene.cache] + options
                let end = try ChildProcess.run(words, within: .seconds(30))
                #expect(end.output.contains("a folder ("), "\(end.output)\(end.errors)")
                #expect(end.output.contains("parts of a file can be read"), "\(end.output)\(end.errors)")
                let file = [program, "doctor", (source.hasSuffix("/") ? source : source + "/") + "film.mkv"]
                let other = try ChildProcess.run(file + words.dropFirst(3), within: .seconds(30))
                #expect(other.output.contains("parts of a file can be read"), "\(other.output)\(other.errors)")
                #expect(!other.output.contains("a folder ("), "\(other.output)\(other.errors)")
                guard source.contains(FileServer.login) else { return }
                let login = scene.work("login")
                try writeFile(login, "username=\(FileServer.user)\npassword=\(FileServer.password)\n".utf8)
                chmod(login, 0o600)
                let bare = source.replacing(FileServer.login, with: "")
                for option in [["--credentials", login], ["-o", "credentials=" + login]] {
                    let words = [program, "doctor", bare, "--cache-dir", scene.cache] + option
                    let end = try ChildProcess.run(words, within: .seconds(30))
                    #expect(end.status == 0 && end.output.contains("a folder ("), "\(end.output)\(end.errors)")
                }
            }
        }
    }
}
