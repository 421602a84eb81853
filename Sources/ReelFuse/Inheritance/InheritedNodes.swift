import ReelFilesystem
import ReelThreads

/// The nodes that the kernel has from an earlier process, and where they lead in the filesystem of this one.
///
/// The filesystem finds a node by its path, when the kernel first names it. Its references of the node are this
/// object's, and go with the kernel's last.
final class InheritedNodes: Sendable {
    enum Place {
        /// The number in the filesystem.
        case found(NodeID)
        /// To be looked up by this name, in the directory of this number of the kernel's.
        case asked(String, in: NodeID)
        /// Another call looks it up.
        case waiting
        case unknown
    }

    fileprivate enum Way: Sendable {
        case unknown
        case asked([Completion<NodeID>])
        case found(NodeID)
        case gone
    }

    fileprivate struct Row: Sendable {
        let node: Inheritance.Node
        /// The kernel's.
        var references: UInt64
        /// References that the filesystem has counted.
        var counted: UInt64 = 0
        var way = Way.unknown
    }

    fileprivate struct Child: Hashable, Sendable {
        let parent: NodeID
        let name: [UInt8]

        init(_ name: String, in parent: NodeID) { (self.parent, self.name) = (parent, Array(name.utf8)) }
    }

    fileprivate struct State: Sendable {
        var rows: [NodeID: Row] = [:]
        var children: [Child: NodeID] = [:]
        /// The kernel's number of a node of the filesystem.
        var numbers: [NodeID: NodeID] = [:]
    }

    private let state = Lock(State())
    /// The epoch of this process.
    private let epoch: UInt64

    init(_ nodes: [Inheritance.Node], epoch: UInt64) {
        self.epoch = epoch
        state.withLock { state in
            for node in nodes {
                state.rows[node.number] = Row(node: node, references: node.references)
                state.children[Child(node.name, in: node.parent)] = node.number
            }
        }
    }

    // MARK: From the kernel

    /// - Parameter completion: is kept, and called by `looked`, where the place is asked for or waits.
    func place(of node: NodeID, _ completion: @escaping Completion<NodeID>) -> Place {
        if node == rootNode { return .found(node) }
        return state.withLock { state in
            guard let row = state.rows[node] else {
                return isOwn(node) ? .found(KernelNumber.plain(node)) : .unknown
            }
            switch row.way {
            case .found(let node): return .found(node)
            case .gone: return .unknown
            case .asked(let others):
                state.rows[node]?.way = .asked(others + [completion])
                return .waiting
            case .unknown:
                state.rows[node]?.way = .asked([completion])
                return .asked(row.node.name, in: row.node.parent)
            }
        }
    }

    /// Like `place`, without a lookup.
    func known(_ node: NodeID) -> NodeID? {
        if node == rootNode { return node }
        return state.withLock { state in
            guard let row = state.rows[node] else {
                return isOwn(node) ? KernelNumber.plain(node) : nil
            }
            if case .found(let node) = row.way { return node }
            return nil
        }
    }

    /// The lookup that `place` wanted has ended, with one reference of the filesystem's where it found a node.
    /// - Returns: those that waited, and what they get; a reference to give back.
    func looked(
        _ node: NodeID, _ result: Result<NodeID, VolumeError>
    ) -> (waiting: [Completion<NodeID>], result: Result<NodeID, VolumeError>, surplus: NodeID?) {
        state.withLock { state in
            let found = try? result.get()
            guard let row = state.rows[node] else { return ([], .failure(.stale), found) }
            switch row.way {
            case .found(let now): return ([], .success(now), found)
            case .gone: return ([], .failure(.stale), found)
            case .unknown, .asked:
                var waiting: [Completion<NodeID>] = []
                if case .asked(let others) = row.way { waiting = others }
                if let found {
                    state.rows[node]?.counted += 1
                    state.numbers[found] = node
                    state.rows[node]?.way = .found(found)
                } else {
                    // A source that cannot be reached now may be there at the next call.
                    state.rows[node]?.way = result == .failure(.stale) ? .gone : .unknown
                }
                return (waiting, result, nil)
            }
        }
    }

