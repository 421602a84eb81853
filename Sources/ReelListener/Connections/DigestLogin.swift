import CCrypto
import ReelCore

/// The login that sends no password: Digest with `qop=auth` (RFC 7616), by SHA-256 or, for players that know no other,
/// MD5.
///
/// Nothing is kept of clients. A nonce is the time at which it was made, and a keyed hash of it; it is good for a day,
/// for what changes something for five minutes, any number of times. So the login of a request that somebody has heard
/// may be sent again for as long, for the same method and target, with other headers and another body.
struct DigestLogin: Sendable {
    enum Outcome {
        case right
        /// The password is right, and the nonce too old.
        case stale
        /// The password is right, and the request was made for another target, as behind a proxy that changes paths.
        case elsewhere
        case wrong
    }

    /// ffmpeg, and so mpv, asks with one nonce for as long as a file is open, takes no `stale`, and counts
    /// neither from one nor in order.
    static let lifetime = Duration.seconds(86_400)
    static let changingLifetime = Duration.seconds(300)

    /// In the order in which they are offered, with the hash of user, realm and password.
    private let hashes: [(hash: Hash, secret: String)]
    private let user: String
    /// Made for this process: after a restart each nonce is stale.
    private let key: [UInt8]

    private enum Hash: String {
        case sha256 = "SHA-256"
        case md5 = "MD5"

        /// In hexadecimal (EVP_Digest(3)); nil where this libcrypto refuses the hash, as it refuses MD5 where FIPS
        /// rules.
        func callAsFunction(_ parts: String...) -> String? {
            let bytes = Array(parts.joined(separator: ":").utf8)
            var sum = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
            var count: UInt32 = 0
            let kind = self == .md5 ? EVP_md5() : EVP_sha256()
            guard EVP_Digest(bytes, bytes.count, &sum, &count, kind, nil) == 1 else { return nil }
            return hexadecimal(sum.prefix(Int(count)))
        }
    }

    init(user: String, password: String) {
        self.user = user
        hashes = [Hash.sha256, .md5].compactMap { hash in hash(user, realm, password).map { (hash, $0) } }
        var generator = SystemRandomNumberGenerator()
        key = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    /// The values of `WWW-Authenticate`. - Parameter isStale: of an answer to a right password with an old nonce.
    func challenges(at now: Duration, isStale: Bool) -> [String] {
        hashes.map { hash, _ in
            "Digest realm=\"\(realm)\", qop=\"auth\", algorithm=\(hash.rawValue), nonce=\"\(nonce(now))\", "
                + "charset=UTF-8" + (isStale ? ", stale=true" : "")
        }
    }

    /// - Parameters:
    ///   - given: what stands behind `Digest`.
    ///   - isChanging: what the request asks for changes something.
    func outcome(_ request: ServedRequest, _ given: [UInt8], isChanging: Bool, at now: Duration) -> Outcome {
        let fields = Self.fields(given)
        guard let (hash, secret) = hashes.first(where: { $0.hash.rawValue == fields["algorithm"] ?? "MD5" }),
            fields["username"] == user, fields["realm"] == realm, fields["qop"] == "auth",
            let nonce = fields["nonce"], let uri = fields["uri"], let count = fields["nc"],
            let own = fields["cnonce"], let response = fields["response"],
            let target = hash(request.method, uri), let right = hash(secret, nonce, count, own, "auth", target),
            isSame(Array(asciiLowercased(response).utf8), Array(right.utf8))
        else { return .wrong }
        guard uri == request.target else { return .elsewhere }
        return isGood(nonce, for: isChanging ? Self.changingLifetime : Self.lifetime, at: now) ? .right : .stale
    }

    /// The time in milliseconds, and its hash, in hexadecimal.
    private func nonce(_ time: Duration) -> String {
        let milliseconds = UInt64(max(0, time / .milliseconds(1)))
        return nonce((0..<8).reversed().map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) })
    }

    private func nonce(_ time: [UInt8]) -> String {
        var code = [UInt8](repeating: 0, count: 32)
        guard HMAC(EVP_sha256(), key, Int32(key.count), time, time.count, &code, nil) != nil
        else { fatalError("libcrypto has no HMAC-SHA-256") }
        return hexadecimal(time + code.prefix(16))
    }

    private func isGood(_ nonce: String, for lifetime: Duration, at now: Duration) -> Bool {
        guard nonce.utf8.count == 48, let made = UInt64(nonce.prefix(16), radix: 16),
            made < UInt64(Int64.max),
            isSame(Array(nonce.utf8), Array(self.nonce(.milliseconds(Int64(made))).utf8))
        else { return false }
        return now - .milliseconds(Int64(made)) <= lifetime
    }

    /// Parameters of the header: names in lower case; of two with one name the first.
    private static func fields(_ text: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        var cursor = ByteCursor(text[...])
        while !cursor.isAtEnd {
            cursor.take { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: ",") }
            let name = trimmedBytes(cursor.take { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: ",") })
            guard cursor.take(UInt8(ascii: "=")) else { continue }
            cursor.take { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
            var value: [UInt8] = []
            if cursor.take(UInt8(ascii: "\"")) {
                while !cursor.isAtEnd, !cursor.take(UInt8(ascii: "\"")) {
                    cursor.take(UInt8(ascii: "\\"))
                    value += cursor.take(count: 1)
                }
            } else {
                value = Array(trimmedBytes(cursor.take { $0 != UInt8(ascii: ",") }))
            }
            let key = asciiLowercased(name)
            if fields[key] == nil { fields[key] = String(decoding: value, as: UTF8.self) }
        }
        return fields
    }
}

/// What the login is for, as a browser shows it.
let realm = "reelfs"

/// Takes as long for any wrong text of the same length, so that its time reveals nothing of the right one.
func isSame(_ given: [UInt8], _ secret: [UInt8]) -> Bool {
    var difference: UInt8 = given.count == secret.count ? 0 : 1
    for index in secret.indices { difference |= secret[index] ^ (index < given.count ? given[index] : 0) }
    return difference == 0
}
