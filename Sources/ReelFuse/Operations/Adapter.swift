import CFuse
import Glibc
import Logging
import ReelFilesystem
import ReelThreads
import Synchronization

/// The objects that every operation uses; libfuse carries them as the session's user data.
final class Adapter: Sendable {
    let filesystem: any Filesystem
    let ownership: Ownership
    let logger: Logger
    let pending = PendingTable()
    let passthrough: Passthrough
    let holdings: Holdings
    /// What an earlier process has left, nil if there was none.
    let inherited: InheritedFilesystem?
    /// Marks the numbers that this process gives; see `KernelNumber`.
    let epoch: UInt64
    /// The boxes of handles from earlier, by the kernel's numbers; it never names one again that it has released.
    private let earlier: [UInt64: UInt64]
    let handshake = Handshake()
    let hasAnsweredInit = Atomic(false)
    /// True once the kernel has shaken hands: the mount answers. False where all workers have ended before; nil before
    /// either.
    let isReady = Monitor<Bool?>(nil)

    init(
        filesystem: any Filesystem, ownership: Ownership, passthrough: Passthrough, inheritance: Inheritance?,
        logger: Logger
    ) {
        epoch = inheritance?.nextEpoch ?? 0
        let inherited = inheritance.map { [epoch] in InheritedFilesystem(filesystem, $0, epoch: epoch) }
        var earlier: [UInt64: UInt64] = [:]
        for (number, file) in inherited?.files ?? [:] { earlier[number] = address(of: FileBox(file)) }
        for (number, directory) in inherited?.directories ?? [:] {
            earlier[number] = address(of: DirectoryBox(directory))
        }
        holdings = Holdings(inheritance)
        self.filesystem = inherited ?? filesystem
        self.inherited = inherited
        self.earlier = earlier
        self.ownership = ownership
        self.passthrough = passthrough
        self.logger = logger
    }

    /// The adapter of a request. It outlives the session (`FuseSession` holds it), and the session its requests.
    static func of(_ request: fuse_req_t) -> Adapter {
        Unmanaged<Adapter>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
    }

    /// The number by which the kernel will name a handle, whose box is retained.
    func number<Handle: Sendable>(of box: HandleBox<Handle>) -> UInt64 {
        KernelNumber.handle(address(of: box), epoch)
    }

    /// The box of a file that the kernel names, nil if it is of no process that is known.
    func file(_ number: UInt64) -> Unmanaged<FileBox>? { pointer(number).map { Unmanaged.fromOpaque($0) } }

    /// The box of a directory that the kernel names, nil if it is of no process that is known.
    func directory(_ number: UInt64) -> Unmanaged<DirectoryBox>? { pointer(number).map { Unmanaged.fromOpaque($0) } }

    private func pointer(_ number: UInt64) -> UnsafeRawPointer? {
        let isOwn = KernelNumber.mark(ofHandle: number) == KernelNumber.mark(of: epoch)
        let address = isOwn ? KernelNumber.address(number) : earlier[number]
        return address.flatMap { UnsafeRawPointer(bitPattern: UInt($0)) }
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

    init(_ handle: Handle) { self.handle = handle }
}

typealias FileBox = HandleBox<any FileHandle>
typealias DirectoryBox = HandleBox<any DirectoryHandle>

/// - Returns: the address of a box, which is retained.
private func address<Handle: Sendable>(of box: HandleBox<Handle>) -> UInt64 {
    UInt64(UInt(bitPattern: Unmanaged.passRetained(box).toOpaque()))
}

/// The name of one entry as programs sent it. No entry has a name whose bytes are no UTF-8.
func entryName(_ bytes: UnsafePointer<CChar>?) -> Result<String, VolumeError> {
    guard let bytes else { return .failure(.notFound) }
    // NAME_MAX of every local filesystem; the kernel allows 1024.
    if strlen(bytes) > 255 { return .failure(.nameTooLong) }
    return String(validatingCString: bytes).map { .success($0) } ?? .failure(.notFound)
}
