import CCrypto
import ReelCore

/// The keys of an S3 service, by which requests are signed (AWS Signature Version 4). Neither prints nor reflects
/// them.
package struct SigningKey: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The access key, which signed requests show.
    package let id: String
    private let secret: String
    /// The token of a session, which is sent with each request, nil if the keys are permanent.
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

    /// The header fields that prove a request to be of the key's owner: AWS Signature Version 4 (AWS, "Signature
    /// Calculations for the Authorization Header"), with the body left out of it.
    ///
    /// Not libcurl's own (CURLOPT_AWS_SIGV4(3)): newer releases refuse each path that is to be sent as it is, so that
    /// keys with dot segments cannot be had, and releases differ in how they escape a path and sort a query.
    ///
    /// Signed are the host and Amazon's own headers alone, as a proxy may change the others on their way.
    ///
    /// - Parameters:
    ///   - target: path and query as they are sent: in the spelling of `SignedTarget`, or that of a redirect.
    ///   - host: of the URL, as libcurl sends it: with the port where it is not the scheme's.
    ///   - headers: those of the request; of Amazon's own each must be there once.
    ///   - moment: seconds since 1970. Services refuse what is a quarter of an hour off.
    /// - Returns: the fields to add.
    func sign(
        _ method: String, _ target: String, of host: String, headers: [(name: String, value: String)],
        in region: String, at moment: Int64
    ) -> [(name: String, value: String)] {
        let time = isoTime(moment).replacing(" ", with: "T").filter { $0 != "-" && $0 != ":" } + "Z"
        let day = time.prefix(8)
        var added: [(name: String, value: String)] = [
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("x-amz-date", time),
        ]
        if let token { added.append(("x-amz-security-token", token)) }
        let given = headers.map { (name: asciiLowercased($0.name), value: $0.value) }
        // A field Host of the user's own is sent in place of the URL's.
        let host = (name: "host", value: given.first { $0.name == "host" }?.value ?? host)
        let signed = ([host] + added + given.filter { $0.name.hasPrefix("x-amz-") })
            .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        let names = signed.map(\.name).joined(separator: ";")
        let (path, query) = SignedTarget.canonical(target)
        let request = [
            method, path, query,
            signed.map { "\($0.name):\(singleSpaced($0.value))\n" }.joined(), names, "UNSIGNED-PAYLOAD",
        ].joined(separator: "\n")
        let scope = "\(day)/\(region)/s3/aws4_request"
        guard let hash = MessageDigest.sha256.hex(request) else { fatalError("libcrypto has no SHA-256") }
        let text = "AWS4-HMAC-SHA256\n\(time)\n\(scope)\n\(hash)"
        var key = Array("AWS4\(secret)".utf8)
        for part in scope.utf8.split(separator: UInt8(ascii: "/")) { rekey(&key, Array(part)) }
        rekey(&key, Array(text.utf8))
        let signature = hexadecimal(key)
        added.append(
            (
                "Authorization",
                "AWS4-HMAC-SHA256 Credential=\(id)/\(scope), SignedHeaders=\(names), Signature=\(signature)"
            ))
        return added
    }
}

/// A header's value as it is signed: without blanks around it, and with one space for each row of them.
private func singleSpaced(_ value: String) -> String {
    String(decoding: Array(value.utf8.split { $0 == 0x20 || $0 == 0x09 }.joined(separator: [0x20])), as: UTF8.self)
}

/// Puts the HMAC-SHA-256 of a message in the place of its key, and wipes the key (RFC 2104; HMAC(3),
/// OPENSSL_cleanse(3)).
private func rekey(_ key: inout [UInt8], _ message: [UInt8]) {
    var result = [UInt8](repeating: 0, count: 32)
    guard HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &result, nil) != nil
    else { fatalError("libcrypto has no HMAC-SHA-256") }
    OPENSSL_cleanse(&key, key.count)
    key = result
}
