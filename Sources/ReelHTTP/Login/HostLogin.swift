import ReelCore

/// The cookies and the Digest challenge of one origin.
struct HostLogin {
    /// nil: it has got and set no cookies yet.
    private(set) var cookies: CookieJar?
    /// nil: it has asked for none, or for one of another form (`asksForDigest`).
    private var digest: DigestSession?
    /// It has asked for a Digest login: passwords do not go there in the clear again.
    private(set) var asksForDigest = false

    // MARK: Cookies

    /// Its jar, made where it has none, nil if there is no memory.
    /// - Parameter origin: `ResourceURL.origin`.
    mutating func cookieJar(
        of origin: String, _ configuration: TransportConfiguration, _ sum: CookieSum
    ) -> CookieJar? {
        if cookies == nil {
            let isTrusted = configuration.trustedOrigins?.contains(origin) ?? true
            let host = ResourceURL(origin)?.host ?? ""
            cookies = CookieJar(isTrusted ? configuration.cookies.filter { isCookie($0, for: host) } : [], sum)
        }
        return cookies
    }

    mutating func dropCookies() { cookies = nil }

    // MARK: Digest

    /// The nonce of the next login, nil if there is none yet.
    var nonce: String? { digest?.nonce }

    /// The origin has asked for a Digest login of any form.
    mutating func wantsDigest() { asksForDigest = true }

    /// Answers as `DigestSession.answer`; nil also where there is no challenge that is known here.
    mutating func answer(_ method: String, _ target: String, _ pair: ResourceURL.Credentials) -> String? {
        digest?.answer(method, target, pair)
    }

    /// A request with this nonce has got another answer than 401.
    /// - Parameter information: `Authentication-Info`.
    mutating func proved(_ nonce: String?, _ information: String?) {
        guard digest?.nonce == nonce else { return }
        digest?.isProven = true
        if let information { digest?.follow(information) }
    }

    /// The origin has refused a password in the clear, and asks for this.
    mutating func begin(_ challenge: DigestSession) { if digest?.realm != challenge.realm { digest = challenge } }

    /// The origin has refused a login with this nonce, and asks for this. - Parameter nonce: nil: there was none yet.
    /// - Returns: whether another login may be taken than the one that was refused.
    mutating func refused(_ nonce: String?, _ challenge: DigestSession) -> Bool {
        guard let known = digest, nonce != nil else {
            digest = challenge
            return true
        }
        if known.realm == challenge.realm, known.nonce != nonce { return true }
        let isNew = challenge.isStale || known.isProven || known.realm != challenge.realm
        if isNew { digest = challenge }
        return isNew
    }
}
