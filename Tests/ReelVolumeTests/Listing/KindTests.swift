import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// A kind that needs all that a source may need: folders that are asked for by another method, in pages, with headers,
/// a body and a status of their own, and read as they come; entries without a length; requests that are sent elsewhere.
private struct PagedSource: Source {
    static let kind = "paged"
    static let mediaTypes: Set = ["application/x-paged"]

    let root: SourcePlace

    static func recognise(address: String) -> PagedSource? {
        guard address.hasPrefix("paged+"), let url = ResourceURL(String(address.dropFirst(6))) else { return nil }
        return PagedSource(root: .url(url))
    }

    static func recognise(_ answer: SourceAnswer) -> PagedSource? {
        answer.mediaType == "application/x-paged" ? PagedSource(root: answer.place) : nil
    }

    init(root: SourcePlace) { self.root = root }

    var description: String { "pages" }

    func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader { Reader(folder: folder.url!) }

    func request(_ request: OriginRequest) -> OriginRequest {
        var request = request
        guard request.isReading, request.url.path.hasSuffix(".mkv") else {
            request.headers.append(("X-Sent", "yes"))
            return request
        }
        request.url = request.url.resolve("/signed" + request.url.path)!
        request.headers = [("X-Token", "secret")]
        return request
    }

    struct Reader: FolderReader {
        let folder: ResourceURL
        var page = 1
        var entries = EntryList.Builder()
        var told: [SourceEntry] = []
        var line: [UInt8] = []

        private var step: FolderStep {
            var request = OriginRequest(url: folder)
            request.method = "PROPFIND"
            request.headers = [("Depth", "1"), ("Content-Type", "text/plain")]
            request.body = Array("page \(page)".utf8)
            request.accepted = [207]
            return .ask(.origin(request))
        }

        mutating func start() -> FolderStep { step }

        mutating func head(_: ResponseHead?) {
            told = []
            line = []
        }

        mutating func take(_ bytes: [UInt8]) {
            for byte in bytes {
                guard byte == 0x0A else {
                    line.append(byte)
                    continue
                }
                let name = String(decoding: line, as: UTF8.self)
                let isDirectory = name.hasSuffix("/")
                told.append(
                    SourceEntry(
                        name: isDirectory ? String(name.dropLast()) : name, url: folder.resolve(name)!,
                        isDirectory: isDirectory))
                line = []
            }
        }

        mutating func end(_: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
            for entry in told { entries.append(entry) }
            guard line == Array("more".utf8) else { return .entries(entries.list()) }
            page += 1
            return step
        }
    }
}

/// A kind that reads more slowly than the line is, and answers longer than a document may be.
private struct SlowSource: Source {
    static let kind = "slow"
    static let gate = Gate()

    let root: SourcePlace

    static func recognise(address: String) -> SlowSource? {
        guard address.hasPrefix("slow+"), let url = ResourceURL(String(address.dropFirst(5))) else { return nil }
        return SlowSource(root: .url(url))
    }

    static func recognise(_ answer: SourceAnswer) -> SlowSource? { nil }
    init(root: SourcePlace) { self.root = root }
    var description: String { "slow" }
    func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader { Reader(folder: folder.url!) }

    struct Reader: FolderReader {
        let folder: ResourceURL
        var count = 0

        var longestAnswer: Int { 1 << 30 }
        func start() -> FolderStep { .ask(.document(.url(folder))) }
        mutating func head(_: ResponseHead?) { count = 0 }

        mutating func take(_ bytes: [UInt8]) {
            SlowSource.gate.wait(within: .seconds(20))
            count += bytes.count
        }

        func end(_: @escaping StopQuestion) -> FolderStep {
            .entries(EntryList([SourceEntry(name: "\(count)", url: folder, isDirectory: false, length: 1)]))
        }
    }
}

/// What the volume does alike for every kind of source.
@Suite struct KindTests {
    private let film = FileOrigin(length: 300_000)
    private let isDown = Shared(false)

    private func withTree(_ body: (ScriptedServer) throws -> Void) throws {
        let (film, isDown, attempts) = (film, isDown, Shared(0))
        let server = try ScriptedServer { request in
            if isDown.value { return ServerStep.answer(503) }
            switch (request.method, request.path, String(decoding: request.body, as: UTF8.self)) {
            case ("PROPFIND", "/tree/", "page 1"):
                attempts.change { $0 += 1 }
                // An answer that breaks off lists nothing.
                if attempts.value == 1 {
                    return [.head(207, [("Content-Length", "99")]), .body(Array("one.mkv\nnone.mkv\n".utf8)), .close]
                }
                return ServerStep.answer(207, body: "one.mkv\nsub/\nmore")
            case ("PROPFIND", "/tree/", "page 2"): return ServerStep.answer(207, body: "two.mkv\n")
            case ("PROPFIND", "/tree/sub/", "page 1"): return ServerStep.answer(207, body: "three.mkv\n")
            case ("GET", "/tree/", _):
                return ServerStep.answer(200, [("Content-Type", "application/x-paged")], body: "anything")
            case ("GET", "/signed/tree/one.mkv", _) where request["x-token"] == "secret": return film.answer(request)
            default: return ServerStep.answer(404)
            }
        }
        defer { server.stop() }
        try body(server)
    }

