import CFuse
import Glibc
import ReelCore
import ReelThreads
import ReelVolume

/// Makes the kernel forget, from a thread of its own: the call waits for locks that a process holds while it waits for
/// an answer of the mount, so a thread that serves requests must never make it.
final class KernelNotifier: KernelCache {
    /// One notice, given to libfuse's session. ENOENT, for unknown names and nodes, is as good as forgotten.
    private typealias Notice = @Sendable (OpaquePointer) -> Void

    private struct State: Sendable {
        var queue: [Notice] = []
        var isClosed = false
        /// `major:minor` of the mount; nil where it is not known.
        var device: String?
        /// Sources of a catalogue whose files are being looked into, or the one source.
        var scans = 0
    }

    private let state = Monitor(State())
    private let passthrough: Passthrough

    init(_ passthrough: Passthrough) { self.passthrough = passthrough }

    var readsDataFiles: Bool { passthrough.isPossible }

    func forgetEntry(_ name: String, in parent: NodeID) {
        add { fuse_lowlevel_notify_inval_entry($0, parent, name, name.utf8.count) }
    }

    func forgetDirectory(_ node: NodeID) {
        // Offset 0 and length 0 stand for the attributes and all pages, which hold a directory's names.
        add { fuse_lowlevel_notify_inval_inode($0, node, 0, 0) }
    }

    func forgetPages(of node: NodeID, _ range: ByteRange) {
        add { fuse_lowlevel_notify_inval_inode($0, node, off_t(range.lower), off_t(range.count)) }
    }

    func setScanned(_ isScanned: Bool) {
        let device = state.withLock { state in
            state.scans += isScanned ? 1 : -1
            return state.scans == (isScanned ? 1 : 0) ? state.device : nil
        }
        if let device { add { _ in KernelReadahead.shorten(device, isScanned) } }
    }

    /// The mount is there. - Parameter device: as in mountinfo.
    func connect(_ device: String?) { state.withLock { $0.device = device } }

    private func add(_ notice: @escaping Notice) {
        state.withLock { if !$0.isClosed { $0.queue.append(notice) } }
    }

    /// Gives notices until `close`. Those left in the queue then do not matter, as the mount ends.
    func run(_ session: OpaquePointer) {
        while let notices = next() {
            for notice in notices where !state.withLock({ $0.isClosed }) { notice(session) }
        }
    }

    func close() { state.withLock { $0.isClosed = true } }

    private func next() -> [Notice]? {
        state.wait { state -> [Notice]?? in
            if state.isClosed { return .some(nil) }
            guard !state.queue.isEmpty else { return nil }
            defer { state.queue = [] }
            return state.queue
        }
    }
}
