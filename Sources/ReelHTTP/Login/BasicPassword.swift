import CCurl
import ReelCore

/// User and password in the clear (RFC 7617), sent without being asked for.
struct BasicPassword: Login {
    private let pair: ResourceURL.Credentials

    static func given(for request: LoginRequest) -> GivenLogin? { request.password?.from }

    init?(of _: Transfer, _ request: LoginRequest) {
        guard let pair = request.password?.pair else { return nil }
        self.pair = pair
    }

    func attach(to easy: borrowing EasyHandle, of _: Transfer, _: String) -> [String] {
        easy.set(CURLOPT_USERNAME, pair.user)
        easy.set(CURLOPT_PASSWORD, pair.password)
        return []
    }

    func isReplaced(after challenges: [LoginChallenge], _ transfer: Transfer) -> Bool {
        guard let digest = DigestSession.strongest(of: challenges) else { return false }
        transfer.route.login.asked(forBasic: false)
        transfer.host.login.begin(digest)
        return true
    }
}
