import Glibc
import ReelCache
import ReelCore
import ReelHTTP
import TestKit
import Testing

@testable import ReelVolume
@testable import reelfs

/// What `reelfs doctor` asks of a server, and what it then says, without the lines that hold times.
@Suite("reelfs doctor, on a server", .serialized)
struct DoctorTests {
    private static func origin() throws -> CurlOrigin {
        var transport = TransportConfiguration(version: "test")
        transport.usesProxies = false
        return try CurlOrigin(transport)
    }

    private static func examine(_ url: ResourceURL, limit: Duration = .seconds(10)) throws -> [String] {
        let origin = try origin()
        defer { origin.shutdown() }
        var examination = OriginExamination(origin, limit: limit)
        var diagnosis = Diagnosis()
        switch examination.source(url) {
        case .failed(let probe): diagnosis.add(OriginFacts(url: url, first: probe))
        case .found(let found, let file, let first):
            diagnosis.add(found)
            if let file { diagnosis.add(examination.file(file, first: first)) }
        }
        return diagnosis.findings.map { "\($0.mark) \($0.fact)" }
            .filter { !$0.hasPrefix("ok the origin answers:") && !$0.hasPrefix("ok plays up to") }
    }

    static let ranged = "ok ranges work: 206 with exactly the requested bytes; 97.7 KiB, video/x-matroska"
    static let unranged = "note no ranges: each request gets 200 with the whole file; 97.7 KiB, video/x-matroska"
    static let same = "ok validator: a strong ETag, the same twice"

    private static func film(_ fault: FileOrigin.Fault?) -> FileOrigin {
        let film = FileOrigin(length: 99_999)
        film.fault = fault
        return film
    }

    static let faults: [(FileOrigin.Fault?, [String])] = [
        (nil, [ranged, same]),
        (.noRanges, [unranged, same]),
        (
            .chunkedWithoutLength,
            [
                "note no ranges: each request gets 200 with the whole file; length unknown, video/x-matroska",
                "note the length is not given: programs see it only once the whole file has arrived", same,
            ]
        ),
        (
            .noContentRange,
            ["bad HOST: the origin's answer is of no use (206 without a usable Content-Range)"]
        ),
        (
            .wrongContentRange,
            ["bad HOST: the origin's answer is of no use (206 with another range than the one asked for)"]
        ),
        (.htmlWith200, ["bad HOST: the origin's answer is of no use (a web page where media was expected)"]),
        (.gzip, ["bad HOST: the origin's answer is of no use (a content encoding that was not requested)"]),
        (.status(401, retryAfter: nil), ["bad HOST: the origin answers 401"]),
        (.status(403, retryAfter: nil), ["bad HOST: the origin answers 403"]),
        (.status(404, retryAfter: nil), ["bad HOST: the origin answers 404"]),
        (.status(503, retryAfter: 60), ["bad HOST: the origin answers 503"]),
        (.redirectLoop, ["bad HOST: the origin's answer is of no use (too many redirects)"]),
        (
            .redirect(to: "ftp://elsewhere/"),
            ["bad HOST: the origin's answer is of no use (HOST: a redirect to no http(s) URL)"]
        ),
    ]

    @Test("A film, and what may be wrong with it", arguments: faults.indices)
    func fault(index: Int) throws {
        let (fault, expected) = Self.faults[index]
        let server = try ScriptedServer(["/film.mkv": Self.film(fault)])
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv"))
        // Where the reason names the origin, it is not named twice.
        let host = server.url("/").origin
        let told = expected.map {
            $0.replacing(
                "bad HOST: the origin's answer is of no use (HOST", with: "bad the origin's answer is of no use (HOST")
        }
        #expect(lines == told.map { $0.replacing("HOST", with: host) })
    }

    @Test("A validator that is another one each time is reported, and no speed is measured")
    func unstable() throws {
        let film = FileOrigin(length: 10 << 20)
        let server = try ScriptedServer { request in
            film.change(to: .init(length: 10 << 20, entityTag: "\"\(request.number)\""))
            return film.answer(request)
        }
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv"))
        #expect(lines.last == "bad the validator differs in each answer, as if the file changed all the time")
        #expect(server.requests.map { $0["range"] } == ["bytes=0-0", "bytes=10485759-10485759"])
    }

