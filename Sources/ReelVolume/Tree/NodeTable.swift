import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads

/// The nodes that the kernel knows, each with the count of its references.
///
/// The kernel may know a million. A node with no facts but those of its directory's list takes a slot here and a number
/// there, and no object. The table makes a `Node` for a directory that is entered, for a file that is opened, and for
/// an entry that has become another one than the list's.
final class NodeTable: Sendable {
    /// A `NodeID` is the slot's number and, above it, the number of its earlier uses in 20 bits, so that none comes
    /// again soon. The highest 12 bits are 0: a catalogue has the number of the source there.
    fileprivate struct Slot {
        /// A count at its largest value stays, and the node with it: the kernel never counts this many.
        var references: UInt32 = 0
        var generation: UInt32
        /// The slot of the directory.
        var parent: UInt32 = 0
        /// The place in the directory's list; in a free slot the next free one.
        var place = NodeTable.noPlace
        var node: Node?
    }

    /// The children of one directory, by its slot.
    fileprivate struct Family {
        var list: EntryList
        let serial: UInt64
        /// The directory's inode number.
        let inode: UInt64
        /// The slot of each entry that the kernel knows, 0 for the others; empty while it knows none.
        var slots: [UInt32] = []
    }

    fileprivate struct State {
        /// Slot 0 stands for none, slot 1 is the root.
        var slots = [Slot(generation: 0), Slot(references: 1, generation: 0)]
        var free = NodeTable.noPlace
        var families: [UInt32: Family] = [:]
        /// Like `Source.keepsDates`.
        var keepsDates = false
    }

    static let noPlace = UInt32.max

    private let state = Lock(State(), .tree)

    /// - Parameter keepsDates: as `Source.keepsDates`.
    init(root: Node, keepsDates: Bool = false) {
        state.withLock { state in
            state.slots[1].node = root
            state.keepsDates = keepsDates
        }
    }

    /// A node for use: later calls get the same object, for as long as the kernel knows the node.
    subscript(_ id: NodeID) -> Node? {
        state.withLock { state in
            guard let slot = state.slot(id) else { return nil }
            return state.kept(slot)
        }
    }

    /// Like the subscript, with one reference more.
    func hold(_ id: NodeID) -> Node? {
        state.withLock { state in
            guard let slot = state.slot(id) else { return nil }
            if state.slots[slot].references < .max { state.slots[slot].references += 1 }
            return state.kept(slot)
        }
    }

    /// A node for a look, whose changes the table does not keep.
    func peek(_ id: NodeID) -> Node? {
        state.withLock { state in state.slot(id).flatMap { state.slots[$0].node ?? state.made($0) } }
    }

    /// The directory and the name of a node. It makes no `Node`, as it is asked for each that the kernel knows.
    func place(of id: NodeID) -> NodePlace? {
        state.withLock { state in
            guard let slot = state.slot(id) else { return nil }
            if let node = state.slots[slot].node {
                return NodePlace(parent: node.parent, name: node.name, isDirectory: node.isDirectory)
            }
            guard let (parent, family, place) = state.entry(slot) else { return nil }
            return NodePlace(
                parent: parent, name: family.list.name(at: place), isDirectory: family.list.isDirectory(at: place))
        }
    }

    /// The path of a node inside the volume; nil where the kernel has forgotten a directory on the way.
    func path(of node: Node) -> String? {
        var (names, next) = ([String](), node)
        while next.id != rootNode {
            names.append(next.name)
            guard let parent = peek(next.parent) else { return nil }
            next = parent
        }
        return names.reversed().joined(separator: "/")
    }

    /// Whether names lead to a node: its directory lists it, and so on up to the root.
    func isListed(_ node: Node) -> Bool {
        state.withLock { state in
            var id = node.id
            while id != rootNode {
                guard let slot = state.slot(id), state.slots[slot].place != NodeTable.noPlace else { return false }
                id = state.id(of: Int(state.slots[slot].parent))
            }
            return true
        }
    }

