import ReelCore

/// A link of a listing that names a direct child of its directory.
struct ListingLink {
    /// Decoded once, as the origin has it.
    var name: [UInt8]
    var isDirectory: Bool
    /// What its URL has behind the directory's.
    var suffix: [UInt8]

    /// The same without the slash at its end.
    var asFile: ListingLink {
        ListingLink(name: name, isDirectory: false, suffix: suffix.last == 0x2F ? suffix.dropLast() : suffix)
    }
}

/// The directory that a listing is of: decides which links are its children.
///
/// Only a direct child is an entry. A link is cut by hand and never resolved by the rules for URLs, so no spelling of
/// it can lead out of the directory.
struct ListingDirectory {
    /// Without a query, its path ending in `/`.
    let url: ResourceURL
    /// The decoded segments of the path.
    private let segments: [[UInt8]]

    init(_ url: ResourceURL) {
        self.url = url.resolve("./") ?? url
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
        // Browsers drop tabs and line ends inside a reference; a name that has them writes %09 and %0A.
        let isDropped = { (byte: UInt8) in byte == 0x09 || byte == 0x0A || byte == 0x0D }
        let link = reference.contains(where: isDropped) ? reference.filter { !isDropped($0) }[...] : reference
        guard let parts = URLParts(link), let path = pathOnOrigin(parts) else { return .elsewhere }
        return path.isEmpty ? parts.query.map { .query(Array($0)) } ?? .elsewhere : place(path, query: parts.query)
    }

    /// The path if scheme and host are this directory's or left out; nil if they are others.
    private func pathOnOrigin(_ parts: URLParts) -> ArraySlice<UInt8>? {
        if let scheme = parts.scheme.map({ asciiLowercased($0) }), scheme != url.scheme {
            // A listing's relative link may hold a colon ("colon:x.txt"); only what is known as a scheme is one.
            return knownSchemes.contains(scheme) ? nil : parts.whole
        }
        guard let host = parts.authority else { return parts.scheme == nil ? parts.path : nil }
        let other = ResourceURL(url.scheme + "://" + String(decoding: host, as: UTF8.self))
        guard other?.isSameOrigin(as: url) == true else { return nil }
        return parts.path.isEmpty ? [0x2F] : parts.path
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
        guard name != [0x2E], let link = child(segment, name, isDirectory, query: query) else { return .elsewhere }
        return .child(link)
    }

    /// Escapes stay as the origin wrote them; what may not stand in a path is escaped. nil where it is too long for a
    /// URL.
    /// - Parameter name: the segment decoded.
    func child(
        _ segment: ArraySlice<UInt8>, _ name: [UInt8], _ isDirectory: Bool, query: ArraySlice<UInt8>? = nil
    ) -> ListingLink? {
        var path = encoded(segment, keeping: isSegmentByte)
        if isDirectory { path.append(0x2F) }
        return url.suffix(of: path, query: query).map {
            ListingLink(name: name, isDirectory: isDirectory, suffix: $0)
        }
    }

    private static func segments(of path: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        path.split(separator: 0x2F, omittingEmptySubsequences: false)
    }
}

/// What a page may link to that is no file beside it.
private let knownSchemes: Set<String> = [
    "http", "https", "ftp", "ftps", "sftp", "file", "javascript", "mailto", "tel", "sms", "data", "about", "blob",
    "magnet", "ws", "wss", "news", "irc", "view-source",
    "vbscript",
]
