import Glibc

/// The signals that wait for a thread which the kernel has woken.
///
/// A program expects no EINTR of a file. It is right for one that is to end, or that has asked for it by a handler;
/// being stopped and going on, being looked at by a debugger, put to sleep with the whole machine, or told that a
/// window has another size are no reasons: on a local disk such a call ends as if nothing had been.
struct PendingSignals {
    /// Bit n - 1 for signal n.
    private let mask: UInt64

    private static let harmless: UInt64 = [
        SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGWINCH, SIGURG, SIGPROF, SIGVTALRM,
    ].reduce(0) { $0 | 1 << UInt64($1 - 1) }

    /// - Parameter status: of the thread, as proc(5) has it; nil where it tells no signals.
    init?(status: String) {
        var masks: [Substring: UInt64] = [:]
        for line in status.split(separator: "\n") {
            let words = line.split(whereSeparator: { $0 == ":" || $0 == "\t" })
            if words.count == 2 { masks[words[0]] = UInt64(words[1], radix: 16) }
        }
        guard let own = masks["SigPnd"], let shared = masks["ShdPnd"], let blocked = masks["SigBlk"] else { return nil }
        mask = (own | shared) & ~blocked
    }

    /// One of them ends the thread's wait, as far as it is a file's to end.
    var endTheWait: Bool { mask & ~Self.harmless != 0 }

    /// Whether the thread is to leave its wait; true also where its signals are not known, as it is gone or of another
    /// namespace.
    static func endTheWait(of thread: pid_t) -> Bool {
        guard thread > 0, let status = contents(of: "/proc/\(thread)/status") else { return true }
        return PendingSignals(status: status)?.endTheWait ?? true
    }
}
