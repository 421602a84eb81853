import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads

@testable import ReelFuse

/// One file of `MemoryFilesystem`: bytes made from their offsets, and how reads of it are answered.
struct MemoryFile: Sendable {
    enum Reading: Sendable, Hashable {
        case hit
        /// Parked, answered by another thread.
        case parked
        /// Parked until somebody gives up.
        case never
        /// Parked and then lost, which no filesystem may do.
        case dropped
        case failed(VolumeError)
        case parkedThenFailed(VolumeError)
    }

    var node: NodeID
    var length: Int64
    /// Seconds since 1970.
    var modified: Int64 = 1_000_000_000
    var reading = Reading.hit
    var wantsDirectIO = false
    var seed: UInt8 = 0
    /// Path of a file with the same bytes, offered for passthrough.
    var backing: String?

    /// A prime number of bytes, so that no block looks like another; made once, as making bytes is slow in a debug
    /// build.
    private static let pattern = (0..<1_048_573).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }

    func bytes(_ range: Range<Int64>) -> [UInt8] {
        let range = range.clamped(to: 0..<length)
        var result: [UInt8] = []
        result.reserveCapacity(range.count)
        while result.count < range.count {
            let start = (Int(range.lowerBound) + result.count + Int(seed) * 7919) % Self.pattern.count
            result += Self.pattern[start...].prefix(range.count - result.count)
        }
        return result
    }
}

/// A flat tree in memory that counts what it is asked.
final class MemoryFilesystem: Filesystem {
    struct State: Sendable {
        var files: [String: MemoryFile] = [:]
        var openHandles = 0
        /// Calls of `reopen`.
        var reopened = 0
        /// The kernel's, by node.
        var references: [NodeID: Int] = [:]
        /// Calls of `read`.
        var reads = 0
        /// Bytes of the longest.
        var longestRead = 0
        /// Handles that were notified of passthrough.
        var began = 0
        var parked = 0
        var abandoned = 0
        /// Calls of what `ls -l` may ask for.
        var lookups = 0
        var attributeCalls = 0
        var listings = 0
        var extendedAttributeCalls = 0
        /// What directories say when they are opened, and in `tellsAll` whether they give attributes of all items.
        var isHeldByKernel = false
        /// The lengths that open files have come to, by node.
        var grown: [NodeID: Int64] = [:]
        /// Superseded files get another node.
        var supersedes = false
        /// With which lookups fail; nil if none does.
        var failure: VolumeError?
        var tellsAll = false
        var late: [@Sendable () -> Void] = []
        var kept: [any ParkedRead] = []
        var isOver = false
    }

    final class Handle: FileHandle {
        let file: MemoryFile
        let descriptor: Int32
        private let state: Monitor<State>
        var wantsDirectIO: Bool { file.wantsDirectIO }
        var length: Int64? {
            file.wantsDirectIO ? nil : state.withLock(notifying: false) { $0.grown[file.node] } ?? file.length
        }

        init(_ file: MemoryFile, _ state: Monitor<State>) {
            self.file = file
            self.state = state
            descriptor = file.backing.map { Glibc.open($0, O_RDONLY | O_CLOEXEC) } ?? -1
        }

        deinit { if descriptor >= 0 { Glibc.close(descriptor) } }

        func passthroughFile() -> PassthroughFile? {
            descriptor >= 0 ? PassthroughFile(descriptor: descriptor, length: file.length) : nil
        }

        func passthroughBegan() { state.withLock { $0.began += 1 } }
    }

    struct Listing: Sendable { var name: String, file: MemoryFile }

    final class Directory: DirectoryHandle {
        let list: [Listing]
        let isHeldByKernel: Bool
        private let state: Monitor<State>

        init(_ list: [Listing], _ state: Monitor<State>) {
            self.list = list
            self.state = state
            isHeldByKernel = state.withLock { $0.isHeldByKernel }
        }

