import ReelCore

/// The type of a file: by its name, as origins often tell none; else as the origin tells it.
/// - Parameter told: `type/subtype`, of the origin.
func mediaType(of name: String, told: String?) -> String {
    if let type = MediaName.type(of: name) ?? otherTypes[fileExtension(name)] { return type }
    let isWord = told?.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } ?? false
    return isWord ? told! : "application/octet-stream"
}

/// What lies beside films and music.
private let otherTypes = [
    "avif": "image/avif", "gif": "image/gif", "jpeg": "image/jpeg", "jpg": "image/jpeg", "png": "image/png",
    "svg": "image/svg+xml", "webp": "image/webp",
    "ass": "text/x-ssa; charset=utf-8", "srt": "application/x-subrip", "ssa": "text/x-ssa; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "cue": "text/plain; charset=utf-8", "htm": "text/html; charset=utf-8", "html": "text/html; charset=utf-8",
    "json": "application/json", "log": "text/plain; charset=utf-8", "m3u": "audio/x-mpegurl",
    "m3u8": "application/vnd.apple.mpegurl", "md": "text/plain; charset=utf-8", "nfo": "text/plain; charset=utf-8",
    "pdf": "application/pdf", "pls": "audio/x-scpls", "txt": "text/plain; charset=utf-8", "xml": "text/xml",
    "epub": "application/epub+zip", "zip": "application/zip",
]
