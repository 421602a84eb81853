/// Something that a client asks the program to do, by POST.
package struct ServedCall: Sendable {
    /// Wants credentials or the token.
    let isChanging: Bool
    let perform: @Sendable (ServedRequest) async -> ServedAnswer

    /// Bytes of a body: names and paths, and no data.
    static let longestBody = 64 << 10

    /// - Parameters:
    ///   - isChanging: it changes something.
    ///   - perform: makes the answer; the task is cancelled once the client has gone, or the listener ends.
    package init(isChanging: Bool, _ perform: @escaping @Sendable (ServedRequest) async -> ServedAnswer) {
        self.isChanging = isChanging
        self.perform = perform
    }

    /// The answer to a request of its path, from a client that may ask for it.
    func answer(_ request: ServedRequest) async -> ServedAnswer {
        guard request.method == "POST" else {
            return ServedAnswer(405, saying: "Only POST works here.", [("Allow", "POST")])
        }
        guard request.body != nil else {
            return ServedAnswer(413, saying: "A body has at most \(Self.longestBody >> 10) KiB.")
        }
        return await perform(request)
    }
}
