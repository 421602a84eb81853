/// An absolute `http` or `https` URL (RFC 3986), without a fragment, ready to be requested.
///
/// Bytes that may not stand in a URL (spaces, controls, non-ASCII) are percent-encoded when it is made, so two spellings
/// of one listing entry become one URL. User name and password are kept apart and are part of neither `text` nor
/// equality: they may reach the origin and nothing else.
package struct ResourceURL: Hashable, Sendable, CustomStringConvertible {
    /// Shared by all URLs of a listing: ten thousand entries hold one.
    private let authority: Authority
    /// Starts with `/`; encoded, without dot segments.
    package let path: String
    package let query: String?

    private final class Authority: Sendable {
        let scheme: String
        let host: String
        let port: Int?
        let credentials: Credentials?
        let origin: String

        init(scheme: String, host: String, port: Int?, credentials: Credentials?) {
            self.scheme = scheme
            self.host = host
            self.port = port
            self.credentials = credentials
            origin = scheme + "://" + host + (port.map { ":\($0)" } ?? "")
        }
    }

    /// `http` or `https`.
    package var scheme: String { authority.scheme }
    /// In lower case; an IPv6 address with its brackets.
    package var host: String { authority.host }
    package var port: Int? { authority.port }
    /// Decoded user name and password, where the URL had any.
    package var credentials: Credentials? { authority.credentials }

    package struct Credentials: Hashable, Sendable {
        package var user: String
        package var password: String
    }

    /// nil where `text` is no absolute http(s) URL with a host.
    package init?(_ text: String) {
        let parts = URLParts(trimmed(text))
        guard let scheme = parts.scheme.map({ asciiLowercased($0) }), scheme == "http" || scheme == "https",
            let authority = parts.authority
        else { return nil }
        var hostAndPort = authority[...]
        var credentials: Credentials?
        if let at = authority.lastIndex(of: "@") {
            hostAndPort = authority[authority.index(after: at)...]
            let pair = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            credentials = Credentials(
                user: percentDecodedText(String(pair[0])),
                password: pair.count > 1 ? percentDecodedText(String(pair[1])) : "")
        }
        var port: Int?
        if let colon = hostAndPort.lastIndex(of: ":"), !hostAndPort[colon...].contains("]") {
            let digits = String(hostAndPort[hostAndPort.index(after: colon)...])
            if !digits.isEmpty {
                guard let number = decimal(digits), (1...65_535).contains(number) else { return nil }
                port = Int(number)
            }
            hostAndPort = hostAndPort[..<colon]
        }
        let host = asciiLowercased(hostAndPort)
        guard !host.isEmpty, host.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && !"/?#@\\\"<>^`{|}%".utf8.contains($0) })
        else { return nil }
        let standard = scheme == "http" ? 80 : 443
        self.init(
            Authority(scheme: scheme, host: host, port: port == standard ? nil : port, credentials: credentials),
            path: parts.path.isEmpty ? "/" : removingDotSegments(encoded(parts.path, keeping: isPathByte)),
            query: parts.query.map { encoded($0, keeping: isQueryByte) })
    }

    private init(_ authority: Authority, path: String, query: String?) {
        self.authority = authority
        self.path = path.hasPrefix("/") ? path : "/" + path
        self.query = query
    }

    package static func == (one: ResourceURL, other: ResourceURL) -> Bool { one.text == other.text }
    package func hash(into hasher: inout Hasher) { hasher.combine(text) }

    /// Scheme, host and port as one text: credentials belong to exactly this.
    package var origin: String { authority.origin }

    /// The whole URL without credentials: what is requested, and what names the resource in the cache.
    package var text: String { origin + path + (query.map { "?" + $0 } ?? "") }

    /// For logs and messages: neither credentials nor the query, which often is one.
    package var description: String { origin + path + (query == nil ? "" : "?…") }

    package func isSameOrigin(as other: ResourceURL) -> Bool { origin == other.origin }

    package func with(credentials: Credentials?) -> ResourceURL {
        if credentials == self.credentials { return self }
        return ResourceURL(
            Authority(scheme: scheme, host: host, port: port, credentials: credentials), path: path, query: query)
    }

    package func with(path: String) -> ResourceURL { ResourceURL(authority, path: path, query: query) }

    /// Resolves a reference against this URL (RFC 3986, section 5.2). Credentials go along only to the same origin.
    /// nil where the result is no http(s) URL.
    package func resolve(_ reference: String) -> ResourceURL? {
        let parts = URLParts(trimmed(reference))
        if parts.scheme != nil {
            guard parts.authority != nil, let url = ResourceURL(trimmed(reference)) else { return nil }
            let isOurs = url.credentials == nil && url.isSameOrigin(as: self)
            return isOurs ? ResourceURL(authority, path: url.path, query: url.query) : url
        }
        if parts.authority != nil { return resolve(scheme + ":" + trimmed(reference)) }
        let newPath: String
        var newQuery = parts.query.map { encoded($0, keeping: isQueryByte) }
        if parts.path.isEmpty {
            newPath = path
            newQuery = newQuery ?? query
        } else if parts.path.hasPrefix("/") {
            newPath = removingDotSegments(encoded(parts.path, keeping: isPathByte))
        } else {
            let folder = path[...path.lastIndex(of: "/")!]
            newPath = removingDotSegments(folder + encoded(parts.path, keeping: isPathByte))
        }
        return ResourceURL(authority, path: newPath, query: newQuery)
    }

    /// What the path has up to the slash before its last segment, a slash at its end apart; without the query.
    package var folder: ResourceURL {
        let bytes = path.utf8
        let end = path.hasSuffix("/") ? bytes.index(before: bytes.endIndex) : bytes.endIndex
        guard let slash = bytes[..<end].lastIndex(of: 0x2F) else {
            return ResourceURL(authority, path: "/", query: nil)
        }
        return ResourceURL(authority, path: String(path[...slash]), query: nil)
    }

    /// What stands behind `folder` in this URL, the query included; nil where it is not below it, or goes with other
    /// credentials.
    package func suffix(below folder: ResourceURL) -> [UInt8]? {
        guard folder.query == nil, folder.path.hasSuffix("/"),
            authority === folder.authority
                || (origin.utf8.elementsEqual(folder.origin.utf8) && credentials == folder.credentials),
            path.utf8.starts(with: folder.path.utf8)
        else { return nil }
        return path.utf8.dropFirst(folder.path.utf8.count) + (query.map { Array("?\($0)".utf8) } ?? [])
    }

    /// The URL whose `suffix(below: self)` this is.
    package func below(_ suffix: ArraySlice<UInt8>) -> ResourceURL {
        let mark = suffix.firstIndex(of: 0x3F)
        let name = String(decoding: suffix[..<(mark ?? suffix.endIndex)], as: UTF8.self)
        return ResourceURL(
            authority, path: path + name,
            query: mark.map { String(decoding: suffix[suffix.index(after: $0)...], as: UTF8.self) })
    }

    /// The last segment of the path as its bytes, decoded once; empty where the path ends in `/`.
    package var lastSegment: [UInt8] { percentDecoded(String(path[path.index(after: path.lastIndex(of: "/")!)...])) }

    /// What stands behind the last dot of the last segment, in lower case; empty where there is none.
    package var fileExtension: String { ReelCore.fileExtension(String(decoding: lastSegment, as: UTF8.self)) }
}

