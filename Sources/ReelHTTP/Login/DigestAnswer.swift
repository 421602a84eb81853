import ReelCore

/// User and password to an origin that has asked for a proof of them (`DigestSession`).
struct DigestAnswer: Login {
    private let pair: ResourceURL.Credentials
    /// nil: there was none yet, and Basic would show the password.
    private let nonce: String?

    static func given(for request: LoginRequest) -> GivenLogin? {
        request.place.fileProtocol == nil ? request.password?.from : nil
    }

    init?(of transfer: Transfer, _ request: LoginRequest) {
        guard transfer.host.login.asksForDigest, !transfer.route.login.wantsBasic, let pair = request.password?.pair
        else { return nil }
        (self.pair, nonce) = (pair, transfer.host.login.nonce)
    }

    func attach(to _: borrowing EasyHandle, of transfer: Transfer, _: String) -> [String] {
        let place = transfer.route.place
        let target = String(decoding: place.text.utf8.dropFirst(place.origin.utf8.count), as: UTF8.self)
        return transfer.host.login.answer(transfer.request.method, target, pair).map { ["Authorization: " + $0] } ?? []
    }

    func learn(from head: ResponseHead, _ transfer: Transfer) {
        transfer.host.login.proved(nonce, head["authentication-info"])
    }

    func isReplaced(after challenges: [LoginChallenge], _ transfer: Transfer) -> Bool {
        let schemes = challenges.map(\.scheme)
        if !schemes.contains("digest"), schemes.contains("basic"), transfer.route.place.scheme == "https" {
            transfer.route.login.asked(forBasic: true)
            return true
        }
        guard let digest = DigestSession.strongest(of: challenges) else { return false }
        return transfer.host.login.refused(nonce, digest)
    }
}