    @Test("A redirect to another host is reported by its host alone, and gets no credentials")
    func redirect() throws {
        let film = FileOrigin(length: 99_999)
        let other = try ScriptedServer { film.answer($0) }
        defer { other.stop() }
        let server = try ScriptedServer { _ in
            ServerStep.answer(302, [("Location", "http://localhost:\(other.port)/secret/film.mkv?sig=secret")])
        }
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv?sig=secret", credentials: "joe:secret"))
        let told = "ok it redirects to http://localhost:\(other.port), which gets no credentials"
        #expect(lines == [told, Self.ranged, Self.same])
        #expect(server.requests.count == 1 && server.requests[0]["authorization"] != nil)
        #expect(other.requests.count == 2 && other.requests.allSatisfy { $0["authorization"] == nil })
    }

    @Test("A server that is not there is reported with its address")
    func refused() throws {
        let server = try ScriptedServer { _ in [] }
        let url = server.url("/film.mkv")
        server.stop()
        // Releases of libcurl differ in the words.
        let lines = ["Couldn't", "Could not"].map { words in
            "bad the origin cannot be reached (\(url.origin): \(words) connect to server, Connection refused)"
        }
        let told = try Self.examine(url)
        #expect(told.count == 1 && lines.contains(told[0]), "\(told)")
    }

    @Test("A server that says nothing is left after the time that was given")
    func silent() throws {
        let server = try ScriptedServer(["/film.mkv": Self.film(.silent)])
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv"), limit: .milliseconds(300))
        #expect(lines == ["bad \(server.url("/").origin): the origin did not answer in time"])
    }

    @Test("A server that closes each connection is reported")
    func closing() throws {
        let film = FileOrigin(length: 99_999)
        let server = try ScriptedServer { film.answer($0) + [.close] }
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv"))
        #expect(lines.count == 3 && lines[0].hasPrefix("note the origin answers:"))
        #expect(lines[0].hasSuffix("no TLS; it closes each connection, so every request opens a new connection"))
    }

    @Test("Speed is measured with one, two and four connections, each byte asked for once")
    func speed() throws {
        let film = FileOrigin(length: 64 << 20)
        let (two, four) = (Gate(), Gate())
        // Each request of a stage is answered once all of them are there, so that none takes over another's connection.
        let server = try ScriptedServer { request in
            if request.number == 4 { two.open() }
            if request.number == 8 { four.open() }
            return switch request.number {
            case 3...4: [.wait(two)] + film.answer(request)
            case 5...8: [.wait(four)] + film.answer(request)
            default: film.answer(request)
            }
        }
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv"))
        let speed = try #require(lines.last)
        #expect(lines.count == 3 && speed.hasPrefix("ok speed: ") && speed.contains("(24.0 MiB in "), "\(speed)")
        let expected = [(0, 8), (8, 4), (12, 4), (16, 2), (18, 2), (20, 2), (22, 2)].map { start, count in
            "bytes=\(start << 20)-\(((start + count) << 20) - 1)"
        }
        let ranges = server.requests.dropFirst(2).compactMap { $0["range"] }
        #expect(Set(ranges) == Set(expected) && ranges.count == expected.count)
        #expect(server.requests.dropFirst(2).allSatisfy { $0["if-range"] == "\"v1\"" })
        // The server counts behind its sending.
        #expect(eventually { server.bodyBytesSent >= 24 << 20 | 2 })
        #expect(server.bodyBytesSent == 24 << 20 | 2)
        #expect(server.connectionCount == 4)
    }

