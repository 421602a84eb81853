import ReelCore

/// Which blocks of one version are there, where, and how safely: the one truth of it, for fetch planning and cache
/// alike. A value: it takes events and returns the rows to write. `BlockState` has the transitions, `BlockStates` the
/// sums.
///
/// A block that leaves during a sync is no part of that sync any more, even if it is filled again before the sync ends.
struct BlockTable: Sendable {
    /// A block of which not all bytes are there yet, or whose bytes are in memory.
    struct Flight: Sendable {
        /// The bytes that came; empty once the block is filled.
        var pieces = Pieces()
        /// Where the disk does not take the block.
        var memory: MemoryBlock?
        /// Bytes of the quota that were reserved for it.
        var room: Int64 = 0
        /// A sync failed after some of its bytes were written, and may have lost them.
        var isUnkept = false
        /// The bytes in memory are whole, and are on the disk, encrypted, with this proof.
        var sealed: BlockSum?

        /// The checksum of the whole block, unless it has to be read back for that.
        func whole(_ block: ByteRange) -> UInt64? {
            guard let memory else { return pieces.whole(block) }
            guard pieces.cover(block) else { return nil }
            return checksum(UnsafeRawBufferPointer(rebasing: memory.bytes[..<Int(block.count)]))
        }
    }

    var states: BlockStates
    private(set) var inFlight: [Int: Flight] = [:]
    /// Goes up each time that bytes leave, or move to memory: a read from the disk that ran meanwhile does not count.
    private(set) var removals: UInt64 = 0
    var sync = Sync()
    /// There may be bytes on the disk in blocks that are not filled.
    private(set) var hasLeftovers = false
    /// Extents that are to leave the page cache and cannot yet.
    var leaving: Set<Int> = []
    /// How many open handles have been offered the whole file.
    private(set) var offers = 0
    /// Whether proofs stay here once rows have them, because each read from the disk needs them.
    let keepsSums: Bool

    /// - Parameters:
    ///   - length: bytes; `BlockSize.openEnd` until `settle`.
    ///   - lastUse: of all extents, in the order of `UseClock`.
    init(length: Int64, lastUse: Int64 = 0, keepsSums: Bool = false, hasLeftovers: Bool = false) {
        states = BlockStates(length: length, lastUse: lastUse)
        self.keepsSums = keepsSums
        self.hasLeftovers = hasLeftovers
    }

    // MARK: Looking

    subscript(block: Int) -> BlockState { states[block] }

    var length: Int64 { states.length }
    var blockCount: Int { states.blockCount }
    var isComplete: Bool { states.filledBlocks == blockCount }
    var isOpenEnded: Bool { length == BlockSize.openEnd }
    /// Whether every filled block is in a row of the index.
    var isAllDurable: Bool { states.durableBlocks == states.filledBlocks }
    var isInMemory: Bool { !inFlight.isEmpty && inFlight.contains { $0.value.memory != nil } }
    /// The same of whole blocks.
    var isKeptInMemory: Bool { !inFlight.isEmpty && inFlight.contains { self[$0.key] == .memory } }
    var failedSyncs: Int { sync.failures }

    func bytes(of block: Int) -> ByteRange { BlockSize.bytes(of: block, length: length) }

    // MARK: Filling

    /// Blocks that hold no byte yet: a write has to reserve space for them.
    func untouched(_ blocks: Range<Int>) -> [Int] { blocks.filter { self[$0] == .empty } }

    /// Bytes of these are about to be written, and space on the disk was reserved for them.
    mutating func begin(_ blocks: [Int]) {
        for block in blocks where apply(.begin, to: block) { inFlight[block] = Flight(room: bytes(of: block).count) }
    }

    /// The write failed: blocks that held nothing before are empty again. - Returns: the bytes that were reserved.
    mutating func cancel(_ blocks: [Int]) -> Int64 {
        blocks.reduce(0) { room, block in
            guard self[block] == .partial, inFlight[block]?.pieces.all.isEmpty ?? false else { return room }
            return room + leave(block).room
        }
    }

