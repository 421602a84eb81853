import CFuse
import Glibc
import ReelCore
import ReelThreads
import ReelVolume

/// Tells the kernel what to forget, from a thread of its own: the call waits for locks that a process holds while it
/// waits for an answer of ours, so a thread that serves requests must never make it.
final class KernelNotifier: KernelCache {
    private enum Notice: Sendable {
        case entry(parent: NodeID, name: String)
        case directory(NodeID)
        case pages(NodeID, ByteRange)
    }

    private struct State: Sendable {
        var queue: [Notice] = []
        var isClosed = false
    }

    private let state = Monitor(State())
    private let passthrough: Passthrough

    init(_ passthrough: Passthrough) { self.passthrough = passthrough }

    var readsDataFiles: Bool { passthrough.isPossible }

    func forgetEntry(_ name: String, in parent: NodeID) { add(.entry(parent: parent, name: name)) }
    func forgetDirectory(_ node: NodeID) { add(.directory(node)) }
    func forgetPages(of node: NodeID, _ range: ByteRange) { add(.pages(node, range)) }

    private func add(_ notice: Notice) {
        state.withLock { if !$0.isClosed { $0.queue.append(notice) } }
    }

    /// Returns once closed. What is left in the queue then does not matter: the mount ends.
    func run(_ session: OpaquePointer) {
        while let notices = next() {
            for notice in notices where !state.withLock({ $0.isClosed }) {
                switch notice {
                // Unknown names and nodes are ENOENT, which is as good as forgotten.
                case .entry(let parent, let name):
                    fuse_lowlevel_notify_inval_entry(session, parent, name, name.utf8.count)
                // Offset 0, length 0: attributes, and all pages, which hold a directory's names.
                case .directory(let node): fuse_lowlevel_notify_inval_inode(session, node, 0, 0)
                case .pages(let node, let range):
                    fuse_lowlevel_notify_inval_inode(session, node, off_t(range.lower), off_t(range.count))
                }
            }
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
