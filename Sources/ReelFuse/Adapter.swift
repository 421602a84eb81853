import CFuse
import Glibc
import Logging
import ReelThreads
import ReelVolume
import Synchronization

/// What every operation works on; libfuse carries it as the session's user data.
final class Adapter: Sendable {
    let filesystem: any Filesystem
    let ownership: Ownership
    let logger: Logger
    let pending = PendingTable()
    let passthrough: Passthrough
    let handshake = Handshake()
    let hasAnsweredInit = Atomic(false)
    /// True once the kernel has shaken hands: the mount answers.
    let isReady = Monitor(false)

    init(filesystem: any Filesystem, ownership: Ownership, passthrough: Passthrough, logger: Logger) {
        self.filesystem = filesystem
        self.ownership = ownership
        self.passthrough = passthrough
        self.logger = logger
    }

    /// The adapter outlives the session (`FuseSession` holds it), and the session its requests.
    static func of(_ request: fuse_req_t) -> Adapter {
        Unmanaged<Adapter>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
    }

    /// Hands an operation that ends later its reply, and lets interrupts through once it has been called.
    func later(_ request: fuse_req_t, _ call: (PendingReply) -> Void) {
        let pending = PendingReply(Reply(request), of: self)
        call(pending)
        pending.arm()
    }
}

/// What the kernel's file handle points to: retained by open, released by release.
final class OpenFile: Sendable {
    let handle: any FileHandle
    init(_ handle: any FileHandle) { self.handle = handle }
}

final class OpenDirectory: Sendable {
    let handle: any DirectoryHandle
    init(_ handle: any DirectoryHandle) { self.handle = handle }
}

/// The name of one entry as programs sent it; nil stands for bytes that are no UTF-8, which no entry has.
func entryName(_ bytes: UnsafePointer<CChar>?) -> Result<String, VolumeError> {
    guard let bytes else { return .failure(.notFound) }
    // NAME_MAX of every local filesystem; the kernel itself lets 1024 through.
    if strlen(bytes) > 255 { return .failure(.nameTooLong) }
    guard let name = String(validatingCString: bytes) else { return .failure(.notFound) }
    return .success(name)
}
