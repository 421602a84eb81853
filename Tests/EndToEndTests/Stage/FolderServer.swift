import Glibc
import ReelCore
import Synchronization
import TestKit

/// A scripted server with a directory listing, as nginx writes it, at `/` and these files in it.
func folderServer(_ files: [String: FileOrigin]) throws -> ScriptedServer {
    try ScriptedServer(folderScript(files))
}

/// What such a server does.
func folderScript(_ files: [String: FileOrigin]) -> ScriptedServer.Script {
    { request in
        if request.path == "/" { return ServerStep.answer(200, [("Content-Type", "text/html")], body: listing(files)) }
        return files[String(request.path.dropFirst())]?.answer(request) ?? ServerStep.answer(404)
    }
}

/// A server with the one file `film.mkv`.
func filmServer(_ film: FileOrigin) throws -> ScriptedServer { try folderServer(["film.mkv": film]) }

/// Calls with a mount of a folder with the films `a.mkv`, `b.mkv` and `c.mkv`.
func withThreeFilms(
    of length: Int64, _ options: [String],
    _ body: (Scene, ScriptedServer, [String: FileOrigin], Mounted) throws -> Void
) throws {
    let films = Dictionary(
        uniqueKeysWithValues: ["a.mkv", "b.mkv", "c.mkv"].enumerated().map {
            ($1, FileOrigin(length: length, seed: UInt64($0 + 1)))
        })
    let server = try folderServer(films)
    defer { server.stop() }
    try withScene { scene in try body(scene, server, films, try scene.mount(server.address, options)) }
}

/// What a folder holds that changes, and fails, as a test says.
struct ChangingFolder: Sendable {
    var names: [String]
    var status = 200
}

/// Calls with a server of such a folder, all of whose files are the same, and with what changes it.
func withChangingFolder(
    _ names: [String], length: Int64,
    _ body: (ScriptedServer, @escaping ((inout ChangingFolder) -> Void) -> Void) throws -> Void
) throws {
    let folder = Mutex(ChangingFolder(names: names))
    let film = FileOrigin(length: length)
    let server = try ScriptedServer { request in
        guard request.path == "/" else { return film.answer(request) }
        let now = folder.withLock { $0 }
        guard now.status == 200 else { return ServerStep.answer(now.status) }
        return folderScript(Dictionary(uniqueKeysWithValues: now.names.map { ($0, film) }))(request)
    }
    defer { server.stop() }
    try body(server) { change in folder.withLock { change(&$0) } }
}

/// nginx's listing gives dates without seconds; these files have none, and the listing a length only.
private func listing(_ files: [String: FileOrigin]) -> String {
    let lines = files.sorted { $0.key < $1.key }.map { name, file in
        "<a href=\"\(name)\">\(name)</a>" + String(repeating: " ", count: 30) + "14-Nov-2023 22:13"
            + String(repeating: " ", count: 10) + "\(file.version.length)\r\n"
    }
    return "<html>\r\n<head><title>Index of /</title></head>\r\n<body>\r\n<h1>Index of /</h1><hr><pre>"
        + "<a href=\"../\">../</a>\r\n\(lines.joined())</pre><hr></body>\r\n</html>\r\n"
}

extension ScriptedServer {
    /// The address of the root, for `reelfs mount`.
    var address: String { "http://127.0.0.1:\(port)/" }

    /// The most that second tries have cost, which a connection gets that is silent for a second and a half: each asks
    /// for one or two blocks of what an earlier request of the same file has asked for.
    func bytesAskedTwice(of length: Int64) -> Int64 {
        var asked: [String: [ByteRange]] = [:]
        var sum: Int64 = 0
        for request in fileRequests {
            let range = request.range(of: length) ?? ByteRange(0, length)
            let isSecond = (asked[request.path] ?? []).contains { $0.contains(range) }
            if isSecond, range.count <= 2 * BlockSize.block { sum += range.count }
            asked[request.path, default: []].append(range)
        }
        return sum
    }

    /// Requests for files, the listing's left out.
    var fileRequests: [ServerRequest] { requests.filter { $0.path != "/" } }
}
