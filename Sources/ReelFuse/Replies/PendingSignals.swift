import Glibc

/// The signals that wait for a thread which the kernel has woken.
///
/// A program expects no EINTR from a file. It is right for a program that has to end, or has asked for it by a handler.
/// A stop and its end, a debugger, a machine that sleeps and a window of another size are no reasons for it: on a local
/// disk the call goes on as if nothing had happened.
struct PendingSignals {
    /// Bit n - 1 for signal n.
    private let mask: UInt64

    private static let harmless: UInt64 = [
        SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGWINCH, SIGURG, SIGPROF, SIGVTALRM,
    ].reduce(0) { $0 | 1 << UInt64($1 - 1) }

    /// - Parameter status: the text of /proc/PID/status (proc(5)). The result is nil where it shows no signals.
    init?(status: String) {
        var masks: [Substring: UInt64] = [:]
        for line in status.split(separator: "\n") {
            let words = line.split(whereSeparator: { $0 == ":" || $0 == "\t" })
            if words.count == 2 { masks[words[0]] = UInt64(words[1], radix: 16) }
        }
        guard let own = masks["SigPnd"], let shared = masks["ShdPnd"], let blocked = masks["SigBlk"] else { return nil }
        mask = (own | shared) & ~blocked
    }

    /// Whether one of them should end the thread's wait for a file.
    var endTheWait: Bool { mask & ~Self.harmless != 0 }

    /// Whether a thread should leave its wait; true where its signals are not known, as it has ended or belongs to
    /// another namespace.
    static func endTheWait(of thread: pid_t) -> Bool {
        guard thread > 0, let status = contents(of: "/proc/\(thread)/status") else { return true }
        return PendingSignals(status: status)?.endTheWait ?? true
    }
}
