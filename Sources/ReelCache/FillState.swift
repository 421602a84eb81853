import ReelCore

/// What is filled of one data file, in memory and in the index. A value: it takes events and says what to write.
///
/// A block goes one way: written in part → filled → syncing → durable. Only a block that was filled *before* fdatasync
/// began becomes durable after it; one that is cleared meanwhile leaves every stage at once, also when it is filled
/// anew before the sync has ended. A block that the disk did not take is filled and stays so, but no row tells of it.
struct FillState: Sendable {
    /// Filled: all bytes were written.
    private(set) var map: BlockMap
    /// As the rows of the index say; a part of `map`, but for failures.
    private(set) var durable: BlockMap
    /// Filled, and looked at since the program started: what can be read without a check once it is durable.
    private(set) var verified: BlockMap
    /// Extents with filled blocks that nobody has begun to sync.
    private var changed: Set<Int> = []
    /// Bits by extent that were filled when the running sync began.
    private var syncing: [Int: UInt64] = [:]
    /// Filled blocks that no row may tell of: they are in memory, or their sync failed.
    private var unkept = ExtentBits()
    private(set) var failedSyncs = 0
    /// Checksums of filled blocks that no row has yet.
    private var sums: [Int: ExtentSums] = [:]
    /// Blocks with some bytes written, not filled: room is taken for them, and no row tells of them.
    private(set) var partial: Set<Int> = []
    /// Extents whose rows tell of blocks that are lost.
    private var stale: Set<Int> = []
    /// There may be bytes on the disk in blocks that are not filled.
    private(set) var hasLeftovers = false
    /// Extents that are to leave the page cache and cannot yet.
    private var leaving: Set<Int> = []
    /// How many handles have been offered the whole file, and not yet begun to read it nor been closed.
    private(set) var offers = 0
    /// By extent, in the order of `UseClock`.
    private(set) var uses: [Int64]
    private var writtenUses: [Int64]

    struct Row: Equatable {
        var extent: Int
        var word: UInt64
        /// Of the blocks that are new in `word`.
        var sums = ExtentSums()
        var lastUse: Int64 = 0
    }

    /// What `clear` took out, to be confirmed or put back.
    struct Cleared {
        var removed: [Row] = []
        fileprivate var unkept = ExtentBits()
        fileprivate var verified = ExtentBits()
        /// Rows to write before the bytes may go.
        var rows: [Row] = []
        var bytes: Int64 = 0
        /// `failedSyncs` at that moment.
        let failures: Int
        /// Room of blocks that were written in part.
        var partialBytes: Int64 = 0

        init(failures: Int) { self.failures = failures }
    }

    /// - Parameter uses: by extent; as many as `durable` has.
    init(durable: BlockMap, uses: [Int64]? = nil) {
        map = durable
        self.durable = durable
        verified = BlockMap(length: durable.length)
        self.uses = uses ?? Array(repeating: 0, count: durable.extents.count)
        writtenUses = self.uses
    }

    var isPending: Bool { !changed.isEmpty || !syncing.isEmpty || !stale.isEmpty }

    /// Nothing of it may go from here on. - Returns: false where it is not all there.
    mutating func offer() -> Bool {
        guard map.isComplete, verified.isComplete, durable.isComplete else { return false }
        offers += 1
        return true
    }

    mutating func settleOffer() { offers -= 1 }

    // MARK: Filling

    /// These get their first bytes by a write of `blocks`: room has to be made for them.
    func untouched(_ blocks: Range<Int>) -> [Int] { blocks.filter { !map[$0] && !partial.contains($0) } }

    /// - Parameter failures: `failedSyncs` before they were written; nil where that was into memory.
    mutating func wrote(_ blocks: Range<Int>, failures: Int? = nil) {
        for block in blocks where !map[block] {
            partial.insert(block)
            // A sync that failed meanwhile did not see them, and may have lost them.
            if let failures, failures != failedSyncs { unkept[block / 64] |= bit(block) }
        }
    }

    /// Where the bytes of a filled block are.
    enum Place {
        case disk
        /// And there they stay: no row may tell of them.
        case memory
    }

    /// - Returns: bytes that became filled by this; 0 where they were.
    mutating func fill(_ block: Int, _ sum: UInt64, in place: Place = .disk, now: Int64 = 0) -> Int64 {
        guard !map[block] else { return 0 }
        let extent = block / 64
        map[block] = true
        verify(block)
        partial.remove(block)
        sums[extent, default: ExtentSums()][block % 64] = sum
        uses[extent] = max(uses[extent], now)
        switch place {
        case .disk: changed.insert(extent)
        case .memory: unkept[extent] |= bit(block)
        }
        return map.bytes(of: block).count
    }

