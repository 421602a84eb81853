import ReelCore

/// The objects of a bucket whose keys have a prefix, as a tree: `/` in a key separates folders. The service is S3 or
/// speaks its protocol.
///
/// URLs hold no region, no token and no signature, so that an object keeps its URL when those change.
package struct S3Source: Source {
    package static let kind = "s3"

    package let root: SourcePlace
    /// The folder of the whole bucket.
    private let bucket: ResourceURL?

    package init(_ address: S3Address) {
        root = .url(address.root)
        bucket = address.bucket
    }

    /// Takes the first segment of the path for the bucket where the service is not AWS.
    package init(root: SourcePlace) {
        self.root = root
        bucket = root.url.flatMap { url in
            let isHost = url.host.hasSuffix("." + SignedTarget.host)
            let name = isHost ? "" : url.path.dropFirst().prefix { $0 != "/" } + "/"
            return ResourceURL(url.origin + "/" + name)
        }
    }

    package static func recognise(address: String) -> S3Source? { S3Address(address).map { S3Source($0) } }
    package static func recognise(_ answer: SourceAnswer) -> S3Source? { nil }
    package static func spelled(_ address: String, endpoint: ResourceURL?) -> String? {
        S3Address(address, endpoint: endpoint)?.text
    }

    package static func mistake(in address: String) -> String? {
        guard asciiLowercased(address.prefix(5)) == "s3://", S3Address(address) == nil else { return nil }
        return "the source names no bucket: write s3://BUCKET/PREFIX, and put keys into a file: credentials=FILE"
    }

    package var description: String { "bucket (S3)" }
    package var credentials: SourceCredentials { .keys }
    package var hasMirrors: Bool { false }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        S3Reader(folder.url, bucket: bucket, isNew: folder == root && known == nil)
    }

    package func request(_ request: OriginRequest) -> OriginRequest {
        guard let bucket, request.url.isSameOrigin(as: bucket) else { return request }
        var request = request
        let (url, isRegional) = (request.url, Self.isRegional(bucket))
        let text = withoutS3Marks(url.path) + (url.query.map { "?" + $0 } ?? "")
        request.signed = SignedTarget(text: text, isRegional: isRegional)
        return request
    }

    private static func isRegional(_ bucket: ResourceURL) -> Bool {
        bucket.host == SignedTarget.host || bucket.host.hasSuffix("." + SignedTarget.host)
    }
}