    @Test(
        "A kind that is one type with a line of registration is listed, read, remembered and offline as all others are",
        arguments: ["", "paged+"])
    func aKind(_ scheme: String) throws {
        try withTree { server in
            let fixture = try VolumeFixture(
                scheme + server.url("/tree/").text, timeout: .seconds(3), refresh: .zero,
                kinds: [PagedSource.self] + SourceKinds.all)
            defer { fixture.remove() }
            #expect(fixture.names() == .success(["one.mkv", "sub", "two.mkv"]))
            #expect(fixture.names("sub") == .success(["three.mkv"]))
            let pages = server.requests.filter { $0.method == "PROPFIND" }
            #expect(pages.allSatisfy { $0["depth"] == "1" && $0["content-type"] == "text/plain" })
            // Each request is the source's, the first one too.
            #expect(pages.allSatisfy { $0["x-sent"] == "yes" })
            #expect(server.requests.contains { $0.method == "GET" && $0.path == "/tree/" } == scheme.isEmpty)
            let file = try fixture.open("one.mkv").get()
            #expect(fixture.read(file, 100, 1000).isRight(film, 100, 1000))
            fixture.volume.close(file)
            // What it is known by is not where it comes from.
            #expect(try fixture.lookup("one.mkv").get().attributes.length == 300_000)
            #expect(fixture.volume.status().files.map(\.path) == ["one.mkv"])
            isDown.set(true)
            #expect(
                eventually {
                    if fixture.names() != .success(["one.mkv", "sub", "two.mkv"]) {
                        Issue.record("the tree is another")
                    }
                    return (try? fixture.volume.extendedAttribute("user.reelfs.stale", of: rootNode).get()) != nil
                })
            server.stop()
            try fixture.restart()
            #expect(fixture.names() == .success(["one.mkv", "sub", "two.mkv"]))
            #expect(fixture.names("sub") == .success(["three.mkv"]))
            let again = try fixture.open("one.mkv").get()
            #expect(fixture.read(again, 100, 1000).isRight(film, 100, 1000))
            fixture.volume.close(again)
        }
    }

    /// Answers `PROPFIND` with one file a page, each page a quarter of a second later.
    /// - Parameter pages: how many a folder has.
    private func slowPages(_ pages: Shared<Int>) throws -> ScriptedServer {
        try ScriptedServer { request in
            guard let page = Int(String(decoding: request.body, as: UTF8.self).dropFirst("page ".count)) else {
                return ServerStep.answer(404)
            }
            let body = "\(page).mkv\n" + (page == 1 ? "sub/\n" : "") + (page < pages.value ? "more" : "")
            return [.pause(.milliseconds(250))] + ServerStep.answer(207, body: body)
        }
    }

    @Test("Each page of a folder may take as long as a request may")
    func manyPages() throws {
        let pages = Shared(12)
        let server = try slowPages(pages)
        defer { server.stop() }
        let fixture = try VolumeFixture(
            "paged+" + server.url("/tree/").text, timeout: .seconds(2), kinds: [PagedSource.self] + SourceKinds.all)
        defer { fixture.remove() }
        let files = (1...12).map { "\($0).mkv" }
        #expect(fixture.names().map { $0.filter { $0 != "sub" } } == .success(files))
        #expect(fixture.names("sub").map { $0.filter { $0 != "sub" } } == .success(files))
    }

    @Test("A known source is mounted, and a mount ends, without waiting for pages without end")
    func endlessPages() throws {
        let pages = Shared(1)
        let server = try slowPages(pages)
        defer { server.stop() }
        let fixture = try VolumeFixture(
            "paged+" + server.url("/tree/").text, timeout: .seconds(120), refresh: .zero,
            kinds: [PagedSource.self] + SourceKinds.all)
        defer { fixture.remove() }
        fixture.stop()
        pages.set(.max)
        // Pages have ten minutes, one of them two; two seconds were given.
        let start = now()
        try fixture.start()
        #expect(now() - start < .seconds(40))
        #expect(fixture.names() == .success(["1.mkv", "sub"]))
        // The refresh that the look has begun.
        let asked = server.requests.count
        #expect(eventually { server.requests.count > asked })
        let end = now()
        fixture.stop()
        #expect(now() - end < .seconds(40))
    }

    @Test("What a slow reader has not read stays with the origin, and an answer is as long as its kind says")
    func slow() throws {
        let length: Int64 = 80 << 20
        let server = try ScriptedServer { _ in
            [.head(200, [("Content-Length", "\(length)")]), .generated(GeneratedBytes(seed: 1), ByteRange(0, length))]
        }
        defer { server.stop() }
        let fixture = Shared<VolumeFixture?>(nil)
        let opening = startThread {
            fixture.set(
                try? VolumeFixture(
                    "slow+" + server.url("/").text, timeout: .seconds(30), kinds: [SlowSource.self] + SourceKinds.all))
        }
        // What is read ahead lies in the buffers of sockets and of the transport besides.
        #expect(eventually { server.bodyBytesSent > 4 << 20 })
        #expect(!eventually(within: .seconds(1)) { server.bodyBytesSent > 32 << 20 })
        SlowSource.gate.open()
        opening.join()
        defer { fixture.value?.remove() }
        #expect(fixture.value?.names() == .success(["\(length)"]))
    }
}
