import Glibc
import ReelCore
import ReelFilesystem
import ReelHTTP
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
        case .names(let names): try replaceFile(address, with: form.text(names, server.url("/films/").text))
        default: try replaceFile(address, with: Array(page.utf8))
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
        try replaceFile(folder + "/script", with: Array("names".utf8))
        server = try ScriptedFileServer(script: folder + "/script")
    }

    var address: String { server.url("").text }
    var film: [UInt8] { ScriptedFileServer.film }

    func answer(_ answer: StageAnswer) throws {
        let names = if case .names(let names) = answer { names } else { [Array("one.mkv".utf8)] }
        let word = "\(answer)".prefix { $0 != "(" }
        let digits = names.map { $0.map { String(Int($0) + 256, radix: 16).dropFirst() }.joined() }
        try replaceFile(folder + "/script", with: Array(([String(word)] + digits).joined(separator: "\n").utf8))
    }

    func close() {
        server.stop()
        removeTree(folder)
    }
}

/// A folder of OpenSSH's server. It has the names that a filesystem can have.
struct SFTPStage: KindStage {
    private let server: SSHServer
    private let version = Shared(0)
    let film = GeneratedBytes(seed: 5).bytes(ByteRange(0, 5000))
    let ssh: SSHAccess

    init() throws {
        server = try SSHServer()
        var ssh = SSHAccess()
        (ssh.knownHosts, ssh.privateKey, ssh.user) = (try server.knownHosts(), server.userKey, server.user)
        self.ssh = ssh
    }

    var address: String { server.url("films/").text }

    func answer(_ answer: StageAnswer) throws {
        guard case .names(let names) = answer else {
            unlink(server.directory + "/user.pub")
            return
        }
        version.change { $0 += 1 }
        // In one step for those who list it.
        let (folder, link) = ("\(server.directory)/\(version.value)", server.directory + "/link")
        mkdir(folder, 0o755)
        for name in names where !name.contains(0) && !name.contains(0x2F) {
            // A name need not be UTF-8.
            let path = (Array(folder.utf8) + [0x2F] + name + [0]).map { CChar(bitPattern: $0) }
            guard let file = fopen(path, "we") else { continue }
            fwrite(film, 1, film.count, file)
            fclose(file)
        }
        guard symlink(folder, link) == 0, rename(link, server.directory + "/films") == 0 else {
            throw VolumeError.failed
        }
    }

    func close() { server.stop() }
}

private func makeFolder() throws -> String {
    var template = Array("/tmp/reelfs-stage-XXXXXX".utf8CString)
    guard let path = mkdtemp(&template).map({ String(cString: $0) }) else { throw VolumeError.failed }
    return path
}
