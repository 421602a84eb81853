import CCurl
import ReelCore

/// The keys of an S3 service, by which libcurl signs requests (AWS Signature Version 4). Neither prints nor reflects
/// them.
package struct SigningKey: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The access key, which signed requests show.
    package let id: String
    private let secret: String
    /// The token of a session, which is sent with each request; nil: the keys are permanent.
    private let token: String?

    package init(id: String, secret: String, token: String?) {
        self.id = id
        self.secret = secret
        self.token = token
    }

    package var description: String { "SigningKey" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// The errors of a service that does not take the keys, whatever is asked for: other ones may be in their file by
    /// now (Amazon S3 API Reference, "Error responses").
    static let expiries: Set = [
        "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired",
    ]

    /// Whether id and token can stand in a header.
    var isSendable: Bool {
        !id.isEmpty && id.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ",") }
            && token.map(isHeaderValue) ?? true
    }

    /// Has libcurl sign a request (CURLOPT_AWS_SIGV4(3)).
    /// - Returns: the header lines that go with it, which libcurl signs as all of ours.
    func sign(_ easy: borrowing EasyHandle, in region: String) -> [String] {
        // Without it curl would send the secret key as a password. Some systems' libcurl is built without it.
        guard easy.set(CURLOPT_AWS_SIGV4, "aws:amz:\(region):s3") else { return [] }
        easy.set(CURLOPT_USERNAME, id)
        easy.set(CURLOPT_PASSWORD, secret)
        // Stands for the hash of the body. Services refuse a request without it, and not each libcurl sends one.
        return ["x-amz-content-sha256: UNSIGNED-PAYLOAD"] + (token.map { ["x-amz-security-token: " + $0] } ?? [])
    }
}
