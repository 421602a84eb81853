import ReelFilesystem
import ReelThreads

/// What the kernel holds of a filesystem through one session: references to nodes, and open handles.
///
/// The kernel gives nothing back at the end of a mount, and the filesystem may live on through other sessions.
final class Holdings: Sendable {
    struct State: Sendable {
        var nodes = NodeCounts()
        /// The node of each handle, by the kernel's number of it.
        var files: [UInt64: NodeID] = [:]
        var directories: [UInt64: Directory] = [:]
    }

    struct Directory: Sendable {
        var node: NodeID
        /// The kernel may ask for items behind others that it has.
        var isPartRead: Bool
        /// `DirectoryHandle.listing`.
        var listing: ObjectIdentifier?
        /// The kernel keeps what it reads through the handle, for all that it may keep.
        var isKept = true
    }

    private let state = Lock(State())

    /// - Parameter inheritance: what the kernel holds already.
    init(_ inheritance: Inheritance? = nil) {
        guard let inheritance else { return }
        state.withLock { state in
            for node in inheritance.nodes where node.references > 0 { state.nodes.add(node.number, node.references) }
            for file in inheritance.files { state.files[file.number] = file.node }
            for directory in inheritance.directories {
                state.directories[directory.number] = Directory(
                    node: directory.node, isPartRead: directory.items != nil)
            }
        }
    }

    /// The kernel is about to get a node, with one reference.
    func add(_ node: NodeID) { state.withLock { $0.nodes.add(node) } }

    /// The kernel is about to get items of a directory, or the empty end. - Parameter nodes: of the items, each with
    /// one reference.
    func add(_ nodes: [NodeID], of directory: UInt64, isPartRead: Bool) {
        state.withLock { state in
            for node in nodes { state.nodes.add(node) }
            state.directories[directory]?.isPartRead = isPartRead
        }
    }

    /// The kernel has given references back. Called before the filesystem learns it, which may use the number again.
    func remove(_ node: NodeID, _ count: UInt64) { state.withLock { $0.nodes.remove(node, count) } }

    /// The kernel is about to get a file's handle.
    func add(file: UInt64, _ node: NodeID) { state.withLock { $0.files[file] = node } }

    /// The kernel has released a file, or has not taken it.
    func remove(file: UInt64) { state.withLock { $0.files[file] = nil } }

    /// The kernel is about to get a directory's handle.
    /// - Returns: whether the kernel may keep what it reads through it. It keeps one sequence of names for a directory,
    ///   to which each handle adds at its offset: names of two listings would be mixed.
    func add(directory: UInt64, _ node: NodeID, _ handle: any DirectoryHandle) -> Bool {
        let (isPartRead, listing) = (handle.isHeldByKernel, handle.listing)
        return state.withLock { state in
            let isKept = state.directories.values.allSatisfy { other in
                other.node != node || !other.isKept || listing != nil && other.listing == listing
            }
            state.directories[directory] = Directory(
                node: node, isPartRead: isKept && isPartRead, listing: listing, isKept: isKept)
            return isKept
        }
    }

    /// The kernel has released a directory, or has not taken it.
    func remove(directory: UInt64) { state.withLock { $0.directories[directory] = nil } }

    /// What the kernel holds now.
    var all: State { state.withLock { $0 } }

    /// Gives all that is left back, after the last request.
    func giveBack(_ adapter: Adapter) {
        let left = state.withLock { state in
            defer { state = State() }
            return state
        }
        for number in left.files.keys {
            if let box = adapter.file(number) { adapter.filesystem.close(box.takeRetainedValue().handle) }
        }
        for number in left.directories.keys { adapter.directory(number)?.release() }
        left.nodes.forEach { adapter.filesystem.forget($0, count: $1) }
    }
}
