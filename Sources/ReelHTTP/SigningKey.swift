import Glibc
import ReelCore

/// The keys of an S3 service, by which requests are signed (AWS Signature Version 4).
///
/// libcurl's CURLOPT_AWS_SIGV4 does not replace this: up to 8.2 it signs path and query as they are given, later
/// versions spell them anew before they sign. Several do that wrongly, so that a film's key or the token of a listing's
/// next page would be refused with one libcurl and not with another.
///
/// Neither prints nor reflects its keys.
package struct SigningKey: Sendable, CustomStringConvertible, CustomReflectable {
    /// The access key, which signed requests show.
    package let id: String
    private let secret: [UInt8]
    /// Of a session: sent with each request, and signed.
    private let token: String?

    package init(id: String, secret: String, token: String?) {
        self.id = id
        self.secret = Array(secret.utf8)
        self.token = token
    }

    package var description: String { "SigningKey" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Whether id and token can stand in a header.
    var isSendable: Bool {
        !id.isEmpty && id.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ",") }
            && token.map(isHeaderValue) ?? true
    }

    /// The headers that sign a request.
    /// - Parameters:
    ///   - target: path and query, as they are sent; canonical, as `SignedTarget.text` is.
    ///   - headers: others that are sent: those of Amazon's own (`x-amz-…`) have to be signed.
    ///   - time: seconds since 1970; a server takes a difference of a quarter of an hour.
    func headers(
        signing method: String, _ target: String, at place: ResourceURL, _ headers: [(name: String, value: String)],
        body: [UInt8], region: String, time: Int64
    ) -> [(name: String, value: String)] {
        let moment = signingTime(time)
        let bodyHash = hexadecimal(SHA256.digest(body))
        var sent = [(name: "x-amz-content-sha256", value: bodyHash), (name: "x-amz-date", value: moment)]
        if let token { sent.append((name: "x-amz-security-token", value: token)) }
        let port = place.port.map { ":\($0)" } ?? ""
        let others = headers.map { (name: asciiLowercased($0.name), value: trimmed($0.value)) }
            .filter { $0.name.hasPrefix("x-amz-") }
        let signed = ([(name: "host", value: place.host + port)] + sent + others).sorted { $0.name < $1.name }
        let names = signed.map(\.name).joined(separator: ";")

        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let request =
            [method, String(parts[0]), parts.count > 1 ? String(parts[1]) : ""]
            + signed.map { "\($0.name):\($0.value)" } + ["", names, bodyHash]
        let scope = [String(moment.prefix(8)), region, "s3", "aws4_request"]
        let text = [
            "AWS4-HMAC-SHA256", moment, scope.joined(separator: "/"),
            hexadecimal(SHA256.digest(request.joined(separator: "\n").utf8)),
        ]
        let key = scope.reduce(Array("AWS4".utf8) + secret) { SHA256.authenticate($1.utf8, key: $0) }
        let signature = hexadecimal(SHA256.authenticate(text.joined(separator: "\n").utf8, key: key))
        let value =
            "AWS4-HMAC-SHA256 Credential=\(id)/\(scope.joined(separator: "/")), SignedHeaders=\(names), "
            + "Signature=\(signature)"
        return sent + [(name: "Authorization", value: value)]
    }
}

/// `20241122T171500Z`.
private func signingTime(_ seconds: Int64) -> String {
    var parts = tm()
    var moment = time_t(seconds)
    gmtime_r(&moment, &parts)
    let numbers = [
        Int(parts.tm_year) + 1900, Int(parts.tm_mon) + 1, Int(parts.tm_mday), Int(parts.tm_hour), Int(parts.tm_min),
        Int(parts.tm_sec),
    ].map { $0 < 10 ? "0\($0)" : "\($0)" }
    return numbers[..<3].joined() + "T" + numbers[3...].joined() + "Z"
}

func hexadecimal(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}
