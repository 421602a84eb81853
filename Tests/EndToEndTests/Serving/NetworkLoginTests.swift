import Glibc
import TestKit
import Testing

/// `reelfs serve` where other machines could connect: at an address of loopback that counts as one of a network.
@Suite struct NetworkLoginTests {
    private static let film = FileOrigin(length: 3 << 20 + 77)

    /// A server at 127.0.0.2 with the login ann and "open sesame".
    private func withNetwork(_ body: (Scene, Serving) throws -> Void) throws {
        let server = try filmServer(Self.film)
        defer { server.stop() }
        try withScene { scene in
            let login = try scene.secret("login", "username=ann\npassword=open sesame\n")
            let options = ["--listen", "127.0.0.2:0", "--listen-credentials", login]
            try withServing(server.address, cache: scene.cache, options) { try body(scene, $0) }
        }
    }

    /// - Returns: the status that curl(1) shows at the end.
    private func curl(_ words: [String], to path: String = "/dev/null") throws -> String {
        try ChildProcess.run(["curl", "-sS", "-o", path, "-w", "%{http_code}"] + words).output
    }

    @Test("No server is there for other machines without a login")
    func refused() throws {
        try withScene { scene in
            for address in ["0.0.0.0:0", "[::]:0", "127.0.0.2:0", "nas.example:0"] {
                let end = try ChildProcess.run(
                    [program, "serve", "http://127.0.0.1:9/", "--cache-dir", scene.cache, "--listen", address])
                #expect(end.status == 1 && end.output.isEmpty, "\(end)")
                #expect(end.errors.contains("needs listen-credentials"), "\(end)")
                #expect(end.errors.split(separator: "\n").count == 1, "\(end)")
            }
            let end = try ChildProcess.run(
                [program, "mount", "http://127.0.0.1:9/", scene.mountpoint, "--listen-origin", "https://films.example"])
            #expect(end.status == 1 && end.errors.contains("listen-origin needs listen"), "\(end)")
        }
    }

    @Test("Each path wants the login, and curl brings it by Digest, by Basic and by the better of both")
    func logins() throws {
        try withNetwork { (scene, serving) throws in
            for path in ["", "files/", "files/film.mkv", "dav/", "metrics", "api/v1/status", "none", "vfs/stats"] {
                #expect(try curl([serving.address + path]) == "401", "\(path)")
                #expect(try curl(["-X", "POST", serving.address + path]) == "401", "\(path)")
            }
            for way in ["--digest", "--basic", "--anyauth"] {
                let film = scene.work("film")
                let words = [way, "-u", "ann:open sesame", serving.files + "film.mkv"]
                #expect(try curl(words, to: film) == "200", "\(way)")
                #expect(Self.film.difference(inFile: film) == nil)
                unlink(film)
            }
            let call = ["-d", "path=film.mkv", serving.address + "api/v1/pin"]
            #expect(try curl(["--digest", "-u", "ann:open sesame"] + call) == "200")
            #expect(try curl(["--digest", "-u", "ann:open"] + call) == "401")
            #expect(try curl(["-u", "ann:open sesame", "-H", "Host: evil.example", serving.files]) == "421")
        }
    }

    @Test("A mount of another reelfs reads by the same login, which it proves by Digest once it is asked to")
    func digestClient() throws {
        try withNetwork { (scene, serving) throws in
            let login = try scene.secret("client", "username=ann\npassword=open sesame\n")
            let cache = scene.work("other")
            mkdir(cache, 0o755)
            let copy = try ChildProcess.run(
                [
                    "rclone", "copyto", ":webdav:film.mkv", scene.work("copy"), "--webdav-url",
                    serving.address + "dav/",
                    "--webdav-user", "ann", "--webdav-pass",
                    String(try ChildProcess.run(["rclone", "obscure", "open sesame"]).output.dropLast()), "--config",
                    scene.work("rclone.conf"), "--retries", "1",
                ], within: .seconds(60))
            #expect(copy.status == 0, "\(copy.errors)")
            #expect(Self.film.difference(inFile: scene.work("copy")) == nil)
            try withServing(serving.files, cache: cache, ["--credentials", login]) { (second) throws in
                let film = scene.work("film")
                #expect(try curl([second.files + "film.mkv"], to: film) == "200")
                #expect(Self.film.difference(inFile: film) == nil)
            }
        }
    }

    @Test("After ten wrong passwords no further one is looked at, and the answer says for how long")
    func wrongPasswords() throws {
        try withNetwork { (_, serving) throws in
            let url = serving.files + "film.mkv"
            for number in 0..<10 { #expect(try curl(["-u", "ann:\(number)", url]) == "401") }
            let head = try ChildProcess.run(["curl", "-sSI", "-u", "ann:open sesame", url]).output
            #expect(head.hasPrefix("HTTP/1.1 429") && head.contains("\r\nRetry-After: "), "\(head)")
            #expect(try curl([url]) == "401")
        }
    }
}