    /// No longer filled, as its bytes are gone or wrong. Its row, if there is one, tells of it until the next commit, and
    /// its checksum that it lies. - Returns: bytes no longer filled.
    mutating func lose(_ blocks: Range<Int>) -> Int64 {
        let before = map.filledBytes
        for block in blocks.clamped(to: 0..<map.blockCount) where map[block] {
            let extent = block / 64
            map[block] = false
            if durable[block] { stale.insert(extent) }
            durable[block] = false
            hasLeftovers = true
            verified[block] = false
            if let bits = syncing[extent] { syncing[extent] = bits & ~bit(block) }
            unkept[extent] &= ~bit(block)
            sums[extent]?[block % 64] = nil
        }
        return before - map.filledBytes
    }

    /// Whoever wrote in part has gone. - Returns: the room that was taken for it.
    mutating func abandonPartial() -> Int64 {
        defer { partial = [] }
        for block in partial { unkept[block / 64] &= ~bit(block) }
        return partial.reduce(0) { $0 + map.bytes(of: $1).count }
    }

    /// What was filled and never can be durable is no longer filled. - Returns: the room that was taken for it.
    mutating func abandonUnkept() -> Int64 {
        hasLeftovers = false
        let before = map.filledBytes
        map = durable
        unkept = ExtentBits()
        return before - map.filledBytes
    }

    // MARK: Reading

    mutating func use(_ blocks: Range<Int>, now: Int64) {
        Self.forEachExtent(of: blocks) { extent, _ in uses[extent] = now }
    }

    /// Blocks that are held against their checksum whenever they are read from the disk, as bits, the first of `blocks` the
    /// least significant: filled and not looked at yet, or not durable, filled or not. Until a sync has vouched for them a
    /// filesystem that cannot write them back may drop them from the page cache, and zeros are read in their place.
    /// - Parameter blocks: 64 at most.
    func uncertain(_ blocks: Range<Int>) -> UInt64 {
        var bits: UInt64 = 0
        Self.forEachExtent(of: blocks) { extent, mask in
            let word = ~(verified.extents[extent] & durable.extents[extent]) & mask
            let shift = extent * 64 - blocks.lowerBound
            bits |= shift < 0 ? word >> UInt64(-shift) : word << UInt64(shift)
        }
        return bits
    }

    /// False where some of these blocks have no bytes on the disk.
    func isKnown(_ blocks: Range<Int>) -> Bool {
        var isFilled = true
        Self.forEachExtent(of: blocks) { extent, mask in
            if map.extents[extent] & mask != mask { isFilled = false }
        }
        return isFilled || blocks.allSatisfy { map[$0] || partial.contains($0) }
    }

    /// Every hit asks by words: a file has few of them, and a loop over bits allocates in a build without optimisation.
    private static func forEachExtent(of blocks: Range<Int>, _ body: (_ extent: Int, _ mask: UInt64) -> Void) {
        guard !blocks.isEmpty else { return }
        var extent = blocks.lowerBound / 64
        while extent * 64 < blocks.upperBound {
            body(extent, BlockMap.mask(of: blocks, inExtent: extent))
            extent += 1
        }
    }

    /// The checksum was right. A block whose sync failed is looked at each time: the page cache may lose it.
    mutating func verify(_ block: Int) {
        if map[block], !unkept.contains(block) { verified[block] = true }
    }

    /// What was looked at, of what the index tells.
    var verifiedOnDisk: BlockMap {
        var result = durable
        for extent in durable.extents.indices {
            result.load(extent: extent, word: durable.extents[extent] & verified.extents[extent])
        }
        return result
    }

    /// Of these blocks it is known that they are what was written.
    mutating func trust(_ blocks: BlockMap) {
        guard blocks.length == map.length else { return }
        for extent in map.extents.indices {
            verified.load(extent: extent, word: verified.extents[extent] | blocks.extents[extent] & map.extents[extent])
        }
    }

    /// It was wrong: the next read looks again.
    mutating func doubt(_ block: Int) { if map[block] { verified[block] = false } }

    /// The file was touched from outside: everything on the disk is looked at again.
    mutating func doubt() { verified = BlockMap(length: map.length) }

    /// Where no row has it yet.
    func sum(of block: Int) -> UInt64? { sums[block / 64]?[block % 64] }

    // MARK: Syncing

    /// The snapshot before fdatasync; false where there is nothing to sync.
    mutating func beginSync() -> Bool {
        for extent in changed {
            let bits = map.extents[extent] & ~durable.extents[extent] & ~unkept[extent]
            if bits != 0 { syncing[extent, default: 0] |= bits }
        }
        changed = []
        for extent in stale where syncing[extent] == nil { syncing[extent] = 0 }
        return !syncing.isEmpty
    }

    /// False where the running sync is for rows alone, which lose something.
    var isSyncingBlocks: Bool { syncing.values.contains { $0 != 0 } }

    /// What the rows may say once fdatasync has returned.
    var rowsAfterSync: [Row] {
        syncing.map { extent, bits in
            Row(
                extent: extent, word: durable.extents[extent] | bits, sums: sums[extent] ?? ExtentSums(),
                lastUse: uses[extent])
        }
    }

