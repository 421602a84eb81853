import ReelCore
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
                attempts.value += 1
                // One that breaks off tells nothing.
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
            isDown.value = true
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
}
