import CCurl
import ReelCore

extension Transfer {
    /// What the request may carry to `route.place`.
    var disclosure: Disclosure {
        Disclosure(
            from: route.original, at: route.place, isTrusted: loop.configuration.trusts(request.url),
            isPublic: request.isPublic)
    }

    // MARK: The request

    /// The request as logins see it.
    private func loginRequest(_ disclosure: Disclosure) -> LoginRequest {
        LoginRequest(
            request: request, place: route.place, disclosure: disclosure, configuration: loop.configuration
        ) { [loop] in loop.netrc.login(for: $0) }
    }

    /// What renews the request's login, nil if nothing does.
    var keeper: (any SecretKeeper)? {
        guard loop.configuration.tokenSource != nil || loop.configuration.signingKey != nil else { return nil }
        return Logins.way(of: loginRequest(disclosure))?.keeper(in: loop)
    }

    /// Adds what the user gave for the origin: headers, certificate, and one login.
    /// - Parameter target: path and query as they are sent.
    /// - Returns: header lines.
    func addLogin(to easy: borrowing EasyHandle, _ disclosure: Disclosure, _ target: String) -> [String] {
        if disclosure.secrets { loop.configuration.clientCertificate?.show(with: easy) }
        let login = Logins.login(of: self, loginRequest(disclosure))
        route.login.begin(login)
        return (disclosure.secrets ? loop.configuration.headers.map(headerLine) : [])
            + (login?.attach(to: easy, of: self, target) ?? [])
    }

    /// User and password for a file server, which takes no other login; without them curl logs in as anonymous.
    func addFileLogin(to easy: borrowing EasyHandle) {
        _ = BasicPassword(of: self, loginRequest(disclosure))?.attach(to: easy, of: self, "")
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
        if head.status != 401, let login = route.login.login { login.learn(from: head, self) }
    }

    /// Whether a place that answers 401 gets another login: what its challenge asks for, or a new token. Of the schemes
    /// offered the strongest is taken, as by CURLAUTH_ANY of CURLOPT_HTTPAUTH(3).
    func mayLogInAgain(_ head: ResponseHead) -> Bool {
        guard disclosure.credentials else { return false }
        let challenges = LoginChallenge.all(of: head)
        if challenges.contains(where: { $0.scheme == "digest" }) { host.login.wantsDigest() }
        guard route.login.refused(), let login = route.login.login else { return false }
        return login.isReplaced(after: challenges, self)
    }

    /// Whether a place whose refusal has come whole gets another login.
    func mayLogInAgain() -> Bool {
        guard let login = route.login.login else { return false }
        return login.isReplaced(afterBodyOf: self)
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
