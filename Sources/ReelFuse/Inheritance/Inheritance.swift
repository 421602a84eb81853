import ReelCore
import ReelFilesystem

/// What the kernel holds of a mount, in the kernel's numbers, for the process that serves the mount next.
///
/// Directories and open files only. A node of another file is unknown to that process, which answers ESTALE: the
/// kernel then looks its path up again, and programs see nothing of it (ESTALE in path_openat, Linux' fs/namei.c).
package struct Inheritance: Codable, Sendable {
    /// A directory, or a file that is open.
    struct Node: Codable, Sendable {
        var number: NodeID
        /// The count of the kernel's references; 0 where only a node below it is held.
        var references: UInt64
        /// The directory's number.
        var parent: NodeID
        var name: String
        var isDirectory: Bool
        /// The generation under which the kernel has the number; nil means 0, as earlier versions of the program leave
        /// it.
        var generation: UInt64?
    }

    /// Distinguishes one version of a file from another.
    struct Version: Codable, Sendable, Equatable {
        /// nil also where the kernel has another one of the node, which nobody may have from the next process.
        var length: Int64?
        var entityTag: String?
        var modified: Int64?
        /// nil also where an earlier version of the program has left it.
        var resource: UInt64?

        init(_ file: any FileHandle) {
            (length, modified) = (file.isLengthShown ? file.length : nil, file.modified)
            (entityTag, resource) = (file.entityTag?.header, file.resource)
        }

        /// Whether it may be the same. Where an origin names no versions, one length says little of two resources.
        func agrees(with other: Version) -> Bool {
            var other = other
            if resource == nil || other.resource == nil { other.resource = resource }
            return self == other
        }
    }

    struct File: Codable, Sendable {
        /// The kernel's number of the handle (`fuse_file_info.fh`).
        var number: UInt64
        var node: NodeID
        var version: Version
    }

    struct Directory: Codable, Sendable {
        /// Like `File.number`.
        var number: UInt64
        var node: NodeID
        /// All of it, in order, where the kernel may have read a part; else nil.
        var items: [Item]?
    }

    /// An item of a directory.
    struct Item: Codable, Sendable {
        var name: String
        /// The offset of the item after this one.
        var nextOffset: Int
    }

    /// How the opens of a node read.
    struct Mode: Codable, Sendable {
        var node: NodeID
        var opens: Int
        /// nil if the filesystem serves them.
        var backing: OpenModes.Backing?
    }

    var nodes: [Node] = []
    var files: [File] = []
    var directories: [Directory] = []
    var modes: [Mode] = []
    /// The kernel's INIT request.
    var handshake: [UInt8] = []
    /// The kernel agreed to passthrough.
    var isPassthrough = false
    /// Counts the processes that served the mount; see `KernelNumber`.
    var epoch: UInt64 = 0

    /// The epoch of the process that takes it over: the first one whose mark no number here bears, if there is one.
    var nextEpoch: UInt64 {
        let handles = files.map(\.number) + directories.map(\.number)
        let used = Set(
            handles.map { KernelNumber.mark(ofHandle: $0) } + nodes.map { KernelNumber.mark(ofNode: $0.number) })
        // Numbers without a mark are those of the first process.
        let later = (1...KernelNumber.marks).map { epoch + $0 }.filter { KernelNumber.mark(of: $0) != 0 }
        return later.first { !used.contains(KernelNumber.mark(of: $0)) } ?? later[0]
    }
}

extension Inheritance {
    fileprivate static func items(of directory: any DirectoryHandle) -> [Item] {
        if let earlier = (directory as? InheritedDirectory)?.earlier { return earlier }
        var items: [Item] = []
        directory.items(from: 0, withAttributes: false) { item in
            items.append(Item(name: item.name, nextOffset: item.nextOffset))
            return true
        }
        return items
    }
}

extension Adapter {
    /// All that the kernel holds.
    func left() -> Inheritance {
        var result = Inheritance()
        result.epoch = epoch
        passthrough.leave(&result)
        let held = holdings.all
        var rows: [NodeID: Inheritance.Node] = [:]
        func add(_ node: NodeID) {
            var node = node
            // The node and the folders above it.
            while node != rootNode, rows[node] == nil, let place = filesystem.place(of: node) {
                rows[node] = Inheritance.Node(
                    number: node, references: 0, parent: place.parent, name: place.name, isDirectory: place.isDirectory,
                    generation: generation(of: node))
                node = place.parent
            }
        }
        for node in Set(held.files.values) { add(node) }
        held.nodes.forEach { node, count in
            if rows[node] == nil, filesystem.place(of: node)?.isDirectory == true { add(node) }
            rows[node]?.references = count
        }
        result.nodes = Array(rows.values)
        result.files = held.files.compactMap { number, node in
            file(number).map { box in
                let handle = box.takeUnretainedValue().handle
                let version = (handle as? InheritedFile)?.version ?? Inheritance.Version(handle)
                return Inheritance.File(number: number, node: node, version: version)
            }
        }
        result.directories = held.directories.map { number, directory in
            let handle = directory.isPartRead ? self.directory(number)?.takeUnretainedValue().handle : nil
            return Inheritance.Directory(
                number: number, node: directory.node, items: handle.map { Inheritance.items(of: $0) })
        }
        return result
    }

    /// The generation under which the kernel has a number; see `KernelNumber`.
    func generation(of node: NodeID) -> UInt64 { inherited?.nodes.generation(of: node) ?? 0 }
}

/// The numbers by which the kernel names nodes and handles. Each process that serves a mount has an epoch, one above
/// that of the process before it or a few more, and marks the numbers that it gives, so that they differ from those
/// that the kernel has from earlier processes; 0 is the first, whose numbers are the filesystem's and its own.
///
/// A mark comes again after 63 processes, and the kernel may still remember files that no `Inheritance` lists. So each
/// number has a generation (`fuse_entry_param`), and the kernel drops an inode of another generation with its pages
/// (fuse_stale_inode, Linux' fs/fuse/fuse_i.h).
enum KernelNumber {
    static let marks: UInt64 = 64
    /// In a node's number, the highest bits of its slot (`NodeTable`): 64 million nodes are left.
    private static let nodeShift: UInt64 = 26
    private static let nodeMask = (marks - 1) << nodeShift
    /// In a handle's number, which is an address, bits that no address of a process has.
    private static let handleShift: UInt64 = 48

    static func mark(of epoch: UInt64) -> UInt64 { epoch % marks }
    static func generation(of epoch: UInt64) -> UInt64 { epoch / marks }

    static func mark(ofNode node: NodeID) -> UInt64 { (node & nodeMask) >> nodeShift }

    /// The kernel's number of the filesystem's node; nil where it has too many.
    static func node(_ node: NodeID, _ epoch: UInt64) -> NodeID? {
        if node == rootNode { return node }
        return node & nodeMask == 0 ? node | mark(of: epoch) << nodeShift : nil
    }

    /// The filesystem's number of the kernel's node.
    static func plain(_ node: NodeID) -> NodeID { node & ~nodeMask }

    static func mark(ofHandle number: UInt64) -> UInt64 { number >> handleShift }
    static func handle(_ address: UInt64, _ epoch: UInt64) -> UInt64 { address | mark(of: epoch) << handleShift }
    static func address(_ handle: UInt64) -> UInt64 { handle & (1 << handleShift - 1) }
}
