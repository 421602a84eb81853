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

    /// The host that names no region.
    package static let host = "s3.amazonaws.com"

    /// Whether a text may be the name of a region: the one that an answer names becomes a part of a host's name.
    package static func isRegion(_ name: String) -> Bool {
        (1...32).contains(name.utf8.count)
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || isDigit($0) || $0 == UInt8(ascii: "-") }
    }
}
