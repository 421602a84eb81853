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
        segments = ListingDirectory.segments(of: Array(self.url.path.utf8)[...]).dropLast().map { percentDecoded($0) }
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
        guard reference.count <= ResourceURL.longest else { return .elsewhere }
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
        var parts = ListingDirectory.segments(of: path)[...]
        if path.first == 0x2F {
            let own = segments.count
            let isOwn = { (count: Int) in
                parts.count > count && zip(parts, segments).prefix(count).allSatisfy { percentDecoded($0) == $1 }
            }
            if own > 1, parts.count == own, parts.last?.isEmpty == true, isOwn(own - 1) { return .parent }
            guard isOwn(own) else { return .elsewhere }
            parts = parts.dropFirst(own)
        } else {
            while parts.count > 1, let first = parts.first, percentDecoded(first) == [0x2E] {
                parts = parts.dropFirst()
            }
        }
        let isDirectory = parts.count == 2 && parts.last?.isEmpty == true
        guard isDirectory || parts.count == 1, let segment = parts.first else { return .elsewhere }
        let name = percentDecoded(segment)
        if name == [0x2E, 0x2E] { return .parent }
        if name.isEmpty { return query.map { .query(Array($0)) } ?? .elsewhere }
        guard name != [0x2E], let url = child(segment, isDirectory, query: query) else { return .elsewhere }
        return .child(ListingLink(name: name, isDirectory: isDirectory, url: url))
    }

    /// Escapes stay as the origin wrote them; what may not stand in a path is escaped. nil where it is too long for a URL.
    func child(_ segment: ArraySlice<UInt8>, _ isDirectory: Bool, query: ArraySlice<UInt8>? = nil) -> ResourceURL? {
        url.child(encoded(segment, keeping: isSegmentByte) + (isDirectory ? [0x2F] : []), query: query)
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
