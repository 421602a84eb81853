import ReelCore
import ReelSources
import ReelThreads

/// The nodes that the kernel knows, each with the count of its references.
///
/// The kernel may know a million: one of which nothing is known but what its directory's list says takes a slot here
/// and a number there, and no object. A `Node` is made where one is used as more than that (a directory that is
/// entered, a file that is opened), or where it is no longer what the list says.
final class NodeTable: Sendable {
    /// A `NodeID` is the slot's number and, above it, how often the slot was used before: no number comes twice.
    fileprivate struct Slot {
        /// At its largest value it stays, and the node with it: four billion lookups, and the kernel still not told.
        var references: UInt32 = 0
        var generation: UInt32
        /// Slot of the directory.
        var parent: UInt32 = 0
        /// In the directory's list; of a free slot the next free one.
        var place = NodeTable.noPlace
        var node: Node?
    }

    /// The children of one directory, by its slot.
    fileprivate struct Family {
        var list: EntryList
        let serial: UInt64
        /// Of the directory.
        let inode: UInt64
        /// The slot of each entry that the kernel knows, 0 of the others; empty as long as it knows none.
        var slots: [UInt32] = []
    }

    fileprivate struct State {
        /// 0 stands for none, 1 is the root.
        var slots = [Slot(generation: 0), Slot(references: 1, generation: 0)]
        var free = NodeTable.noPlace
        var families: [UInt32: Family] = [:]
        /// As `Source.keepsDates`.
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

    /// For use: who asks again gets the same one, for as long as the kernel knows it.
    subscript(_ id: NodeID) -> Node? {
        state.withLock { state in
            guard let slot = state.slot(id) else { return nil }
            return state.kept(slot)
        }
    }

    /// For a look: what is found out by it is not kept.
    func peek(_ id: NodeID) -> Node? {
        state.withLock { state in state.slot(id).flatMap { state.slots[$0].node ?? state.made($0) } }
    }

    /// The directory's children are those of this list from here on, unless a newer one is there: what is still what it
    /// was stays the same node, what is not leads its own life until the kernel forgets it.
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
        // Lists do not change: two of a million are compared, and nodes asked, under no lock of ours.
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
                    // A node that was made meanwhile is what the old list says.
                    let known = state.slots[Int(child)].node.flatMap { still[ObjectIdentifier($0)] }
                    let now = known ?? moved[place]
                    // Before the old list goes.
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

    /// Where a node stands in a newer list that still says what it is.
    private func place(of node: Node, in list: EntryList, _ directory: Node) -> UInt32 {
        guard let now = list.place(of: node.name),
            node.isStill(list[now], directory.directory?.facts(of: now, in: list) ?? Node.Facts(list, at: now))
        else { return NodeTable.noPlace }
        return UInt32(now)
    }

    /// The node of a list's entry, with one reference more: the current one while it is of the same resource and
    /// nothing else is known of it, else a new one that takes its place. nil where the list is no longer the
    /// directory's, and says of the entry what is no longer so; and where the directory is forgotten.
    /// - Parameters:
    ///   - facts: what is known of the entry's length and date, the listing's or better.
    ///   - isUsed: a `Node` is wanted.
    func node(
        at place: Int, of listed: Directory.Listed, _ facts: Node.Facts, in directory: Node, isUsed: Bool
    ) -> (id: NodeID, node: Node?)? {
        let isNewer = state.withLock { state in
            guard let slot = state.slot(directory.id) else { return false }
            return state.families[UInt32(slot)].map { $0.serial < listed.serial } ?? true
        }
        if isNewer { adopt(listed, of: directory) }
        let told = Node.Facts(listed.entries, at: place)
        // A node's own lock is not taken under the table's.
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

    /// From here on the name leads to a new node.
    func supersede(_ node: Node) {
        node.supersede()
        state.withLock { state in
            if let slot = state.slot(node.id) { state.leave(slot) }
        }
    }

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
            // The kernel may forget a directory before its files; they can then only be forgotten.
            for child in family?.slots ?? [] where child != 0 { state.slots[Int(child)].place = NodeTable.noPlace }
            node = state.slots[slot].node
            state.slots[slot].node = nil
            state.slots[slot].generation &+= 1
            state.slots[slot].place = state.free
            state.free = UInt32(slot)
        }
        withExtendedLifetime((family, node)) {}
    }

    /// The number under which the kernel knows an entry of the directory's list, where it does.
    func known(_ name: String, in directory: Node) -> NodeID? {
        state.withLock { state in
            guard let slot = state.slot(directory.id), let family = state.families[UInt32(slot)],
                let place = family.list.place(of: name), let child = state.child(place, of: UInt32(slot))
            else { return nil }
            return state.id(of: child)
        }
    }

    /// The date that the list has of a node now; as it was last, where the name leads to another.
    func modified(_ node: Node) -> Int64? {
        state.withLock { state in
            guard let slot = state.slot(node.id), state.slots[slot].place != NodeTable.noPlace,
                let family = state.families[state.slots[slot].parent]
            else { return node.listed.modified }
            return family.list.modified(at: Int(state.slots[slot].place))
        }
    }

    /// Bytes of memory that the table and its lists take, those of its `Node`s apart.
    var footprint: Int {
        state.withLock { state in
            state.slots.capacity * MemoryLayout<Slot>.stride
                + state.families.values.reduce(0) {
                    $0 + $1.list.footprint + $1.slots.capacity * MemoryLayout<UInt32>.stride
                        + MemoryLayout<Family>.stride
                }
        }
    }

    /// Nodes that the kernel knows, the root among them; and those of them that are a `Node`.
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

    /// The same, kept from here on.
    fileprivate mutating func kept(_ slot: Int) -> Node? {
        if slots[slot].node == nil { slots[slot].node = made(slot) }
        return slots[slot].node
    }

    /// From what the directory's list says of the slot's place; nil where it has none.
    fileprivate func made(_ slot: Int, _ facts: Node.Facts? = nil) -> Node? {
        let (parent, place) = (slots[slot].parent, slots[slot].place)
        guard place != NodeTable.noPlace, let family = families[parent] else { return nil }
        let entry = family.list[Int(place)]
        return Node(
            id: id(of: slot), parent: id(of: Int(parent)), name: entry.name,
            inode: inodeNumber(of: entry.name, in: family.inode), place: .url(entry.url),
            isDirectory: entry.isDirectory,
            listed: facts ?? Node.Facts(entry), keepsDate: keepsDates)
    }

    /// Where an entry of a list stands in the list that its directory has now.
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

    /// A slot with one reference.
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

    /// The slot's name may lead to another node now.
    fileprivate mutating func leave(_ slot: Int) {
        let place = slots[slot].place
        guard place != NodeTable.noPlace else { return }
        families[slots[slot].parent]?.slots[Int(place)] = 0
        slots[slot].place = NodeTable.noPlace
    }
}
