import ReelCore

/// A link of a listing that names a direct child of its directory.
struct ListingLink {
    /// Decoded once, as the origin has it.
    var name: [UInt8]
    var isDirectory: Bool
    var url: ResourceURL
}

/// The directory that a listing is of: decides which links are its children.
///
/// Only a direct child is an entry. A link is cut by hand and never resolved by the rules for URLs, so no spelling of
/// it can lead out of the directory.
struct ListingDirectory {
    /// Without a query, its path ending in `/`.
    let url: ResourceURL
    private let origin: [UInt8]
    /// The decoded segments of the path.
    private let segments: [[UInt8]]

    init(_ url: ResourceURL) {
        self.url = url.resolve("./") ?? url
        origin = Array(self.url.origin.utf8)
        segments = ListingDirectory.segments(of: Array(self.url.path.utf8)[...]).dropLast().map(percentDecodedBytes)
    }

    enum Target {
        case child(ListingLink)
        /// The directory above.
        case parent
        /// A query and nothing else: a sort link, mostly.
        case query([UInt8])
        case elsewhere
    }

    func target(of reference: ArraySlice<UInt8>) -> Target {
        // Browsers drop tabs and line ends inside a reference; a name that has them writes %09 and %0A.
        var rest = trimmedBytes(reference)
        if rest.contains(where: { $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }) {
            rest = rest.filter { $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }[...]
        }
        if let hash = rest.firstIndex(of: 0x23) { rest = rest[..<hash] }
        var query: ArraySlice<UInt8>?
        if let mark = rest.firstIndex(of: 0x3F) {
            query = rest[(mark + 1)...]
            rest = rest[..<mark]
        }
        if rest.isEmpty { return query.map { .query(Array($0)) } ?? .elsewhere }
        guard let path = pathOnOrigin(rest) else { return .elsewhere }
        return place(path, query: query)
    }

    /// The reference without scheme and host where they are this directory's; nil where they are others.
    private func pathOnOrigin(_ reference: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        var authority = reference
        if let colon = reference.firstIndex(where: { !isSchemeByte($0) }), reference[colon] == 0x3A,
            colon > reference.startIndex
        {
            let scheme = asciiLowercased(String(decoding: reference[..<colon], as: UTF8.self))
            if scheme == url.scheme {
                authority = reference[(colon + 1)...]
                guard authority.starts(with: [0x2F, 0x2F]) else { return nil }
            } else {
                // A listing's relative link may hold a colon ("colon:x.txt"); only what is known as a scheme is one.
                return knownSchemes.contains(scheme) ? nil : reference
            }
        }
        guard authority.starts(with: [0x2F, 0x2F]) else { return reference }
        let host = authority.dropFirst(2)
        let end = host.firstIndex(of: 0x2F) ?? host.endIndex
        let text = url.scheme + "://" + String(decoding: host[..<end], as: UTF8.self)
        guard let other = ResourceURL(text), other.origin.utf8.elementsEqual(origin) else { return nil }
        return end == host.endIndex ? [0x2F] : host[end...]
    }

    private func place(_ path: ArraySlice<UInt8>, query: ArraySlice<UInt8>?) -> Target {
        var parts = ListingDirectory.segments(of: path)
        if path.first == 0x2F {
            let own = segments.count
            let above = parts.prefix(own - 1).map(percentDecodedBytes)
            if own > 1, above.elementsEqual(segments.dropLast()), parts.count == own, parts.last!.isEmpty {
                return .parent
            }
            guard parts.count > own, parts.prefix(own).map(percentDecodedBytes).elementsEqual(segments) else {
                return .elsewhere
            }
            parts.removeFirst(own)
        } else {
            while parts.count > 1, percentDecodedBytes(parts[0]) == [0x2E] { parts.removeFirst() }
        }
        let isDirectory = parts.count == 2 && parts[1].isEmpty
        guard isDirectory || parts.count == 1 else { return .elsewhere }
        let name = percentDecodedBytes(parts[0])
        if name == [0x2E, 0x2E] { return .parent }
        if name.isEmpty { return query.map { .query(Array($0)) } ?? .elsewhere }
        if name == [0x2E] { return .elsewhere }
        return .child(
            ListingLink(name: name, isDirectory: isDirectory, url: child(parts[0], isDirectory, query: query)))
    }

    /// Escapes stay as the origin wrote them; what may not stand in a path is escaped.
    func child(_ segment: ArraySlice<UInt8>, _ isDirectory: Bool, query: ArraySlice<UInt8>? = nil) -> ResourceURL {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(segment.count + 8)
        for index in segment.indices {
            let byte = segment[index]
            if isSegmentByte(byte) || (byte == 0x25 && escapedByte(segment[index...]) != nil) {
                bytes.append(byte)
            } else {
                appendEscape(of: byte, to: &bytes)
            }
        }
        if isDirectory { bytes.append(0x2F) }
        let text = String(decoding: bytes, as: UTF8.self)
        if let query, let url = url.resolve("./" + text + "?" + String(decoding: query, as: UTF8.self)) { return url }
        return url.with(path: url.path + text)
    }

    private static func segments(of path: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        path.split(separator: 0x2F, omittingEmptySubsequences: false)
    }
}

/// What a page may link to that is no file beside it.
private let knownSchemes: Set<String> = [
    "http", "https", "ftp", "ftps", "sftp", "file", "javascript", "mailto", "tel", "sms", "data", "about", "blob",
    "magnet",
    "ws", "wss", "news", "irc", "view-source", "vbscript",
]

private func isSchemeByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2D, 0x2E: true
    default: false
    }
}
