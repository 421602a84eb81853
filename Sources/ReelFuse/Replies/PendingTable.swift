import Glibc
import ReelFilesystem
import ReelThreads
import Synchronization

/// The replies that the kernel waits for, by number.
final class PendingTable: Sendable {
    private struct Row: Sendable {
        weak let reply: PendingReply?
        /// Counted in `shares`, nil if it is not.
        var owner: ParkedShares.Owner?
    }

    private struct State: Sendable {
        var replies: [UInt: Row] = [:]
        var shares: ParkedShares
        /// Callers that a harmless signal has woken. The kernel reports each wake-up once, so a thread watches their
        /// signals as long as there are any.
        var woken: [UInt: pid_t] = [:]
        var isClosed = false
    }

    /// A caller that a harmless signal has woken leaves its wait this long after a harmful one, at most.
    private static let watchPause = Duration.milliseconds(100)

    private let state: Monitor<State>
    private let lastToken = Atomic<UInt>(0)

    /// - Parameter capacity: background requests that the kernel sends at once.
    init(capacity: Int = BackgroundLimit.granted()) {
        state = Monitor(State(shares: ParkedShares(capacity: capacity)))
    }

    /// A number that no other reply of the mount has had.
    func newToken() -> UInt { lastToken.add(1, ordering: .relaxed).newValue }

    /// Adds a reply. - Returns: the errno to give up with, as the mount ends or the owner has too many reads parked;
    ///   nil if it waits. No program sees the errno of readahead.
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

    /// The kernel has woken a caller. - Parameter thread: the caller's.
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

    /// Fails all replies, and all later ones.
    func close() {
        let waiting = state.withLock { state in
            state.isClosed = true
            return state.replies.values.compactMap { $0.reply }
        }
        for reply in waiting { reply.giveUp(VolumeError.shutdownErrno) }
    }

    /// Drops all replies: the kernel will ask the next process. Those that are being given are still written.
    func drop() {
        let waiting = state.withLock { state in state.replies.values.compactMap { $0.reply } }
        for reply in waiting { reply.drop() }
    }

    /// Waits until every reply is written. - Returns: false where that takes longer.
    func waitUntilEmpty(atMost limit: Duration) -> Bool {
        state.wait(atMost: limit) { $0.replies.isEmpty ? () : nil } != nil
    }

    /// Waits until every reply that was taken is written.
    func waitUntilEmpty() { state.wait { $0.replies.isEmpty ? () : nil } }
}
