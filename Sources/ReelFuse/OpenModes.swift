import ReelVolume

/// How the opens of each node read: served by the filesystem, or by the kernel from a backing file.
///
/// The kernel refuses (EIO) a served open and a passthrough one of a node at the same time, and two backing files as
/// well, so the first open decides for all that come before the last is closed:
///
///     none ──open, nothing offered, or registering failed──▶ served ──last close──▶ none
///       └──open, offered──▶ register ──▶ passthrough(file) ──last close──▶ none, the registration ends
///
/// A live mapping of a served file keeps it open: its release comes with the mapping's end.
struct OpenModes {
    /// A file that the kernel has taken, under the number it gave.
    struct Backing: Equatable {
        var number: Int32
        var file: FileIdentity
    }

    enum Decision: Equatable {
        case served
        /// Make the kernel take the offered file and say so by `registered`, with nothing in between.
        case register
        case passthrough(Backing)
        /// The node is read from another file than the one offered: neither way is open.
        case stale
    }

    private struct Node {
        var opens: Int
        /// nil: served.
        var backing: Backing?
    }

    private var nodes: [NodeID: Node] = [:]
    private var passthroughs = 0

    /// True while some node is in passthrough, and further opens of it must offer its file.
    var hasPassthrough: Bool { passthroughs > 0 }
    var openNodes: Int { nodes.count }

    func isPassthrough(_ id: NodeID) -> Bool { nodes[id]?.backing != nil }

    /// - Parameter offer: the file behind this open; nil where there is none or passthrough is not possible.
    mutating func open(_ id: NodeID, offer: FileIdentity?) -> Decision {
        guard let node = nodes[id] else {
            if offer != nil { return .register }
            nodes[id] = Node(opens: 1)
            return .served
        }
        if let backing = node.backing, backing.file != offer { return .stale }
        nodes[id]!.opens += 1
        return node.backing.map { .passthrough($0) } ?? .served
    }

    /// What `register` came to. - Parameter backing: nil where the kernel refused; the node is served then.
    mutating func registered(_ id: NodeID, _ backing: Backing?) {
        precondition(nodes[id] == nil, "only a node without opens is decided on")
        nodes[id] = Node(opens: 1, backing: backing)
        if backing != nil { passthroughs += 1 }
    }

    /// One open of the node is gone. - Returns: the registration that ends with it.
    mutating func close(_ id: NodeID) -> Backing? {
        guard var node = nodes[id] else { return nil }
        node.opens -= 1
        if node.opens > 0 {
            nodes[id] = node
            return nil
        }
        nodes[id] = nil
        if node.backing != nil { passthroughs -= 1 }
        return node.backing
    }
}

/// What says that two descriptors are of one file.
struct FileIdentity: Hashable {
    var device: UInt64
    var inode: UInt64
}
