/// Status and headers of one HTTP answer, as received: nothing in it is trusted yet.
package struct ResponseHead: Sendable {
    package var status: Int
    /// In order of arrival, names in lower case, values trimmed.
    package var headers: [(name: String, value: String)]
    /// Where the answer came from, after redirects.
    package var url: ResourceURL

    package init(status: Int, headers: [(name: String, value: String)], url: ResourceURL) {
        self.status = status
        self.headers = headers.map { (asciiLowercased($0.name), $0.value) }
        self.url = url
    }

    /// The first header of that name. - Parameter name: in lower case.
    package subscript(_ name: String) -> String? {
        headers.first { $0.name == name }?.value
    }

    /// `Content-Length`, nil where absent, broken or contradicting itself.
    package var contentLength: Int64? {
        let values = Set(headers.lazy.filter { $0.name == "content-length" }.map { $0.value })
        guard values.count == 1, let value = values.first else { return nil }
        return decimal(value)
    }

    package var contentRange: ContentRange? { self["content-range"].flatMap { ContentRange($0) } }

    package var entityTag: EntityTag? { self["etag"].flatMap { EntityTag($0) } }

    /// `Last-Modified` as seconds since 1970, nil where absent or no date.
    package var lastModified: Int64? { self["last-modified"].flatMap { httpDate($0) } }

    /// `Content-Type` without parameters, in lower case; nil where it is not `type/subtype`.
    package var mediaType: String? {
        guard let value = self["content-type"] else { return nil }
        let bare = trimmedBytes(Array(value.utf8.prefix { $0 != UInt8(ascii: ";") })[...])
        // RFC 6838, section 4.2: each of the two names has 127 characters at most.
        guard bare.count <= 255, bare.contains(UInt8(ascii: "/")), bare.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            return nil
        }
        return asciiLowercased(String(decoding: bare, as: UTF8.self))
    }

    /// True where the body is coded in a way nobody asked for: its bytes are not the resource's.
    package var isEncoded: Bool {
        guard let value = self["content-encoding"] else { return false }
        return asciiLowercased(trimmed(value)) != "identity" && !value.isEmpty
    }

    /// False where the body is packed for the way (`Transfer-Encoding: gzip`): libcurl unpacks that without being asked.
    package var isPlainlyTransferred: Bool {
        headers.allSatisfy { header in
            header.name != "transfer-encoding"
                || header.value.utf8.split(separator: UInt8(ascii: ",")).allSatisfy {
                    ["chunked", "identity"].contains(asciiLowercased(trimmed(Substring($0))))
                }
        }
    }

    /// `Retry-After`, as seconds or a date counted from `now` (seconds since 1970).
    package func retryAfter(now: Int64) -> Duration? {
        guard let value = self["retry-after"] else { return nil }
        if let seconds = decimal(value) { return .seconds(min(seconds, 86_400)) }
        return httpDate(value).map { .seconds(min(max($0 - now, 0), 86_400)) }
    }
}

/// `Content-Range: bytes first-last/total` (RFC 9110, section 14.4).
package struct ContentRange: Hashable, Sendable {
    /// nil for `bytes */total`, the form that comes with 416.
    package var range: ByteRange?
    /// nil for `/*`.
    package var total: Int64?

    package init(range: ByteRange?, total: Int64?) {
        self.range = range
        self.total = total
    }

    /// Reads the header's value; nil where it is not well formed or contradicts itself.
    package init?(_ value: String) {
        let text = trimmedBytes(Array(value.utf8)[...])
        guard asciiLowercased(String(decoding: text.prefix(5), as: UTF8.self)) == "bytes" else { return nil }
        let rest = trimmedBytes(text.dropFirst(5).drop { $0 == 0x20 || $0 == UInt8(ascii: "=") })
        guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { return nil }
        let (span, all) = (rest[..<slash], rest[(slash + 1)...])
        if all.elementsEqual([UInt8(ascii: "*")]) {
            total = nil
        } else {
            guard let number = decimal(all) else { return nil }
            total = number
        }
        if span.elementsEqual([UInt8(ascii: "*")]) {
            range = nil
            return
        }
        guard let dash = span.firstIndex(of: UInt8(ascii: "-")), let first = decimal(span[..<dash]),
            let last = decimal(span[(dash + 1)...]), first <= last, last < Int64.max
        else { return nil }
        if let total, last >= total { return nil }
        range = ByteRange(first, last + 1)
    }
}
