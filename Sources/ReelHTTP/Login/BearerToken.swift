import ReelCore

/// The bearer token that a command prints (RFC 6750).
struct BearerToken: Login {
    private let token: String
    /// The number that `TokenKeeper` gives.
    private let serial: Int

    static func given(for request: LoginRequest) -> GivenLogin? {
        request.hasSecrets && request.configuration.tokenSource != nil ? .token : nil
    }

    static func keeper(in loop: TransferLoop) -> (any SecretKeeper)? { loop.tokens }

    init?(of transfer: Transfer, _ request: LoginRequest) {
        guard Self.given(for: request) != nil, let current = transfer.loop.tokens.current else { return nil }
        (token, serial) = current
    }

    func attach(to _: borrowing EasyHandle, of _: Transfer, _: String) -> [String] {
        ["Authorization: Bearer " + token]
    }

    func learn(from _: ResponseHead, _ transfer: Transfer) { transfer.loop.tokens.prove(serial) }

    func isReplaced(after _: [LoginChallenge], _ transfer: Transfer) -> Bool {
        transfer.loop.tokens.isReplaceable(serial)
    }
}
