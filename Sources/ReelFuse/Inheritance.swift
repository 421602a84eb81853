import ReelCore
import ReelVolume

/// What the kernel holds of a mount, in the kernel's numbers, for the process that serves the mount next.
///
/// Directories and open files only. A node of another file is unknown to that process, which answers ESTALE: the
/// kernel then looks its path up anew, and programs see nothing of it (ESTALE in path_openat, Linux' fs/namei.c).
package struct Inheritance: Codable, Sendable {
    /// A directory, or a file that is open.
    struct Node: Codable, Sendable {
        var number: NodeID
        /// Of the kernel's references; 0 where only a node below it is held.
        var references: UInt64
        /// The directory's number.
        var parent: NodeID
        var name: String
        var isDirectory: Bool
    }

    /// What tells one version of a file from another.
    struct Version: Codable, Sendable, Equatable {
        var length: Int64?
        var entityTag: String?
        var modified: Int64?

        init(_ file: any FileHandle) {
            (length, modified) = (file.length, file.modified)
            entityTag = file.entityTag?.header
        }
    }

    struct File: Codable, Sendable {
        /// The kernel's number of the handle (`fuse_file_info.fh`).
        var number: UInt64
        var node: NodeID
        var version: Version
    }

    struct Directory: Codable, Sendable {
        /// As `File.number`.
        var number: UInt64
        var node: NodeID
    }

    /// How the opens of a node read.
    struct Mode: Codable, Sendable {
        var node: NodeID
        var opens: Int
        /// nil: the filesystem serves them.
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
    /// In the numbers that its process gave; see `KernelNumber`.
    var epoch: UInt64 = 0

    /// The epoch of the process that takes it over: one of which the kernel holds no number, if there is one.
    var nextEpoch: UInt64 {
        let handles = files.map(\.number) + directories.map(\.number)
        let used = Set(
            handles.map { KernelNumber.epoch(ofHandle: $0) } + nodes.map { KernelNumber.epoch(of: $0.number) })
        let later = (1..<KernelNumber.epochs).map { (epoch % KernelNumber.epochs + $0) % KernelNumber.epochs }.filter {
            $0 != 0
        }
        return later.first { !used.contains($0) } ?? later[0]
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
        func add(_ node: NodeID, _ place: NodePlace) {
            guard node != rootNode, rows[node] == nil else { return }
            rows[node] = Inheritance.Node(
                number: node, references: 0, parent: place.parent, name: place.name, isDirectory: place.isDirectory)
            if let above = filesystem.place(of: place.parent) { add(place.parent, above) }
        }
        for node in Set(held.files.values) {
            if let place = filesystem.place(of: node) { add(node, place) }
        }
        held.nodes.forEach { node, count in
            if rows[node] == nil, let place = filesystem.place(of: node), place.isDirectory { add(node, place) }
            rows[node]?.references = count
        }
        result.nodes = Array(rows.values)
        result.files = held.files.compactMap { number, node in
            file(number).map { box in
                let handle = box.takeUnretainedValue().handle
                let version = (handle as? InheritedFile)?.inherited.version ?? Inheritance.Version(handle)
                return Inheritance.File(number: number, node: node, version: version)
            }
        }
        result.directories = held.directories.map { Inheritance.Directory(number: $0, node: $1) }
        return result
    }
}

/// The numbers by which the kernel names nodes and handles. Each process that serves a mount marks those that it gives
/// with its epoch, so that they differ from those that the kernel has from an earlier one; 0 is the first, whose
/// numbers are the filesystem's and its own.
enum KernelNumber {
    static let epochs: UInt64 = 64
    /// In a node's number, the highest bits of its slot (`NodeTable`): 64 million nodes are left.
    private static let nodeShift: UInt64 = 26
    private static let nodeMask = (epochs - 1) << nodeShift
    /// In a handle's number, which is an address, bits that no address of a process has.
    private static let handleShift: UInt64 = 48

    static func epoch(of node: NodeID) -> UInt64 { (node & nodeMask) >> nodeShift }

    /// The kernel's number of the filesystem's node; nil where it has too many.
    static func node(_ node: NodeID, _ epoch: UInt64) -> NodeID? {
        if node == rootNode { return node }
        return node & nodeMask == 0 ? node | epoch << nodeShift : nil
    }

    /// The filesystem's number of the kernel's node.
    static func plain(_ node: NodeID) -> NodeID { node & ~nodeMask }

    static func epoch(ofHandle number: UInt64) -> UInt64 { number >> handleShift }
    static func handle(_ address: UInt64, _ epoch: UInt64) -> UInt64 { address | epoch << handleShift }
    static func address(_ handle: UInt64) -> UInt64 { handle & (1 << handleShift - 1) }
}
