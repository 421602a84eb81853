import Glibc
import ReelCore
import TestKit
import Testing

/// `reelfs serve`, which needs no /dev/fuse.
@Suite struct ServeTests {
    private static let film = FileOrigin(length: 3 << 20 + 77)

    /// A real nginx over one film, and reelfs before it.
    private func withBoth(_ body: (RealServer, Serving) throws -> Void) throws {
        try withScene { scene in
            let root = scene.work("root")
            mkdir(root, 0o755)
            try writeFile(root + "/film.mkv", Self.film.whole)
            try writeFile(root + "/empty.mkv", [])
            let server = try RealServer(.nginx, root: root, place: scene.work("server"))
            defer { server.stop() }
            try withServing(server.url, cache: scene.cache) { try body(server, $0) }
        }
    }

    @Test("Status prints the page with the token on a terminal alone, and none where a login is wanted")
    func tokenForATerminal() throws {
        let server = try ScriptedServer(FileOrigin(length: 1 << 20).answer)
        defer { server.stop() }
        try withScene { scene in
            let status = [program, "status", "--cache-dir", scene.cache]
            let terminal = ["python3", "-c", "import pty, sys; pty.spawn(sys.argv[1:])"]
            try withServing(server.url("/film.mkv").text, cache: scene.cache) { serving in
                let token = trimmed(try #require(contents(scene.cache + "/listen.token")))
                let seen = try ChildProcess.run(terminal + status).output
                #expect(seen.contains("page    \(serving.address)#token=\(token)"), "\(seen)")
                for words in [status, terminal + status + ["--json"]] {
                    let output = try ChildProcess.run(words).output
                    #expect(output.contains(serving.address) && !output.contains(token), "\(output)")
                }
            }
            let login = scene.work("login")
            try writeFile(login, Array("username=u\npassword=pass-word\n".utf8))
            chmod(login, 0o600)
            let options = ["--listen-credentials", login]
            try withServing(server.url("/film.mkv").text, cache: scene.cache, options) { serving in
                let seen = try ChildProcess.run(terminal + status).output
                #expect(seen.contains(serving.address) && !seen.contains("#token="), "\(seen)")
            }
        }
    }

    @Test("Ranges and conditions are answered as nginx answers them for the same file")
    func sameAnswers() throws {
        try withBoth { server, serving in
            let length = Self.film.length
            let nginx = try RawAnswer(server.port, "HEAD", "/film.mkv")
            let mine = try RawAnswer(serving.port, "HEAD", "/files/film.mkv")
            let date = try #require(nginx.headers["last-modified"])
            #expect(mine.headers["last-modified"] == date)
            let tag = try #require(mine.headers["etag"])
            let ranges = [
                "bytes=0-0", "bytes=0-99", "bytes=100-", "bytes=-100", "bytes=-99999999", "bytes=\(length - 1)-",
                "bytes=\(length)-", "bytes=0-\(length)", "bytes=-0", "bytes=5-4", "bytes=a-b", "bytes=1", "bites=0-1",
                "bytes= 1 - 2 ", "bytes=0-,0-", "bytes=131071-131072", "bytes=3-2",
                "bytes=99999999999999999999-", "bytes=0-9223372036854775807",
            ]
            for method in ["GET", "HEAD"] {
                for range in ranges {
                    try expectSame("/film.mkv", method, ["Range: \(range)"], server, serving)
                }
            }
            for range in ["bytes=0-", "bytes=-1", "bytes=5-"] {
                try expectSame("/empty.mkv", "GET", ["Range: \(range)"], server, serving)
            }
            for line in [
                "If-Modified-Since: \(date)", "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
                "If-Unmodified-Since: \(date)", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
                "If-None-Match: \"other\"", "If-Match: \"other\"", "If-None-Match: *", "If-Range: \(date)",
                "If-Range: Thu, 01 Jan 1970 00:00:00 GMT", "If-Range: \"other\"",
            ] {
                try expectSame("/film.mkv", "GET", [line, "Range: bytes=7-11"], server, serving)
            }
            for (name, status) in [("If-None-Match", 304), ("If-Match", 206), ("If-Range", 206)] {
                let answer = try RawAnswer(
                    serving.port, "GET", "/files/film.mkv", ["\(name): \(tag)", "Range: bytes=7-11"])
                #expect(answer.status == status, "\(name)")
            }
            // A new process knows the version by the same tag.
            #expect(!tag.hasPrefix("W/"))
        }
    }

    private func expectSame(
        _ path: String, _ method: String, _ lines: [String], _ server: RealServer, _ serving: Serving
    ) throws {
        let theirs = try RawAnswer(server.port, method, path, lines)
        let mine = try RawAnswer(serving.port, method, "/files" + path, lines)
        #expect(mine.status == theirs.status, "\(method) \(lines)")
        #expect(mine.headers["content-range"] == theirs.headers["content-range"], "\(method) \(lines)")
        guard theirs.status < 300 else { return }
        #expect(mine.headers["content-length"] == theirs.headers["content-length"], "\(method) \(lines)")
        #expect(mine.headers["content-type"] == theirs.headers["content-type"], "\(method) \(lines)")
        #expect(mine.body.elementsEqual(theirs.body), "\(method) \(lines)")
    }

    @Test("The tag of a version is the same in another run, and another one's is another")
    func tags() throws {
        let film = FileOrigin(length: 1000)
        let server = try filmServer(film)
        defer { server.stop() }
        try withScene { scene in
            func tag() throws -> String? {
                var tag: String?
                try withServing(server.address, cache: scene.cache) { serving in
                    tag = try RawAnswer(serving.port, "HEAD", "/files/film.mkv").headers["etag"]
                }
                return tag
            }
            let first = try #require(try tag())
            #expect(try tag() == first)
            film.change(to: FileOrigin.Version(seed: 2, length: 1000, entityTag: "\"v2\""))
            // The listing is the same, and a tag that was confirmed a moment ago holds for five seconds.
            #expect(eventually(within: .seconds(10)) { (try? tag()).map { $0 != first } ?? false })
        }
    }

    @Test("What is not there, not asked for rightly or from elsewhere is refused with its status")
    func refusals() throws {
        let server = try filmServer(Self.film)
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                let status = { try RawAnswer(serving.port, $0, $1).status }
                #expect(try status("GET", "/") == 200)
                #expect(try status("GET", "/files") == 301)
                #expect(try status("GET", "/files/") == 200)
                #expect(try status("GET", "/files/film.mkv/") == 404)
                #expect(try status("GET", "/files/film.mkv/x") == 404)
                #expect(try status("GET", "/files/none") == 404)
                #expect(try status("GET", "/files/../film.mkv") == 404)
                #expect(try status("POST", "/files/film.mkv") == 405)
                #expect(try status("PUT", "/files/new") == 405)
                // One that a page of another name sends (DNS rebinding).
                let foreign = try RawConnection(serving.port)
                foreign.send("GET /files/ HTTP/1.1\r\nHost: films.example\r\n\r\n")
                let refusal = String(decoding: foreign.receive(), as: UTF8.self)
                #expect(
                    refusal.hasPrefix("HTTP/1.1 421") && refusal.contains("\r\nConnection: close\r\n"), "\(refusal)")
                #expect(foreign.isClosed())
                // No HTTP at all, and a head without an end.
                let strange = try RawConnection(serving.port)
                strange.send("\u{1}\u{2}\r\n\r\n")
                #expect(String(decoding: strange.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 400"))
                let long = try RawConnection(serving.port)
                for _ in 0..<64 { long.send("GET / HTTP/1.1\r\nX: " + String(repeating: "a", count: 8 << 10)) }
                #expect(long.receive().count < 1 << 10)
                // Two requests in one packet.
                let two = try RawConnection(serving.port)
                let head = "HEAD /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n"
                two.send(head + "\r\n" + head + "Connection: close\r\n\r\n")
                #expect(String(decoding: two.receive(), as: UTF8.self).split(separator: "HTTP/1.1 200 OK").count == 2)
            }
        }
    }

    @Test("Only clients with the user and password get anything, and the log has neither")
    func credentials() throws {
        let server = try filmServer(Self.film)
        defer { server.stop() }
        try withScene { scene in
            let file = scene.work("secret")
            try writeFile(file, "username=ann\npassword=open sesame\n".utf8)
            chmod(file, 0o600)
            let options = ["--listen-credentials", file, "--log-level", "trace"]
            try withServing(server.address, cache: scene.cache, options) { serving in
                for path in ["/", "/files/", "/files/film.mkv"] {
                    let answer = try RawAnswer(serving.port, "GET", path)
                    #expect(answer.status == 401)
                    #expect(answer.headers["www-authenticate"]?.hasPrefix("Basic realm=") == true)
                }
                let fetched = try ChildProcess.run(
                    ["curl", "-fsS", "-u", "ann:open sesame", serving.files + "film.mkv", "-o", scene.work("film")])
                #expect(fetched.status == 0, "\(fetched.errors)")
                #expect(Self.film.difference(inFile: scene.work("film")) == nil)
                #expect(!serving.process.said.errors.contains("sesame"))
            }
            chmod(file, 0o644)
            let end = try ChildProcess.run([program, "serve", server.address, "--listen-credentials", file])
            #expect(end.status == 1 && end.errors.contains("accessible to others"), "\(end)")
        }
    }

    @Test("A Unix socket is its owner's alone, goes with the server, and one that a crash left is replaced")
    func unixSocket() throws {
        let server = try filmServer(Self.film)
        defer { server.stop() }
        try withScene { scene in
            let path = scene.work("socket")
            let options = ["--listen", "unix:" + path]
            let crashed = try Serving(server.address, cache: scene.cache, options)
            crashed.process.signal(SIGKILL)
            _ = try crashed.process.wait()
            #expect(access(path, F_OK) == 0)
            try withServing(server.address, cache: scene.cache, options) { serving in
                #expect(serving.address == "unix:" + path)
                #expect(try attributes(path).st_mode & 0o777 == 0o600)
                let end = try ChildProcess.run(
                    ["curl", "-fsS", "--unix-socket", path, "http://any.name/files/film.mkv", "-o", scene.work("film")])
                #expect(end.status == 0, "\(end.errors)")
                #expect(Self.film.difference(inFile: scene.work("film")) == nil)
                let second = try ChildProcess.run([program, "serve", server.address, "--listen", "unix:" + path])
                #expect(second.status == 32 && second.errors.contains("in use"), "\(second)")
            }
            #expect(access(path, F_OK) != 0)
        }
    }

    @Test("A source is served once, and a second attempt names who serves it")
    func once() throws {
        let server = try filmServer(Self.film)
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                let end = try ChildProcess.run([program, "serve", server.address, "--cache-dir", scene.cache])
                #expect(end.status == 32, "\(end)")
                #expect(end.errors.contains("already served at \(serving.address)"), "\(end.errors)")
            }
        }
    }

    @Test("Status shows a server that has no mount, for as long as it runs")
    func status() throws {
        let server = try filmServer(Self.film)
        defer { server.stop() }
        try withScene { scene in
            // It is 32 where a mount of another test does not answer.
            let status = { try ChildProcess.run([program, "status", "--cache-dir", scene.cache]) }
            try withServing(server.address, cache: scene.cache) { serving in
                let end = try status()
                #expect(end.output.contains("\(server.address) on \(serving.address)"), "\(end)")
            }
            let end = try status()
            #expect([0, 32].contains(end.status) && !end.output.contains(server.address), "\(end)")
        }
    }

    @Test("Two clients on one film: the origin sends it once")
    func twoClients() throws {
        let film = FileOrigin(length: 20 << 20 + 5)
        let server = try filmServer(film)
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                let clients = try (0..<2).map {
                    try ChildProcess(["curl", "-fsS", serving.files + "film.mkv", "-o", scene.work("copy\($0)")])
                }
                for (index, client) in clients.enumerated() {
                    let end = try client.wait()
                    #expect(end.status == 0, "\(end.errors)")
                    #expect(film.difference(inFile: scene.work("copy\(index)")) == nil)
                }
            }
            let listings = server.requests.count { $0.path == "/" }
            let bodies = server.bodyBytesSent
            #expect(
                bodies - film.length - server.bytesAskedTwice(of: film.length) < Int64(listings + 1) * 1000,
                "\(bodies) of \(film.length)")
        }
    }

    @Test("Bytes of a hole go out as they come in")
    func trickle() throws {
        let gate = Gate()
        let bytes = GeneratedBytes(seed: 1)
        let length: Int64 = 4 << 20
        let server = try ScriptedServer { request in
            if request.path == "/" { return folderScript(["film.mkv": FileOrigin(length: length)])(request) }
            let range = request.range(of: length) ?? ByteRange(0, length)
            let head: [(name: String, value: String)] = [
                ("Content-Range", "bytes \(range.lower)-\(range.upper - 1)/\(length)"), ("ETag", "\"v1\""),
                ("Content-Length", "\(range.count)"),
            ]
            let middle = max(range.lower, min(range.upper, 1 << 20))
            return [
                .head(206, head), .generated(bytes, ByteRange(range.lower, middle)), .wait(gate),
                .generated(bytes, ByteRange(middle, range.upper)),
            ]
        }
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                let connection = try RawConnection(serving.port)
                connection.send("GET /files/film.mkv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                let early = connection.receive(atLeast: 896 << 10)
                #expect(early.count >= 896 << 10)
                gate.open()
                let all = early + connection.receive()
                let body = all[(try #require(all.firstRange(of: Array("\r\n\r\n".utf8)))).upperBound...]
                #expect(body.count == Int(length))
                #expect(Array(body).elementsEqual(bytes.bytes(ByteRange(0, length))))
            }
        }
    }

    @Test("Clients that do not read, or come and go, cost little memory and hold nobody back")
    func slowClients() throws {
        let film = FileOrigin(length: 16 << 20)
        let server = try filmServer(film)
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                let request = "GET /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n\r\n"
                // Warm: what one reader of the whole film needs is no slow client's cost.
                try fetch(serving, film, scene.work("first"))
                let before = try #require(memory("VmRSS", of: serving.process.pid))
                let slow = try (0..<200).map { _ in
                    let connection = try RawConnection(serving.port, buffer: 64 << 10)
                    connection.send(request)
                    return connection
                }
                for connection in slow { #expect(connection.receive(atLeast: 1).count > 0) }
                for _ in 0..<50 { try RawConnection(serving.port).send(request) }
                try fetch(serving, film, scene.work("second"))
                let grown = try #require(memory("VmRSS", of: serving.process.pid)) - before
                // A piece of 128 KiB each, and the connection itself.
                #expect(grown < 200 * (128 + 64), "\(grown) KiB")
                withExtendedLifetime(slow) {}
            }
        }
    }

    private func fetch(_ serving: Serving, _ film: FileOrigin, _ path: String) throws {
        let end = try ChildProcess.run(["curl", "-fsS", serving.files + "film.mkv", "-o", path])
        #expect(end.status == 0, "\(end.errors)")
        #expect(film.difference(inFile: path) == nil)
    }

    @Test("The oldest idle connection makes room for a new one, and what is being sent goes on")
    func manyClients() throws {
        let server = try filmServer(Self.film)
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                let idle = try (0..<300).map { _ in try RawConnection(serving.port) }
                #expect(try RawAnswer(serving.port, "GET", "/files/").status == 200)
                // It was closed by the server.
                #expect(idle[0].receive().isEmpty)
                withExtendedLifetime(idle) {}
            }
        }
    }

    @Test("A client that leaves ends its read, and SIGTERM ends a server whose clients wait")
    func leaving() throws {
        let film = FileOrigin(length: 64 << 20)
        let server = try filmServer(film)
        defer { server.stop() }
        try withScene { scene in
            let serving = try Serving(server.address, cache: scene.cache, ["--timeout", "120"])
            film.fault = .stallAfter(1 << 20)
            let request = "GET /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n\r\n"
            for _ in 0..<5 {
                let connection = try RawConnection(serving.port)
                connection.send(request)
                #expect(connection.receive(atLeast: 200 << 10).count > 0)
            }
            let waiting = try RawConnection(serving.port)
            waiting.send(request)
            _ = waiting.receive(atLeast: 200 << 10)
            // A third of the time that a read waits.
            #expect(eventually(within: .seconds(40)) { openSockets(of: serving) == 1 })
            #expect(try serving.stop(within: .seconds(40)) == 0)
        }
    }

    @Test("A file whose length the origin does not give comes whole, in chunks")
    func growing() throws {
        let film = FileOrigin(length: 2 << 20 + 9)
        film.fault = .chunkedWithoutLength
        let server = try ScriptedServer(["/live.ts": film])
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address + "live.ts", cache: scene.cache) { serving in
                let first = try ChildProcess.run([
                    "curl", "-fsS", "-i", serving.files + "live.ts", "-o", scene.work("a"),
                ])
                #expect(first.status == 0, "\(first.errors)")
                let bytes = try readWhole(scene.work("a"))
                let end = try #require(bytes.firstRange(of: Array("\r\n\r\n".utf8)))
                #expect(film.difference(from: Array(bytes[end.upperBound...])) == nil)
                let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).lowercased()
                #expect(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "\(head)")
                // From here on its length is known.
                let answer = try RawAnswer(serving.port, "GET", "/files/live.ts", ["Range: bytes=-9"])
                #expect(answer.status == 206 && answer.body == film.expectedBytes(ByteRange(2 << 20, 2 << 20 + 9)))
            }
        }
    }

    @Test("What is cached is served without the origin; what is not is refused, and never a wrong byte")
    func offline() throws {
        let (film, other) = (FileOrigin(length: 1 << 20), FileOrigin(length: 1 << 20, seed: 2))
        let server = try folderServer(["film.mkv": film, "other.mkv": other])
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { try fetch($0, film, scene.work("a")) }
            server.stop()
            try withServing(server.address, cache: scene.cache) { serving in
                try fetch(serving, film, scene.work("b"))
                let answer = try RawAnswer(serving.port, "GET", "/files/other.mkv")
                #expect([502, 503].contains(answer.status), "\(answer.status)")
            }
        }
    }

    /// Its connections with clients.
    private func openSockets(of serving: Serving) -> Int {
        let port = String(serving.port, radix: 16, uppercase: true)
        let lines = (contents("/proc/net/tcp") ?? "").split(separator: "\n").dropFirst()
        return lines.count { line in
            let fields = line.split(separator: " ")
            return fields.count > 3 && fields[1].hasSuffix(":\(port)") && fields[3] == "01"
        }
    }

    @Test("curl, wget, rclone, ffmpeg and mpv get the origin's bytes")
    func programs() throws {
        try withScene { scene in
            let root = scene.work("root")
            mkdir(root, 0o755)
            mkdir(root + "/Films & more", 0o755)
            let local = root + "/Films & more/film 1.mkv"
            let make = [
                "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25:duration=2", "-c:v",
                "mpeg4",
                "-bitexact", local,
            ]
            #expect(try ChildProcess.run(make).status == 0)
            let server = try RealServer(.nginx, root: root, place: scene.work("server"))
            defer { server.stop() }
            try withServing(server.url, cache: scene.cache) { serving in
                let folder = serving.files + "Films%20&%20more/"
                let film = folder + "film%201.mkv"
                let copy = scene.work("copy.mkv")
                let none = ["mpv", "--no-config", "--vo=null", "--ao=null", "--untimed", "--no-terminal"]
                let runs = [
                    ["curl", "-fsS", "-r", "0-", film, "-o", copy], ["wget", "-q", "-O", copy, film],
                    [
                        "rclone", "--config", "/dev/null", "copyto", ":http:Films & more/film 1.mkv", copy,
                        "--http-url", serving.files,
                    ],
                    none + [film], none + ["--start=50%", folder + "?m3u"],
                ]
                for words in runs {
                    unlink(copy)
                    let end = try ChildProcess.run(words, within: .seconds(40))
                    #expect(end.status == 0, "\(words): \(end.output)\(end.errors)")
                    if words[0] != "mpv" { #expect(try readWhole(copy) == readWhole(local), "\(words)") }
                }
                let frames = { try ChildProcess.run(["ffmpeg", "-v", "error", "-i", $0, "-f", "framemd5", "-"]) }
                let (expected, found) = (try frames(local), try frames(film))
                #expect(found.status == 0 && found.output == expected.output, "\(found.errors)")
            }
        }
    }

    @Test("VLC begins in the middle of a film, and GStreamer shows each picture of one whose index is at its end")
    func players() throws {
        try withScene { scene in
            let root = scene.work("root")
            mkdir(root, 0o755)
            let picture = ["-f", "lavfi", "-i", "testsrc=size=160x90:rate=25:duration=8", "-bitexact"]
            for output in [["-c:v", "mpeg4", "-g", "25", "a.mp4"], ["-c:v", "png", "-pix_fmt", "rgb24", "b.mov"]] {
                let words = ["ffmpeg", "-v", "error"] + picture + output.dropLast() + [root + "/" + output.last!]
                #expect(try ChildProcess.run(words).status == 0)
            }
            let server = try RealServer(.nginx, root: root, place: scene.work("server"))
            defer { server.stop() }
            let home = scene.openHome()
            try withServing(server.url, cache: scene.cache) { serving in
                let end = try vlc(["--start-time=4", serving.files + "a.mp4"], home: home, to: home + "/a.ts")
                let count = try ChildProcess.run([
                    "ffprobe", "-v", "error", "-count_packets", "-select_streams", "v", "-show_entries",
                    "stream=nb_read_packets", "-of", "csv=p=0", home + "/a.ts",
                ])
                // Of 200 pictures.
                let pictures = Int(count.output.prefix { $0.isNumber }) ?? 0
                #expect(end.status == 0 && (75...125).contains(pictures), "\(pictures): \(end.errors)")
                let streamer = try ChildProcess.run(
                    [
                        "gst-launch-1.0", "-q", "uridecodebin", "uri=\(serving.files)b.mov", "!",
                        "video/x-raw,format=RGB", "!", "filesink", "location=\(home)/b.rgb",
                    ], environment: ["HOME": home, "no_proxy": "127.0.0.1,localhost"], within: .seconds(40))
                #expect(streamer.status == 0, "\(streamer.errors)")
                let words = ["ffmpeg", "-v", "error", "-i", root + "/b.mov", "-f", "rawvideo", "-pix_fmt", "rgb24"]
                #expect(try ChildProcess.run(words + [home + "/c.rgb"]).status == 0)
                #expect(try readWhole(home + "/b.rgb") == readWhole(home + "/c.rgb"))
            }
        }
    }
}

