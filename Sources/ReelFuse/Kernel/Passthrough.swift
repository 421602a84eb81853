import CFuse
import Glibc
import Logging
import ReelFilesystem
import ReelThreads

/// The kernel's register of backing files, as closures that tests replace.
package struct BackingCalls: Sendable {
    /// Registers a descriptor with the mount's device. Returns the kernel's number for it, over 0, or minus an errno.
    package var open: @Sendable (_ device: Int32, _ file: Int32) -> Int32
    /// Gives the number back.
    package var close: @Sendable (_ device: Int32, _ number: Int32) -> Void

    /// The ioctls of the device.
    package static let kernel = BackingCalls(
        open: { reel_backing_open($0, $1) }, close: { _ = reel_backing_close($0, $1) })
}

/// Whether and how a mount hands files to the kernel (FUSE passthrough, Linux 6.9).
final class Passthrough: Sendable {
    private struct State: Sendable {
        var device: Int32 = -1
        var isNegotiated = false
        /// The errno of a refusal for good, nil if there was none.
        var refusal: Int32?
        var modes = OpenModes()
    }

    /// How many filesystems may lie on top of each other below this mount; 0: the mount asks for no passthrough.
    let depth: UInt32
    private let calls: BackingCalls
    private let logger: Logger
    private let state = Lock(State(), .opens)

    init(depth: UInt32, calls: BackingCalls, logger: Logger) {
        self.depth = depth
        self.calls = calls
        self.logger = logger
    }

    /// The device is open until the session is destroyed, which is after the last request.
    func connect(_ device: Int32) { state.withLock { $0.device = device } }

    /// The kernel has agreed, before the first open.
    func negotiated() { state.withLock { $0.isNegotiated = true } }

    /// Takes over what an earlier process has agreed with the kernel, whose register outlives it.
    func inherit(_ inheritance: Inheritance) {
        state.withLock { state in
            state.isNegotiated = inheritance.isPassthrough
            state.modes.inherit(inheritance.modes)
        }
    }

    /// A file of an earlier process is open again; the kernel goes on to read it itself, where it has before.
    func reopened(_ node: NodeID, _ handle: any FileHandle) {
        if state.withLock({ $0.modes.isPassthrough(node) }) { handle.passthroughBegan() }
    }

    /// What the next process takes over.
    func leave(_ inheritance: inout Inheritance) {
        state.withLock { state in
            inheritance.isPassthrough = state.isNegotiated
            inheritance.modes = state.modes.all
        }
    }

    var isPossible: Bool { state.withLock { $0.isNegotiated && $0.refusal == nil } }

    /// Counts one open of the node and says how it reads.
    /// - Parameter isDirect: opened with O_DIRECT. The cache's disk would want aligned reads, and hold them up while it
    ///   cannot write; served reads have neither problem. So such an open does not begin passthrough, and the kernel
    ///   serves it beside others that did.
    func open(_ node: NodeID, _ handle: any FileHandle, isDirect: Bool = false) -> OpenModes.Opening {
        let asks = state.withLock { state in
            guard state.isNegotiated, !isDirect || state.modes.isPassthrough(node) else { return false }
            return state.refusal == nil || state.modes.hasPassthrough
        }
        let offer = asks ? handle.passthroughFile() : nil
        let identity = offer.flatMap { self.identity(of: $0) }
        // The lock is held over the kernel's call, which takes a reference and a number and never sleeps: another open
        // of the node has to know its outcome.
        let (opening, newRefusal) = state.withLock { state -> (OpenModes.Opening, Int32?) in
            let (device, refusal) = (state.device, state.refusal)
            let isUsable = refusal == nil || state.modes.hasPassthrough
            var newRefusal: Int32?
            let opening = state.modes.open(node, offer: isUsable ? identity : nil) {
                guard refusal == nil, let offer else { return nil }
                let number = calls.open(device, offer.descriptor)
                if isLasting(-number) { newRefusal = -number }
                return number > 0 ? number : nil
            }
            state.refusal = refusal ?? newRefusal
            return (opening, newRefusal)
        }
        if let newRefusal { logger.info("no passthrough on this mount", metadata: ["errno": "\(newRefusal)"]) }
        if case .backed = opening { handle.passthroughBegan() }
        return opening
    }

    /// One open has ended, or the kernel did not take its answer. Called before the filesystem learns it.
    func close(_ node: NodeID) {
        state.withLock { state in
            if let number = state.modes.close(node) { calls.close(state.device, number) }
        }
    }

    /// nil for a file of another length: the kernel would read past the end of a longer one, and another process has
    /// cut a shorter one.
    private func identity(of file: PassthroughFile) -> FileIdentity? {
        var status = stat()
        guard fstat(file.descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            Int64(status.st_size) == file.length
        else { return nil }
        return FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    }

    /// Whether a refusal holds for all files. EPERM: no CAP_SYS_ADMIN in the first user namespace. ELOOP: the whole
    /// cache lies on a stacked filesystem. ENOTTY, EOPNOTSUPP: not in this kernel. Others (ENOMEM, ENOSPC, EBADF) pass.
    private func isLasting(_ code: Int32) -> Bool { [EPERM, ELOOP, ENOTTY, EOPNOTSUPP].contains(code) }
}

/// Whether libfuse, as this program was built with it, can ask for passthrough.
package let libraryHasPassthrough = reel_has_passthrough()

/// How deep filesystems may be stacked below the mount so that files of `directory` can be backing files; 0 where this
/// process may not, or no directory is given.
///
/// A mount of depth 1 can itself be a layer of an overlay, one of depth 2 (the kernel's limit) cannot: 2 only where the
/// cache lies on an overlay, as in most containers.
func stackDepth(for directory: String?) -> UInt32 {
    guard let directory, libraryHasPassthrough, reel_may_administer() else { return 0 }
    var status = statfs()
    guard statfs(directory, &status) == 0 else { return 0 }
    // OVERLAYFS_SUPER_MAGIC, ECRYPTFS_SUPER_MAGIC (linux/magic.h).
    return [0x794c_7630, 0xf15f].contains(Int(status.f_type)) ? 2 : 1
}
