import ReelCore

/// A bucket of an S3 service, and a prefix of its keys: `s3://BUCKET[/PREFIX]`. The prefix is taken byte for byte, and
/// nothing of it is decoded. With the endpoint of a service other than AWS, the address is `s3+ENDPOINT#BUCKET/PREFIX`.
package struct S3Address: Hashable, Sendable {
    /// The same address in one spelling, with its endpoint.
    package let text: String
    /// Bucket and prefix, without the endpoint.
    package let name: String
    /// The folder of the whole bucket.
    package let bucket: ResourceURL
    /// The folder of the prefix.
    package let root: ResourceURL

    /// nil if the text is no such address.
    /// - Parameter endpoint: the URL of the service, above its buckets, nil for AWS, unless the text names an endpoint.
    package init?(_ text: String, endpoint: ResourceURL? = nil) {
        var (rest, endpoint) = (Array(text.utf8)[...], endpoint)
        if rest.starts(with: "s3+".utf8), let mark = rest.firstIndex(of: UInt8(ascii: "#")) {
            guard let url = ResourceURL(String(decoding: rest[3..<mark], as: UTF8.self)) else { return nil }
            (rest, endpoint) = (rest[(mark + 1)...], url)
        } else {
            guard asciiLowercased(rest.prefix(5)) == "s3://" else { return nil }
            rest = rest.dropFirst(5)
        }
        let bucket = rest.prefix { $0 != 0x2F }
        guard (1...255).contains(bucket.count), bucket.contains(where: { $0 != 0x2E }),
            bucket.allSatisfy({ isUnreserved($0) && $0 != UInt8(ascii: "~") })
        else { return nil }
        let name = String(decoding: bucket, as: UTF8.self)
        var prefix = Array(rest.dropFirst(bucket.count + 1))
        if let last = prefix.last, last != 0x2F { prefix.append(0x2F) }

        let above: String
        if let endpoint {
            guard endpoint.query == nil, endpoint.credentials == nil else { return nil }
            above = endpoint.text + (endpoint.path.hasSuffix("/") ? "" : "/") + name + "/"
        } else if Self.isHostName(bucket) {
            above = "https://\(name).\(SignedTarget.host)/"
        } else {
            above = "https://\(SignedTarget.host)/\(name)/"
        }
        guard let folder = ResourceURL(above), let root = folder.child(s3Path(prefix), query: nil) else { return nil }
        (self.bucket, self.root) = (folder, root)
        let scheme = endpoint.map { "s3+\($0.text)#" } ?? "s3://"
        self.name = name + "/" + String(decoding: prefix, as: UTF8.self)
        self.text = scheme + self.name
    }

    /// Whether the bucket may be a part of a host's name. AWS's certificate does not cover names with dots.
    private static func isHostName(_ bucket: ArraySlice<UInt8>) -> Bool {
        (3...63).contains(bucket.count)
            && bucket.allSatisfy { (0x61...0x7A).contains($0) || isDigit($0) || $0 == UInt8(ascii: "-") }
            && bucket.first != UInt8(ascii: "-") && bucket.last != UInt8(ascii: "-")
    }
}

/// The path of a key, or of the start of one, below its bucket's URL: each byte is escaped that is not unreserved, as
/// in the signed request. A URL has no segments of one or two dots, so they get a `!`, which is escaped everywhere
/// else.
func s3Path(_ key: some Collection<UInt8>) -> [UInt8] {
    let segments = Array(key).split(separator: 0x2F, omittingEmptySubsequences: false).map { segment in
        segment.elementsEqual([0x2E]) || segment.elementsEqual([0x2E, 0x2E])
            ? segment + [UInt8(ascii: "!")] : s3Escaped(segment)[...]
    }
    return Array(segments.joined(separator: [0x2F]))
}

/// The path without the `!` that `s3Path` adds to segments of dots.
func withoutS3Marks(_ path: String) -> String {
    guard path.utf8.contains(UInt8(ascii: "!")) else { return path }
    let segments = path.utf8.split(separator: 0x2F, omittingEmptySubsequences: false).map { segment in
        segment.elementsEqual(".!".utf8) || segment.elementsEqual("..!".utf8) ? segment.dropLast() : segment
    }
    return String(decoding: Array(segments.joined(separator: [0x2F])), as: UTF8.self)
}
