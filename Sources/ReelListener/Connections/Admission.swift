import ReelCore
import ReelThreads

/// Decides whether a request is answered at all.
package struct Admission: Sendable {
    /// `user:password` in base64, as each request must bring it (RFC 7617), nil if none.
    private let secret: [UInt8]?
    /// What a request may bring instead, nil if it is not offered: where the network is this machine, or a proxy adds
    /// TLS, it is no better, and fails behind a proxy that changes paths.
    private let digest: DigestLogin?
    private let wrongLogins = WrongLogins()
    /// A request that changes something must bring it, unless each brings `secret`, nil if nothing can be changed.
    private let token: [UInt8]?
    private let reach: Reach
    private let origins: [ServedOrigin]

    /// - Parameters:
    ///   - credentials: that each request must bring, nil if none.
    ///   - token: that a request must bring that changes something, where there are no credentials, nil if such a
    ///     request is refused.
    ///   - reach: requests that name another machine in `Host` are refused.
    ///   - origins: of proxies before the server. Only where there is one, `X-Forwarded-For` counts.
    package init(
        credentials: (user: String, password: String)?, token: String? = nil, reach: Reach,
        origins: [ServedOrigin] = []
    ) {
        secret = credentials.map { base64(Array("\($0.user):\($0.password)".utf8)) }
        if case .network = reach {
            digest = credentials.map { DigestLogin(user: $0.user, password: $0.password) }
        } else {
            digest = nil
        }
        self.token = token.map { Array($0.utf8) }
        self.reach = reach
        self.origins = origins
    }

    /// The answer to a request that is not to be served, nil to serve it.
    /// - Parameters:
    ///   - isCall: the request asks the program to do something.
    ///   - isChanging: what it asks for changes something.
    ///   - now: as ``ReelThreads/now()`` gives it.
    package func refusal(
        _ request: ServedRequest, isCall: Bool = false, isChanging: Bool = false, at now: Duration = now()
    ) -> ServedAnswer? {
        // A page of a name that its owner lets point to this machine (DNS rebinding) reads nothing here.
        if let authority = request.authority ?? (request.isModern ? "" : nil), !isOwn(authority) {
            return ServedAnswer(
                421, saying: "This server does not answer for this host: --listen-origin names further ones.",
                [("Connection", "close")])
        }
        // A browser brings the user's password along with a request of any page.
        if isCall ? isForeign(request) : isEmbedded(request) {
            return ServedAnswer(403, saying: "A page of another site may not use this server.")
        }
        if let secret { return refusal(request, without: secret, isChanging: isChanging, at: now) }
        guard isChanging else { return nil }
        guard let token else {
            return ServedAnswer(403, saying: "Nothing can be changed, as listen.token cannot be written.")
        }
        if let given = request["authorization"] {
            let client = client(request)
            if let wait = wrongLogins.wait(client, at: now) { return tooMany(wait) }
            if isSame(givenToken(given), token) { return nil }
            wrongLogins.add(client, at: now)
        }
        return ServedAnswer(
            401, saying: "The token in the cache directory's listen.token is needed.",
            [("WWW-Authenticate", "Bearer realm=\"\(realm)\"")])
    }

    private func tooMany(_ wait: Duration) -> ServedAnswer {
        ServedAnswer(
            429, saying: "There were too many wrong passwords from this address.",
            [("Retry-After", "\(max(1, wait.components.seconds + 1))")])
    }

    /// The scheme and host by which a client knows the server, nil if it names none.
    func base(_ request: ServedRequest) -> String? {
        request.authority.map { authority in
            origins.first { $0.authority == asciiLowercased(authority) }?.text ?? "http://" + authority
        }
    }

    private func refusal(
        _ request: ServedRequest, without secret: [UInt8], isChanging: Bool, at now: Duration
    ) -> ServedAnswer? {
        guard let given = request["authorization"] else { return challenge(at: now) }
        let client = client(request)
        if let wait = wrongLogins.wait(client, at: now) { return tooMany(wait) }
        if isSame(basicToken(given), secret) { return nil }
        switch digest?.outcome(request, word(behind: "digest ", given), isChanging: isChanging, at: now) {
        case .right: return nil
        case .stale: return challenge(at: now, isStale: true)
        case .elsewhere: return ServedAnswer(400, saying: "The login was made for another path than this one.")
        case .wrong, nil:
            wrongLogins.add(client, at: now)
            return challenge(at: now)
        }
    }

    /// The strongest one first, as clients that read no further take the first. MD5 is the last of Digest, as ffmpeg
    /// takes the last one and gives up at SHA-256; without Basic VLC asks again and again.
    private func challenge(at now: Duration, isStale: Bool = false) -> ServedAnswer {
        let offers =
            (digest?.challenges(at: now, isStale: isStale) ?? []) + ["Basic realm=\"\(realm)\", charset=\"UTF-8\""]
        return ServedAnswer(
            401, saying: "Username and password are needed.", offers.map { ("WWW-Authenticate", $0) })
    }

    /// Who sent a request. A proxy on this machine adds its client at the end; any other client could write what it
    /// likes.
    private func client(_ request: ServedRequest) -> ClientPlace {
        guard request.client == .thisMachine, !origins.isEmpty,
            let last = request["x-forwarded-for"]?.split(separator: ",").last
        else { return request.client }
        return ClientPlace(trimmed(last)) ?? .thisMachine
    }

    /// Whether a host, with a port or without, names this server. The port may be that of a tunnel.
    private func isOwn(_ authority: String) -> Bool {
        let host = withoutPort(asciiLowercased(authority))
        return reach.contains(host) || origins.contains { $0.host == host }
    }

    /// Whether a page sent it that is not this server's own. `Host` is what the client or a proxy before the server
    /// wrote; no page can write `Sec-Fetch-Site`, which compares names as the browser knows them (Fetch Metadata).
    private func isForeign(_ request: ServedRequest) -> Bool {
        let origin = request["origin"].map { asciiLowercased($0) }
        let authority = asciiLowercased(request.authority ?? "")
        switch request["sec-fetch-site"] {
        case "same-origin": return origin == "null"
        case "same-site", "cross-site": return true
        default:
            return origin.map { text in
                !["http://" + authority, "https://" + authority].contains(text) && !origins.contains { $0.text == text }
            } ?? false
        }
    }

    /// Whether a page of another site wants to show it, or only to have it fetched. A link that a person follows is
    /// no such request, unless it leads into a frame.
    private func isEmbedded(_ request: ServedRequest) -> Bool {
        guard request["sec-fetch-site"] == "cross-site", ServedPath(request.path) != .top else { return false }
        return request["sec-fetch-user"] != "?1" || request["sec-fetch-dest"] != "document"
    }

    /// The bearer token (RFC 6750), or a password: some clients know nothing else. Empty where there is none.
    private func givenToken(_ authorization: String?) -> [UInt8] {
        let bearer = word(behind: "bearer ", authorization)
        if !bearer.isEmpty { return bearer }
        guard let pair = base64Decoded(basicToken(authorization)), let colon = pair.firstIndex(of: UInt8(ascii: ":"))
        else { return [] }
        return Array(pair[(colon + 1)...])
    }
}

/// The text behind `Basic`; empty where there is none.
private func basicToken(_ authorization: String?) -> [UInt8] { word(behind: "basic ", authorization) }

/// - Parameter scheme: in lower case, with its space.
private func word(behind scheme: String, _ authorization: String?) -> [UInt8] {
    guard let authorization, asciiLowercased(authorization.prefix(scheme.count)) == scheme else { return [] }
    return Array(trimmedBytes(Array(authorization.utf8.dropFirst(scheme.utf8.count))[...]))
}
