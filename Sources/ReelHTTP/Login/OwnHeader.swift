import ReelCore

/// A header `Authorization` of the user's own, or of the request's. It stands among the headers already.
struct OwnHeader: Login {
    static func given(for request: LoginRequest) -> GivenLogin? {
        let isWeb = request.place.fileProtocol == nil
        return isWeb && request.headers.contains { asciiLowercased($0.name) == "authorization" } ? .header : nil
    }

    init?(of _: Transfer, _ request: LoginRequest) {
        guard Self.given(for: request) != nil else { return nil }
    }

    func attach(to _: borrowing EasyHandle, of _: Transfer, _: String) -> [String] { [] }
}
