import NIOCore
import ReelCore
import ReelFilesystem
import ReelThreads

/// The filesystem, as tasks call it.
struct ServedTree: Sendable {
    let filesystem: any Filesystem

    /// The nodes on the way to an entry, and what the last one is. A file knows its folder only while that is held, so
    /// all of them are given back together, with `forget`.
    struct Place: Sendable {
        fileprivate(set) var nodes: [NodeID] = []
        var attributes: Attributes
        var node: NodeID { nodes.last ?? rootNode }
    }

    /// The entry to which names lead from the root.
    func find(_ names: [String]) async throws(VolumeError) -> Place {
        var place = Place(attributes: try await call { filesystem.attributes(of: rootNode, $0) })
        do throws(VolumeError) {
            for name in names {
                let parent = place.node
                let entry = try await call {
                    filesystem.lookup(name, in: parent, $0)
                } undo: {
                    filesystem.forget($0.node, count: 1)
                }
                place.nodes.append(entry.node)
                place.attributes = entry.attributes
            }
        } catch {
            forget(place)
            throw error
        }
        return place
    }

    /// What a member of a folder is, after a request where no listing says it.
    func attributes(of name: String, in folder: NodeID) async throws(VolumeError) -> Attributes {
        let forget = { @Sendable (entry: Entry) in filesystem.forget(entry.node, count: 1) }
        let entry = try await call({ filesystem.lookup(name, in: folder, $0) }, undo: forget)
        forget(entry)
        return entry.attributes
    }

    func forget(_ place: Place) {
        for node in place.nodes.reversed() { filesystem.forget(node, count: 1) }
    }

    /// Where a link leads, from its folder.
    func target(of node: NodeID) async throws(VolumeError) -> String {
        try await call { filesystem.readLink(node, $0) }
    }

    /// Close it with `Filesystem.close`.
    func open(_ node: NodeID) async throws(VolumeError) -> any FileHandle {
        try await call {
            filesystem.open(node, $0)
        } undo: {
            filesystem.close($0)
        }
    }

    /// A folder as it is now.
    func directory(_ node: NodeID) async throws(VolumeError) -> any DirectoryHandle {
        try await call { filesystem.openDirectory(node, $0) }
    }

    /// Reads at most `count` bytes into `buffer`, whose contents go; none only at the end of the file.
    func read(
        _ file: any FileHandle, _ offset: Int64, count: Int, into buffer: inout ByteBuffer
    ) async throws(VolumeError) {
        buffer.clear()
        var parked: WaitingRead?
        var answer = ReadAnswer.failed(.failed)
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { memory in
            let memory = UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
            answer = filesystem.read(file, offset: offset, into: memory) {
                let read = WaitingRead()
                parked = read
                return read
            }
            if case .read(let count) = answer { return count }
            return 0
        }
        switch answer {
        case .read: break
        case .failed(let error): throw error
        case .parked:
            guard let parked else { throw .failed }
            let bytes = try await parked.bytes.value { filesystem.abandon(parked, of: file) }
            buffer.writeBytes(bytes)
        }
    }

    /// - Parameter undo: takes back a success that comes after the task was cancelled.
    private func call<Value: Sendable>(
        _ start: (@escaping Completion<Value>) -> Void, undo: @escaping @Sendable (Value) -> Void = { _ in }
    ) async throws(VolumeError) -> Value {
        let waiting = Waiting<Value>()
        start { result in
            if !waiting.end(result), case .success(let value) = result { undo(value) }
        }
        return try await waiting.value()
    }
}
