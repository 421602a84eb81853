/// An absolute URL (RFC 3986) of a web server (`http`, `https`) or of a file server (`ftp`, `ftpes`, `ftps`, `sftp`),
/// without a fragment, ready to be requested.
///
/// A text from outside becomes the URL of a web server or none: `ResourceURL.init(_:)` and `resolve` know no other
/// schemes, so that no page, list or redirect leads to a file server. Only what the user or the cache names may.
///
/// Bytes that may not stand in a URL (spaces, controls, non-ASCII) are percent-encoded when it is made, so two
/// spellings of one listing entry become one URL. User name and password are kept apart and are part of neither `text`
/// nor equality: only the origin gets them.
///
/// It is read as bytes. As Characters, a mark that combines with a delimiter would hide it, and a row of flags would
/// take time that grows with its square.
package struct ResourceURL: Hashable, Sendable, CustomStringConvertible {
    /// Bytes of a URL, as given and as requested: nginx and Apache take no longer request line.
    package static let longest = 8192

    /// Shared by all URLs of a listing: ten thousand entries hold one.
    private let authority: Authority
    /// Starts with `/`; encoded, without dot segments.
    package let path: String
    /// Encoded, without the `?`.
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

    /// In lower case.
    package var scheme: String { authority.scheme }
    /// In lower case; an IPv6 address with its brackets.
    package var host: String { authority.host }
    /// nil for the standard port of the scheme.
    package var port: Int? { authority.port }
    /// Decoded user name and password, where the URL had any.
    package var credentials: Credentials? { authority.credentials }

    /// A user name and a password, compared byte by byte.
    package struct Credentials: Hashable, Sendable {
        /// Decoded.
        package var user: String
        /// Decoded; empty where there is none.
        package var password: String

        /// Both decoded.
        package init(user: String, password: String) {
            self.user = user
            self.password = password
        }

        /// Whether both have the same bytes.
        package static func == (one: Credentials, other: Credentials) -> Bool {
            one.user.utf8.elementsEqual(other.user.utf8) && one.password.utf8.elementsEqual(other.password.utf8)
        }
    }

    /// nil where `text` is no absolute http(s) URL with a host, or too long.
    package init?(_ text: String) {
        guard let parts = URLParts(text) else { return nil }
        self.init(parts, Self.webServers)
    }

    /// The same, and URLs of file servers as well: for what the user names, or the cache has as the mount knew it.
    package init?(trusted text: String) {
        guard let parts = URLParts(text) else { return nil }
        self.init(parts, Self.allServers)
    }

    /// The schemes whose origins can be asked, and their standard ports.
    private static let webServers = ["http": 80, "https": 443]
    /// `ftpes` is FTP on its usual port that changes to TLS (RFC 4217), `ftps` is FTP inside of TLS.
    private static let fileServers = ["ftp": 21, "ftpes": 21, "ftps": 990, "sftp": 22]
    private static let allServers = webServers.merging(fileServers) { port, _ in port }

    /// How a file server is asked.
    package enum FileProtocol: Sendable {
        case ftp, sftp
    }

    /// nil for a web server.
    package var fileProtocol: FileProtocol? {
        if Self.fileServers[scheme] == nil { nil } else { scheme == "sftp" ? .sftp : .ftp }
    }

    /// - Parameter ports: the schemes that count.
    private init?(_ parts: URLParts, _ ports: [String: Int]) {
        guard let scheme = parts.scheme.map({ asciiLowercased($0) }), let port = ports[scheme],
            let authority = parts.authority.flatMap({ URLAuthority($0) })
        else { return nil }
        self.init(
            Authority(
                scheme: scheme, host: authority.host, port: authority.port == port ? nil : authority.port,
                credentials: authority.credentials),
            path: parts.path.isEmpty ? [0x2F] : removingDotSegments(encoded(parts.path, keeping: isPathByte)),
            query: parts.query)
    }

    /// - Parameters:
    ///   - path: encoded.
    ///   - query: as it was given.
    private init?(_ authority: Authority, path: [UInt8], query: ArraySlice<UInt8>?) {
        let query = query.map { encoded($0, keeping: isQueryByte) }
        guard authority.origin.utf8.count + path.count + (query.map { $0.count + 1 } ?? 0) <= ResourceURL.longest else {
            return nil
        }
        self.init(
            authority, path: String(decoding: path, as: UTF8.self),
            query: query.map { String(decoding: $0, as: UTF8.self) })
    }

    private init(_ authority: Authority, path: String, query: String?) {
        self.authority = authority
        self.path = path.utf8.first == 0x2F ? path : "/" + path
        self.query = query
    }

    /// Whether both have the same `text`.
    package static func == (one: ResourceURL, other: ResourceURL) -> Bool {
        one.isSameOrigin(as: other) && one.path == other.path && one.query == other.query
    }

    /// By `text`.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(origin)
        hasher.combine(path)
        hasher.combine(query)
    }

    /// Scheme, host and port as one text: credentials belong to exactly this.
    package var origin: String { authority.origin }

    /// The whole URL without credentials: it is requested, and names the resource in the cache.
    package var text: String { origin + path + (query.map { "?" + $0 } ?? "") }

    /// For logs and messages: neither credentials nor the query, which often is one.
    package var description: String { origin + path + (query == nil ? "" : "?…") }

    /// Whether credentials for one may be sent to the other.
    package func isSameOrigin(as other: ResourceURL) -> Bool {
        authority === other.authority || origin.utf8.elementsEqual(other.origin.utf8)
    }

    /// The same place, asked as another user, or as none.
    package func with(credentials: Credentials?) -> ResourceURL {
        if credentials == self.credentials { return self }
        return ResourceURL(
            Authority(scheme: scheme, host: host, port: port, credentials: credentials), path: path, query: query)
    }

    /// Another place of the same origin, with the same query. - Parameter path: encoded.
    package func with(path: String) -> ResourceURL { ResourceURL(authority, path: path, query: query) }

    /// Resolves a reference against this URL (RFC 3986, section 5.2). Credentials go along only to the same origin.
    /// nil where the result is too long, or neither an http(s) URL nor one of this origin.
    package func resolve(_ reference: String) -> ResourceURL? {
        guard var parts = URLParts(reference) else { return nil }
        if parts.authority != nil {
            parts.scheme = parts.scheme ?? Array(scheme.utf8)[...]
            guard let url = ResourceURL(parts, Self.allServers), url.fileProtocol == nil || url.isSameOrigin(as: self)
            else { return nil }
            let isOurs = url.credentials == nil && url.isSameOrigin(as: self)
            return isOurs ? ResourceURL(authority, path: url.path, query: url.query) : url
        }
        if parts.scheme != nil { return nil }
        if parts.path.isEmpty {
            return ResourceURL(
                authority, path: Array(path.utf8), query: parts.query ?? query.map { Array($0.utf8)[...] })
        }
        let given = encoded(parts.path, keeping: isPathByte)
        let above = given.first == 0x2F ? [] : Array(folder(endingAt: path.utf8.endIndex).utf8)
        return ResourceURL(authority, path: removingDotSegments(above + given), query: parts.query)
    }

    /// Adds a segment to a path that ends in `/`; nil where that would be too long.
    /// - Parameters:
    ///   - segment: encoded, neither `.` nor `..`; may end in `/`.
    ///   - query: as it was given.
    package func child(_ segment: [UInt8], query: ArraySlice<UInt8>?) -> ResourceURL? {
        suffix(of: segment, query: query).map { below($0[...]) }
    }

    /// The `suffix(below: self)` of that child.
    package func suffix(of segment: [UInt8], query: ArraySlice<UInt8>?) -> [UInt8]? {
        let suffix = query.map { segment + [0x3F] + encoded($0, keeping: isQueryByte) } ?? segment
        return origin.utf8.count + path.utf8.count + suffix.count <= ResourceURL.longest ? suffix : nil
    }

    /// The URL up to the slash before its last segment, without the query. A slash at its end does not count.
    package var folder: ResourceURL {
        let bytes = path.utf8
        let end = bytes.last == 0x2F ? bytes.index(before: bytes.endIndex) : bytes.endIndex
        return ResourceURL(authority, path: String(folder(endingAt: end)), query: nil)
    }

    private func folder(endingAt end: String.Index) -> Substring {
        path.utf8[..<end].lastIndex(of: 0x2F).map { path[...$0] } ?? "/"
    }

    /// The part of this URL behind `folder`, with the query; nil where it is not below `folder`, or goes with other
    /// credentials.
    package func suffix(below folder: ResourceURL) -> [UInt8]? {
        guard folder.query == nil, folder.path.utf8.last == 0x2F,
            authority === folder.authority || (isSameOrigin(as: folder) && credentials == folder.credentials),
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
    package var lastSegment: [UInt8] {
        let bytes = Array(path.utf8)
        return percentDecoded(bytes[((bytes.lastIndex(of: 0x2F) ?? -1) + 1)...])
    }

    /// The part of the last segment behind its last dot, in lower case; empty where there is none.
    package var fileExtension: String { ReelCore.fileExtension(String(decoding: lastSegment, as: UTF8.self)) }
}

/// The part of a name behind its last dot, in lower case; empty where there is none.
package func fileExtension(_ name: String) -> String {
    guard let dot = name.utf8.lastIndex(of: 0x2E), dot != name.startIndex else { return "" }
    return asciiLowercased(name[name.utf8.index(after: dot)...])
}
