/// The path and query of a request to an S3 service, in the one spelling that a signature is valid for (AWS Signature
/// Version 4), and whether the bucket's region has a host of its own.
package struct SignedTarget: Hashable, Sendable {
    /// Path and query to send and sign instead of the URL's, which cannot hold them: parameters are sorted by name,
    /// each byte is escaped that is not unreserved, dot segments stay.
    package var text: String
    /// Whether the URL's host is `[BUCKET.]s3.amazonaws.com`, which names no region: each region has another host.
    package var isRegional: Bool

    package init(text: String, isRegional: Bool) {
        self.text = text
        self.isRegional = isRegional
    }

    /// The URL of the resource in a region of AWS. - Parameter url: the URL without a region.
    package func place(of url: ResourceURL, in region: String?) -> ResourceURL {
        guard isRegional, let region, Self.isRegion(region), url.host.hasSuffix(Self.host) else { return url }
        let bucket = url.host.dropLast(Self.host.count)
        let country = region.hasPrefix("cn-") ? ".cn" : ""
        let host = "\(bucket)s3.\(region).amazonaws.com\(country)"
        return ResourceURL("\(url.scheme)://\(host)" + url.text.dropFirst(url.origin.count)) ?? url
    }

    /// Path and query in the form that the signature is made of, for a target that a server spells: a service makes it
    /// of whatever it gets. AWS, "Create a canonical request".
    package static func canonical(_ target: String) -> (path: String, query: String) {
        let bytes = Array(target.utf8)
        let path = bytes.prefix { $0 != UInt8(ascii: "?") }
        // An escaped slash is a part of its segment.
        let segments = path.split(separator: 0x2F, omittingEmptySubsequences: false).map {
            s3Escaped(percentDecoded($0)[...])
        }
        let fields = bytes.dropFirst(path.count + 1).split(separator: UInt8(ascii: "&")).map { field in
            let name = field.prefix { $0 != UInt8(ascii: "=") }
            return (name: canonicalWord(name), value: canonicalWord(field.dropFirst(name.count + 1)))
        }
        let sorted = fields.sorted {
            $0.name == $1.name
                ? $0.value.lexicographicallyPrecedes($1.value) : $0.name.lexicographicallyPrecedes($1.name)
        }
        let query = sorted.map { $0.name + [UInt8(ascii: "=")] + $0.value }.joined(separator: [UInt8(ascii: "&")])
        return (
            String(decoding: Array(segments.joined(separator: [0x2F])), as: UTF8.self),
            String(decoding: Array(query), as: UTF8.self)
        )
    }

    /// Services read a `+` as a space, which is escaped as `%20` here.
    private static func canonicalWord(_ word: ArraySlice<UInt8>) -> [UInt8] {
        s3Escaped(percentDecoded(Array(word.map { $0 == UInt8(ascii: "+") ? 0x20 : $0 })[...])[...])
    }

    /// The host that names no region.
    package static let host = "s3.amazonaws.com"

    /// Whether a text may be the name of a region: the one that an answer names becomes a part of a host's name.
    package static func isRegion(_ name: String) -> Bool {
        (1...32).contains(name.utf8.count)
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || isDigit($0) || $0 == UInt8(ascii: "-") }
    }
}