    /// A block goes on in memory, with the bytes that came. - Returns: its reserved bytes on the disk, which are to be
    /// punched out.
    mutating func moveToMemory(_ block: Int, _ memory: MemoryBlock) -> Int64 {
        _ = apply(.begin, to: block)
        guard self[block] == .partial else { return 0 }
        defer {
            inFlight[block, default: Flight()].memory = memory
            inFlight[block]?.room = 0
            inFlight[block]?.isUnkept = false
        }
        removals += 1
        return inFlight[block]?.room ?? 0
    }

    /// Bytes of a block are in their place now. They do not count where the block has left since they were begun.
    /// - Parameter failures: `failedSyncs` before they were written to the file; nil where they are in memory.
    /// - Returns: whether all bytes of the block are there.
    mutating func add(_ bytes: UnsafeRawBufferPointer, at range: ByteRange, of block: Int, failures: Int?) -> Bool {
        guard self[block] == .partial else { return false }
        let isInMemory = inFlight[block]?.memory != nil
        inFlight[block]?.pieces.add(isInMemory ? nil : bytes, at: range)
        // A sync that failed meanwhile did not see them, and may have lost them.
        if let failures, failures != failedSyncs { doubtSync(of: block) }
        return inFlight[block]?.pieces.cover(self.bytes(of: block)) ?? false
    }

    /// The sync that failed did not see the bytes of this block, or lost them.
    mutating func doubtSync(of block: Int) { inFlight[block]?.isUnkept = true }

    /// All bytes of a block are there and have this checksum. - Returns: false where it has left, or was filled before.
    mutating func seal(_ block: Int, _ sum: BlockSum, now: Int64) -> Bool {
        guard let flight = inFlight[block] else { return false }
        let event: BlockState.Event =
            flight.memory != nil ? .sealInMemory : flight.isUnkept ? .sealUnkept : .seal
        guard apply(event, to: block) else { return false }
        inFlight[block] = flight.memory.map { Flight(memory: $0) }
        states.update(block / 64) { $0.set(sum, of: block % 64) }
        use(block..<block + 1, now: max(states.lastUse(ofExtent: block / 64), now))
        verify(block)
        return true
    }

    /// A whole block is in the file already. - Returns: bytes that became filled.
    mutating func fill(_ block: Int, _ sum: BlockSum, now: Int64 = 0) -> Int64 {
        begin([block])
        return seal(block, sum, now: now) ? bytes(of: block).count : 0
    }

    /// A block that was in memory is on the disk as well, encrypted: the disk has it once it is sealed.
    /// - Parameters:
    ///   - room: bytes of the quota that were reserved for it.
    ///   - failures: `failedSyncs` before it was written.
    /// - Returns: false where it has left meanwhile.
    mutating func noteWritten(_ block: Int, _ sum: BlockSum, room: Int64, failures: Int) -> Bool {
        guard self[block] == .partial, inFlight[block] != nil else { return false }
        inFlight[block]?.sealed = sum
        inFlight[block]?.room = room
        if failures != failedSyncs { doubtSync(of: block) }
        return true
    }

    /// - Returns: false where it has left meanwhile.
    mutating func sealWritten(_ block: Int, now: Int64) -> Bool {
        guard let sum = inFlight[block]?.sealed else { return false }
        inFlight[block]?.memory = nil
        return seal(block, sum, now: now)
    }

    // MARK: An open end

    /// Whether all bytes of the first `length` are on the disk, in blocks that are whole except for the last.
    func isOnDisk(upTo length: Int64) -> Bool {
        let (count, rest) = length.quotientAndRemainder(dividingBy: BlockSize.block)
        guard !inFlight.contains(where: { $0.value.memory != nil && $0.value.sealed == nil }),
            states.filledBlocks == count
        else { return false }
        return rest == 0 || inFlight[Int(count)]?.whole(ByteRange(length - rest, length)) != nil
    }

    /// The version ends here, and is like any other from now on. - Returns: reserved bytes that its last block does not
    /// need.
    mutating func settle(length: Int64, now: Int64) -> Int64 {
        states.length = length
        let last = blockCount - 1
        guard self[last] == .partial, let flight = inFlight[last] else { return 0 }
        let surplus = max(0, flight.room - bytes(of: last).count)
        inFlight[last]?.room -= surplus
        if flight.sealed != nil {
            _ = sealWritten(last, now: now)
        } else if let sum = flight.whole(bytes(of: last)) {
            _ = seal(last, BlockSum(plain: sum), now: now)
        }
        return surplus
    }

