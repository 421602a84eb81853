import Glibc
import ReelCore

/// The signature of a request to a bucket, by the user's keys.
struct KeySignature: Login {
    private let key: SigningKey
    /// The number that `TokenKeeper` gives.
    private let serial: Int
    private let headers: [(name: String, value: String)]

    static func given(for request: LoginRequest) -> GivenLogin? {
        request.hasSecrets && request.configuration.signs(request.request) ? .signature : nil
    }

    static func keeper(in loop: TransferLoop) -> (any SecretKeeper)? { loop.keys }

    init?(of transfer: Transfer, _ request: LoginRequest) {
        guard Self.given(for: request) != nil, let current = transfer.loop.keys.current else { return nil }
        (key, serial) = current
        headers = request.headers
    }

    func attach(to _: borrowing EasyHandle, of transfer: Transfer, _ target: String) -> [String] {
        let (request, route) = (transfer.request, transfer.route)
        let fields = key.sign(
            request.upload == nil ? request.method : "PUT", target,
            of: String(route.place.origin.dropFirst(route.place.scheme.utf8.count + 3)), headers: headers,
            in: route.region ?? TransportConfiguration.firstRegion, at: Int64(time(nil)))
        return fields.map(headerLine)
    }

    func learn(from head: ResponseHead, _ transfer: Transfer) {
        if head.status < 400 { transfer.loop.keys.prove(serial) }
    }

    /// Whether a service refuses the keys for themselves, which the body says, and there are other ones, or may be.
    func isReplaced(afterBodyOf transfer: Transfer) -> Bool {
        guard let code = transfer.answer.refused("Code"), SigningKey.expiries.contains(code),
            transfer.route.login.refused()
        else { return false }
        return transfer.loop.keys.isReplaceable(serial)
    }
}
