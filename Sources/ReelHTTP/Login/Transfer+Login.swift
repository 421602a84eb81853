import CCurl
import Glibc
import ReelCore

/// How one request proves who asks, and how often that was refused.
struct LoginAttempt {
    enum Way {
        /// Without a login, or with one that cannot be replaced.
        case fixed
        case basic
        /// - Parameter nonce: nil: there was none yet, and Basic would show the password.
        case digest(nonce: String?)
        /// - Parameter serial: as of `TokenKeeper`.
        case token(serial: Int)
        /// By the keys of a bucket. - Parameter serial: as of `TokenKeeper`.
        case signature(serial: Int)
    }

    private(set) var way = Way.fixed
    private var refusals = 0
    /// The place wants Basic, and its origin wants Digest elsewhere.
    private(set) var wantsBasic = false

    /// A stale nonce, and after it another realm's.
    private static let limit = 2

    /// The request is about to be sent in this way.
    mutating func begin(_ way: Way) { self.way = way }

    /// The place has refused the login. - Returns: whether another one may follow.
    mutating func refused() -> Bool {
        guard refusals < Self.limit else { return false }
        refusals += 1
        return true
    }

    /// The place has asked for Basic alone, or for Digest.
    mutating func asked(forBasic: Bool) { wantsBasic = forBasic }
}

extension Transfer {
    /// What the request may carry to `route.place`.
    var disclosure: Disclosure {
        Disclosure(
            from: route.original, at: route.place, isTrusted: loop.configuration.trusts(request.url),
            isPublic: request.isPublic)
    }

    // MARK: The request

    /// Adds what the user gave for the origin: headers, certificate, and one login. A header of the user's own goes
    /// before a signature, that before a token, and that before user and password.
    /// - Parameter target: path and query as they are sent.
    /// - Returns: header lines.
    func addLogin(to easy: borrowing EasyHandle, _ disclosure: Disclosure, _ target: String) -> [String] {
        let configuration = loop.configuration
        route.login.begin(.fixed)
        var lines = disclosure.secrets ? configuration.headers.map(headerLine) : []
        if disclosure.secrets { configuration.clientCertificate?.show(with: easy) }
        let given = request.headers + (disclosure.secrets ? configuration.headers : [])
        guard !given.contains(where: { asciiLowercased($0.name) == "authorization" }) else { return lines }
        if disclosure.secrets, configuration.signs(request), let key = loop.keys.current {
            route.login.begin(.signature(serial: key.serial))
            let fields = key.secret.sign(
                request.upload == nil ? request.method : "PUT", target,
                of: String(route.place.origin.dropFirst(route.place.scheme.utf8.count + 3)), headers: given,
                in: route.region ?? TransportConfiguration.firstRegion, at: Int64(time(nil)))
            return lines + fields.map(headerLine)
        }
        guard disclosure.credentials else { return lines }
        if disclosure.secrets, let token = loop.tokens.current {
            route.login.begin(.token(serial: token.serial))
            lines.append("Authorization: Bearer " + token.secret)
        } else if let pair = credentials(disclosure) {
            if let line = addPassword(of: pair, to: easy) { lines.append(line) }
        }
        return lines
    }

    /// User and password for a file server, which takes no other login; without them curl logs in as anonymous.
    func addFileLogin(to easy: borrowing EasyHandle) {
        guard let pair = credentials(disclosure) else { return }
        easy.set(CURLOPT_USERNAME, pair.user)
        easy.set(CURLOPT_PASSWORD, pair.password)
    }

    private func credentials(_ disclosure: Disclosure) -> ResourceURL.Credentials? {
        if let pair = request.url.credentials { return pair }
        // The file knows hosts alone, so `trusts` has decided about scheme and port.
        let isOfMirror = disclosure.credentials && loop.configuration.mirrorOrigins.contains(request.url.origin)
        guard disclosure.secrets || isOfMirror,
            let pair = loop.netrc.login(for: route.place.host),
            isHeaderValue(pair.user), isHeaderValue(pair.password)
        else { return nil }
        return pair
    }

    /// Digest to an origin that has asked for it, else Basic, without being asked. - Returns: a header line.
    private func addPassword(of pair: ResourceURL.Credentials, to easy: borrowing EasyHandle) -> String? {
        if host.login.asksForDigest, !route.login.wantsBasic {
            route.login.begin(.digest(nonce: host.login.nonce))
            let target = String(decoding: route.place.text.utf8.dropFirst(route.place.origin.utf8.count), as: UTF8.self)
            return host.login.answer(request.method, target, pair).map { "Authorization: " + $0 }
        }
        route.login.begin(.basic)
        easy.set(CURLOPT_USERNAME, pair.user)
        easy.set(CURLOPT_PASSWORD, pair.password)
        return nil
    }

