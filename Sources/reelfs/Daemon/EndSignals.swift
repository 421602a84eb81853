import Glibc
import ReelThreads
import Synchronization

/// SIGTERM, SIGINT and SIGHUP, taken by a thread of their own: a handler could do next to nothing.
///
/// Once the mount serves, SIGHUP has a catalogue read again and a request log opened again, on a thread of its own:
/// their disk may hang, and SIGTERM has to be heard. A mount with neither ends.
///
/// opening → mounting → serving. Before a mount is tried, a signal ends the process at once: the origin may keep it
/// waiting for a minute, and the cache stands being left like that. While mounting, a signal is kept, and does then
/// what it does to a mount that serves. A daemon that takes the place of another one is mounting once it has asked for
/// the mounts, and SIGINT is for the command that has started it.
final class EndSignals: Sendable {
    private enum Phase: Sendable {
        case opening
        /// - Parameter kept: the signal that has come meanwhile; one that ends rather than SIGHUP.
        case mounting(kept: Int32?)
        case serving(stop: @Sendable () -> Void, reload: (@Sendable () -> Void)?)
    }

    private let phase = Lock(Phase.opening)
    private let sparesInterrupt = Atomic(false)
    /// 1 while a reload goes on, 2 if another one has to follow.
    private let reloads = Lock(0)

    /// Waits for no signal: for tests, which call `take`.
    init() {}

    /// Before any other thread exists, so that all of them inherit the mask. What the caller ignores (nohup(1)) stays
    /// ignored.
    convenience init(_ ready: ReadyPipe?) {
        self.init()
        var set = sigset_t()
        sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGHUP] where !isIgnoredByCaller(number) { sigaddset(&set, number) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
        let signals = set
        // Never joined: it waits until the process ends.
        _ = Thread("signals") { [self] in
            var set = signals
            var number: Int32 = 0
            while true {
                sigwait(&set, &number)
                take(number, ready)
            }
        }
    }

    /// A mount begins. - Parameter isSuccessor: with those of another daemon.
    func keep(isSuccessor: Bool = false) {
        if isSuccessor { sparesInterrupt.store(true, ordering: .relaxed) }
        phase.withLock { phase in
            if case .opening = phase { phase = .mounting(kept: nil) }
        }
    }

    /// The mount is made.
    /// - Parameters:
    ///   - reload: what SIGHUP does, nil if it ends the mount, too.
    ///   - stop: ends it.
    func serve(reload: (@Sendable () -> Void)?, _ stop: @escaping @Sendable () -> Void) {
        let kept: Int32? = phase.withLock { phase in
            defer { phase = .serving(stop: stop, reload: reload) }
            if case .mounting(let kept) = phase { return kept }
            return nil
        }
        if let kept { take(kept, nil) }
    }

    /// - Parameter ready: for the reason of an end before the mount.
    func take(_ number: Int32, _ ready: ReadyPipe?) {
        if number == SIGINT, sparesInterrupt.load(ordering: .relaxed) { return }
        let action: (@Sendable () -> Void)? = phase.withLock { phase in
            switch phase {
            case .opening:
                ready?.say(Failure.interrupted.line)
                _exit(Failure.interrupted.status.rawValue)
            case .mounting(let kept):
                phase = .mounting(kept: kept == nil || kept == SIGHUP ? number : kept)
                return nil
            case .serving(let stop, let reload):
                guard number == SIGHUP, let reload else { return stop }
                return { [self] in begin(reload) }
            }
        }
        action?()
    }

    /// Signals that come while a reload goes on have one more follow it.
    private func begin(_ reload: @escaping @Sendable () -> Void) {
        let isFirst = reloads.withLock { count in
            count = min(count + 1, 2)
            return count == 1
        }
        guard isFirst else { return }
        let run = { @Sendable [self] in
            var isWanted = true
            while isWanted {
                reload()
                isWanted = reloads.withLock { count in
                    count -= 1
                    return count > 0
                }
            }
        }
        if let thread = Thread("reload", run) { thread.detach() } else { run() }
    }
}

/// Whether a signal has no effect, as the caller of this process (nohup(1)) ignores it.
func isIgnoredByCaller(_ number: Int32) -> Bool {
    var action = sigaction()
    sigaction(number, nil, &action)
    return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
}
