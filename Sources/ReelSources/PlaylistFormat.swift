import ReelCore

/// The forms in which a list of files comes.
package enum PlaylistFormat: Hashable, Sendable {
    /// Plain text, a URL a line, `#` before a comment.
    case urls
    /// M3U and M3U8, plain or extended, of files.
    case m3u
    case pls
    case xspf

    /// The format of a body that is a list of files; nil for everything else, an HLS playlist among it, which lists the
    /// pieces of one stream.
    ///
    /// What the body says goes before what its type or name promise: a login page sent as `list.m3u` is no list.
    /// - Parameters:
    ///   - mediaType: of the answer, without parameters, in lower case.
    ///   - fileExtension: of the URL or path, without a dot, in any case.
    package static func detect(_ body: [UInt8], mediaType: String?, fileExtension: String?) -> PlaylistFormat? {
        let suffix = asciiLowercased(fileExtension ?? "")
        let text = withoutByteOrderMark(body)
        guard let start = text.firstIndex(where: { !isBlank($0) }), !text.prefix(4096).contains(0) else { return nil }
        let head = asciiLowercased(String(decoding: text[start...].prefix(1024), as: UTF8.self))
        if head.hasPrefix("<") {
            let isNamed = mediaType == "application/xspf+xml" || suffix == "xspf"
            return head.contains("<playlist") && (isNamed || head.contains("xspf.org/ns/0")) ? .xspf : nil
        }
        if head.hasPrefix("[playlist]") { return .pls }
        if head.hasPrefix("#extm3u") || isM3U(mediaType) || suffix == "m3u" || suffix == "m3u8" {
            return isStream(text) ? nil : .m3u
        }
        return isURLList(text, mediaType: mediaType, suffix: suffix) ? .urls : nil
    }

    private static func isM3U(_ mediaType: String?) -> Bool {
        switch mediaType {
        case "audio/x-mpegurl", "audio/mpegurl", "application/x-mpegurl", "application/mpegurl",
            "application/vnd.apple.mpegurl":
            true
        default: false
        }
    }

    /// True for an HLS playlist (RFC 8216): one of these tags is in every media, and one in every master playlist.
    static func isStream(_ text: ArraySlice<UInt8>) -> Bool {
        let tags = ["#EXT-X-TARGETDURATION", "#EXT-X-STREAM-INF", "#EXT-X-MEDIA-SEQUENCE"].map { Array($0.utf8) }
        return lines(of: text).contains { line in tags.contains { line.starts(with: $0) } }
    }

    /// Any text could be a list of relative paths; so every line must be an absolute URL, unless the name or the type
    /// say that it is a list: then a line may be a path too, as long as it does not look like prose.
    private static func isURLList(_ text: ArraySlice<UInt8>, mediaType: String?, suffix: String) -> Bool {
        let isNamed = suffix == "txt" || suffix == "urls" || mediaType == "text/uri-list"
        let isText = mediaType.map { ["text/plain", "text/uri-list", "application/octet-stream"].contains($0) } ?? true
        guard isNamed || isText else { return false }
        var count = 0
        for line in lines(of: text) where !line.isEmpty && line.first != UInt8(ascii: "#") {
            guard line.count <= Playlist.longestLine else { return false }
            let isAbsolute = isWebURL(line) && !line.contains(where: isBlank)
            guard isAbsolute || (isNamed && isPath(line)) else { return false }
            count += 1
        }
        return count > 0
    }

    /// A path of one word, with a slash or an extension in it.
    static func isPath(_ line: ArraySlice<UInt8>) -> Bool {
        guard !line.contains(where: { isBlank($0) || "<>{}\"|^`".utf8.contains($0) }) else { return false }
        guard let dot = line.lastIndex(of: UInt8(ascii: ".")) else { return line.contains(UInt8(ascii: "/")) }
        return dot < line.index(before: line.endIndex)
    }

    /// A name that ends as media files do; before that there may be blanks, as in prose.
    static func isMediaName(_ line: ArraySlice<UInt8>) -> Bool {
        guard let dot = line.lastIndex(of: UInt8(ascii: ".")) else { return false }
        return mediaExtensions.contains(asciiLowercased(String(decoding: line[(dot + 1)...], as: UTF8.self)))
    }

    private static let mediaExtensions: Set = [
        "3gp", "aac", "ac3", "aif", "aiff", "alac", "ape", "avi", "flac", "flv", "m2ts", "m4a", "m4b", "m4v", "mka",
        "mkv", "mov", "mp2", "mp3", "mp4", "mpc", "mpeg", "mpg", "oga", "ogg", "ogv", "opus", "ts", "wav", "webm",
        "wma",
        "wmv", "wv",
    ]
}

func isWebURL(_ line: ArraySlice<UInt8>) -> Bool {
    let head = asciiLowercased(String(decoding: line.prefix(8), as: UTF8.self))
    return head.hasPrefix("http://") || head.hasPrefix("https://")
}

func withoutByteOrderMark(_ body: [UInt8]) -> ArraySlice<UInt8> {
    body.starts(with: [0xEF, 0xBB, 0xBF]) ? body[3...] : body[...]
}

/// The lines, trimmed; any of the three line ends.
func lines(of text: ArraySlice<UInt8>) -> some Sequence<ArraySlice<UInt8>> {
    text.lazy.split(omittingEmptySubsequences: true) { $0 == 0x0A || $0 == 0x0D }.map(trimmedBytes)
}
