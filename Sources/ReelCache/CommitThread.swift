import Glibc
import ReelThreads

/// The thread that commits, and when it is due: asleep without a timer while there is nothing to do.
final class CommitThread: Sendable {
    /// The most that a power loss forgets, beside 32 MiB.
    static let interval = Duration.seconds(2)

    private struct State: ThreadState {
        var commit: (@Sendable () -> Void)?
        /// On the clock of `now()`; nil: nothing to do.
        var dueAt: Duration?
        var isStopping = false
        var thread: Thread?
    }

    private let state = Monitor(State())

    /// - Parameter commit: must not keep alive what stops the thread.
    func start(_ commit: @escaping @Sendable () -> Void) throws(CacheError) {
        guard let thread = Thread("committer", { [self] in run() }) else { throw .system("pthread_create", EAGAIN) }
        state.withLock {
            $0.thread = thread
            $0.commit = commit
        }
    }

    /// There is something to commit: within the interval, or at once.
    func schedule(urgent: Bool = false, after pause: Duration = CommitThread.interval) {
        let due = urgent ? .zero : now() + pause
        // Called for every block: the thread is woken only where it would sleep too long.
        guard state.withLock(notifying: false, { $0.dueAt.map { due < $0 } ?? true }) else { return }
        state.withLock { $0.dueAt = min(due, $0.dueAt ?? due) }
    }

    /// Ends the thread. - Parameter waiting: false where the caller may be the thread itself.
    func stop(waiting: Bool) { state.stop(waiting: waiting) }

    private func run() {
        while !state.withLock(notifying: false, { $0.isStopping }) {
            let due = state.withLock(notifying: false) { $0.dueAt }
            if let due, due <= now() {
                let commit = state.withLock(notifying: false) { state in
                    state.dueAt = nil
                    return state.commit
                }
                commit?()
            } else {
                // Until then, or until it is due at another time; without a limit while nothing is due.
                let hasNews = { (state: inout State) in state.isStopping || state.dueAt != due ? true : nil }
                if let due { _ = state.wait(atMost: max(.zero, due - now()), hasNews) } else { _ = state.wait(hasNews) }
            }
        }
    }
}
