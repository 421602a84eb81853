import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit

/// A filesystem with the one file `film.mkv` in a folder that may show others, which counts what was taken from it and
/// not given back.
final class OneFile: Filesystem {
    struct Counts: Equatable, Sendable {
        /// References to the node of the file.
        var references = 0
        var handles = 0
        var loans = 0
        /// Reads that wait.
        var waiting = 0

        static let none = Counts()
    }

    /// Where a read has to wait: forever, as no bytes come.
    let hole: Int64
    let film: GeneratedBytes
    let length: Int64
    /// The root as it is listed, nil if it cannot be.
    private let folder: ListedFolder?
    private let lends: Bool
    private let tellsLength: Bool
    private let descriptor: Int32
    private let state = Monitor((counts: Counts(), lent: [ByteRange](), parked: [ObjectIdentifier: any ParkedRead]()))

    private final class Handle: FileHandle {
        let wantsDirectIO = false
        let length: Int64?
        init(length: Int64?) { self.length = length }
    }

    private final class Loan: Sendable {
        let end: @Sendable () -> Void
        init(_ end: @escaping @Sendable () -> Void) { self.end = end }
        deinit { end() }
    }

    /// - Parameters:
    ///   - lends: whether what is not behind the hole is lent.
    ///   - hole: nil: nothing is missing.
    ///   - tellsLength: whether the open file has a length.
    init(
        length: Int64, lends: Bool, hole: Int64? = nil, folder: ListedFolder? = nil, tellsLength: Bool = true
    ) throws {
        self.length = length
        self.tellsLength = tellsLength
        self.folder = folder
        self.lends = lends
        self.hole = hole ?? length
        film = GeneratedBytes(seed: 3)
        var name = Array("/tmp/reelfs-listener-XXXXXX".utf8CString)
        descriptor = mkstemp(&name)
        unlink(name)
        let bytes = film.bytes(ByteRange(0, length))
        guard descriptor >= 0, write(descriptor, bytes, bytes.count) == bytes.count else { throw VolumeError.failed }
    }

    deinit { Glibc.close(descriptor) }

    var counts: Counts { state.withLock { $0.counts } }
    /// What was lent, in order.
    var lent: [ByteRange] { state.withLock { $0.lent } }
    private func count(_ change: @Sendable (inout Counts) -> Void) { state.withLock { change(&$0.counts) } }

    func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        guard name == "film.mkv", parent == rootNode else { return completion(.failure(.notFound)) }
        count { $0.references += 1 }
        let attributes = Attributes(inode: 2, isDirectory: false, length: length, modified: 1_000_000_000)
        completion(.success(Entry(node: 2, attributes: attributes)))
    }

    func forget(_ node: NodeID, count: UInt64) {
        if node == 2 { self.count { $0.references -= Int(count) } } else { folder?.forget() }
    }

    func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>) {
        completion(.success(Attributes(inode: 1, isDirectory: true, length: 0, modified: 1_000_000_000)))
    }

    func place(of node: NodeID) -> NodePlace? { nil }

    func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        count { $0.handles += 1 }
        completion(.success(Handle(length: tellsLength ? length : nil)))
    }

    func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        open(node, by: nil, completion)
    }

    func close(_ file: any FileHandle) { count { $0.handles -= 1 } }

    func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        if offset + Int64(buffer.count) <= hole {
            return .read(pread(descriptor, buffer.baseAddress, buffer.count, Int(offset)))
        }
        let read = park()
        state.withLock { state in
            state.parked[ObjectIdentifier(read)] = read
            state.counts.waiting += 1
        }
        return .parked
    }

    func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes? {
        guard lends, range.upper <= hole else { return nil }
        state.withLock { state in
            state.counts.loans += 1
            state.lent.append(range)
        }
        return LentBytes(
            descriptor: descriptor, range: range, owner: Loan { [self] in count { $0.loans -= 1 } })
    }

    func abandon(_ read: any ParkedRead, of file: any FileHandle) {
        state.withLock { state in
            if state.parked.removeValue(forKey: ObjectIdentifier(read)) != nil { state.counts.waiting -= 1 }
        }
    }

    func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        completion(folder.map { .success($0) } ?? .failure(.notDirectory))
    }

    func capacity() -> Capacity { Capacity(total: 1 << 30, used: 1 << 20) }
    func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError> { .failure(.noAttribute) }
    func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError> { .success([]) }
}