    /// Makes the entries of a list the directory's children, unless there is a newer one. An entry that both lists have
    /// stays the same node; any other node stays by itself until the kernel forgets it.
    func adopt(_ listed: Directory.Listed, of directory: Node) {
        let before: (list: EntryList, nodes: [Node])? = state.withLock { state in
            guard let slot = state.slot(directory.id) else { return nil }
            guard let family = state.families[UInt32(slot)] else {
                state.families[UInt32(slot)] = Family(
                    list: listed.entries, serial: listed.serial, inode: directory.inode)
                return nil
            }
            guard family.serial < listed.serial else { return nil }
            return (family.list, family.slots.compactMap { state.slots[Int($0)].node })
        }
        guard let before else { return }
        // Lists do not change, so the table compares two of a million entries, and asks nodes, without its lock.
        let moved = before.list.isIdentical(to: listed.entries) ? nil : before.list.places(in: listed.entries)
        var still: [ObjectIdentifier: UInt32] = [:]
        for node in before.nodes where moved != nil {
            still[ObjectIdentifier(node)] = place(of: node, in: listed.entries, directory)
        }
        let isDone = state.withLock { state in
            guard let slot = state.slot(directory.id), let old = state.families[UInt32(slot)],
                old.serial < listed.serial
            else { return true }
            guard old.list.isIdentical(to: before.list) else { return false }
            var new = Family(list: listed.entries, serial: listed.serial, inode: directory.inode)
            if let moved, !old.slots.isEmpty {
                new.slots = [UInt32](repeating: 0, count: new.list.count)
                for (place, child) in old.slots.enumerated() where child != 0 {
                    // A node that was made meanwhile has the facts of the old list.
                    let known = state.slots[Int(child)].node.flatMap { still[ObjectIdentifier($0)] }
                    let now = known ?? moved[place]
                    // Made while the old list is there.
                    if now == NodeTable.noPlace { _ = state.kept(Int(child)) } else { new.slots[Int(now)] = child }
                    state.slots[Int(child)].place = now
                }
            } else {
                new.slots = old.slots
            }
            state.families[UInt32(slot)] = new
            return true
        }
        if !isDone { adopt(listed, of: directory) }
    }

    /// The place of a node's entry in a newer list; `noPlace` where the list has another one of that name, or none.
    private func place(of node: Node, in list: EntryList, _ directory: Node) -> UInt32 {
        guard let now = list.place(of: node.name),
            node.isStill(list[now], directory.directory?.facts(of: now, in: list) ?? Node.Facts(list, at: now))
        else { return NodeTable.noPlace }
        return UInt32(now)
    }

    /// The node of a list's entry, with one reference more: the present one while it is still the entry's, else a new
    /// one that takes its place.
    /// - Parameters:
    ///   - facts: the entry's length and date as the mount knows them, from the listing or from later answers.
    ///   - isUsed: the caller wants a `Node`.
    /// - Returns: nil where a newer list has another entry of that name, or the kernel has forgotten the directory.
    func node(
        at place: Int, of listed: Directory.Listed, _ facts: Node.Facts, in directory: Node, isUsed: Bool
    ) -> (id: NodeID, node: Node?)? {
        let isNewer = state.withLock { state in
            guard let slot = state.slot(directory.id) else { return false }
            return state.families[UInt32(slot)].map { $0.serial < listed.serial } ?? true
        }
        if isNewer { adopt(listed, of: directory) }
        let told = Node.Facts(listed.entries, at: place)
        // Two locks of one rank: the node's own may not be taken under the table's.
        let candidate = state.withLock { state in
            state.place(place, of: listed, in: directory.id).flatMap { parent, place in
                state.child(place, of: parent).flatMap { state.slots[$0].node }
            }
        }
        let isStill = candidate?.isStill(listed.entries[place], facts) ?? (facts == told)
        return state.withLock { state in
            guard let (parent, place) = state.place(place, of: listed, in: directory.id) else { return nil }
            if let slot = state.child(place, of: parent) {
                if isStill || state.slots[slot].node !== candidate {
                    if state.slots[slot].references < .max { state.slots[slot].references += 1 }
                    return (state.id(of: slot), isUsed ? state.kept(slot) : state.slots[slot].node)
                }
                _ = state.kept(slot)
                state.slots[slot].place = NodeTable.noPlace
            }
            let slot = state.take(parent: parent, place: place)
            if facts != told {
                state.slots[slot].node = state.made(slot, facts)
            } else if isUsed {
                _ = state.kept(slot)
            }
            return (state.id(of: slot), state.slots[slot].node)
        }
    }

    /// Makes the name of a node lead to a new one.
    func supersede(_ node: Node) {
        node.supersede()
        state.withLock { state in
            if let slot = state.slot(node.id) { state.leave(slot) }
        }
    }

    /// The directories that the kernel has entered.
    var directories: [Node] {
        state.withLock { state in state.families.keys.compactMap { state.slots[Int($0)].node } }
    }

    /// Takes references of the kernel back; a node without any goes.
    func forget(_ id: NodeID, count: UInt64) {
        guard id != rootNode else { return }
        // Freed when the lock is given back.
        var family: Family?
        var node: Node?
        state.withLock { state in
            guard let slot = state.slot(id), state.slots[slot].references < .max else { return }
            state.slots[slot].references -= UInt32(min(count, UInt64(state.slots[slot].references)))
            guard state.slots[slot].references == 0 else { return }
            state.leave(slot)
            family = state.families.removeValue(forKey: UInt32(slot))
            // The kernel may forget a directory before its files, and can then only forget those.
            for child in family?.slots ?? [] where child != 0 { state.slots[Int(child)].place = NodeTable.noPlace }
            node = state.slots[slot].node
            state.slots[slot].node = nil
            state.slots[slot].generation = (state.slots[slot].generation &+ 1) & 0xF_FFFF
            state.slots[slot].place = state.free
            state.free = UInt32(slot)
        }
        withExtendedLifetime((family, node)) {}
    }

