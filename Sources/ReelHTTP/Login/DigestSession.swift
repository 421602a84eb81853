import ReelCore

/// An origin's Digest challenge (RFC 7616), by which each further request proves the password without being refused
/// first, and without sending it.
///
///     challenge ──▶ nonce, count 0 ──▶ each request: count + 1 ──▶ stale, or another nonce: count 0
struct DigestSession {
    let realm: String
    private(set) var nonce: String
    /// How many requests have used the nonce.
    private(set) var uses: UInt32 = 0
    private let opaque: String?
    /// The origin refuses the nonce and takes the password (`stale`).
    let isStale: Bool
    /// A request with the nonce has got another answer than 401.
    var isProven = false
    /// The text as it came.
    private let algorithm: String?
    private let hash: MessageDigest
    private let isSession: Bool
    /// false: the form of RFC 2069, without a count.
    private let countsUses: Bool

    /// nil: another scheme, or a form that is not known here.
    init?(_ challenge: LoginChallenge) {
        let given = challenge.parameters
        guard challenge.scheme == "digest", let realm = given["realm"], let nonce = given["nonce"],
            given.values.allSatisfy(isHeaderValue)
        else { return nil }
        switch given["algorithm"].map({ asciiLowercased($0) }) {
        case nil, "md5": (hash, isSession) = (.md5, false)
        case "md5-sess": (hash, isSession) = (.md5, true)
        case "sha-256": (hash, isSession) = (.sha256, false)
        case "sha-256-sess": (hash, isSession) = (.sha256, true)
        default: return nil
        }
        isStale = given["stale"].map { asciiLowercased($0) } == "true"
        countsUses = given["qop"] != nil
        let ways = (given["qop"] ?? "auth").split(separator: ",").map { asciiLowercased(trimmed($0)) }
        guard ways.contains("auth") else { return nil }
        (self.realm, self.nonce, opaque, algorithm) = (realm, nonce, given["opaque"], given["algorithm"])
    }

    /// The best of several challenges, nil if none is known here.
    static func strongest(of challenges: [LoginChallenge]) -> DigestSession? {
        let known = challenges.compactMap { DigestSession($0) }
        return known.first { $0.hash == .sha256 } ?? known.first
    }

    /// The origin names the nonce of the next request (`Authentication-Info`; RFC 7616, section 3.5).
    mutating func follow(_ information: String) {
        // The header holds parameters alone.
        let given = LoginChallenge.parse("digest " + information).first?.parameters
        guard let next = given?["nextnonce"], !next.isEmpty, next != nonce, isHeaderValue(next) else { return }
        (nonce, uses) = (next, 0)
    }

    /// Counts one use of the nonce.
    /// - Parameter target: path and query as the first line of the request has them.
    /// - Returns: the value of `Authorization`, nil if libcrypto refuses the hash.
    mutating func answer(
        _ method: String, _ target: String, _ pair: ResourceURL.Credentials, clientNonce: String = randomNonce()
    ) -> String? {
        uses &+= 1
        let count = hexadecimal((0..<4).reversed().map { UInt8(truncatingIfNeeded: uses >> (8 * UInt32($0))) })
        guard var secret = hash.hex("\(pair.user):\(realm):\(pair.password)") else { return nil }
        if isSession { secret = hash.hex("\(secret):\(nonce):\(clientNonce)") ?? "" }
        let request = hash.hex("\(method):\(target)") ?? ""
        let proof =
            countsUses
            ? hash.hex("\(secret):\(nonce):\(count):\(clientNonce):auth:\(request)")
            : hash.hex("\(secret):\(nonce):\(request)")
        var fields = [
            "username=" + quoted(pair.user), "realm=" + quoted(realm), "nonce=" + quoted(nonce),
            "uri=" + quoted(target),
        ]
        if countsUses { fields += ["cnonce=" + quoted(clientNonce), "nc=" + count, "qop=auth"] }
        fields.append("response=" + quoted(proof ?? ""))
        if let opaque { fields.append("opaque=" + quoted(opaque)) }
        if let algorithm { fields.append("algorithm=" + algorithm) }
        return "Digest " + fields.joined(separator: ", ")
    }
}

private func randomNonce() -> String {
    var generator = SystemRandomNumberGenerator()
    return hexadecimal((0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) })
}

/// RFC 9110, section 5.6.4.
private func quoted(_ text: String) -> String {
    let (quote, escape) = (UInt8(ascii: "\""), UInt8(ascii: "\\"))
    // Bytes: a mark may combine with a quote.
    let escaped = text.utf8.flatMap { $0 == quote || $0 == escape ? [escape, $0] : [$0] }
    return "\"" + String(decoding: escaped, as: UTF8.self) + "\""
}
