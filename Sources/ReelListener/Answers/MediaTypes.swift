import ReelCore

/// The type of a file: by its name, as origins often send none; else the origin's, if a browser shows it as one
/// document.
/// - Parameter told: `type/subtype`, from the origin.
func mediaType(of name: String, told: String?) -> String {
    if let type = MediaName.type(of: name) ?? otherTypes[fileExtension(name)] { return type }
    guard let type = told.map({ asciiLowercased($0) }), isOneType(type), !isContainer(type) else {
        return "application/octet-stream"
    }
    return type
}

/// Whether it is a type and a subtype (RFC 9110, section 8.3.1): of a list of types, a browser takes the last one.
private func isOneType(_ type: String) -> Bool {
    let words = type.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    return words.count == 2
        && words.allSatisfy { word in
            !word.isEmpty && word.allSatisfy { isDigit($0) || isLowercase($0) || "!#$%&'*+-.^_`|~".utf8.contains($0) }
        }
}

private func isLowercase(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }

/// Whether documents of other types lie in it, or it makes one of another document: a sandbox need not hold for these.
private func isContainer(_ type: String) -> Bool {
    type.hasPrefix("multipart/") || type.hasPrefix("message/") || type.contains("xsl")
}

/// Whether no browser runs a script that is written in a document of this type. All other types are shown in a sandbox,
/// also those that no browser knows today.
/// - Parameter type: in lower case; may have parameters.
func isHarmless(_ type: String) -> Bool {
    let type = type.prefix { $0 != ";" }
    // Browsers read each `+xml` as XML, whatever stands before it, and XML may hold XHTML.
    if ["html", "svg", "xml", "xsl"].contains(where: { type.contains($0) }) { return false }
    return ["image/", "audio/", "video/"].contains { type.hasPrefix($0) } || harmlessTypes.contains(String(type))
}

private let harmlessTypes: Set = [
    "application/epub+zip", "application/json", "application/octet-stream", "application/pdf",
    "application/vnd.apple.mpegurl", "application/x-subrip", "application/zip", "text/plain", "text/vtt", "text/x-ssa",
]

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