        func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
            let tellsAll = state.withLock { state in
                state.listings += 1
                return state.tellsAll
            }
            for (index, item) in list.enumerated().dropFirst(offset) {
                let entry = Entry(node: item.file.node, attributes: MemoryFilesystem.attributes(item.file))
                // Every third entry's attributes are not known.
                let isKnown = withAttributes && (tellsAll || index % 3 != 0)
                let listed = DirectoryItem(
                    name: item.name, inode: item.file.node, isDirectory: false, nextOffset: index + 1,
                    entry: isKnown ? entry : nil)
                if !add(listed) { return }
                if isKnown { state.withLock { $0.references[item.file.node, default: 0] += 1 } }
            }
        }
    }

    let state: Monitor<State>

    init(_ files: [String: MemoryFile]) {
        state = Monitor(State(files: files))
    }

    /// The thread that answers what was parked; ends with `isOver`.
    func answerLate() -> ReelThreads.Thread? {
        Thread("late") { [state] in
            while true {
                let next = state.wait { state -> ((@Sendable () -> Void)?)? in
                    if !state.late.isEmpty { return state.late.removeFirst() }
                    return state.isOver ? .some(nil) : nil
                }
                guard let next else { return }
                next()
            }
        }
    }

    static func attributes(_ file: MemoryFile) -> Attributes {
        Attributes(
            inode: file.node, isDirectory: false, length: file.length, modified: file.modified)
    }

    private func file(_ node: NodeID) -> MemoryFile? {
        state.withLock { $0.files.values.first { $0.node == node } }
    }

    func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        if let failure = state.withLock({ $0.failure }) { return completion(.failure(failure)) }
        let found = state.withLock { state in
            state.lookups += 1
            if let file = state.files[name] { state.references[file.node, default: 0] += 1 }
            return state.files[name]
        }
        guard let file = found else { return completion(.failure(.notFound)) }
        let entry = Entry(node: file.node, attributes: Self.attributes(file))
        // Half of the names are answered by another thread.
        if file.node % 2 == 0 { return completion(.success(entry)) }
        state.withLock { $0.late.append { completion(.success(entry)) } }
    }

    func forget(_ node: NodeID, count: UInt64) {
        state.withLock { $0.references[node, default: 0] -= Int(count) }
    }

    func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>) {
        state.withLock { $0.attributeCalls += 1 }
        if node == rootNode {
            return completion(
                .success(Attributes(inode: 1, isDirectory: true, length: 0, modified: 1_000_000_000)))
        }
        completion(file(node).map { .success(Self.attributes($0)) } ?? .failure(.stale))
    }

    func place(of node: NodeID) -> NodePlace? {
        let name = state.withLock { state in state.files.first { $0.value.node == node }?.key }
        return name.map { NodePlace(parent: rootNode, name: $0, isDirectory: false) }
    }

    func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        let found = state.withLock { state in
            let file = state.files.values.first { $0.node == node }
            if file != nil { state.openHandles += 1 }
            return file
        }
        guard let file = found else { return completion(.failure(.stale)) }
        completion(.success(Handle(file, state)))
    }

    func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        state.withLock { $0.reopened += 1 }
        open(node, by: nil, completion)
    }

    func supersede(_ file: any FileHandle) {
        let node = (file as! Handle).file.node
        state.withLock { state in
            guard state.supersedes, let name = state.files.first(where: { $0.value.node == node })?.key else { return }
            state.files[name]!.node += 100
        }
    }

    func close(_ file: any FileHandle) { state.withLock { $0.openHandles -= 1 } }

    func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        let file = (file as! Handle).file
        state.withLock { state in
            state.reads += 1
            state.longestRead = max(state.longestRead, buffer.count)
        }
        let range = offset..<offset + Int64(buffer.count)
        switch file.reading {
        case .hit:
            let bytes = file.bytes(range)
            buffer.copyBytes(from: bytes)
            return .read(bytes.count)
        case .failed(let error): return .failed(error)
        case .parked, .parkedThenFailed, .never:
            let read = park()
            state.withLock { state in
                state.parked += 1
                switch file.reading {
                case .parked: state.late.append { file.bytes(range).withUnsafeBytes { read.succeed($0) } }
                case .parkedThenFailed(let error): state.late.append { read.fail(error) }
                // Kept, as a filesystem keeps what it has parked.
                default: state.kept.append(read)
                }
            }
            return .parked
        case .dropped:
            _ = park()
            return .parked
        }
    }

    func abandon(_ read: any ParkedRead, of file: any FileHandle) { state.withLock { $0.abandoned += 1 } }

    func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        guard node == rootNode else { return completion(.failure(.notDirectory)) }
        let files = state.withLock { $0.files }
        let list = files.sorted { $0.value.node < $1.value.node }.map { Listing(name: $0.key, file: $0.value) }
        completion(.success(Directory(list, state)))
    }

    func capacity() -> Capacity { Capacity(total: 1 << 30, used: 1 << 20) }

    func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError> {
        state.withLock { $0.extendedAttributeCalls += 1 }
        if !name.hasPrefix("user.") { return .failure(.unsupported) }
        return name == "user.mime_type" ? .success(Array("video/mp4".utf8)) : .failure(.noAttribute)
    }

    func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError> {
        .success(["user.mime_type", "user.reelfs.url"])
    }
}
