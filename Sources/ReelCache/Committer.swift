import Glibc
import ReelThreads

/// The thread that commits: asleep without a timer while there is nothing to do.
final class Committer: Sendable {
    /// What a crash forgets at most, beside 32 MiB.
    static let interval = Duration.seconds(2)

    private struct State: ThreadState {
        weak var store: Store?
        /// On the clock of `now()`; nil: nothing to do.
        var dueAt: Duration?
        var isStopping = false
        var thread: Thread?
    }

    private enum Step {
        case commit, sleep(until: Duration), end
    }

    private let state = Monitor(State())

    func start(_ store: Store) throws(CacheError) {
        guard let thread = Thread("committer", { [self] in run() }) else { throw .system("pthread_create", EAGAIN) }
        state.withLock { [weak store] in
            $0.thread = thread
            $0.store = store
        }
    }

    /// There is something to commit: within the interval, or at once.
    func schedule(urgent: Bool = false, after pause: Duration = Committer.interval) {
        let due = urgent ? .zero : now() + pause
        // Called for every block: the thread is woken only where it would sleep too long.
        guard state.withLock(notifying: false, { $0.dueAt.map { due < $0 } ?? true }) else { return }
        state.withLock { $0.dueAt = min(due, $0.dueAt ?? due) }
    }

    /// Ends the thread. - Parameter waiting: false where the caller may be the thread itself.
    func stop(waiting: Bool) { state.stop(waiting: waiting) }

    private func run() {
        while true {
            // Without a limit while nothing is due; else until then, looking again at whatever changes.
            let step = state.wait { state -> Step? in
                if state.isStopping { return .end }
                guard let due = state.dueAt else { return nil }
                guard due <= now() else { return .sleep(until: due) }
                state.dueAt = nil
                return .commit
            }
            switch step {
            case .end: return
            case .commit: state.withLock { $0.store }?.commit()
            case .sleep(let due):
                // Or until it is due at another time.
                _ = state.wait(atMost: max(.zero, due - now())) { $0.isStopping || $0.dueAt != due ? true : nil }
            }
        }
    }
}