    /// The kernel has given references back.
    /// - Returns: those that the filesystem is to be given; calls that waited for the node, which is gone.
    func forget(
        _ node: NodeID, _ count: UInt64
    ) -> (given: (node: NodeID, count: UInt64)?, waiting: [Completion<NodeID>]) {
        state.withLock { state in
            guard let row = state.rows[node] else {
                return (isOwn(node) ? (KernelNumber.plain(node), count) : nil, [])
            }
            guard count >= row.references else {
                state.rows[node]?.references -= count
                return (nil, [])
            }
            // A lookup that is under way finds no row, and gives its reference back.
            state.rows[node] = nil
            let child = Child(row.node.name, in: row.node.parent)
            if state.children[child] == node { state.children[child] = nil }
            switch row.way {
            case .found(let found):
                state.numbers[found] = nil
                return ((found, row.counted), [])
            case .asked(let waiting): return (nil, waiting)
            case .unknown, .gone: return (nil, [])
            }
        }
    }

    // MARK: To the kernel

    /// The kernel's number of a node of the filesystem; nil where the filesystem has too many.
    func number(of node: NodeID) -> NodeID? {
        state.withLock { $0.numbers[node] } ?? KernelNumber.node(node, epoch)
    }

    /// The number of a child that the kernel has from earlier and that has not been found yet.
    func missing(_ name: String, in parent: NodeID) -> NodeID? {
        state.withLock { $0.missing(name, in: parent) }
    }

    /// The kernel is about to get a node, with a reference that the filesystem has counted.
    /// - Returns: its number; nil if the filesystem has too many.
    func tell(_ node: NodeID) -> NodeID? { state.withLock { $0.tell(node, epoch) } }

    /// Like `tell`, of an item in a directory. - Returns: nil also if the kernel has another number of the item that
    ///   has not been looked up yet: its lookup holds a reference of the node, and proves a file's version.
    func tell(_ item: DirectoryItem, _ node: NodeID, in parent: NodeID) -> NodeID? {
        state.withLock { $0.missing(item.name, in: parent) == nil ? $0.tell(node, epoch) : nil }
    }

    /// The kernel did not get it, and the filesystem has not counted it. - Parameter number: the kernel's.
    func untell(_ number: NodeID) {
        state.withLock { state in
            if state.rows[number] == nil { return }
            state.rows[number]?.references -= 1
            state.rows[number]?.counted -= 1
        }
    }

    /// The generation under which the kernel has a number.
    func generation(of number: NodeID) -> UInt64 {
        if isOwn(number) { return KernelNumber.generation(of: epoch) }
        return state.withLock { $0.rows[number]?.node.generation ?? 0 }
    }

    /// Whether this process has given a number of the kernel's.
    private func isOwn(_ number: NodeID) -> Bool { KernelNumber.mark(ofNode: number) == KernelNumber.mark(of: epoch) }

    /// The directory and the name of a node that the kernel has from earlier.
    func place(of node: NodeID) -> NodePlace? {
        state.withLock { state in
            state.rows[node].map {
                NodePlace(parent: $0.node.parent, name: $0.node.name, isDirectory: $0.node.isDirectory)
            }
        }
    }
}

extension InheritedNodes.State {
    fileprivate func missing(_ name: String, in parent: NodeID) -> NodeID? {
        guard let node = children[InheritedNodes.Child(name, in: parent)] else { return nil }
        switch rows[node]?.way {
        case .unknown, .asked: return node
        case .found, .gone, nil: return nil
        }
    }

    fileprivate mutating func tell(_ node: NodeID, _ epoch: UInt64) -> NodeID? {
        guard let number = numbers[node] else { return KernelNumber.node(node, epoch) }
        rows[number]?.references += 1
        rows[number]?.counted += 1
        return number
    }
}
