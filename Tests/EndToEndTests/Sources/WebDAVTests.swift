import Glibc
import ReelCore
import TestKit
import Testing

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
            try kind.require()
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
                    // To the second, which no listing shows.
                    for name in ["plain.mp4", "sub/same name.bin"] {
                        let dates = try [root + "/" + name, mount.file(name)].map { try attributes($0).st_mtim.tv_sec }
                        #expect(dates[0] == dates[1])
                    }
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

        @Test(
            "WsgiDAV's login is answered as it asks for it, and a wrong password is reported",
            arguments: ["Basic", "Digest"])
        func login(_ kind: String) throws {
            try WebDAVServer.wsgidav.require()
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                try writeFile(root + "/a film.mkv", FileOrigin(length: 300_000).expectedBytes(ByteRange(0, 300_000)))
                let server = try WebDAVServer.startWsgiDAV(
                    root: root, place: scene.work("server"), isDigest: kind == "Digest", user: "joe", password: "a:b c")
                defer { server.stop() }
                func secret(_ password: String) throws -> String {
                    try writeFile(scene.work("login"), "username=joe\npassword=\(password)\n".utf8)
                    chmod(scene.work("login"), 0o600)
                    return "credentials=" + scene.work("login")
                }
                for scheme in ["dav", "http"] {
                    let source = scheme + server.url.dropFirst(4)
                    let refused = try scene.tryMount(
                        source, ["-o", secret("wrong"), "--cache-dir", scene.work("other")])
                    #expect(refused.status == 32 && refused.errors.contains("401"), "\(refused)")
                    let mount = try scene.mount(source, ["-o", secret("a:b c")])
                    try expectSame(root, mount.path)
                    try mount.unmount()
                }
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