    @Test("A slow body is cut off and reported with what came of it")
    func slow() throws {
        let film = FileOrigin(length: 64 << 20)
        let server = try ScriptedServer { request in
            if request.number == 2 { film.fail(.stallAfter(100_000)) }
            return request.number >= 3 ? ServerStep.answer(429, [], body: "") : film.answer(request)
        }
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv"))
        #expect(lines.count == 4 && lines[2] == "note 2 connections at a time are too many: the origin answers 429")
        #expect(
            lines[3].hasPrefix("ok speed: ") && lines[3].contains(" with 1 connection (97.7 KiB in "), "\(lines)")
    }

    // MARK: Trees

    private static func page(_ names: [String]) -> [ServerStep] {
        let lines = names.map { "<a href=\"\($0)\">\($0)</a>   14-Nov-2023 22:13   -\r\n" }.joined()
        let text =
            "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\r\n\(lines)</pre></html>"
        return ServerStep.answer(200, [("Content-Type", "text/html")], body: text)
    }

    private static func tree(_ request: ServerRequest) -> [ServerStep] {
        switch request.path {
        case "/", "/films/": page(["read.me", "season/", "b.txt"])
        case "/films/season/": page(["notes.txt", "One.mkv", "Two.mkv"])
        case "/bare/": page(["a/"])
        case "/deep/": page(["long/"])
        case "/deep/long/": page((0..<4000).map { "An episode\(String(repeating: "-", count: 130)) \($0).mkv" })
        case "/bare/a/", "/empty/": page([])
        case "/only/": page(["read.me"])
        case "/json/":
            ServerStep.answer(
                200, [("Content-Type", "application/json")],
                body: "[{\"name\":\"One.mkv\",\"type\":\"file\",\"size\":99999}]")
        case "/feed":
            ServerStep.answer(
                200, [("Content-Type", "application/rss+xml")],
                body:
                    "<rss version='2.0'><channel><item><title>One</title><enclosure url='/one'/></item></channel></rss>"
            )
        case "/list.m3u": ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: "films/season/One.mkv\n")
        case "/login/": ServerStep.answer(200, [("Content-Type", "text/html")], body: "<html>Please log in</html>")
        case "/films": ServerStep.answer(301, [("Location", "/films/")])
        default: request.path.hasSuffix("/") ? ServerStep.answer(404) : film(nil).answer(request)
        }
    }

    static let trees: [(String, [String])] = [
        ("/films/", ["ok a directory listing (HTML), 3 entries; examined: One.mkv", ranged, same]),
        ("/films", ["ok a directory listing (HTML), 3 entries; examined: One.mkv", ranged, same]),
        ("/json/", ["ok a directory listing (JSON), 1 entry; examined: One.mkv", ranged, same]),
        ("/list.m3u", ["ok a list of files (M3U), 1 entry; examined: One.mkv", ranged, same]),
        ("/feed", ["ok a feed (RSS), 1 entry; examined: One", ranged, same]),
        ("/only/", ["ok a directory listing (HTML), 1 entry; examined: read.me", ranged, same]),
        ("/bare/", ["note a directory listing (HTML) without a file to examine"]),
        // More than a MiB, of a directory that nobody has asked about: by long names, as each entry takes its time.
        ("/deep/", ["note a directory listing (HTML) without a file to examine"]),
        (
            "/deep/long/",
            [
                // A name is cut at 60 characters.
                "ok a directory listing (HTML), 4000 entries; examined: An episode"
                    + "\(String(repeating: "-", count: 50))…", ranged, same,
            ]
        ),
        ("/empty/", ["note a directory listing (HTML) without a file to examine"]),
        ("/login/", ["bad this is not a directory listing, a playlist or media (text/html)"]),
        ("/none/", ["bad HOST: the origin answers 404"]),
    ]

    @Test("A listing or a list is reported, and its first media file is examined", arguments: trees.indices)
    func tree(index: Int) throws {
        let (path, expected) = Self.trees[index]
        let server = try ScriptedServer { Self.tree($0) }
        defer { server.stop() }
        let lines = try Self.examine(server.url(path))
        #expect(lines == expected.map { $0.replacing("HOST", with: server.url("/").origin) })
    }

    private static func odd(_ request: ServerRequest) -> [ServerStep] {
        switch (request.method, request.path) {
        case ("GET", "/locked/"), ("GET", "/dav/"): ServerStep.answer(405)
        case ("PROPFIND", "/locked/"): ServerStep.answer(401)
        case ("PROPFIND", "/dav/"):
            ServerStep.answer(
                207, [("Content-Type", "application/xml")],
                body: "<multistatus xmlns='DAV:'><response><href>/dav/</href><propstat><prop><resourcetype>"
                    + "<collection/></resourcetype></prop></propstat></response></multistatus>")
        case (_, "/page.php"): ServerStep.answer(200, [("Content-Type", "text/html")], body: "<html>A page</html>")
        case (_, "/notes"): ServerStep.answer(200, [("Content-Type", "text/plain")], body: "Some notes.")
        case (_, "/broken.xspf"):
            ServerStep.answer(200, [("Content-Type", "application/xspf+xml")], body: "<playlist><trackList>")
        case ("PROPFIND", _): ServerStep.answer(405)
        default: tree(request)
        }
    }

    /// What a mount finds: the kind of a source, or why there is none.
    private func mounted(_ url: ResourceURL) throws -> String {
        try withTemporaryDirectory { cache in
            defer { removeTree(cache + "/source") }
            let store = try Store(
                directory: cache + "/source", source: url.text, limits: CacheLimits(cap: 1 << 30), owner: "")
            defer { store.close() }
            let origin = try Self.origin()
            defer { origin.shutdown() }
            let logger = LogSink.start(level: "critical", toStandardError: true)
            do throws(SourceError) {
                let volume = try Volume.open(url.text, origin: origin, store: store, logger: logger)
                defer { volume.shutdown() }
                return volume.tree.source.description
            } catch {
                switch error {
                case .origin(_, let failure, _): return failure.reason
                case .notUsable, .notFound: return "no source"
                }
            }
        }
    }

    private func examined(_ url: ResourceURL) throws -> String {
        let origin = try Self.origin()
        defer { origin.shutdown() }
        var examination = OriginExamination(origin, limit: .seconds(10))
        switch examination.source(url) {
        case .found(.file, _, _): return "file"
        case .found(.tree(let kind, _, _, _), _, _): return kind
        case .found(.page, _, _): return "no source"
        case .failed(let probe):
            if case .failure(let failure) = probe.outcome { return failure.reason }
            return "no failure"
        }
    }

    @Test(
        "A source is what a mount takes it for",
        arguments: [
            ("/films/", "directory listing (HTML)"), ("/films", "directory listing (HTML)"),
            ("/json/", "directory listing (JSON)"), ("/list.m3u", "list of files (M3U)"), ("/feed", "feed (RSS)"),
            ("/film.mkv", "file"), ("/notes", "file"), ("/page.php", "file"), ("/broken.xspf", "no source"),
            ("/login/", "no source"), ("/none/", "the origin answers 404"), ("/dav/", "WebDAV collection"),
            ("/locked/", "the origin answers 401"),
        ])
    func asMounted(path: String, expected: String) throws {
        let server = try ScriptedServer { Self.odd($0) }
        defer { server.stop() }
        #expect(try mounted(server.url(path)) == expected)
        #expect(try examined(server.url(path)) == expected)
    }

    @Test(
        "A listing's file is asked for on a connection of its own, so that connecting is measured, and then on a kept one"
    )
    func connections() throws {
        let server = try ScriptedServer { Self.tree($0) }
        defer { server.stop() }
        _ = try Self.examine(server.url("/only/"))
        #expect(server.requests.map(\.path) == ["/only/", "/only/read.me", "/only/read.me"])
        #expect(server.requests[1].connection == 1 && server.connectionCount == 2)
    }

    @Test("An empty file says so when it is asked for as a whole")
    func empty() throws {
        let server = try ScriptedServer(["/film.mkv": FileOrigin(length: 0)])
        defer { server.stop() }
        let lines = try Self.examine(server.url("/film.mkv"))
        #expect(lines.contains("note the file is empty"))
        #expect(server.requests.count == 2)
    }
}