/// What stands behind the last dot of a name, in lower case; empty where there is none.
package func fileExtension(_ name: String) -> String {
    guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return "" }
    return asciiLowercased(name[name.index(after: dot)...])
}

/// RFC 3986, section 5.2.4; an encoded dot counts as a dot, so that no server can be led out of a directory by one.
private func removingDotSegments(_ path: String) -> String {
    var result: [Substring] = []
    let segments = path.split(separator: "/", omittingEmptySubsequences: false)
    for (index, segment) in segments.enumerated() {
        let isLast = index == segments.count - 1
        switch percentDecoded(String(segment)) {
        case [0x2E]:
            if isLast { result.append("") }
        case [0x2E, 0x2E]:
            if result.count > 1 { result.removeLast() }
            if isLast { result.append("") }
        default:
            result.append(segment)
        }
    }
    return result.joined(separator: "/")
}

/// A reference cut into its five parts, by the expression of RFC 3986, appendix B.
private struct URLParts {
    var scheme: String?
    var authority: String?
    var path: String
    var query: String?

    init(_ text: String) {
        var rest = text.prefix { $0 != "#" }
        if let mark = rest.firstIndex(of: "?") {
            query = String(rest[rest.index(after: mark)...])
            rest = rest[..<mark]
        }
        if let colon = rest.firstIndex(where: { ":/".contains($0) }), rest[colon] == ":", colon != rest.startIndex,
            rest[..<colon].utf8.allSatisfy({ isUnreservedOrSubDelimiter($0) }), rest.first!.isLetter
        {
            scheme = String(rest[..<colon])
            rest = rest[rest.index(after: colon)...]
        }
        if rest.hasPrefix("//") {
            rest = rest.dropFirst(2)
            authority = String(rest.prefix { $0 != "/" })
            rest = rest[(rest.firstIndex(of: "/") ?? rest.endIndex)...]
        }
        path = String(rest)
    }
}