extension EndToEnd {
    /// The HTTP server beside a mount, and before one.
    @Suite struct ListenTests {
        @Test("reelfs mounts what reelfs serves: the same tree, name by name and byte by byte")
        func twice() throws {
            try withScene { scene in
                let root = scene.work("root")
                try makeOddTree(root, folder: "colon:folder", names: ServerTests.oddNames)
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                mkdir(scene.work("first"), 0o755)
                try withServing(server.url, cache: scene.work("first")) { serving in
                    let mount = try scene.mount(serving.files)
                    try expectSame(root, mount.path)
                    try mount.unmount()
                }
            }
        }

        @Test("A mount that listens serves its tree, says where, and listens no more when it has ended")
        func mounted() throws {
            let film = FileOrigin(length: 3 << 20)
            try withMount(of: film, ["--listen", "127.0.0.1:0"]) { scene, server, mount in
                let status = try ChildProcess.run([program, "status", mount.path]).output
                let line = try #require(
                    status.split(separator: "\n").first { $0.hasPrefix("  listens http://127.0.0.1:") })
                let port = try #require(UInt16(line.dropLast().split(separator: ":").last ?? ""))
                let answer = try RawAnswer(port, "GET", "/files/film.mkv")
                #expect(answer.status == 200 && film.difference(from: answer.body) == nil)
                // Both read one cache.
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                #expect(server.bodyBytesSent - server.bytesAskedTwice(of: film.length) < film.length + 4096)
                let metrics = String(decoding: try RawAnswer(port, "GET", "/metrics").body, as: UTF8.self)
                #expect(metrics.contains("\nreelfs_origin_bytes_total "), "\(metrics)")
                let json = String(decoding: try RawAnswer(port, "GET", "/api/v1/status").body, as: UTF8.self)
                #expect(json.contains("\"mountpoint\":\"\(mount.path)\"") && json.contains("\"hits\":"), "\(json)")
                try mount.unmount()
                #expect(throws: ChildError.self) { try RawConnection(port) }
            }
        }

