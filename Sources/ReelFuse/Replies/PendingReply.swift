import CFuse
import Glibc
import ReelFilesystem
import ReelThreads

/// A reply that comes later, from any thread: data, an interrupt and the end of the mount race for it, and the first
/// wins.
///
///     prepared ──arm──▶ armed ──take──▶ answered ──▶ removed from the table
///         └─giveUp: noted, acted on by arm (the filesystem may not know this read before its call has returned)
final class PendingReply: ParkedRead {
    private struct State: ~Copyable {
        var reply: Reply?
        var isArmed = false
        var givenUp: Int32?
    }

    private let state: Lock<State>
    private let adapter: Adapter
    /// The file of a read: the filesystem learns when the kernel no longer waits for it.
    private let file: (any FileHandle)?
    /// Names this reply to libfuse, which gives it back with an interrupt, perhaps after this object is gone.
    private let token: UInt
    let thread: Int32?

    /// - Parameter owner: the one whose share of parked reads it counts in; nil for other operations.
    init(
        _ reply: consuming Reply, of adapter: Adapter, file: (any FileHandle)? = nil, _ owner: ParkedShares.Owner? = nil
    ) {
        self.adapter = adapter
        self.file = file
        token = adapter.pending.newToken()
        // Before another thread can answer: libfuse frees an answered request.
        let request = reply.withRequest { $0 }
        thread = fuse_req_ctx(request).pointee.pid
        state = Lock(State(reply: reply))
        if let code = adapter.pending.insert(self, token, owner) { giveUp(code) }
        fuse_req_interrupt_func(request, interruptRequest, UnsafeMutableRawPointer(bitPattern: token))
    }

    deinit {
        guard let reply = take() else { return }
        adapter.logger.error("the filesystem dropped a request", metadata: ["errno": "EIO"])
        reply.end(EIO)
        adapter.pending.remove(token)
    }

    /// The filesystem's call has returned: from here on an interrupt ends the wait at once.
    func arm() {
        let code = state.withLock { state in
            state.isArmed = true
            return state.givenUp
        }
        if let code { giveUp(code) }
    }

    /// The reply for the first caller, who answers it and then calls `finish`; nil for all others.
    func take() -> Reply? { state.withLock { $0.reply.take() } }

    var isAnswered: Bool { state.withLock { $0.reply == nil } }

    func finish() { adapter.pending.remove(token) }

    func giveUp(_ code: Int32) {
        let reply: Reply? = state.withLock { state in
            guard state.isArmed else {
                state.givenUp = state.givenUp ?? code
                return nil
            }
            return state.reply.take()
        }
        guard let reply else { return }
        reply.end(code)
        if let file { adapter.filesystem.abandon(self, of: file) }
        finish()
    }

    /// Leaves the request to the process that serves the mount next.
    func drop() {
        guard let reply = take() else { return }
        reply.drop()
        if let file { adapter.filesystem.abandon(self, of: file) }
        finish()
    }

    func succeed(_ bytes: UnsafeRawBufferPointer) { answer { $0.bytes(bytes) } }

    func fail(_ error: VolumeError) { answer { $0.fail(error) } }

    private func answer(_ give: (consuming Reply) -> Void) {
        guard let reply = take() else { return }
        give(reply)
        finish()
    }
}

/// libfuse calls this when the kernel interrupts a request, on the thread that received the interrupt.
private func interruptRequest(_ request: fuse_req_t!, _ token: UnsafeMutableRawPointer!) {
    let thread = fuse_req_ctx(request).pointee.pid
    Adapter.of(request).pending.interrupt(UInt(bitPattern: token), of: thread)
}