    /// Those rows are durable.
    mutating func endSync() {
        for row in rowsAfterSync {
            durable.load(extent: row.extent, word: row.word)
            stale.remove(row.extent)
            writtenUses[row.extent] = max(writtenUses[row.extent], row.lastUse)
            if isDurable(row.extent) { sums[row.extent] = nil }
        }
        syncing = [:]
    }

    /// They are not: the next sync takes them along.
    mutating func abandonSync() {
        changed.formUnion(syncing.keys)
        syncing = [:]
    }

    /// fdatasync failed, and reports that only once: what is not durable never will be. It can be read as long as the
    /// page cache has it, which its checksum tells.
    mutating func loseUnsynced() {
        for extent in changed.union(syncing.keys) {
            loseHold(of: map.extents[extent] & ~durable.extents[extent], inExtent: extent)
        }
        // What had been written of these is in doubt as well; the next sync would vouch for it.
        for block in partial { unkept[block / 64] |= bit(block) }
        changed = []
        syncing = [:]
        failedSyncs += 1
    }

    private mutating func loseHold(of bits: UInt64, inExtent extent: Int) {
        unkept[extent] |= bits
        verified.load(extent: extent, word: verified.extents[extent] & ~bits)
    }

    /// Extents that were used since their rows were written, with that use.
    mutating func takeUses() -> [(extent: Int, lastUse: Int64)] {
        var result: [(extent: Int, lastUse: Int64)] = []
        for extent in uses.indices where uses[extent] != writtenUses[extent] && durable.extents[extent] != 0 {
            result.append((extent, uses[extent]))
            writtenUses[extent] = uses[extent]
        }
        return result
    }

    // MARK: Leaving memory

    /// Nobody reads here soon. - Returns: whether the extent may leave the page cache now. One of which some is not on the
    /// disk for sure has to wait until a sync has ended: were that to fail, the page cache has the only bytes that are right.
    mutating func leaveMemory(_ extent: Int) -> Bool {
        if isDurable(extent) { return true }
        leaving.insert(extent)
        return false
    }

    /// Those that had to wait and need not any more.
    mutating func takeLeaving() -> [Int] {
        guard !leaving.isEmpty else { return [] }
        let ready = leaving.filter(isDurable)
        leaving.subtract(ready)
        return ready.sorted()
    }

    // MARK: Clearing

    /// Takes blocks out of every stage.
    mutating func clear(_ blocks: Range<Int>) -> Cleared {
        var cleared = Cleared(failures: failedSyncs)
        let before = map.filledBytes
        let blocks = blocks.clamped(to: 0..<map.blockCount)
        guard !blocks.isEmpty else { return cleared }
        for extent in blocks.lowerBound / 64...(blocks.upperBound - 1) / 64 {
            let mask = BlockMap.mask(of: blocks, inExtent: extent)
            let removed = map.extents[extent] & mask
            if removed != 0 {
                cleared.removed.append(Row(extent: extent, word: removed, sums: sums[extent] ?? ExtentSums()))
            }
            map.load(extent: extent, word: map.extents[extent] & ~mask)
            cleared.verified[extent] = verified.extents[extent] & mask
            verified.load(extent: extent, word: verified.extents[extent] & ~mask)
            if let bits = syncing[extent] { syncing[extent] = bits & ~mask == 0 ? nil : bits & ~mask }
            cleared.unkept[extent] = unkept[extent] & mask
            unkept[extent] &= ~mask
            if isDurable(extent) { sums[extent] = nil }
            let kept = durable.extents[extent] & ~mask
            if kept != durable.extents[extent] {
                cleared.rows.append(Row(extent: extent, word: kept, lastUse: uses[extent]))
            }
        }
        hasLeftovers = hasLeftovers || !partial.isEmpty
        for block in partial where blocks.contains(block) { cleared.partialBytes += map.bytes(of: block).count }
        partial.subtract(blocks)
        cleared.bytes = before - map.filledBytes
        return cleared
    }

    /// The rows of `cleared` are durable.
    mutating func confirm(_ cleared: Cleared) {
        for row in cleared.rows { durable.load(extent: row.extent, word: row.word) }
    }

    /// They could not be written: the blocks stay.
    mutating func putBack(_ cleared: Cleared) {
        for row in cleared.removed {
            map.load(extent: row.extent, word: map.extents[row.extent] | row.word)
            if row.sums.known != 0 { sums[row.extent] = row.sums.over(sums[row.extent] ?? ExtentSums()) }
            changed.insert(row.extent)
        }
        for (extent, bits) in cleared.verified.words {
            verified.load(extent: extent, word: verified.extents[extent] | bits)
        }
        for (extent, bits) in cleared.unkept.words { unkept[extent] |= bits }
        guard cleared.failures != failedSyncs else { return }
        // A sync that failed meanwhile did not see them.
        for row in cleared.removed {
            loseHold(of: row.word & ~durable.extents[row.extent], inExtent: row.extent)
        }
    }

    /// All that is filled of the extent.
    private func isDurable(_ extent: Int) -> Bool { map.extents[extent] & ~durable.extents[extent] == 0 }

    private func bit(_ block: Int) -> UInt64 { ExtentBits.bit(block) }
}
