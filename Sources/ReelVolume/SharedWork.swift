import ReelThreads

/// Work that several calls want at once: the first call starts it, and all get its outcome.
final class SharedWork<Outcome: Sendable>: Sendable {
    /// The calls that wait; nil: no work is under way.
    private let waiting = Lock<[@Sendable (Outcome) -> Void]?>(nil)

    /// How many calls wait now.
    var callers: Int { waiting.withLock { $0?.count ?? 0 } }

    /// - Parameter work: started where none is under way; tells its outcome once, from any thread.
    func join(
        _ completion: @escaping @Sendable (Outcome) -> Void, work: (@escaping @Sendable (Outcome) -> Void) -> Void
    ) {
        let isFirst = waiting.withLock { waiting in
            defer { waiting = (waiting ?? []) + [completion] }
            return waiting == nil
        }
        guard isFirst else { return }
        work { [self] outcome in
            for completion in waiting.withLock({ $0.take() ?? [] }) { completion(outcome) }
        }
    }
}
