import ReelThreads

/// Lists the mount's list again when one of its links has expired, and says when to log that. The links of a list
/// expire together.
final class LinkRenewal: Sendable {
    private struct State {
        /// On the clock of `now()`.
        var toldAt: Duration?
        var endedAt: Duration?
        var list: List?
    }

    /// Lists again, then calls back; joins a listing that is under way.
    typealias List = @Sendable (@escaping @Sendable () -> Void) -> Void

    /// A list that gave an expired link gives another one only after a while.
    private static let pause = Duration.seconds(60)

    private let state = Lock(State())

    /// From now on there is a list.
    func connect(_ list: @escaping List) { state.withLock { $0.list = list } }

    /// Goes on once the list was listed again; at once where there is none, or where it was just listed.
    func renew(_ goOn: @escaping @Sendable () -> Void) {
        let moment = now()
        let list = state.withLock { state in
            let isRecent = state.endedAt.map { moment - $0 < Self.pause } ?? false
            return isRecent ? nil : state.list
        }
        guard let list else { return goOn() }
        list { [self] in
            state.withLock { $0.endedAt = now() }
            goOn()
        }
    }

    /// True if nothing was logged for a while: the caller logs it then.
    func isNews() -> Bool {
        let moment = now()
        return state.withLock { state in
            if let last = state.toldAt, moment - last < Self.pause { return false }
            state.toldAt = moment
            return true
        }
    }
}