    /// Whether a last block that is short holds no byte, not even one that is on its way out.
    var endsWhole: Bool { length % BlockSize.block == 0 || self[blockCount - 1] == .empty }

    /// The version goes on behind its end. - Precondition: a last block that was short holds no byte.
    mutating func lengthen(to length: Int64) { states.length = length }

    // MARK: Leaving

    /// These blocks are gone or wrong. The index may list them until the next commit; after a crash their checksums
    /// show that they are not there. - Returns: bytes of the quota that are free now.
    mutating func lose(_ blocks: Range<Int>) -> Int64 {
        var room: Int64 = 0
        forEachTouched(blocks) { table, block in
            // Its row may have been written in this moment.
            if [.durable, .syncing].contains(table[block]) { table.sync.stale.insert(block / 64) }
            table.states.update(block / 64) { $0.set(nil, of: block % 64) }
            room += table.leave(block).room
            table.hasLeftovers = true
        }
        return room
    }

    /// Empties the blocks that no row will cover, because the file has no holder any more.
    /// - Parameter hasLeftovers: whether bytes of them are still on the disk.
    /// - Returns: bytes of the quota that are free now.
    mutating func abandon(hasLeftovers: Bool = false) -> Int64 {
        self.hasLeftovers = hasLeftovers
        if isAllDurable, inFlight.isEmpty { return 0 }
        var room: Int64 = 0
        forEachTouched(0..<blockCount) { table, block in
            if table[block] != .durable { room += table.leave(block).room }
        }
        return room
    }

    /// The disk still has bytes of blocks that have left.
    mutating func leaveStrays() { hasLeftovers = true }

    /// The file has no holder any more: the blocks leave that the disk did not take.
    mutating func dropMemory() {
        for block in inFlight.filter({ $0.value.memory != nil }).keys { _ = leave(block) }
    }

    /// The blocks that `clear` took out, to be confirmed or put back.
    struct Cleared {
        fileprivate var removed: [(block: Int, state: BlockState, sum: BlockSum?, isVerified: Bool)] = []
        /// Rows to write before the bytes may go.
        var rows: [Row] = []
        /// In filled blocks on the disk.
        var bytes: Int64 = 0
        /// Reserved for blocks that were not whole: nothing of them comes back.
        var partialBytes: Int64 = 0
        /// `failedSyncs` at that moment.
        fileprivate let failures: Int
    }

    /// Blocks leave to make way for others.
    mutating func clear(_ blocks: Range<Int>) -> Cleared {
        var cleared = Cleared(failures: failedSyncs)
        var rows: Set<Int> = []
        forEachTouched(blocks) { table, block in
            let (state, isVerified) = (table[block], table.states.isVerified(block))
            let sum = table.sum(of: block)
            if state == .durable { rows.insert(block / 64) }
            let (room, wasFilled) = table.leave(block)
            table.states.update(block / 64) { $0.set(nil, of: block % 64) }
            if wasFilled {
                cleared.bytes += room
                if state != .memory { cleared.removed.append((block, state, sum, isVerified)) }
            } else {
                cleared.partialBytes += room
                table.hasLeftovers = true
            }
        }
        cleared.rows = durableRows(rows)
        return cleared
    }

    /// The rows of these extents, with the blocks that are durable still.
    private func durableRows(_ extents: Set<Int>) -> [Row] {
        extents.sorted().map { extent in
            let word = states.extent(extent)?.word(of: .durable) ?? 0
            return Row(extent: extent, word: word, lastUse: states.lastUse(ofExtent: extent))
        }
    }

    /// The blocks that `depart` took out, to be confirmed or put back.
    struct Departing: Sendable {
        fileprivate var blocks: [(block: Int, sum: BlockSum?, isVerified: Bool)] = []
        /// Rows to write before the bytes may go.
        var rows: [Row] = []
        var bytes: Int64 = 0
        /// The same blocks.
        var all: RangeSet<Int> { RangeSet(blocks.map { $0.block..<$0.block + 1 }) }
    }

