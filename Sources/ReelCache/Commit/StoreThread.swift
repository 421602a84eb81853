import Glibc
import ReelThreads

/// A thread of the store, and the time at which it works: the one that commits, and the one that makes room. It sleeps
/// without a timer while nothing is to be done.
final class StoreThread: Sendable {
    /// Between two commits: a power loss forgets no more than this time, or 32 MiB.
    static let interval = Duration.seconds(2)

    private struct State: ThreadState {
        var work: (@Sendable () -> Void)?
        /// When to work, on the clock of `now()`, nil if there is nothing to do.
        var dueAt: Duration?
        /// It does not work before.
        var pausedUntil: Duration = .zero
        var isStopping = false
        var thread: Thread?
    }

    private let name: String
    private let state = Monitor(State())

    init(_ name: String) { self.name = name }

    /// When it works, on the clock of `now()`: zero for at once; nil if nothing is to be done.
    var dueAt: Duration? { state.withLock(notifying: false) { $0.dueAt } }

    /// - Parameter work: must not hold the object that stops the thread.
    func start(_ work: @escaping @Sendable () -> Void) throws(CacheError) {
        guard let thread = Thread(name, { [self] in run() }) else { throw .system("pthread_create", EAGAIN) }
        state.withLock {
            $0.thread = thread
            $0.work = work
        }
    }

    /// Asks for work: at once, or after a pause at the latest.
    func schedule(urgent: Bool = false, after pause: Duration = StoreThread.interval) {
        let due = urgent ? .zero : now() + pause
        // Every block comes here: wake the thread only where it would sleep too long.
        let isNews = { (state: State) in state.dueAt.map { max(due, state.pausedUntil) < $0 } ?? true }
        guard state.withLock(notifying: false, { isNews($0) }) else { return }
        state.withLock { if isNews($0) { $0.dueAt = max(due, $0.pausedUntil) } }
    }

    /// It is not to work yet.
    var isPausing: Bool { state.withLock(notifying: false) { $0.pausedUntil > now() } }

    /// Whoever asks for work, or has asked, it begins after this pause.
    func pause(_ pause: Duration) {
        state.withLock { state in
            state.pausedUntil = now() + pause
            state.dueAt = state.dueAt.map { max($0, state.pausedUntil) }
        }
    }

    /// Ends the thread. - Parameter waiting: false where the caller may be the thread itself.
    func stop(waiting: Bool) { state.stop(waiting: waiting) }

    private func run() {
        while !state.withLock(notifying: false, { $0.isStopping }) {
            let due = dueAt
            if let due, due <= now() {
                let work = state.withLock(notifying: false) { state in
                    state.dueAt = nil
                    return state.work
                }
                work?()
            } else {
                // Waits until then, or until another time is set; without a limit while nothing is due.
                let hasNews = { (state: inout State) in state.isStopping || state.dueAt != due ? true : nil }
                if let due { _ = state.wait(atMost: max(.zero, due - now()), hasNews) } else { _ = state.wait(hasNews) }
            }
        }
    }
}
