import ReelFilesystem

/// How the opens of each node read: served by the filesystem, or by the kernel from a backing file.
///
/// The kernel refuses (EIO) a served open and a passthrough one of a node at the same time, and two backing files as
/// well, so the first open decides for all opens before the last close:
///
///     none ──open, nothing offered, or registering failed──▶ served ──last close──▶ none
///       └──open, offered──▶ register ──▶ passthrough(file) ──last close──▶ none, the registration ends
///
/// A process that takes a mount over goes on with the modes of the one before, and has yet to verify their files: there
/// an open without an offer joins a passthrough.
///
/// A live mapping of a served file keeps it open: its release comes when the mapping ends.
struct OpenModes {
    enum Opening: Equatable {
        case served
        /// Read from the backing file of that number.
        case backed(Int32)
        /// Neither is possible: the node is read from another file than the offered one.
        case stale
    }

    private struct Opens {
        var count: Int
        /// The file that the kernel has taken, and the number that it gave, nil if served.
        var backing: Backing?
        /// An earlier process had the file registered, after it had verified all of it.
        var isInherited = false
    }

    /// A file that the kernel reads itself.
    struct Backing: Codable, Sendable {
        /// The kernel's number of it.
        var number: Int32
        var file: FileIdentity
    }

    private var nodes: [NodeID: Opens] = [:]
    private var passthroughs = 0

    /// Whether some node is in passthrough, so that further opens of it must offer its file.
    var hasPassthrough: Bool { passthroughs > 0 }
    var openNodes: Int { nodes.count }

    func isPassthrough(_ id: NodeID) -> Bool { nodes[id]?.backing != nil }

    /// Counts one open of the node and decides how it reads.
    /// - Parameters:
    ///   - offer: the file behind this open; nil where there is none or passthrough is not possible.
    ///   - register: makes the kernel take the offered file. Returns its number; nil where the kernel refused, and the
    ///     node is served.
    mutating func open(_ id: NodeID, offer: FileIdentity?, register: () -> Int32?) -> Opening {
        guard let opens = nodes[id] else {
            let backing = offer.flatMap { file in register().map { Backing(number: $0, file: file) } }
            nodes[id] = Opens(count: 1, backing: backing)
            if backing != nil { passthroughs += 1 }
            return backing.map { .backed($0.number) } ?? .served
        }
        if let backing = opens.backing, backing.file != offer, offer != nil || !opens.isInherited { return .stale }
        nodes[id]!.count += 1
        return opens.backing.map { .backed($0.number) } ?? .served
    }

    /// What the opens of each node are.
    var all: [Inheritance.Mode] {
        nodes.map { Inheritance.Mode(node: $0.key, opens: $0.value.count, backing: $0.value.backing) }
    }

    /// Takes over the opens of an earlier process.
    mutating func inherit(_ modes: [Inheritance.Mode]) {
        for mode in modes where mode.opens > 0 {
            nodes[mode.node] = Opens(count: mode.opens, backing: mode.backing, isInherited: true)
            if mode.backing != nil { passthroughs += 1 }
        }
    }

    /// One open of the node has ended. - Returns: the number of the registration that ends with it.
    mutating func close(_ id: NodeID) -> Int32? {
        guard let opens = nodes[id] else { return nil }
        nodes[id]!.count -= 1
        guard opens.count == 1 else { return nil }
        nodes[id] = nil
        if opens.backing != nil { passthroughs -= 1 }
        return opens.backing?.number
    }
}

/// Equal for two descriptors of one file.
struct FileIdentity: Hashable, Codable, Sendable {
    var device: UInt64
    var inode: UInt64
}
