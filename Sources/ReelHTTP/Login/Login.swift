import ReelCore

/// One way to prove who asks, as one request uses it at one place.
///
/// A request carries at most one: the first of `Logins.order` that the user gave for its place. One that has nothing to
/// send at present, such as a probe's token, is passed over.
protocol Login: Sendable {
    /// What the user gave of this way for the request, nil if nothing. It may have to be waited for (`keeper`).
    static func given(for request: LoginRequest) -> GivenLogin?

    /// What renews the secret, nil if it does not expire.
    static func keeper(in loop: TransferLoop) -> (any SecretKeeper)?

    /// nil if it is not given for the request, or there is nothing to send at present.
    init?(of transfer: Transfer, _ request: LoginRequest)

    /// Adds it to the request. - Parameter target: path and query as they are sent.
    /// - Returns: header lines.
    func attach(to easy: borrowing EasyHandle, of transfer: Transfer, _ target: String) -> [String]

    /// The place has given another answer than 401.
    func learn(from head: ResponseHead, _ transfer: Transfer)

    /// The place answers 401. - Returns: whether another login may follow.
    func isReplaced(after challenges: [LoginChallenge], _ transfer: Transfer) -> Bool

    /// The body of a refusal has come. - Returns: whether another login may follow.
    func isReplaced(afterBodyOf transfer: Transfer) -> Bool
}

extension Login {
    static func keeper(in _: TransferLoop) -> (any SecretKeeper)? { nil }
    func learn(from _: ResponseHead, _: Transfer) {}
    func isReplaced(after _: [LoginChallenge], _: Transfer) -> Bool { false }
    func isReplaced(afterBodyOf _: Transfer) -> Bool { false }
}

enum Logins {
    /// The preferred one first.
    static let order: [any Login.Type] = [
        OwnHeader.self, KeySignature.self, BearerToken.self, DigestAnswer.self, BasicPassword.self,
    ]

    /// The way of the login that the user gave for a request, nil if there is none.
    static func way(of request: LoginRequest) -> (any Login.Type)? { order.first { $0.given(for: request) != nil } }

    /// The login to send with a request, nil if there is none.
    static func login(of transfer: Transfer, _ request: LoginRequest) -> (any Login)? {
        order.lazy.compactMap { $0.init(of: transfer, request) }.first
    }
}

/// What the user gave for the place of a request.
package enum GivenLogin: Hashable, Sendable {
    /// A header `Authorization`.
    case header
    case signature
    /// The token of a command.
    case token
    /// User and password of the URL.
    case password
    /// User and password of `.netrc`.
    case netrc
}

/// A request at one place, as logins see it.
struct LoginRequest {
    let request: OriginRequest
    let place: ResourceURL
    let disclosure: Disclosure
    let configuration: TransportConfiguration
    /// The login that `.netrc` has for a host.
    let netrc: (String) -> ResourceURL.Credentials?

    /// Whether the place may get what only a web server takes of the user's secrets.
    var hasSecrets: Bool { disclosure.secrets && place.fileProtocol == nil }

    /// The headers that are given for the place, besides the login.
    var headers: [(name: String, value: String)] {
        request.headers + (disclosure.secrets ? configuration.headers : [])
    }

    /// User and password for the place, and where they come from, nil if there are none.
    var password: (pair: ResourceURL.Credentials, from: GivenLogin)? {
        guard disclosure.credentials else { return nil }
        if let pair = request.url.credentials { return (pair, .password) }
        // The file knows hosts alone, so `trusts` has decided about scheme and port.
        guard disclosure.secrets || configuration.mirrorOrigins.contains(request.url.origin),
            let pair = netrc(place.host), isHeaderValue(pair.user), isHeaderValue(pair.password)
        else { return nil }
        return (pair, .netrc)
    }
}

extension TransportConfiguration {
    /// The login that a request carries to its own origin, nil if it carries none.
    package func login(of request: OriginRequest) -> GivenLogin? {
        let disclosure = Disclosure(
            from: request.url, at: request.url, isTrusted: trusts(request.url), isPublic: request.isPublic)
        let asked = LoginRequest(request: request, place: request.url, disclosure: disclosure, configuration: self) {
            var netrc = Netrc(netrcFile)
            return netrc.login(for: $0)
        }
        return Logins.way(of: asked)?.given(for: asked)
    }
}

/// How one request has logged in, and how often that was refused.
struct LoginAttempt {
    /// nil: without a login.
    private(set) var login: (any Login)?
    private var refusals = 0
    /// The place wants Basic, and its origin wants Digest elsewhere.
    private(set) var wantsBasic = false

    /// A stale nonce, and after it another realm's.
    private static let limit = 2

    /// The request is about to be sent in this way.
    mutating func begin(_ login: (any Login)?) { self.login = login }

    /// The place has refused the login. - Returns: whether another one may follow.
    mutating func refused() -> Bool {
        guard refusals < Self.limit else { return false }
        refusals += 1
        return true
    }

    /// The place has asked for Basic alone, or for Digest.
    mutating func asked(forBasic: Bool) { wantsBasic = forBasic }
}
