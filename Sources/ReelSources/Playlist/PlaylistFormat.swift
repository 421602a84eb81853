import ReelCore

/// The forms in which a list of files comes.
package enum PlaylistFormat: Hashable, Sendable, CaseIterable {
    /// Plain text, a URL a line, `#` before a comment.
    case urls
    /// M3U and M3U8, plain or extended, of files.
    case m3u
    case pls
    case xspf

    /// What is known of a format.
    struct Row {
        /// For people.
        let title: String
        /// In lower case.
        let fileExtensions: Set<String>
        let mediaTypes: Set<String>
        let parse: (ArraySlice<UInt8>, inout PlaylistTracks) throws(SourceRefusal) -> Void

        /// Whether a name or a type says that a document is of this format.
        fileprivate func isTold(_ mediaType: String?, _ fileExtension: String) -> Bool {
            fileExtensions.contains(fileExtension) || mediaType.map(mediaTypes.contains) ?? false
        }
    }

    var row: Row {
        switch self {
        case .urls:
            Row(
                title: "a URL a line", fileExtensions: ["txt", "urls"], mediaTypes: ["text/uri-list"], parse: parseURLs)
        case .m3u:
            Row(
                title: "M3U", fileExtensions: ["m3u", "m3u8"],
                mediaTypes: [
                    "audio/x-mpegurl", "audio/mpegurl", "application/x-mpegurl", "application/mpegurl",
                    "application/vnd.apple.mpegurl",
                ], parse: parseM3U)
        case .pls:
            Row(
                title: "PLS", fileExtensions: ["pls"], mediaTypes: ["audio/x-scpls", "application/pls+xml"],
                parse: parsePLS)
        case .xspf:
            Row(title: "XSPF", fileExtensions: ["xspf"], mediaTypes: ["application/xspf+xml"], parse: parseXSPF)
        }
    }

    /// The format of a body that is a list of files; nil for everything else, an HLS playlist among it, which lists the
    /// pieces of one stream.
    ///
    /// What the body says goes before what its type or name promise: a login page sent as `list.m3u` is no list.
    /// - Parameters:
    ///   - mediaType: of the answer, without parameters, in lower case.
    ///   - fileExtension: of the URL or path, without a dot, in any case.
    package static func detect(_ body: [UInt8], mediaType: String?, fileExtension: String?) -> PlaylistFormat? {
        let suffix = asciiLowercased(fileExtension ?? "")
        let isTold = { (format: PlaylistFormat) in format.row.isTold(mediaType, suffix) }
        let text = withoutByteOrderMark(body)
        guard let start = text.firstIndex(where: { !isBlank($0) }), !text.prefix(4096).contains(0) else { return nil }
        let head = asciiLowercased(text[start...].prefix(1024))
        if head.hasPrefix("<") {
            return head.contains("<playlist") && (isTold(.xspf) || head.contains("xspf.org/ns/0")) ? .xspf : nil
        }
        if head.hasPrefix("[playlist]") { return .pls }
        if head.hasPrefix("#extm3u") || isTold(.m3u) { return isStream(text) ? nil : .m3u }
        let isText = mediaType.map { ["text/plain", "application/octet-stream"].contains($0) } ?? true
        return (isTold(.urls) || isText) && isURLList(text, isTold: isTold(.urls)) ? .urls : nil
    }

    /// True for an HLS playlist (RFC 8216): one of these tags is in every media, and one in every master playlist.
    static func isStream(_ text: ArraySlice<UInt8>) -> Bool {
        let tags = ["#EXT-X-TARGETDURATION", "#EXT-X-STREAM-INF", "#EXT-X-MEDIA-SEQUENCE"]
        return lines(of: text).contains { line in tags.contains { line.starts(with: $0.utf8) } }
    }

    /// Any text could be a list of relative paths; so every line must be an absolute URL, unless the name or the type
    /// say that it is a list: then a line may be a path too, as long as it does not look like prose.
    private static func isURLList(_ text: ArraySlice<UInt8>, isTold: Bool) -> Bool {
        var count = 0
        for line in lines(of: text) where !line.isEmpty && line.first != UInt8(ascii: "#") {
            guard line.count <= Playlist.longestLine else { return false }
            let isAbsolute = isWebURL(line) && !line.contains(where: isBlank)
            guard isAbsolute || (isTold && isPath(line)) else { return false }
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
}

/// Whether it begins as the URL of a web server does.
func isWebURL(_ line: ArraySlice<UInt8>) -> Bool {
    let head = asciiLowercased(line.prefix(8))
    return head.hasPrefix("http://") || head.hasPrefix("https://")
}

/// The text behind the mark that some editors put before UTF-8.
func withoutByteOrderMark(_ body: [UInt8]) -> ArraySlice<UInt8> {
    body.starts(with: [0xEF, 0xBB, 0xBF]) ? body[3...] : body[...]
}

/// The lines, trimmed; any of the three line ends.
func lines(of text: ArraySlice<UInt8>) -> some Sequence<ArraySlice<UInt8>> {
    text.lazy.split(omittingEmptySubsequences: true) { $0 == 0x0A || $0 == 0x0D }.map(trimmedBytes)
}
