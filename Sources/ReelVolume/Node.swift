import ReelCore
import ReelSources
import Synchronization

/// One version of one path, as the kernel knows it.
final class Node: Sendable {
    let id: NodeID
    let parent: NodeID
    let name: String
    let inode: UInt64
    let url: ResourceURL?
    let isDirectory: Bool
    let directory: Directory?
    /// What the listing said when the node was made.
    let listed: Facts
    let state: Mutex<State>

    /// Length in bytes, date in seconds since 1970; nil where not told exactly.
    struct Facts: Equatable, Sendable {
        var length: Int64?
        var modified: Int64?
    }

    struct State {
        /// What the kernel has been told; a node is never told another version.
        var information: ContentInformation?
        /// The path leads to another node now.
        var isSuperseded = false
        /// While an open asks the origin, others wait for its outcome.
        var opening: [Completion<any FileHandle>]?
        var growing: GrowingFile?
    }

    init(
        id: NodeID, parent: NodeID, name: String, inode: UInt64, url: ResourceURL?, isDirectory: Bool, listed: Facts
    ) {
        self.id = id
        self.parent = parent
        self.name = name
        self.inode = inode
        self.url = url
        self.isDirectory = isDirectory
        self.listed = listed
        directory = isDirectory ? Directory(url) : nil
        state = Mutex(State())
    }

    /// The length that the kernel is told; nil where only a request can tell.
    var length: Int64? {
        state.withLock { state in
            if let information = state.information { return information.length }
            return listed.length
        }
    }
}

/// The nodes that the kernel knows, each with the count of its references.
final class NodeTable: Sendable {
    fileprivate struct Place: Hashable {
        var parent: NodeID
        var name: ExactText

        init(_ parent: NodeID, _ name: String) {
            self.parent = parent
            self.name = ExactText(name)
        }
    }

    fileprivate struct Slot {
        var node: Node
        var references: UInt64
    }

    fileprivate struct State {
        var slots: [NodeID: Slot] = [:]
        var current: [Place: NodeID] = [:]
        var next: NodeID = rootNode + 1
    }

    private let state = Mutex(State())

    init(root: Node) { state.withLock { $0.slots[rootNode] = Slot(node: root, references: 1) } }

    subscript(_ id: NodeID) -> Node? { state.withLock { $0.slots[id]?.node } }

    /// The node of a listing's entry, with one reference more: the current one while it is of the same resource and
    /// the listing says nothing else about it, else a new one that takes its place.
    /// - Parameter facts: what is known of the entry's length and date, the listing's or better.
    func node(for entry: SourceEntry, _ facts: Node.Facts, in parent: Node) -> Node {
        let candidate = current(entry.name, in: parent.id)
        let isStill = candidate?.isStill(entry, facts) ?? false
        return state.withLock { state in
            let place = Place(parent.id, entry.name)
            if let id = state.current[place], let slot = state.slots[id], slot.node !== candidate || isStill {
                state.slots[id]!.references += 1
                return slot.node
            }
            let node = Node(
                id: state.next, parent: parent.id, name: entry.name,
                inode: inodeNumber(of: entry.name, in: parent.inode), url: entry.url, isDirectory: entry.isDirectory,
                listed: facts)
            state.next += 1
            state.slots[node.id] = Slot(node: node, references: 1)
            state.current[place] = node.id
            return node
        }
    }

    /// The node that the kernel knows for this name, if any.
    func current(_ name: String, in parent: NodeID) -> Node? {
        state.withLock { state in
            state.current[Place(parent, name)].flatMap { state.slots[$0]?.node }
        }
    }

    /// From here on the name leads to a new node.
    func supersede(_ node: Node) {
        node.state.withLock { $0.isSuperseded = true }
        state.withLock { $0.leave(Place(node.parent, node.name), node.id) }
    }

    func forget(_ id: NodeID, count: UInt64) {
        guard id != rootNode else { return }
        state.withLock { state in
            guard var slot = state.slots[id] else { return }
            slot.references -= min(count, slot.references)
            state.slots[id] = slot.references == 0 ? nil : slot
            if slot.references == 0 { state.leave(Place(slot.node.parent, slot.node.name), id) }
        }
    }
}

extension NodeTable.State {
    fileprivate mutating func leave(_ place: NodeTable.Place, _ id: NodeID) {
        if current[place] == id { current[place] = nil }
    }
}

extension Node {
    func isStill(_ entry: SourceEntry, _ facts: Facts) -> Bool {
        guard isDirectory == entry.isDirectory, url == entry.url else { return false }
        return state.withLock { state in
            if state.isSuperseded { return false }
            if facts == listed { return true }
            // A listing that now says what the origin said all along changes nothing.
            guard let information = state.information else { return false }
            return facts.length == nil || information.length == facts.length
        }
    }
}

/// Stable over remounts, as it is made of the path alone (FNV-1a, 64 bits). Only programs see it: two files with one
/// number would confuse `find` or `tar`, never a read, as the kernel goes by node.
func inodeNumber(of name: String, in parent: UInt64) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for shift in stride(from: 0, to: 64, by: 8) { hash = (hash ^ (parent >> UInt64(shift) & 255)) &* 0x100_0000_01b3 }
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return hash < 2 ? hash + 2 : hash
}
