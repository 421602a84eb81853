import ReelCore
import ReelVolume

/// A tree without a network, behind `--demo`: tries the whole path from the command line to the kernel.
final class DemoFilesystem: Filesystem {
    private let socketPath: String

    init(socketPath: String) { self.socketPath = socketPath }

    private struct Handle {
        final class File: FileHandle {
            let bytes: [UInt8]
            let wantsDirectIO = false
            init(_ bytes: [UInt8]) { self.bytes = bytes }
        }
        final class Directory: DirectoryHandle {
            let list: [DirectoryItem]
            init(_ list: [DirectoryItem]) { self.list = list }
            func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
                for item in list.dropFirst(offset) where !add(item) { return }
            }
        }
    }

    private static let node: NodeID = 2
    private static let name = "hello.txt"
    private static let bytes = Array("Remote media as ordinary files.\n".utf8)

    private static func attributes(_ node: NodeID) -> Attributes {
        Attributes(
            inode: node, isDirectory: node == rootNode, length: node == rootNode ? 0 : Int64(bytes.count),
            cachedBytes: node == rootNode ? 0 : Int64(bytes.count), modified: 1_000_000_000)
    }

    func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        guard parent == rootNode, name == Self.name else { return completion(.failure(.notFound)) }
        completion(.success(Entry(node: Self.node, attributes: Self.attributes(Self.node))))
    }

    func forget(_ node: NodeID, count: UInt64) {}

    func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>) {
        completion(.success(Self.attributes(node)))
    }

    func open(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        completion(node == Self.node ? .success(Handle.File(Self.bytes)) : .failure(.isDirectory))
    }

    func close(_ file: any FileHandle) {}

    func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        guard let file = file as? Handle.File, offset < file.bytes.count else { return .read(0) }
        let part = file.bytes[Int(offset)...].prefix(buffer.count)
        buffer.copyBytes(from: part)
        return .read(part.count)
    }

    func abandon(_ read: any ParkedRead, of file: any FileHandle) {}

    func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        guard node == rootNode else { return completion(.failure(.notDirectory)) }
        let item = DirectoryItem(name: Self.name, inode: Self.node, isDirectory: false, nextOffset: 1, entry: nil)
        completion(.success(Handle.Directory([item])))
    }

    func capacity() -> Capacity { Capacity(total: 1 << 30, used: Int64(Self.bytes.count)) }

    func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError> {
        guard node == rootNode, name == "user.reelfs.socket" else { return .failure(.noAttribute) }
        return .success(Array(socketPath.utf8))
    }

    func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError> {
        .success(node == rootNode ? ["user.reelfs.socket"] : [])
    }

    func status() -> VolumeStatus {
        VolumeStatus(
            cacheUsed: Int64(Self.bytes.count), cacheCap: 1 << 30, bytesFromOrigin: 0, bytesServed: 0, hits: 0,
            misses: 0,
            files: [
                VolumeStatus.File(
                    path: Self.name, length: Int64(Self.bytes.count), cachedBytes: Int64(Self.bytes.count),
                    openHandles: 0,
                    rate: 0)
            ])
    }
}