    /// Durable blocks are to leave, and their bytes are punched out while others are written.
    mutating func depart(_ blocks: [Range<Int>]) -> Departing {
        var departing = Departing()
        var rows: Set<Int> = []
        for blocks in blocks {
            forEachTouched(blocks) { table, block in
                let (sum, isVerified) = (table.sum(of: block), table.states.isVerified(block))
                guard table.apply(.depart, to: block) else { return }
                table.states.update(block / 64) { $0.set(nil, of: block % 64) }
                table.removals += 1
                // Bytes that come for it meanwhile do not count.
                table.hasLeftovers = true
                departing.blocks.append((block, sum, isVerified))
                departing.bytes += table.bytes(of: block).count
                rows.insert(block / 64)
            }
        }
        departing.rows = durableRows(rows)
        return departing
    }

    /// Their rows could not be written.
    mutating func stay(_ departing: Departing) {
        for (block, sum, isVerified) in departing.blocks where apply(.stay, to: block) {
            if let sum { states.update(block / 64) { $0.set(sum, of: block % 64) } }
            if isVerified { verify(block) }
        }
    }

    /// Their bytes have been punched out.
    mutating func gone(_ departing: Departing) {
        for (block, _, _) in departing.blocks { _ = apply(.gone, to: block) }
    }

    /// The rows of `cleared` could not be written: its filled blocks stay.
    mutating func putBack(_ cleared: Cleared) {
        for (block, state, sum, isVerified) in cleared.removed where self[block] == .empty {
            // A sync that failed meanwhile did not see the ones that are not durable: they may be lost.
            let isLost = state == .unkept || state != .durable && cleared.failures != failedSyncs
            set(block, state == .durable ? .durable : isLost ? .unkept : .written)
            if let sum { states.update(block / 64) { $0.set(sum, of: block % 64) } }
            if isVerified { verify(block) }
        }
    }

    // MARK: Trusting

    /// The checksum was right.
    mutating func verify(_ block: Int) { setVerified(block, true) }

    /// The checksum was wrong: the next read looks again.
    mutating func doubt(_ block: Int) { setVerified(block, false) }

    /// Another program touched the file: everything on the disk is looked at again.
    mutating func doubt() {
        forEachTouched(0..<blockCount) { $0.doubt($1) }
        for block in inFlight.keys { inFlight[block]?.pieces.isDoubtful = true }
    }

    /// Nothing of it may go from here on. - Returns: false where not all of it is there, durable and verified.
    mutating func offer() -> Bool {
        guard states.certainBlocks == blockCount else { return false }
        offers += 1
        return true
    }

    mutating func settleOffer() { offers -= 1 }

    // MARK: Changing

    /// - Returns: whether the event changed the block.
    mutating func apply(_ event: BlockState.Event, to block: Int) -> Bool {
        guard let next = self[block].after(event) else { return false }
        set(block, next)
        return true
    }

    /// - Returns: bytes of the quota that are free now, and whether the block was filled.
    private mutating func leave(_ block: Int) -> (room: Int64, wasFilled: Bool) {
        let state = self[block]
        guard apply(.leave, to: block) else { return (0, false) }
        let flight = inFlight.removeValue(forKey: block)
        removals += 1
        if state == .partial { return (flight?.room ?? 0, false) }
        return (state == .memory ? 0 : bytes(of: block).count, true)
    }

    private mutating func set(_ block: Int, _ state: BlockState) {
        states.set(block, state, isVerified: state.isFilled && states.isVerified(block))
        if state == .written { sync.changed.insert(block / 64) }
    }

    private mutating func setVerified(_ block: Int, _ isVerified: Bool) {
        if self[block].isFilled { states.set(block, self[block], isVerified: isVerified) }
    }

    /// Blocks that are not empty. Looks at none of an extent that was never touched.
    private mutating func forEachTouched(_ blocks: Range<Int>, _ body: (inout BlockTable, Int) -> Void) {
        let blocks = blocks.clamped(to: 0..<min(blockCount, states.extentCount * 64))
        guard !blocks.isEmpty else { return }
        for extent in blocks.lowerBound / 64...(blocks.upperBound - 1) / 64 where states.extent(extent) != nil {
            for block in blocks.clamped(to: extent * 64..<extent * 64 + 64) where self[block] != .empty {
                body(&self, block)
            }
        }
    }
}
