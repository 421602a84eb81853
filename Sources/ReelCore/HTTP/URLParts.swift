/// A reference cut into its five parts, by the expression of RFC 3986, appendix B. Each part is a piece of the bytes,
/// as it was given.
///
/// libcurl's `curl_url_set` does not replace this, as it changes parts that a signature or a server may depend on: it
/// drops an empty query, writes a blank in a query as `+`, and takes `http:///x` for the host `x` and a host of
/// `0x7f000001` for 127.0.0.1. It also leaves `%2e%2e` in a path and a bare `%` in place: a URL would have two
/// spellings.
package struct URLParts {
    /// Without its colon.
    package var scheme: ArraySlice<UInt8>?
    /// Without the two slashes before it.
    package var authority: ArraySlice<UInt8>?
    /// Empty where there is none.
    package var path: ArraySlice<UInt8>
    /// Without its question mark.
    package var query: ArraySlice<UInt8>?

    /// All but query and fragment: the path of a reference in which the text before a colon is no scheme.
    package let whole: ArraySlice<UInt8>

    /// nil where the reference is longer than a URL may be.
    init?(_ text: String) {
        // Before anything is copied. Blanks around it do not count, but no link has as many.
        guard text.utf8.count <= 2 * ResourceURL.longest else { return nil }
        self.init(Array(text.utf8)[...])
    }

    /// The same of bytes that need not be text.
    package init?(_ reference: ArraySlice<UInt8>) {
        var rest = trimmedBytes(reference)
        guard rest.count <= ResourceURL.longest else { return nil }
        rest = rest.prefix { $0 != UInt8(ascii: "#") }
        if let mark = rest.firstIndex(of: UInt8(ascii: "?")) {
            query = rest[(mark + 1)...]
            rest = rest[..<mark]
        }
        whole = rest
        scheme = URLParts.scheme(of: rest)
        if let scheme { rest = rest[(scheme.endIndex + 1)...] }
        if rest.starts(with: [0x2F, 0x2F]) {
            rest = rest.dropFirst(2)
            authority = rest.prefix { $0 != 0x2F }
            rest = rest.dropFirst(authority?.count ?? 0)
        }
        path = rest
    }

    /// The scheme that a reference begins with (RFC 3986, section 3.1), without its colon; nil where there is none.
    package static func scheme(of reference: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let scheme = reference.prefix { isLetter($0) || isDigit($0) || "+-.".utf8.contains($0) }
        let isScheme = scheme.first.map(isLetter) ?? false
        return isScheme && reference[scheme.endIndex...].first == UInt8(ascii: ":") ? scheme : nil
    }
}

/// User, host and port of a URL (RFC 3986, section 3.2).
struct URLAuthority {
    var host: String
    var port: Int?
    var credentials: ResourceURL.Credentials?

    /// nil where the host cannot be asked: empty, with signs that no host has, or with brackets that hold no IPv6
    /// address. A colon without a port means the standard port, as in the RFC and in curl.
    init?(_ authority: ArraySlice<UInt8>) {
        var rest = authority
        if let at = rest.lastIndex(of: UInt8(ascii: "@")) {
            let user = rest[..<at].prefix { $0 != UInt8(ascii: ":") }
            let texts = [user, rest[user.endIndex..<at].dropFirst()].map {
                String(decoding: percentDecoded($0), as: UTF8.self)
            }
            credentials = ResourceURL.Credentials(user: texts[0], password: texts[1])
            rest = rest[(at + 1)...]
        }
        let end = rest.first == UInt8(ascii: "[") ? rest.firstIndex(of: UInt8(ascii: "]")) ?? rest.startIndex : nil
        if let colon = rest[(end ?? rest.startIndex)...].lastIndex(of: UInt8(ascii: ":")) {
            let digits = rest[(colon + 1)...]
            if !digits.isEmpty {
                guard let number = decimal(digits), (1...65_535).contains(number) else { return nil }
                port = Int(number)
            }
            rest = rest[..<colon]
        }
        guard !rest.isEmpty, end == nil ? rest.allSatisfy(isHostByte) : isAddress(rest) else { return nil }
        host = asciiLowercased(rest)
    }
}

private func isHostByte(_ byte: UInt8) -> Bool {
    byte > 0x20 && byte != 0x7F && !"/?#@\\\"<>^`{|}%[]:".utf8.contains(byte)
}

/// True for `[`, an IPv6 address without a zone, `]`: its letters, and at least two colons. The resolver checks the
/// rest.
private func isAddress(_ host: ArraySlice<UInt8>) -> Bool {
    guard host.last == UInt8(ascii: "]"), (4...47).contains(host.count) else { return false }
    let address = host.dropFirst().dropLast()
    return address.allSatisfy { hexDigit($0) != nil || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") }
        && address.count { $0 == UInt8(ascii: ":") } >= 2
}

/// Removes the segments `.` and `..` (RFC 3986, section 5.2.4). An encoded dot counts as a dot, so that none can lead a
/// server out of a directory.
func removingDotSegments(_ path: [UInt8]) -> [UInt8] {
    var result: [ArraySlice<UInt8>] = []
    let segments = path.split(separator: 0x2F, omittingEmptySubsequences: false)
    for (index, segment) in segments.enumerated() {
        let isLast = index == segments.count - 1
        // The longest way to write two dots is `%2E%2E`.
        switch segment.count <= 6 ? percentDecoded(segment) : [] {
        case [0x2E]:
            if isLast { result.append([]) }
        case [0x2E, 0x2E]:
            if result.count > 1 { result.removeLast() }
            if isLast { result.append([]) }
        default:
            result.append(segment)
        }
    }
    return Array(result.joined(separator: [0x2F]))
}
