import Glibc
import ReelThreads
import ReelVolume

/// The replies that are owed, by number.
final class PendingTable: Sendable {
    private struct Weak: Sendable { weak let reply: PendingReply? }

    private struct State: Sendable {
        var lastToken: UInt = 0
        var replies: [UInt: Weak] = [:]
        var isClosed = false
    }

    private let state = Monitor(State())

    func newToken() -> UInt {
        state.withLock { state in
            state.lastToken += 1
            return state.lastToken
        }
    }

    /// - Returns: the errno to give up with, where the mount is ending.
    func insert(_ reply: PendingReply, _ token: UInt) -> Int32? {
        state.withLock { state in
            state.replies[token] = Weak(reply: reply)
            return state.isClosed ? VolumeError.shutdownErrno : nil
        }
    }

    func remove(_ token: UInt) {
        state.withLock { _ = $0.replies.removeValue(forKey: token) }
    }

    func interrupt(_ token: UInt) {
        state.withLock { $0.replies[token]?.reply }?.giveUp(VolumeError.interrupted.errno)
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