    /// nil: the place gets no cookies, and sets none.
    func cookieJar(_ disclosure: Disclosure) -> CookieJar? {
        guard disclosure.ownCookies,
            let jar = host.login.cookieJar(of: host.name, loop.configuration, loop.cookies)
        else { return nil }
        // Cookies of the user's file are secrets, too.
        return jar.isSeeded && !disclosure.secrets ? nil : jar
    }

    // MARK: The answer

    /// Learns from a head, whatever its status, how the login has fared.
    func noteLogin(_ head: ResponseHead) {
        let cookies = head.headers.count { $0.name == "set-cookie" }
        if cookies > 0, let handle, let jar = easy?.cookies {
            if jar.isTooFull(afterSetting: cookies, by: handle) { host.login.dropCookies() }
            loop.limitCookies(after: host)
        }
        guard head.status != 401 else { return }
        switch route.login.way {
        case .fixed, .basic: break
        case .token(let serial): loop.tokens.prove(serial)
        case .signature(let serial): if head.status < 400 { loop.keys.prove(serial) }
        case .digest(let nonce): host.login.proved(nonce, head["authentication-info"])
        }
    }

    /// Whether a place that answers 401 gets another login: what its challenge asks for, or a new token. Of the schemes
    /// offered the strongest is taken, as by CURLAUTH_ANY of CURLOPT_HTTPAUTH(3).
    func mayLogInAgain(_ head: ResponseHead) -> Bool {
        let disclosure = disclosure
        guard disclosure.credentials else { return false }
        let challenges = LoginChallenge.all(of: head)
        let asksForDigest = challenges.contains { $0.scheme == "digest" }
        if asksForDigest { host.login.wantsDigest() }
        guard route.login.refused() else { return false }
        switch route.login.way {
        // The body says whether the keys have expired.
        case .fixed, .signature: return false
        case .token(let serial): return loop.tokens.isReplaceable(serial)
        case .basic:
            guard let digest = DigestLogin.strongest(of: challenges) else { return false }
            route.login.asked(forBasic: false)
            host.login.begin(digest)
            return true
        case .digest(let nonce):
            if !asksForDigest, route.place.scheme == "https", challenges.contains(where: { $0.scheme == "basic" }) {
                route.login.asked(forBasic: true)
                return true
            }
            guard let digest = DigestLogin.strongest(of: challenges) else { return false }
            return host.login.refused(nonce, digest)
        }
    }
}

extension Transfer {
    /// Whether a service refuses the keys of the request for themselves, and there are other ones, or there may be.
    func maySignAgain() -> Bool {
        guard case .signature(let serial) = route.login.way, let code = answer.refused("Code"),
            SigningKey.expiries.contains(code), route.login.refused()
        else { return false }
        return loop.keys.isReplaceable(serial)
    }
}

extension ClientCertificate {
    fileprivate func show(with easy: borrowing EasyHandle) {
        easy.set(CURLOPT_SSLCERT, certificate)
        easy.set(CURLOPT_SSLKEY, key ?? certificate)
        // An empty one keeps OpenSSL from asking at a terminal.
        easy.set(CURLOPT_KEYPASSWD, passphrase ?? "")
    }
}

// MARK: Where a redirect may lead

extension Transfer {
    /// Whether the request may go to an address. A redirect leads to no address that is reached from fewer places than
    /// the source's own (`AddressReach`).
    /// - Parameter port: another one than the URL's is a proxy's, which then does the connecting.
    func mayReach(_ address: String, _ port: Int) -> Bool {
        let place = route.place
        // No redirect leads to a file server, or from there.
        if place.fileProtocol != nil { return true }
        guard port == place.port ?? (place.scheme == "https" ? 443 : 80) else { return true }
        let reach = loop.configuration.reach(address)
        if isAtHome {
            home.reached(at: reach)
            return true
        }
        if reach ?? .machine <= sourceReach { return true }
        fail(.wrongAnswer(AddressReach.refusal(of: home.name)))
        return false
    }

    /// The same of a URL whose host is an address. Of a name only a proxy or a connection knows it.
    func isTooNarrow(_ target: ResourceURL) -> Bool {
        guard !target.isSameOrigin(as: route.original), let reach = loop.configuration.reach(target.host) else {
            return false
        }
        return reach > sourceReach
    }

    private var sourceReach: AddressReach {
        home.reach ?? loop.configuration.reach(route.original.host) ?? .everywhere
    }
}
