/// A request of S3's interface: spelled as it is signed (AWS Signature Version 4), if the transport holds a key, and
/// sent to the region where the bucket is.
package struct SignedTarget: Hashable, Sendable {
    /// Path and query, as they are sent and signed in place of the URL's: sorted by name, each byte escaped that is not
    /// unreserved, dot segments kept. A URL cannot hold them.
    package var text: String
    /// The URL's host, `[BUCKET.]s3.amazonaws.com`, is that of all regions: in each the same bucket has another one.
    package var isRegional: Bool

    package init(text: String, isRegional: Bool) {
        self.text = text
        self.isRegional = isRegional
    }

    /// Where a region of AWS has the resource. - Parameter url: where it lies whatever the region.
    package func place(of url: ResourceURL, in region: String?) -> ResourceURL {
        guard isRegional, let region, Self.isRegion(region), url.host.hasSuffix(Self.host) else { return url }
        let bucket = url.host.dropLast(Self.host.count)
        let country = region.hasPrefix("cn-") ? ".cn" : ""
        let host = "\(bucket)s3.\(region).amazonaws.com\(country)"
        return ResourceURL("\(url.scheme)://\(host)" + url.text.dropFirst(url.origin.count)) ?? url
    }

    /// The host of all regions.
    package static let host = "s3.amazonaws.com"

    /// Whether it may be the name of a region: what an answer tells becomes a part of a host's name.
    package static func isRegion(_ name: String) -> Bool {
        (1...32).contains(name.utf8.count)
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || isDigit($0) || $0 == UInt8(ascii: "-") }
    }
}
