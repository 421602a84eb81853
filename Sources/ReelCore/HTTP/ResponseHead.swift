/// Status and headers of one HTTP answer, as received: nothing in it is trusted yet.
package struct ResponseHead: Sendable {
    /// The status as the status line has it.
    package var status: Int
    /// In order of arrival, names in lower case, values trimmed.
    package var headers: [(name: String, value: String)]
    /// Where the answer came from, after redirects.
    package var url: ResourceURL
    /// Like `Validator.mirror`.
    package var mirror: Int64 = 0

    /// - Parameter headers: names in any case.
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

    /// `Content-Range`, nil where absent or broken.
    package var contentRange: ContentRange? { self["content-range"].flatMap { ContentRange($0) } }

    /// `ETag`, nil where absent or broken.
    package var entityTag: EntityTag? { self["etag"].flatMap { EntityTag($0) } }

    /// `Last-Modified` as seconds since 1970, nil where absent or no date.
    package var lastModified: Int64? { self["last-modified"].flatMap { httpDate($0) } }

    /// The validator of the version that the answer is of.
    package var validator: Validator {
        Validator(entityTag: entityTag, lastModified: lastModified, mirror: mirror)
    }

    /// `Content-Type` without parameters, in lower case; nil where it is not `type/subtype`.
    package var mediaType: String? {
        guard let value = self["content-type"] else { return nil }
        let bare = trimmedBytes(Array(value.utf8)[...].prefix { $0 != UInt8(ascii: ";") })
        // RFC 6838, section 4.2: each of the two names has 127 characters at most.
        guard bare.count <= 255, bare.contains(UInt8(ascii: "/")), bare.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return nil }
        return asciiLowercased(bare)
    }

    /// True where the body is coded in a way that was not requested: its bytes are not the resource's.
    package var isEncoded: Bool { words("content-encoding").contains { $0 != "identity" } }

    /// False where the body is packed for the way (`Transfer-Encoding: gzip`): libcurl unpacks that unasked.
    package var isPlainlyTransferred: Bool {
        words("transfer-encoding").allSatisfy { ["chunked", "identity"].contains($0) }
    }

    /// The words of a header between its commas, in lower case.
    private func words(_ name: String) -> [String] {
        headers.lazy.filter { $0.name == name }.flatMap { header in
            header.value.utf8.split(separator: UInt8(ascii: ",")).map { asciiLowercased(trimmed(Substring($0))) }
        }
    }

    /// `Age` in seconds (RFC 9111, section 5.1); nil if absent or broken.
    package var age: Int64? { self["age"].flatMap { decimal($0) } }

    /// Whether a cache on the way had the answer: as `X-Cache` says it, in nginx's words or in those of others; without
    /// it, an age says so, too. nil if neither says.
    package var isHit: Bool? {
        if let text = self["x-cache"].map({ asciiLowercased($0) }) {
            if ["hit", "stale", "updating", "revalidated"].contains(where: { text.contains($0) }) { return true }
            if ["miss", "expired", "bypass", "pass"].contains(where: { text.contains($0) }) { return false }
        }
        return age.flatMap { $0 > 0 ? true : nil }
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

    /// The parts of a header.
    package init(range: ByteRange?, total: Int64?) {
        self.range = range
        self.total = total
    }

    /// Reads the header's value; nil where it is not well formed or contradicts itself.
    package init?(_ value: String) {
        var cursor = ByteCursor(trimmedBytes(Array(value.utf8)[...]))
        guard asciiLowercased(cursor.take(count: 5)) == "bytes" else { return nil }
        cursor.take { isBlank($0) || $0 == UInt8(ascii: "=") }
        if !cursor.take(UInt8(ascii: "*")) {
            guard let first = cursor.number(), cursor.take(UInt8(ascii: "-")), let last = cursor.number(),
                first <= last, last < Int64.max
            else { return nil }
            range = ByteRange(first, last + 1)
        }
        guard cursor.take(UInt8(ascii: "/")) else { return nil }
        if !cursor.take(UInt8(ascii: "*")) {
            guard let number = cursor.number(), range.map({ $0.upper <= number }) ?? true else { return nil }
            total = number
        }
        if !cursor.isAtEnd { return nil }
    }
}
