import Glibc
import ReelThreads
import ReelVolume
import Synchronization

/// The replies that are owed, by number.
final class PendingTable: Sendable {
    private struct Row: Sendable {
        weak let reply: PendingReply?
        /// Counted in `shares`.
        var owner: ParkedShares.Owner?
    }

    private struct State: Sendable {
        var replies: [UInt: Row] = [:]
        var shares: ParkedShares
        /// The kernel tells once that a caller was woken; these threads were for nothing, and a thread looks at them as
        /// long as there are any.
        var woken: [UInt: pid_t] = [:]
        var isClosed = false
    }

    /// A caller that was woken for nothing before is let go within this time.
    private static let watchPause = Duration.milliseconds(100)

    private let state: Monitor<State>
    private let lastToken = Atomic<UInt>(0)

    /// - Parameter capacity: background requests that the kernel sends at once.
    init(capacity: Int = BackgroundLimit.granted()) {
        state = Monitor(State(shares: ParkedShares(capacity: capacity)))
    }

    /// A number that no other reply of the mount has had.
    func newToken() -> UInt { lastToken.add(1, ordering: .relaxed).newValue }

    /// - Returns: the errno to give up with: the mount is ending, or its owner has too many reads parked. Where that
    ///   one was readahead, no program sees the errno.
    func insert(_ reply: PendingReply, _ token: UInt, _ owner: ParkedShares.Owner?) -> Int32? {
        state.withLock { state in
            let hasRoom = owner.map { state.shares.take($0) } ?? true
            state.replies[token] = Row(reply: reply, owner: hasRoom ? owner : nil)
            if state.isClosed { return VolumeError.shutdownErrno }
            return hasRoom ? nil : VolumeError.failed.errno
        }
    }

    func remove(_ token: UInt) {
        state.withLock { state in
            if let owner = state.replies.removeValue(forKey: token)?.owner { state.shares.giveBack(owner) }
        }
    }

    /// - Parameter thread: who waits for the reply.
    func interrupt(_ token: UInt, of thread: pid_t) {
        if PendingSignals.endTheWait(of: thread) { return giveUp(token) }
        let isFirst = state.withLock { state in
            defer { state.woken[token] = thread }
            return state.woken.isEmpty
        }
        guard isFirst else { return }
        if let watch = Thread("signals", { [self] in watch() }) { return watch.detach() }
        let unwatched = state.withLock { state in
            defer { state.woken = [:] }
            return state.woken.keys
        }
        for token in unwatched { giveUp(token) }
    }

    private func giveUp(_ token: UInt) {
        state.withLock { $0.replies[token]?.reply }?.giveUp(VolumeError.interrupted.errno)
    }

    private func watch() {
        while true {
            let woken = state.withLock { state in
                state.woken = state.isClosed ? [:] : state.woken.filter { state.replies[$0.key] != nil }
                return state.woken
            }
            if woken.isEmpty { return }
            for (token, thread) in woken where PendingSignals.endTheWait(of: thread) { giveUp(token) }
            _ = state.wait(atMost: Self.watchPause) { $0.isClosed ? () : nil }
        }
    }

    /// Fails all that wait, and all that will.
    func close() {
        let waiting = state.withLock { state in
            state.isClosed = true
            return state.replies.values.compactMap { $0.reply }
        }
        for reply in waiting { reply.giveUp(VolumeError.shutdownErrno) }
    }

    /// Sleeps until each reply that was taken is written.
    func waitUntilEmpty() { state.wait { $0.replies.isEmpty ? () : nil } }
}
