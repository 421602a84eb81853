import CFuse
import Glibc
import Logging
import ReelThreads
import ReelVolume
import Synchronization

/// The objects that every operation uses; libfuse carries them as the session's user data.
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

    /// The adapter of a request. It outlives the session (`FuseSession` holds it), and the session its requests.
    static func of(_ request: fuse_req_t) -> Adapter {
        Unmanaged<Adapter>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
    }

    /// Answers an operation of the filesystem when it ends, and lets interrupts through once it has been called.
    /// - Parameters:
    ///   - answer: gives the reply of a success. Returns false where the kernel did not take it.
    ///   - undo: takes back a success that the kernel does not know, as it no longer waits or did not take the reply.
    func later<Value>(
        _ request: fuse_req_t, _ operation: (@escaping Completion<Value>) -> Void,
        answer: @escaping @Sendable (Value, consuming Reply) -> Bool,
        undo: @escaping @Sendable (Value) -> Void = { _ in }
    ) {
        let pending = PendingReply(Reply(request), of: self)
        operation { result in
            let reply = pending.take()
            switch result {
            case .success(let value):
                guard let reply, answer(value, reply) else {
                    undo(value)
                    break
                }
            case .failure(let error): if let reply { reply.fail(error) }
            }
            pending.finish()
        }
        pending.arm()
    }
}

/// The target of the kernel's file handle: retained by open, released by release.
final class HandleBox<Handle: Sendable>: Sendable {
    let handle: Handle

    private init(_ handle: Handle) { self.handle = handle }

    /// - Returns: the box, retained, and the number that leads to it.
    static func retained(_ handle: Handle) -> (box: Unmanaged<HandleBox>, number: UInt64) {
        let box = Unmanaged.passRetained(HandleBox(handle))
        return (box, UInt64(UInt(bitPattern: box.toOpaque())))
    }

    /// The box that the kernel names.
    static func named(by info: UnsafeMutablePointer<fuse_file_info>) -> Unmanaged<HandleBox> {
        Unmanaged.fromOpaque(UnsafeRawPointer(bitPattern: UInt(info.pointee.fh))!)
    }
}

typealias FileBox = HandleBox<any FileHandle>
typealias DirectoryBox = HandleBox<any DirectoryHandle>

/// The name of one entry as programs sent it. No entry has a name whose bytes are no UTF-8.
func entryName(_ bytes: UnsafePointer<CChar>?) -> Result<String, VolumeError> {
    guard let bytes else { return .failure(.notFound) }
    // NAME_MAX of every local filesystem; the kernel allows 1024.
    if strlen(bytes) > 255 { return .failure(.nameTooLong) }
    return String(validatingCString: bytes).map { .success($0) } ?? .failure(.notFound)
}