    /// The number under which the kernel knows an entry of the directory's list; nil where it does not know it.
    func known(_ name: String, in directory: Node) -> NodeID? {
        state.withLock { state in
            guard let slot = state.slot(directory.id), let family = state.families[UInt32(slot)],
                let place = family.list.place(of: name), let child = state.child(place, of: UInt32(slot))
            else { return nil }
            return state.id(of: child)
        }
    }

    /// The date of a node in the present list; its last one where the name leads to another node.
    func modified(_ node: Node) -> Int64? {
        state.withLock { state in
            guard let slot = state.slot(node.id), state.slots[slot].place != NodeTable.noPlace,
                let family = state.families[state.slots[slot].parent]
            else { return node.listed.modified }
            return family.list.modified(at: Int(state.slots[slot].place))
        }
    }

    /// The bytes of memory of the table and its lists, without the `Node` objects.
    var footprint: Int {
        state.withLock { state in
            state.slots.capacity * MemoryLayout<Slot>.stride
                + state.families.values.reduce(0) {
                    $0 + $1.list.footprint + $1.slots.capacity * MemoryLayout<UInt32>.stride
                        + MemoryLayout<Family>.stride
                }
        }
    }

    /// The number of nodes that the kernel knows, the root among them, and of those that are a `Node`.
    var counts: (known: Int, used: Int) {
        state.withLock { state in
            (state.slots.count { $0.references > 0 }, state.slots.count { $0.node != nil })
        }
    }
}

extension NodeTable.State {
    fileprivate func slot(_ id: NodeID) -> Int? {
        let slot = Int(id & 0xFFFF_FFFF)
        guard slots.indices.contains(slot), slots[slot].generation == UInt32(id >> 32), slots[slot].references > 0
        else { return nil }
        return slot
    }

    fileprivate func id(of slot: Int) -> NodeID { NodeID(slots[slot].generation) << 32 | NodeID(slot) }

    /// The entry of a slot in its directory's list; nil where the slot has no place there.
    fileprivate func entry(_ slot: Int) -> (parent: NodeID, family: NodeTable.Family, place: Int)? {
        let (parent, place) = (slots[slot].parent, slots[slot].place)
        guard place != NodeTable.noPlace, let family = families[parent] else { return nil }
        return (id(of: Int(parent)), family, Int(place))
    }

    /// The slot's node, which the table keeps from here on.
    fileprivate mutating func kept(_ slot: Int) -> Node? {
        if slots[slot].node == nil { slots[slot].node = made(slot) }
        return slots[slot].node
    }

    /// Makes a node from the directory's list; nil where the slot has no place there.
    fileprivate func made(_ slot: Int, _ facts: Node.Facts? = nil) -> Node? {
        guard let (parent, family, place) = self.entry(slot) else { return nil }
        let entry = family.list[place]
        return Node(
            id: id(of: slot), parent: parent, name: entry.name,
            inode: inodeNumber(of: entry.name, in: family.inode), place: .url(entry.url),
            isDirectory: entry.isDirectory,
            listed: facts ?? Node.Facts(entry), keepsDate: keepsDates)
    }

    /// The place of a list's entry in the present list of its directory; nil where that has another one, or none.
    fileprivate func place(
        _ place: Int, of listed: Directory.Listed, in directory: NodeID
    ) -> (parent: UInt32, place: Int)? {
        guard let slot = slot(directory), let family = families[UInt32(slot)] else { return nil }
        if family.list.isIdentical(to: listed.entries) { return (UInt32(slot), place) }
        let entry = listed.entries[place]
        guard let now = family.list.place(of: entry.name), entry.isStill(family.list[now]) else { return nil }
        return (UInt32(slot), now)
    }

    fileprivate func child(_ place: Int, of parent: UInt32) -> Int? {
        guard let slots = families[parent]?.slots, !slots.isEmpty, slots[place] != 0 else { return nil }
        return Int(slots[place])
    }

    /// Takes a free slot, with one reference.
    fileprivate mutating func take(parent: UInt32, place: Int) -> Int {
        let slot: Int
        if free == NodeTable.noPlace {
            slot = slots.count
            slots.append(NodeTable.Slot(generation: 0))
        } else {
            slot = Int(free)
            free = slots[slot].place
        }
        slots[slot].references = 1
        slots[slot].parent = parent
        slots[slot].place = UInt32(place)
        if families[parent]!.slots.isEmpty {
            families[parent]!.slots = [UInt32](repeating: 0, count: families[parent]!.list.count)
        }
        families[parent]!.slots[place] = UInt32(slot)
        return slot
    }

    /// Takes a slot out of its directory, so that the name may lead to another node.
    fileprivate mutating func leave(_ slot: Int) {
        let place = slots[slot].place
        guard place != NodeTable.noPlace else { return }
        families[slots[slot].parent]?.slots[Int(place)] = 0
        slots[slot].place = NodeTable.noPlace
    }
}
