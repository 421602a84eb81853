import Glibc
import ReelThreads

/// The thread that commits, and the time at which it does. It sleeps without a timer while nothing is to be done.
final class CommitThread: Sendable {
    /// A power loss forgets no more than this time, or 32 MiB.
    static let interval = Duration.seconds(2)

    private struct State: ThreadState {
        var commit: (@Sendable () -> Void)?
        /// When to commit, on the clock of `now()`, nil if there is nothing to commit.
        var dueAt: Duration?
        var isStopping = false
        var thread: Thread?
    }

    private let state = Monitor(State())

    /// When it commits, on the clock of `now()`: zero for at once; nil if nothing is to be committed.
    var dueAt: Duration? { state.withLock(notifying: false) { $0.dueAt } }

    /// - Parameter commit: must not hold the object that stops the thread.
    func start(_ commit: @escaping @Sendable () -> Void) throws(CacheError) {
        guard let thread = Thread("committer", { [self] in run() }) else { throw .system("pthread_create", EAGAIN) }
        state.withLock {
            $0.thread = thread
            $0.commit = commit
        }
    }

    /// Asks for a commit: at once, or after a pause at the latest.
    func schedule(urgent: Bool = false, after pause: Duration = CommitThread.interval) {
        let due = urgent ? .zero : now() + pause
        // Every block comes here: wake the thread only where it would sleep too long.
        guard state.withLock(notifying: false, { $0.dueAt.map { due < $0 } ?? true }) else { return }
        state.withLock { $0.dueAt = min(due, $0.dueAt ?? due) }
    }

    /// Ends the thread. - Parameter waiting: false where the caller may be the thread itself.
    func stop(waiting: Bool) { state.stop(waiting: waiting) }

    private func run() {
        while !state.withLock(notifying: false, { $0.isStopping }) {
            let due = dueAt
            if let due, due <= now() {
                let commit = state.withLock(notifying: false) { state in
                    state.dueAt = nil
                    return state.commit
                }
                commit?()
            } else {
                // Waits until then, or until another time is set; without a limit while nothing is due.
                let hasNews = { (state: inout State) in state.isStopping || state.dueAt != due ? true : nil }
                if let due { _ = state.wait(atMost: max(.zero, due - now()), hasNews) } else { _ = state.wait(hasNews) }
            }
        }
    }
}
