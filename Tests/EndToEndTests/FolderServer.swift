import Glibc
import ReelCore
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
    /// Of the root, for `reelfs mount`.
    var address: String { "http://127.0.0.1:\(port)/" }

    /// Requests for files, the listing's left out.
    var fileRequests: [ServerRequest] { requests.filter { $0.path != "/" } }
}
