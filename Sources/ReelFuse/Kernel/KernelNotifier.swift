import CFuse
import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads

/// Makes the kernel forget, from a thread of its own: the call waits for locks that a process holds while it waits for
/// an answer of the mount, so a thread that serves requests must never make it.
final class KernelNotifier: KernelCache {
    /// One notice, given to libfuse's session. ENOENT, for unknown names and nodes, is as good as forgotten.
    private typealias Notice = @Sendable (OpaquePointer) -> Void

    private struct State: Sendable {
        var queue: [Notice] = []
        /// The directories of which a notice is in the queue.
        var directories: Set<NodeID> = []
        var isClosed = false
        /// `major:minor` of the mount; nil where it is not known.
        var device: String?
        /// Sources of a catalogue whose files are being looked into, or the one source.
        var scans = 0
        /// Notices that left the queue, and those of them that the kernel has.
        var (taken, given) = (0, 0)
    }

    private let state = Monitor(State())
    private let passthrough: Passthrough

    /// The number of notices that wait, besides one a directory. A notice may wait 30 s for a page, and a refresh of a
    /// large tree brings a million.
    static let mostWaiting = 65_536

    init(_ passthrough: Passthrough) { self.passthrough = passthrough }

    var readsDataFiles: Bool { passthrough.isPossible }

    func forgetEntry(_ name: String, in parent: NodeID) {
        let isTaken = add { fuse_lowlevel_notify_inval_entry($0, parent, name, name.utf8.count) }
        // The kernel lists the directory again, and asks for the name after `KernelBelief.known` at the latest.
        if !isTaken { forgetDirectory(parent) }
    }

    func forgetDirectory(_ node: NodeID) {
        state.withLock { state in
            guard !state.isClosed, state.directories.insert(node).inserted else { return }
            // Offset 0 and length 0 stand for the attributes and all pages, which hold a directory's names.
            state.queue.append { fuse_lowlevel_notify_inval_inode($0, node, 0, 0) }
        }
    }

    func forgetPages(of node: NodeID, _ range: ByteRange) {
        add { fuse_lowlevel_notify_inval_inode($0, node, off_t(range.lower), off_t(range.count)) }
    }

    func setScanned(_ isScanned: Bool) {
        let device = state.withLock { state in
            state.scans += isScanned ? 1 : -1
            return state.scans == (isScanned ? 1 : 0) ? state.device : nil
        }
        guard let device else { return }
        state.withLock { $0.queue.append { _ in KernelReadahead.shorten(device, isScanned) } }
    }

    /// The mount is there. - Parameter device: as in mountinfo.
    func connect(_ device: String?) { state.withLock { $0.device = device } }

    /// - Returns: false where too many wait.
    @discardableResult
    private func add(_ notice: @escaping Notice) -> Bool {
        state.withLock { state in
            if state.isClosed { return true }
            guard state.queue.count < Self.mostWaiting else { return false }
            state.queue.append(notice)
            return true
        }
    }

    /// The number of notices that wait.
    var waiting: Int { state.withLock(notifying: false) { $0.queue.count } }

    /// Gives notices until `close`. Those left in the queue then do not matter, as the mount ends.
    func run(_ session: OpaquePointer) {
        while let notices = next() {
            for notice in notices where !state.withLock({ $0.isClosed }) { notice(session) }
            state.withLock { $0.given = $0.taken }
        }
    }

    /// Waits until the kernel has all notices of before. A second at most: one may wait for a page that a read holds.
    func settle() {
        let last = state.withLock(notifying: false) { $0.taken + $0.queue.count }
        _ = state.wait(atMost: .seconds(1)) { $0.isClosed || $0.given >= last ? () : nil }
    }

    func close() { state.withLock { $0.isClosed = true } }

    private func next() -> [Notice]? {
        state.wait { state -> [Notice]?? in
            if state.isClosed { return .some(nil) }
            guard !state.queue.isEmpty else { return nil }
            state.taken += state.queue.count
            defer { (state.queue, state.directories) = ([], []) }
            return state.queue
        }
    }
}
