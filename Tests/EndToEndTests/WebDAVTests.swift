import Glibc
import ReelCore
import TestKit
import Testing

/// A real WebDAV server on loopback over one directory.
enum WebDAVServer: String, CaseIterable, Sendable {
    case apache2, lighttpd, nginx, rclone, wsgidav

    /// What it needs beside the program.
    private var module: String? {
        switch self {
        case .apache2: "/usr/lib/apache2/modules/mod_dav_fs.so"
        case .lighttpd: "/usr/lib/lighttpd/mod_webdav.so"
        case .nginx: "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so"
        case .rclone, .wsgidav: nil
        }
    }

    var isInstalled: Bool { isProgram(rawValue) && (module.map { access($0, R_OK) == 0 } ?? true) }

    /// Whether a plain GET of a folder lists it as well: it is then mounted as a listing, unless `dav://` says better.
    var hasListing: Bool { self == .rclone || self == .wsgidav }

    func start(root: String, place: String) throws -> RealServer {
        try RealServer(rawValue, place: place) { port in try words(root: root, place: place, port: port) }
    }

    private func words(root: String, place: String, port: UInt16) throws -> [String] {
        let file = place + "/configuration"
        switch self {
        case .apache2:
            let modules = ["mpm_event", "authz_core", "dir", "mime", "dav", "dav_fs"].map {
                "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so"
            }
            try writeFile(
                file,
                """
                \(modules.joined(separator: "\n"))
                ServerRoot \(place)
                PidFile \(place)/pid
                DefaultRuntimeDir \(place)
                Mutex posixsem
                Listen 127.0.0.1:\(port)
                ServerName localhost
                ErrorLog \(place)/error
                TypesConfig /etc/mime.types
                DocumentRoot \(root)
                AllowEncodedSlashes On
                DavLockDB \(place)/locks
                <Directory "\(root)">
                    Dav On
                    Require all granted
                </Directory>
                """.utf8)
            return ["apache2", "-X", "-f", file]
        case .lighttpd:
            try writeFile(
                file,
                """
                server.modules = ("mod_webdav")
                server.document-root = "\(root)"
                server.bind = "127.0.0.1"
                server.port = \(port)
                webdav.activate = "enable"
                webdav.is-readonly = "enable"
                """.utf8)
            return ["lighttpd", "-D", "-f", file]
        case .nginx:
            let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            let temporary = folders.map { "\($0)_temp_path \(place)/\($0);" }.joined(separator: "\n")
            try writeFile(
                file,
                """
                load_module \(module!);
                \(geteuid() == 0 ? "user root;" : "") daemon off; master_process off; pid \(place)/pid; error_log stderr;
                events {}
                http {
                    \(temporary)
                    access_log off;
                    server {
                        listen 127.0.0.1:\(port);
                        root \(root);
                        dav_ext_methods PROPFIND OPTIONS;
                    }
                }
                """.utf8)
            return ["nginx", "-c", file, "-p", place]
        case .rclone:
            return [
                "rclone", "serve", "webdav", root, "--addr", "127.0.0.1:\(port)", "--config", place + "/rclone.conf",
            ]
        case .wsgidav:
            return ["wsgidav", "--host", "127.0.0.1", "--port", "\(port)", "--root", root, "--auth", "anonymous"]
        }
    }
}

extension EndToEnd {
    /// WebDAV collections of real servers.
    @Suite struct WebDAVTests {
        private func makeTree(_ root: String) throws {
            let longest = String(repeating: "x", count: 251) + ".mkv"
            let names = ServerTests.oddNames + [longest, "a=b,c;d@e$f!g*h(i).txt", "e\u{301}.txt"]
            try makeOddTree(root, folder: "100% #1?", names: names)
            #expect(mkdir(root + "/empty", 0o755) == 0)
        }

        @Test(
            "A WebDAV collection is the local tree, also after its server has gone", arguments: WebDAVServer.allCases,
            ["dav", "http"])
        func sameTree(_ kind: WebDAVServer, _ scheme: String) throws {
            guard kind.isInstalled else { try Test.cancel("\(kind.rawValue) is not installed") }
            if scheme == "http", kind.hasListing { try Test.cancel("\(kind.rawValue) has a listing beside it") }
            try withScene { scene in
                let root = scene.work("root")
                try makeTree(root)
                let server = try kind.start(root: root, place: scene.work("server"))
                let source = scheme + server.url.dropFirst(4)
                var mount: Mounted
                do {
                    defer { server.stop() }
                    mount = try scene.mount(source)
                    try expectSame(root, mount.path)
                    let doctor = try ChildProcess.run([program, "doctor", source, "--cache-dir", scene.cache])
                    #expect(doctor.output.contains("a WebDAV collection, "), "\(doctor.output)\(doctor.errors)")
                    try mount.unmount()
                }
                mount = try scene.mount(source)
                try expectSame(root, mount.path)
                let status = try ChildProcess.run([program, "status", mount.path])
                #expect(status.output.contains(source), "\(status.output)")
            }
        }

        @Test("User and password of dav:// are sent to the server, and shown nowhere")
        func credentials() throws {
            let film = FileOrigin(length: 100_000)
            let server = try ScriptedServer { request in
                guard request["authorization"] == "Basic bWU6c2VzYW1l" else { return ServerStep.answer(401) }
                if request.method == "GET" { return film.answer(request) }
                let entry = "<response><href>/a.mkv</href></response>"
                return ServerStep.answer(207, body: "<multistatus xmlns='DAV:'>\(entry)</multistatus>")
            }
            defer { server.stop() }
            try withScene { scene in
                let place = "127.0.0.1:\(server.port)/"
                let mount = try scene.mount("dav://me:sesame@" + place)
                #expect(film.difference(inFile: mount.file("a.mkv")) == nil)
                let status = try ChildProcess.run([program, "status", mount.path])
                #expect(
                    status.output.contains("dav://***@" + place) && !status.output.contains("sesame"),
                    "\(status.output)")
                let line = try #require(contents("/proc/\(mount.pid)/cmdline"))
                #expect(line.contains("dav://") && !line.contains("sesame"))
                try mount.unmount()
                let found = try ChildProcess.run(["grep", "-r", "sesame", scene.cache])
                #expect(found.status == 1, "the cache knows the password: \(found.output)")
                try writeFile(scene.work("credentials"), "username=me\npassword=sesame\n".utf8)
                chmod(scene.work("credentials"), 0o600)
                let other = try scene.mount("dav://" + place, ["--credentials", scene.work("credentials")])
                #expect(try names(in: other.path) == ["a.mkv"])
            }
        }
    }
}
