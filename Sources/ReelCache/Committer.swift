import CLinux
import Glibc
import Synchronization

/// The thread that commits: asleep without a timer while there is nothing to do.
final class Committer: Sendable {
    /// What a crash forgets at most, beside 32 MiB.
    static let interval: Int64 = 2000

    private struct State {
        weak var store: Store?
        /// Milliseconds of the monotonic clock; nil: nothing to do.
        var dueAt: Int64?
        var isStopping = false
        var thread: pthread_t?
    }

    private let state = Mutex(State())
    private let wakeup: Descriptor

    init() throws(CacheError) {
        wakeup = try Descriptor(eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)), from: "eventfd")
    }

    func start(_ store: Store) throws(CacheError) {
        let unmanaged = Unmanaged.passRetained(self)
        var thread = pthread_t()
        let code = pthread_create(&thread, nil, commitThread, unmanaged.toOpaque())
        guard code == 0 else {
            unmanaged.release()
            throw .system("pthread_create", code)
        }
        state.withLock { [thread, weak store] in
            $0.thread = thread
            $0.store = store
        }
    }

    /// There is something to commit: within the interval, or at once.
    func schedule(urgent: Bool = false) {
        let due = urgent ? 0 : milliseconds() + Committer.interval
        let isNews = state.withLock { state in
            guard due < state.dueAt ?? .max else { return false }
            state.dueAt = due
            return true
        }
        if isNews { wake() }
    }

    /// Ends the thread. - Parameter waiting: false where the caller may be the thread itself.
    func stop(waiting: Bool) {
        let thread = state.withLock { state in
            state.isStopping = true
            defer { state.thread = nil }
            return state.thread
        }
        guard let thread else { return }
        wake()
        if waiting { pthread_join(thread, nil) } else { pthread_detach(thread) }
    }

    private func wake() { eventfd_write(wakeup.number, 1) }

    fileprivate func run() {
        while true {
            let wait = state.withLock { state -> Int64? in
                if state.isStopping { return nil }
                guard let due = state.dueAt else { return -1 }
                let left = max(0, due - milliseconds())
                if left == 0 { state.dueAt = nil }
                return left
            }
            guard let wait else { return }
            if wait == 0 {
                state.withLock { $0.store }?.commit()
            } else {
                var poller = pollfd(fd: wakeup.number, events: Int16(POLLIN), revents: 0)
                poll(&poller, 1, Int32(wait))
                var count: eventfd_t = 0
                eventfd_read(wakeup.number, &count)
            }
        }
    }
}

private func milliseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}

private func commitThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    // Signals are for the threads of the program that know what to do with them.
    var signals = sigset_t()
    sigfillset(&signals)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    Unmanaged<Committer>.fromOpaque(argument!).takeRetainedValue().run()
    return nil
}
