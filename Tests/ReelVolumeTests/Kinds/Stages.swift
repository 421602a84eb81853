import Glibc
import ReelCore
import ReelFilesystem
import TestKit

private let page = "<html><body>Welcome! <form><input type=password></form></body></html>"

/// The films, wherever they are, and the playlists of their variants.
private func filmAnswer(_ film: FileOrigin, _ request: ServerRequest) -> [ServerStep] {
    guard request.path.hasPrefix("/films/variant/") else { return film.answer(request) }
    return ServerStep.answer(
        body: "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n/films/one.ts\n#EXT-X-ENDLIST\n")
}

/// A document of a web server.
struct WebStage: KindStage {
    private let form: DocumentForm
    private let server: ScriptedServer
    private let next = Shared(StageAnswer.names([]))
    private let origin = FileOrigin(length: 5000)

    init(_ form: DocumentForm) throws {
        self.form = form
        let (next, origin) = (next, origin)
        server = try ScriptedServer { request in
            let isListing = request.path == form.path && request.method == form.method
            switch next.value {
            case .login: return ServerStep.answer(401, [("WWW-Authenticate", "Basic realm=\"films\"")])
            case .busy where isListing: return ServerStep.answer(503)
            case .foreign where isListing: return ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
            case .cut where isListing:
                let text = form.text([Array("one.mkv".utf8), Array("other.mkv".utf8)], "/films/")
                let length = ("Content-Length", "\(text.count)")
                return [
                    .head(form.status, [("Content-Type", form.type), length]), .body(Array(text[..<(text.count / 2)])),
                    .close,
                ]
            case .names(let names) where isListing:
                let text = form.text(names, "/films/")
                return [
                    .head(form.status, [("Content-Type", form.type), ("Content-Length", "\(text.count)")]), .body(text),
                ]
            // Of any name: some lead out of the folder.
            default: return filmAnswer(origin, request)
            }
        }
    }

    var address: String { form.address(server.url("/").text) }
    var film: [UInt8] { origin.expectedBytes(ByteRange(0, 5000)) }
    func answer(_ answer: StageAnswer) { next.set(answer) }
    func shown(_ name: String) -> String { form.shown(name) }
    func close() { server.stop() }
}

/// A document on the local disk, whose films a web server has.
struct LocalStage: KindStage {
    let address: String
    private let form: DocumentForm
    private let folder: String
    private let server: ScriptedServer
    private let origin = FileOrigin(length: 5000)

    init(_ form: DocumentForm) throws {
        self.form = form
        let origin = origin
        server = try ScriptedServer { filmAnswer(origin, $0) }
        folder = try makeFolder()
        address = folder + "/all." + form.fileExtension
    }

    var film: [UInt8] { origin.expectedBytes(ByteRange(0, 5000)) }

    func answer(_ answer: StageAnswer) throws {
        switch answer {
        case .names(let names): try replace(address, with: form.text(names, server.url("/films/").text))
        default: try replace(address, with: Array(page.utf8))
        }
    }

    func shown(_ name: String) -> String { form.shown(name) }

    func close() {
        server.stop()
        removeTree(folder)
    }
}

/// A folder of an FTP server.
struct FTPStage: KindStage {
    private let folder: String
    private let server: ScriptedFileServer

    init() throws {
        folder = try makeFolder()
        try replace(folder + "/script", with: Array("names".utf8))
        server = try ScriptedFileServer(script: folder + "/script")
    }

    var address: String { server.url("").text }
    var film: [UInt8] { ScriptedFileServer.film }

    func answer(_ answer: StageAnswer) throws {
        let names = if case .names(let names) = answer { names } else { [Array("one.mkv".utf8)] }
        let word = "\(answer)".prefix { $0 != "(" }
        let digits = names.map { $0.map { String(Int($0) + 256, radix: 16).dropFirst() }.joined() }
        try replace(folder + "/script", with: Array(([String(word)] + digits).joined(separator: "\n").utf8))
    }

    func close() {
        server.stop()
        removeTree(folder)
    }
}

private func makeFolder() throws -> String {
    var template = Array("/tmp/reelfs-stage-XXXXXX".utf8CString)
    guard let path = mkdtemp(&template).map({ String(cString: $0) }) else { throw VolumeError.failed }
    return path
}

/// Replaces a file in one step.
private func replace(_ path: String, with bytes: [UInt8]) throws {
    guard let file = fopen(path + ".new", "we") else { throw VolumeError.failed }
    let isWritten = fwrite(bytes, 1, bytes.count, file) == bytes.count
    guard fclose(file) == 0, isWritten, rename(path + ".new", path) == 0 else { throw VolumeError.failed }
}
