import ReelCore

/// Decides whether a request is answered at all.
package struct Admission: Sendable {
    /// `user:password` in base64, as each request must bring it (RFC 7617), nil if none.
    private let secret: [UInt8]?
    /// A request that changes something must bring it, unless each brings `secret`, nil if nothing can be changed.
    private let token: [UInt8]?
    /// Only requests that name this machine: over a Unix socket, no foreign page can send one.
    private let checksHost: Bool

    /// - Parameters:
    ///   - credentials: that each request must bring, nil if none.
    ///   - token: that a request must bring that changes something, where there are no credentials, nil if such a
    ///     request is refused.
    ///   - checksHost: refuse requests that name another machine in `Host`.
    package init(credentials: (user: String, password: String)?, token: String? = nil, checksHost: Bool) {
        secret = credentials.map { base64(Array("\($0.user):\($0.password)".utf8)) }
        self.token = token.map { Array($0.utf8) }
        self.checksHost = checksHost
    }

    /// The answer to a request that is not to be served, nil to serve it.
    /// - Parameters:
    ///   - isCall: the request asks the program to do something.
    ///   - isChanging: what it asks for changes something.
    package func refusal(
        _ request: ServedRequest, isCall: Bool = false, isChanging: Bool = false
    ) -> ServedAnswer? {
        // A page of a name that its owner lets point to this machine (DNS rebinding) reads nothing here.
        if checksHost, let authority = request.authority ?? (request.isModern ? "" : nil), !isLoopback(authority) {
            return ServedAnswer(
                421, saying: "This server answers for localhost, 127.0.0.1 and [::1] only.", [("Connection", "close")])
        }
        // A browser brings the user's password along with a request of any page.
        if isCall ? isForeign(request) : isEmbedded(request) {
            return ServedAnswer(403, saying: "A page of another site may not use this server.")
        }
        if let secret {
            if isSame(basicToken(request["authorization"]), secret) { return nil }
            return ServedAnswer(
                401, saying: "Username and password are needed.",
                [("WWW-Authenticate", "Basic realm=\"reelfs\", charset=\"UTF-8\"")])
        }
        guard isChanging else { return nil }
        guard let token else {
            return ServedAnswer(403, saying: "Nothing can be changed, as listen.token cannot be written.")
        }
        if isSame(givenToken(request["authorization"]), token) { return nil }
        return ServedAnswer(
            401, saying: "The token in the cache directory's listen.token is needed.",
            [("WWW-Authenticate", "Bearer realm=\"reelfs\"")])
    }

    /// Whether a page sent it that is not this server's own. `Host` is what the client or a proxy before the server
    /// wrote; no page can write `Sec-Fetch-Site`, which compares names as the browser knows them (Fetch Metadata).
    private func isForeign(_ request: ServedRequest) -> Bool {
        let origin = request["origin"].map { asciiLowercased($0) }
        let authority = asciiLowercased(request.authority ?? "")
        switch request["sec-fetch-site"] {
        case "same-origin": return origin == "null"
        case "same-site", "cross-site": return true
        default: return origin.map { !["http://" + authority, "https://" + authority].contains($0) } ?? false
        }
    }

    /// Whether a page of another site wants to show it, or only to have it fetched. A link that a person follows is
    /// no such request.
    private func isEmbedded(_ request: ServedRequest) -> Bool {
        request["sec-fetch-site"] == "cross-site" && request["sec-fetch-user"] != "?1"
            && ServedPath(request.path) != .top
    }

    /// The bearer token (RFC 6750), or a password: some clients know nothing else. Empty where there is none.
    private func givenToken(_ authorization: String?) -> [UInt8] {
        let bearer = word(behind: "bearer ", authorization)
        if !bearer.isEmpty { return bearer }
        guard let pair = base64Decoded(basicToken(authorization)), let colon = pair.firstIndex(of: UInt8(ascii: ":"))
        else { return [] }
        return Array(pair[(colon + 1)...])
    }

    /// Takes as long for any wrong text of the same length, so that its time reveals nothing of the right one.
    private func isSame(_ given: [UInt8], _ secret: [UInt8]) -> Bool {
        var difference: UInt8 = given.count == secret.count ? 0 : 1
        for index in secret.indices { difference |= secret[index] ^ (index < given.count ? given[index] : 0) }
        return difference == 0
    }
}

/// Whether a host, with a port or without, names this machine's loopback. The port may be that of a tunnel.
private func isLoopback(_ authority: String) -> Bool {
    var host = asciiLowercased(authority)
    if let colon = host.lastIndex(of: ":"), host[colon...].dropFirst().utf8.allSatisfy(isDigit) {
        host = String(host[..<colon])
    }
    return ["localhost", "127.0.0.1", "[::1]"].contains(host)
}

/// The text behind `Basic`; empty where there is none.
private func basicToken(_ authorization: String?) -> [UInt8] { word(behind: "basic ", authorization) }

/// - Parameter scheme: in lower case, with its space.
private func word(behind scheme: String, _ authorization: String?) -> [UInt8] {
    guard let authorization, asciiLowercased(authorization.prefix(scheme.count)) == scheme else { return [] }
    return Array(trimmedBytes(Array(authorization.utf8.dropFirst(scheme.utf8.count))[...]))
}
