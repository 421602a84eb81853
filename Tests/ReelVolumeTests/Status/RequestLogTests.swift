import Glibc
import Logging
import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// What the mount reports of its requests.
@Suite struct RequestLogTests {
    private static func server(_ film: FileOrigin) throws -> ScriptedServer {
        try ScriptedServer { request in
            request.path == "/list.m3u"
                ? ServerStep.answer(
                    200, [("Content-Type", "audio/x-mpegurl")], body: "#EXTM3U\n/film.mkv?token=s3cret\n")
                : film.answer(request)
        }
    }

    @Test func eachRequestIsToldWithItsReasonAndWithoutSecrets() throws {
        let film = FileOrigin(length: 8 << 20)
        let server = try Self.server(film)
        defer { server.stop() }
        let told = Shared<[RequestRecord]>([])
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0) { record in
            told.change { $0 += [record] }
        }
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.read(file, 4 << 20, 200_000).isRight(film, 4 << 20, 200_000))
        fixture.volume.close(file)
        #expect(eventually { Set(told.value.map(\.why)).isSuperset(of: ["listing", "probe", "tail", "demand"]) })
        let records = told.value
        #expect(records.allSatisfy { !"\($0)".contains("s3cret") && $0.host == server.url("/").origin })
        let probe = try #require(records.first { $0.why == "probe" })
        #expect(probe.range == [0, 0] && probe.status == 206 && probe.bytes == 1 && probe.failure == nil)
        #expect(records.first { $0.why == "listing" }?.file == server.url("/list.m3u").text)
        let explained = try fixture.volume.maintenance.explain("film.mkv")
        #expect(explained.length == 8 << 20 && explained.cached > 0)
        #expect(Set(explained.requests.map(\.why)) == Set(records.map(\.why)).subtracting(["listing"]))
        #expect(explained.sums.map(\.requests).reduce(0, +) == explained.requests.count)
        #expect(throws: MaintenanceFailure.self) { try fixture.volume.maintenance.explain("other.mkv") }
        #expect(try fixture.volume.maintenance.explain("").requests.map(\.why) == ["listing"])
    }

    @Test func aFailureIsToldWithItsStatus() throws {
        let film = FileOrigin(length: 1 << 20)
        let server = try ScriptedServer { request in
            request.path == "/list.m3u"
                ? ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: "/film.mkv\n")
                : ServerStep.answer(403)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0)
        defer { fixture.remove() }
        _ = fixture.lookup("film.mkv")
        let requests = try fixture.volume.maintenance.explain("film.mkv").requests
        #expect(requests.map(\.status) == [403] && requests.first?.failure?.contains("403") == true)
        _ = film
    }

    // MARK: Of which file

    @Test("A file of a list with signed links has its requests, and none of them shows the signature")
    func signedLinks() throws {
        let film = FileOrigin(length: 3_000_000)
        let query = "X-Amz-Date=20240501T123456Z&X-Amz-Expires=4000000000&X-Amz-Signature=s3cret"
        let server = try ScriptedServer { request in
            if request.path == "/list.m3u" {
                return ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: "/film.bin?\(query)\n")
            }
            return request.query == query ? film.answer(request) : ServerStep.answer(403)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0)
        defer { fixture.remove() }
        let file = try fixture.open("film.bin").get()
        #expect(fixture.read(file, 2_000_000, 1000).isRight(film, 2_000_000, 1000))
        fixture.volume.close(file)
        let asked = server.requests.count { $0.path == "/film.bin" }
        #expect(eventually { told(fixture, "film.bin").count >= asked && asked >= 2 })
        let requests = told(fixture, "film.bin")
        #expect(requests.first?.why == "probe" && requests.first?.bytes == 1)
        #expect(requests.contains { $0.why == "demand" } && !"\(requests)".contains("s3cret"))
    }

    @Test("A film of HLS has the requests for its segments, with their reasons")
    func segments() throws {
        let segments = (0..<6).map { FileOrigin(length: 500_000, seed: UInt64($0 + 1)) }
        let list = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n"
        let names = segments.indices.map { "#EXTINF:2,\n\($0).ts\n" }.joined()
        let server = try ScriptedServer { request in
            if request.path == "/film.m3u8" {
                return ServerStep.answer(
                    200, [("Content-Type", "application/vnd.apple.mpegurl")], body: list + names + "#EXT-X-ENDLIST\n")
            }
            let number = Int(request.path.dropFirst().dropLast(3))
            return number.map { segments[$0].answer(request) } ?? ServerStep.answer(404)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.m3u8").text, prebuffer: 0)
        defer { fixture.remove() }
        let file = try fixture.open("film.ts").get()
        let bytes = segments[2].expectedBytes(ByteRange(0, 1000))
        #expect(fixture.read(file, 1_000_000, 1000) == .success(bytes))
        fixture.volume.close(file)
        func files(_ why: String) -> [String] { told(fixture, "film.ts").filter { $0.why == why }.map(\.file) }
        // The block that is read begins in one segment and ends in the next.
        let read = ["/1.ts", "/2.ts"].map { server.url($0).text }
        #expect(eventually { files("demand").prefix(2) == read[...] }, "\(files("demand"))")
        #expect(eventually { files("tail").first == server.url("/5.ts").text }, "\(files("tail"))")
        let requests = told(fixture, "film.ts")
        let lengths = requests.filter { $0.why == "probe" && $0.range == [0, 0] }.map(\.file)
        #expect(Set(lengths) == Set(segments.indices.map { server.url("/\($0).ts").text }))
        #expect(files("listing").first == server.url("/film.m3u8").text)
    }

    @Test("A folder has the requests for all its pages")
    func pages() throws {
        let server = try ScriptedServer { request in
            let next = request.path == "/1.xml" ? #"<link rel="next" href="/2.xml"/>"# : ""
            let entry = #"<entry><title>A</title><link rel="enclosure" href="/a.mp3" type="audio/mpeg"/></entry>"#
            return ServerStep.answer(
                200, [("Content-Type", "application/atom+xml")],
                body: #"<feed xmlns="http://www.w3.org/2005/Atom"><title>F</title>\#(next)\#(entry)</feed>"#)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/1.xml").text, prebuffer: 0)
        defer { fixture.remove() }
        let pages = ["/1.xml", "/2.xml"].map { server.url($0).text }
        #expect(eventually { Set(told(fixture, "").map(\.file)) == Set(pages) }, "\(told(fixture, ""))")
    }

    private func told(_ fixture: VolumeFixture, _ path: String) -> [RequestRecord] {
        (try? fixture.volume.maintenance.explain(path).requests) ?? []
    }

    // MARK: Why

    private static let length: Int64 = 12 << 20

    private struct Case: Sendable {
        let why: OriginRequest.Reason
        /// Whose request it is.
        let path: String
        let range: ByteRange?
        let body: @Sendable (VolumeFixture, FileOrigin) throws -> Void

        init(
            _ why: OriginRequest.Reason, _ path: String = "1.mkv", _ range: ByteRange? = nil,
            _ body: @escaping @Sendable (VolumeFixture, FileOrigin) throws -> Void
        ) {
            (self.why, self.path, self.range, self.body) = (why, path, range, body)
        }
    }

    /// Opens a film, and lets the requests of its open end.
    private static func opened(_ fixture: VolumeFixture) throws -> any FileHandle {
        let file = try fixture.open("1.mkv").get()
        #expect(
            eventually {
                let requests = (try? fixture.volume.maintenance.explain("1.mkv").requests) ?? []
                return Set(requests.map(\.why)) == ["head", "tail"]
            })
        return file
    }

    private static func read(_ fixture: VolumeFixture, _ film: FileOrigin, _ range: ByteRange) throws {
        let file = try opened(fixture)
        defer { fixture.volume.close(file) }
        #expect(fixture.read(file, range.lower, Int(range.count)).isRight(film, range.lower, range.count))
    }

    private static let cases: [Case] = [
        Case(.listing, "") { fixture, _ in _ = fixture.names() },
        Case(.head, "1.mkv", ByteRange(0, Readahead.firstOfMedia)) { fixture, _ in
            fixture.volume.close(try opened(fixture))
        },
        Case(.tail, "1.mkv", Readahead.tail(of: length)) { fixture, _ in fixture.volume.close(try opened(fixture)) },
        Case(.index, "3.mp4") { fixture, _ in fixture.volume.close(try fixture.open("3.mp4").get()) },
        Case(.demand) { fixture, film in try read(fixture, film, ByteRange(6 << 20, 6 << 20 | 1000)) },
        Case(.ahead) { fixture, film in
            let file = try opened(fixture)
            defer { fixture.volume.close(file) }
            for offset in stride(from: Int64(0), to: 4 << 20, by: 128 << 10) {
                #expect(fixture.read(file, offset, 128 << 10).isRight(film, offset, 128 << 10))
            }
        },
        Case(.retry) { fixture, film in
            let file = try opened(fixture)
            defer { fixture.volume.close(file) }
            film.fail(.status(503, retryAfter: nil))
            #expect(fixture.read(file, 6 << 20, 1000).isRight(film, 6 << 20, 1000))
        },
        Case(.hedge) { fixture, film in
            let file = try opened(fixture)
            defer { fixture.volume.close(file) }
            film.fail(.silent)
            #expect(fixture.read(file, 6 << 20, 1000).isRight(film, 6 << 20, 1000))
        },
        Case(.probe) { fixture, _ in
            fixture.volume.close(try opened(fixture))
            fixture.expire()
            fixture.volume.close(try fixture.open("1.mkv").get())
        },
        Case(.prefetch) { fixture, _ in
            let file = try opened(fixture)
            defer { fixture.volume.close(file) }
            fixture.volume.files.all[0].prefetchAll(nil)
            #expect(eventually { fixture.volume.files.all[0].isComplete })
        },
        Case(.nextItem, "2.mkv") { fixture, film in
            let file = try fixture.open("1.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
        },
    ]

    @Test("A request is reported with the reason for which it was made", arguments: cases.indices)
    func reason(index: Int) throws {
        let (wanted, film) = (Self.cases[index], FileOrigin(length: Self.length))
        // An MP4 file whose media data reach to its last megabyte, where its index is.
        let box = [UInt8](repeating: 0, count: 3) + [24] + Array("ftyp".utf8) + [UInt8](repeating: 0, count: 16)
        let data = (0..<4).reversed().map { UInt8(truncatingIfNeeded: (11 << 20) >> (8 * $0)) } + Array("mdat".utf8)
        let answer = { @Sendable (request: ServerRequest) -> [ServerStep] in
            if request.path != "/3.mp4" { return film.answer(request) }
            let range = request.range(of: Self.length) ?? ByteRange(0, Self.length)
            let bytes = (box + data + [UInt8](repeating: 0, count: 12 << 20))[Int(range.lower)..<Int(range.upper)]
            let place = "bytes \(range.lower)-\(range.upper - 1)/\(Self.length)"
            let length = ("Content-Length", "\(range.count)")
            return [.head(206, [("Content-Range", place), length, ("ETag", "\"3\"")]), .body(Array(bytes))]
        }
        try withFolder(answer) { fixture in
            try wanted.body(fixture, film)
            func requests() -> [RequestRecord] { told(fixture, wanted.path).filter { $0.why == wanted.why.rawValue } }
            #expect(eventually { !requests().isEmpty }, "\(wanted.why): \(told(fixture, wanted.path))")
            let request = try #require(requests().first)
            if let range = wanted.range {
                #expect(request.range == [range.lower, range.upper - 1] && request.bytes == range.count)
            }
        }
    }

    /// A folder whose listing gives the lengths of its files.
    private func withFolder(
        log: (@Sendable (RequestRecord) -> Void)? = nil, _ answer: @escaping @Sendable (ServerRequest) -> [ServerStep],
        _ body: (VolumeFixture) throws -> Void
    ) throws {
        let lines = ["1.mkv", "2.mkv", "3.mp4", "4.bin"].map { name in
            "<a href=\"\(name)\">\(name)</a>      21-Nov-2026 10:00      \(Self.length)\n"
        }
        let page = "<html><title>Index of /</title><h1>Index of /</h1><pre>\(lines.joined())</pre></html>"
        let server = try ScriptedServer { request in
            request.path == "/"
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: page) : answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, timeout: .seconds(20), requestLog: log)
        defer { fixture.remove() }
        try body(fixture)
    }

    @Test("The requests of an open are for the program that opens the file")
    func opener() throws {
        let (film, gate) = (FileOrigin(length: Self.length), Gate())
        let answer = { @Sendable (request: ServerRequest) in
            film.answer(request).flatMap { step in
                if case .head = step { [step, .wait(gate)] } else { [step] }
            }
        }
        try withFolder(answer) { fixture in
            let file = try fixture.open("1.mkv", by: getpid()).get()
            gate.open()
            #expect(eventually { told(fixture, "1.mkv").count == 2 })
            let program = try #require(programName(ofThread: getpid()))
            let requests = told(fixture, "1.mkv")
            #expect(Set(requests.map(\.why)) == ["head", "tail"] && requests.allSatisfy { $0.program == program })
            fixture.volume.close(file)
            fixture.expire()
            fixture.volume.close(try fixture.open("1.mkv", by: getpid()).get())
            #expect(eventually { told(fixture, "1.mkv").count == 3 })
            let probe = try #require(told(fixture, "1.mkv").last)
            #expect(probe.why == "probe" && probe.program == program)
        }
    }

    // MARK: What came of it

    @Test("What was read of a file is reported while it is open, and once it has gone")
    func use() throws {
        let film = FileOrigin(length: Self.length)
        try withFolder({ film.answer($0) }) { fixture in
            let start = 6 << 20 as Int64
            var expected = FileUse()
            func use() -> FileUse? { try? fixture.volume.maintenance.explain("4.bin").use }
            func leave(_ file: any FileHandle) {
                fixture.volume.close(file)
                let files = fixture.volume.files
                #expect(
                    eventually {
                        _ = files.tick(now() + .seconds(11))
                        return files.all.isEmpty
                    })
            }
            #expect(use() == nil)
            let file = try fixture.open("4.bin").get()
            #expect(fixture.read(file, start, 1000).isRight(film, start, 1000))
            #expect(fixture.read(file, start + 1000, 500).isRight(film, start + 1000, 500))
            // A block for the open, one for the first read and one ahead of the second.
            let came = 3 * BlockSize.block
            #expect(eventually { told(fixture, "4.bin").reduce(0) { $0 + $1.bytes } == came })
            (expected.demanded, expected.speculative, expected.read) = (1000, came - 1000, 1500)
            expected.unread = came - 1500
            #expect(use() == expected, "\(String(describing: use()))")
            leave(file)
            (expected.unread, expected.wasted) = (0, expected.unread)
            #expect(use() == expected, "\(String(describing: use()))")
            let again = try fixture.open("4.bin").get()
            #expect(fixture.read(again, start, 700).isRight(film, start, 700))
            expected.read += 700
            #expect(use() == expected)
            leave(again)
            #expect(use() == expected)
        }
    }

    @Test("What the cache answers of a handle's reads is a line of the user's log, and no request")
    func cacheReads() throws {
        let (film, lines) = (FileOrigin(length: Self.length), Shared<[RequestRecord]>([]))
        try withFolder(log: { line in lines.change { $0 += [line] } }, { film.answer($0) }) { fixture in
            let file = try fixture.open("4.bin").get()
            #expect(fixture.read(file, 6 << 20, 1000).isRight(film, 6 << 20, 1000))
            let again = try fixture.open("4.bin", by: getpid()).get()
            for (offset, count) in [(6 << 20 | 600, 400), (6 << 20 | 100, 300)] as [(Int64, Int64)] {
                #expect(fixture.read(again, offset, Int(count)).isRight(film, offset, count))
            }
            fixture.volume.close(again)
            fixture.volume.close(file)
            func cached() -> [RequestRecord] { lines.value.filter { $0.from == "cache" } }
            #expect(eventually { cached().count == 1 })
            let line = try #require(cached().first)
            #expect(line.range == [6 << 20 | 100, 6 << 20 | 999] && line.bytes == 700 && line.why == "demand")
            #expect(line.file.hasSuffix("/4.bin") && line.host == nil && line.status == nil)
            #expect(line.program == programName(ofThread: getpid()))
            #expect(!told(fixture, "4.bin").contains { $0.from == "cache" })
        }
    }

    @Test func aLogWhoseDiskHangsHoldsUpNothing() throws {
        let (film, gate, lines) = (FileOrigin(length: Self.length), Gate(), Shared(0))
        try withFolder(
            log: { _ in
                gate.wait(within: .seconds(120))
                lines.change { $0 += 1 }
            }, { film.answer($0) }
        ) { fixture in
            defer { gate.open() }
            #expect(try fixture.names().get().contains("4.bin"))
            _ = try fixture.volume.maintenance.refresh("", isRecursive: false)
            let file = try fixture.open("4.bin").get()
            #expect(fixture.read(file, 6 << 20, 1000).isRight(film, 6 << 20, 1000))
            fixture.volume.close(file)
            #expect(lines.value == 0)
            gate.open()
            #expect(eventually { lines.value > 2 })
        }
    }

    @Test func linesThatWaitForTheDiskAreBoundedAndThoseLeftOutAreCounted() {
        let (gate, lines, warnings) = (Gate(), Shared(0), Shared<[String]>([]))
        let log = RequestLog(
            { _ in
                gate.wait(within: .seconds(120))
                lines.change { $0 += 1 }
            }, Logger(label: "test") { _ in CollectedLog(warnings) })
        for _ in 0..<3000 { log.write(Self.record) }
        gate.open()
        log.stop()
        #expect(lines.value == 1000)
        #expect(warnings.value == ["the request log lacks 2000 requests: its disk did not keep up"])
    }

    private static let record = RequestRecord(
        when: "", file: "", range: nil, why: "demand", program: nil, host: "", status: nil, bytes: 0, milliseconds: 0,
        failure: nil)

    @Test func memoryIsBounded() {
        let log = RequestLog(nil, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let url = ResourceURL("http://h/a")!
        for _ in 0..<10_000 { log.add(Self.record, of: url) }
        #expect((3000...4000).contains(log.records(of: url).count))
        var use = FileUse()
        use.read = 1
        for _ in 0..<10_000 { log.add(use, of: url) }
        #expect((3000...4000).contains(log.uses(of: url).count))
    }

    @Test func aReaderIsNamedByItsProgram() throws {
        #expect(
            programName(ofThread: getpid())
                == contents(of: "/proc/self/comm").split(separator: "\n").first.map(String.init))
        #expect(programName(ofThread: 0) == nil && programName(ofThread: -1) == nil)
    }
}

/// Takes the messages of a log.
private struct CollectedLog: LogHandler {
    let messages: Shared<[String]>
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    init(_ messages: Shared<[String]>) { self.messages = messages }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { messages.change { $0.append("\(event.message)") } }
}