        @Test("A listing that an HTTP client reads changes nothing of what the kernel keeps")
        func listing() throws {
            let film = FileOrigin(length: 1000)
            try withMount(of: film, ["--listen", "127.0.0.1:0"]) { _, _, mount in
                let status = try ChildProcess.run([program, "status", "--json", mount.path]).output
                let listening = status.split(separator: "\"listening\":\"http://127.0.0.1:").last ?? ""
                let port = try #require(UInt16(listening.prefix { $0.isNumber }))
                for _ in 0..<3 {
                    #expect(
                        String(decoding: try RawAnswer(port, "GET", "/files/").body, as: UTF8.self).contains("film.mkv")
                    )
                    #expect(try names(in: mount.path) == ["film.mkv"])
                }
            }
        }

        @Test("Without --listen there is neither a thread nor a socket for it")
        func off() throws {
            try withMount(of: FileOrigin(length: 1000)) { _, _, mount in
                let threads = try names(in: "/proc/\(mount.pid)/task").map {
                    contents("/proc/\(mount.pid)/task/\($0)/comm") ?? ""
                }
                #expect(!threads.contains { $0.hasPrefix("NIO") })
                let sockets = Set(
                    try names(in: "/proc/\(mount.pid)/fd").compactMap { name -> String? in
                        var bytes = [CChar](repeating: 0, count: 64)
                        let count = readlink("/proc/\(mount.pid)/fd/\(name)", &bytes, 63)
                        let text = String(
                            decoding: bytes[..<max(0, count)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
                        return text.hasPrefix("socket:[") ? String(text.dropFirst(8).dropLast()) : nil
                    })
                // State 0A is LISTEN.
                var listening: Set<String> = []
                for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
                    for line in (contents(table) ?? "").split(separator: "\n") {
                        let fields = line.split(separator: " ")
                        if fields.count > 9, fields[3] == "0A" { listening.insert(String(fields[9])) }
                    }
                }
                #expect(sockets.isDisjoint(with: listening))
            }
        }
    }
}
