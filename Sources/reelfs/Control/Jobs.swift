import ReelThreads

/// The requests that are being performed, for clients of both doors: how many long ones at once, and none while the
/// volume is shut down.
final class Jobs: Sendable {
    private struct State {
        var running: [ObjectIdentifier: (client: any RequestClient, isLong: Bool)] = [:]
        var isEnding = false
    }

    /// Long ones at once: the disk is for the readers of the mount.
    private let limit: Int
    private let state = Monitor(State())

    init(limit: Int = 4) { self.limit = limit }

    /// Makes room for the request of a client, until `end`.
    /// - Throws: where too much is being done already, or the mount is ending.
    func begin(_ client: any RequestClient, isLong: Bool = true) throws(RequestFailure) {
        let refusal: RequestFailure? = state.withLock { state in
            if state.isEnding { return RequestFailure(status: 503, sentence: MountTable.ending) }
            if isLong, state.running.values.count(where: \.isLong) >= limit { return Self.busy }
            state.running[ObjectIdentifier(client)] = (client, isLong)
            return nil
        }
        if let refusal { throw refusal }
    }

    static let busy = RequestFailure(
        status: 503,
        sentence: "the daemon is busy with other commands or HTTP clients; try again when they have ended")

    func end(_ client: any RequestClient) { state.withLock { $0.running[ObjectIdentifier(client)] = nil } }

    /// Ends all requests and waits for them: before the volume is shut down.
    func stop() {
        state.withLock { state in
            state.isEnding = true
            // Under the lock: the client of a request that has ended may be gone.
            for (client, _) in state.running.values { client.end() }
        }
        state.wait { $0.running.isEmpty ? () : nil }
    }
}
