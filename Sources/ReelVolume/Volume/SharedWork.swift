import ReelThreads

/// Work that several calls want at once: the first call starts it, and all calls get its outcome.
final class SharedWork<Outcome: Sendable>: Sendable {
    /// The calls that wait; nil while no work is under way.
    private let waiting = Lock<[@Sendable (Outcome) -> Void]?>(nil)

    /// The number of calls that wait.
    var callers: Int { waiting.withLock { $0?.count ?? 0 } }

    /// Waits for the outcome. - Parameter work: runs if none is under way; reports its outcome once, from any thread.
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

    /// Like `join`, but what is under way does not count: waits for its end, and joins the work that follows.
    func joinNext(
        _ completion: @escaping @Sendable (Outcome) -> Void,
        work: @escaping @Sendable (@escaping @Sendable (Outcome) -> Void) -> Void
    ) {
        let isUnderWay = waiting.withLock { waiting in
            waiting?.append { [self] _ in join(completion, work: work) }
            return waiting != nil
        }
        if !isUnderWay { join(completion, work: work) }
    }
}
