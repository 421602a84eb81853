import ReelCore

/// Which blocks of one version are there, where, and how safely: the one truth of it, for fetch planning and cache
/// alike. A value: it takes events and says what to write. `BlockState` has the transitions.
///
/// A block that leaves during a sync leaves it at once, also where it is filled anew before the sync has ended.
struct BlockTable: Sendable {
    /// A block of which not all bytes are there yet, or whose bytes are in memory.
    struct Flight: Sendable {
        /// What came of it; empty once it is filled.
        var pieces = Pieces()
        /// Where the disk does not take it.
        var memory: MemoryBlock?
        /// Room on the disk that was reserved for it.
        var room: Int64 = 0
        /// A sync failed after some of its bytes were written, and may have lost them.
        var isUnkept = false
    }

    /// `BlockSize.openEnd` until `settle`.
    private(set) var length: Int64
    private(set) var blockCount: Int
    var extents: TouchedExtents
    /// The last use of extents that were never touched.
    private let defaultUse: Int64
    private(set) var inFlight: [Int: Flight] = [:]
    private(set) var filledBlocks = 0
    private(set) var durableBlocks = 0
    /// Durable and verified.
    private var certainBlocks = 0
    /// Goes up each time that bytes leave, or move to memory: what was read from the disk meanwhile does not count.
    private(set) var removals: UInt64 = 0
    /// In filled blocks on the disk.
    private(set) var bytesOnDisk: Int64 = 0
    var sync = Sync()
    var failedSyncs: Int { sync.failures }
    /// There may be bytes on the disk in blocks that are not filled.
    private(set) var hasLeftovers = false
    /// Extents that are to leave the page cache and cannot yet.
    var leaving: Set<Int> = []
    /// How many open handles have been offered the whole file.
    private(set) var offers = 0

    init(length: Int64, lastUse: Int64 = 0) {
        self.length = length
        blockCount = BlockTable.blockCount(length)
        defaultUse = lastUse
        extents = TouchedExtents()
    }

    /// Takes one row of the index. Bits past the end are not believed.
    mutating func load(_ extent: Int, word: UInt64, lastUse: Int64) {
        guard extent >= 0, extent < (blockCount + 63) / 64, extents[extent] == nil else { return }
        let word = word & BlockMap.mask(of: 0..<blockCount, inExtent: extent)
        extents.touch(extent, lastUse: lastUse)
        extents.update(extent) { $0.load(word) }
        filledBlocks += word.nonzeroBitCount
        durableBlocks += word.nonzeroBitCount
        bytesOnDisk = durableBytes
    }

    // MARK: Looking

    var isComplete: Bool { filledBlocks == blockCount }

    var isOpenEnded: Bool { length == BlockSize.openEnd }

    subscript(block: Int) -> BlockState { extents.state(of: block) }

    func bytes(of block: Int) -> ByteRange { BlockSize.bytes(of: block, length: length) }

    /// In all filled blocks.
    var filledBytes: Int64 { bytes(of: filledBlocks, hasLast: self[blockCount - 1].isFilled) }

    /// No filled block is in no row.
    var isAllDurable: Bool { durableBlocks == filledBlocks }

    var durableBytes: Int64 { bytes(of: durableBlocks, hasLast: self[blockCount - 1] == .durable) }

    private func bytes(of count: Int, hasLast: Bool) -> Int64 {
        Int64(count) * BlockSize.block - (hasLast ? Int64(blockCount) * BlockSize.block - length : 0)
    }

    /// The bits of the filled blocks of one extent.
    func filledWord(_ extent: Int) -> UInt64 { extents[extent]?.filledWord ?? 0 }

    /// Blocks that are durable, as the rows of the index say.
    var durable: BlockMap { map { $0.word(of: .durable) } }

    /// Filled blocks.
    var filled: BlockMap { map(\.filledWord) }

    /// What was verified, of what the index tells.
    var verifiedOnDisk: BlockMap {
        map { extent in
            let indices = extent.states.indices.filter { extent.isVerified($0) && extent.state($0) == .durable }
            return indices.reduce(0) { $0 | 1 << UInt64($1) }
        }
    }

    private func map(_ word: (TouchedExtents.Extent) -> UInt64) -> BlockMap {
        var map = BlockMap(length: isOpenEnded ? Int64(extents.end) * BlockSize.extent : length)
        for extent in extents.all { map.load(extent: extent.number, word: word(extent)) }
        return map
    }

    /// Extents with filled blocks: their bytes, and when they were last used.
    var usedExtents: [(extent: Int, bytes: Int64, lastUse: Int64)] {
        let last = (blockCount - 1) / 64
        return extents.all.filter { $0.filledBlocks > 0 }.map { extent in
            let hasLast = extent.number == last && self[blockCount - 1].isFilled
            return (extent.number, bytes(of: extent.filledBlocks, hasLast: hasLast), extent.lastUse)
        }
    }

    func lastUse(ofExtent extent: Int) -> Int64 { extents[extent]?.lastUse ?? defaultUse }

    // MARK: Filling

    /// Blocks that a write would be the first to put bytes into: room has to be made for them.
    func untouched(_ blocks: Range<Int>) -> [Int] { blocks.filter { self[$0] == .empty } }

    /// Bytes of these are about to be written, and room on the disk was reserved for them.
    mutating func begin(_ blocks: [Int]) {
        for block in blocks where apply(.begin, to: block) { inFlight[block] = Flight(room: bytes(of: block).count) }
    }

    /// The write failed: blocks of which nothing came before are empty again. - Returns: the room that was reserved.
    mutating func cancel(_ blocks: [Int]) -> Int64 {
        blocks.reduce(0) { room, block in
            guard self[block] == .partial, inFlight[block]?.pieces.all.isEmpty ?? false else { return room }
            return room + leave(block).room
        }
    }

    /// A block goes on in memory, with what came of it. - Returns: its room on the disk, where its bytes are to be
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

    /// Bytes of a block are in their place now. One that has left since they were begun stays empty: they do not count.
    /// - Parameter failures: `failedSyncs` before they were written to the file; nil where that was into memory.
    /// - Returns: whether all of its bytes are there.
    mutating func add(_ bytes: UnsafeRawBufferPointer, at range: ByteRange, of block: Int, failures: Int?) -> Bool {
        guard self[block] == .partial else { return false }
        inFlight[block]?.pieces.add(bytes, at: range)
        // A sync that failed meanwhile did not see them, and may have lost them.
        if let failures, failures != failedSyncs { doubtSync(of: block) }
        return inFlight[block]?.pieces.cover(self.bytes(of: block)) ?? false
    }

    /// The sync that failed did not see what came of this block, or lost it.
    mutating func doubtSync(of block: Int) { inFlight[block]?.isUnkept = true }

    /// All bytes of a block are there and have this checksum. - Returns: false where it has left, or was filled before.
    mutating func seal(_ block: Int, _ sum: UInt64, now: Int64) -> Bool {
        guard let flight = inFlight[block] else { return false }
        let event: BlockState.Event =
            flight.memory != nil ? .sealInMemory : flight.isUnkept ? .sealUnkept : .seal
        guard apply(event, to: block) else { return false }
        inFlight[block] = flight.memory.map { Flight(memory: $0) }
        extents.update(block / 64) { $0.set(sum, of: block % 64) }
        use(block..<block + 1, now: max(lastUse(ofExtent: block / 64), now))
        verify(block)
        return true
    }

    /// Whole blocks that are in the file already. - Returns: bytes that became filled.
    mutating func fill(_ block: Int, _ sum: UInt64, now: Int64 = 0) -> Int64 {
        begin([block])
        return seal(block, sum, now: now) ? bytes(of: block).count : 0
    }

    // MARK: An open end

    /// Whether all bytes of the first `length` are on the disk, in blocks that are whole but for the last.
    func isOnDisk(upTo length: Int64) -> Bool {
        let (count, rest) = length.quotientAndRemainder(dividingBy: BlockSize.block)
        guard !isInMemory, filledBlocks == count else { return false }
        return rest == 0 || inFlight[Int(count)]?.pieces.whole(ByteRange(length - rest, length)) != nil
    }

    /// The version ends here, and is like any other from now on. - Returns: room on the disk that its last block does
    /// not need.
    mutating func settle(length: Int64, now: Int64) -> Int64 {
        self.length = length
        blockCount = BlockTable.blockCount(length)
        let last = blockCount - 1
        guard self[last] == .partial, let flight = inFlight[last] else { return 0 }
        let surplus = max(0, flight.room - bytes(of: last).count)
        inFlight[last]?.room -= surplus
        if let sum = flight.pieces.whole(bytes(of: last)) { _ = seal(last, sum, now: now) }
        return surplus
    }

    private static func blockCount(_ length: Int64) -> Int {
        Int((length + BlockSize.block - 1) / BlockSize.block)
    }

    // MARK: Leaving

    /// No longer there, as the bytes are gone or wrong. A row may tell of them until the next commit, and its checksum
    /// that it lies. - Returns: room on the disk that is free now.
    mutating func lose(_ blocks: Range<Int>) -> Int64 {
        var room: Int64 = 0
        forEachTouched(blocks) { table, block in
            // Its row may have been written in this moment.
            if [.durable, .syncing].contains(table[block]) { table.sync.stale.insert(block / 64) }
            table.extents.update(block / 64) { $0.set(nil, of: block % 64) }
            room += table.leave(block).room
            table.hasLeftovers = true
        }
        return room
    }

    /// Nobody holds the file any more: all that no row will tell of goes. - Returns: room on the disk that is free now.
    mutating func abandon() -> Int64 {
        hasLeftovers = false
        if isAllDurable, inFlight.isEmpty { return 0 }
        var room: Int64 = 0
        forEachTouched(0..<blockCount) { table, block in
            if table[block] != .durable { room += table.leave(block).room }
        }
        return room
    }

    /// What `clear` took out, to be confirmed or put back.
    struct Cleared {
        fileprivate var removed: [(block: Int, sum: UInt64?, isUnkept: Bool, isDurable: Bool, isVerified: Bool)] = []
        /// Rows to write before the bytes may go.
        var rows: [Row] = []
        /// In filled blocks on the disk.
        var bytes: Int64 = 0
        /// Room of blocks that were not whole: nothing of them comes back.
        var partialBytes: Int64 = 0
        /// `failedSyncs` at that moment.
        fileprivate let failures: Int
    }

    /// Blocks leave to make way for others.
    mutating func clear(_ blocks: Range<Int>) -> Cleared {
        var cleared = Cleared(failures: failedSyncs)
        var rows: Set<Int> = []
        forEachTouched(blocks) { table, block in
            let (extent, state, isVerified) = (block / 64, table[block], table.isVerified(block))
            let sum = table.extents[extent]?.sums?[block % 64]
            if state == .durable { rows.insert(extent) }
            let (room, wasFilled) = table.leave(block)
            table.extents.update(extent) { $0.set(nil, of: block % 64) }
            if wasFilled {
                cleared.bytes += room
                if state != .memory {
                    cleared.removed.append((block, sum, state == .unkept, state == .durable, isVerified))
                }
            } else {
                cleared.partialBytes += room
                table.hasLeftovers = true
            }
        }
        cleared.rows = rows.sorted().map { Row(extent: $0, word: durableWord($0), lastUse: lastUse(ofExtent: $0)) }
        return cleared
    }

    /// The rows of `cleared` could not be written: its filled blocks stay.
    mutating func putBack(_ cleared: Cleared) {
        for (block, sum, isUnkept, isDurable, isVerified) in cleared.removed where self[block] == .empty {
            // A sync that failed meanwhile did not see those that no row tells of.
            let isLost = isUnkept || !isDurable && cleared.failures != failedSyncs
            set(block, isDurable ? .durable : isLost ? .unkept : .written)
            if let sum { extents.update(block / 64) { $0.set(sum, of: block % 64) } }
            if isVerified { verify(block) }
        }
    }

    // MARK: Memory

    var isInMemory: Bool { !inFlight.isEmpty && inFlight.contains { $0.value.memory != nil } }

    /// What the disk did not take of a file that nobody holds goes.
    mutating func dropMemory() {
        for block in inFlight.filter({ $0.value.memory != nil }).keys { _ = leave(block) }
    }

    // MARK: Offers

    /// Nothing of it may go from here on. - Returns: false where it is not all there, durable and verified.
    mutating func offer() -> Bool {
        guard certainBlocks == blockCount else { return false }
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

    /// - Returns: room on the disk that is free now, and whether the block was filled.
    private mutating func leave(_ block: Int) -> (room: Int64, wasFilled: Bool) {
        let state = self[block]
        guard apply(.leave, to: block) else { return (0, false) }
        let flight = inFlight.removeValue(forKey: block)
        removals += 1
        if state == .partial { return (flight?.room ?? 0, false) }
        return (state == .memory ? 0 : bytes(of: block).count, true)
    }

    private mutating func set(_ block: Int, _ state: BlockState) {
        let isVerified = state.isFilled && isVerified(block)
        count(block, -1)
        extents.touch(block / 64, lastUse: defaultUse)
        extents.update(block / 64) { $0.set(state, isVerified, at: block % 64) }
        count(block, 1)
        if state == .written { sync.changed.insert(block / 64) }
    }

    private mutating func setVerified(_ block: Int, _ isVerified: Bool) {
        let state = self[block]
        guard state.isFilled else { return }
        count(block, -1)
        extents.update(block / 64) { $0.set(state, isVerified, at: block % 64) }
        count(block, 1)
    }

    /// Takes a block out of the sums, or into them.
    private mutating func count(_ block: Int, _ sign: Int) {
        let state = self[block]
        guard state.isFilled else { return }
        filledBlocks += sign
        extents.update(block / 64) { $0.filledBlocks += sign }
        if state != .memory { bytesOnDisk += Int64(sign) * bytes(of: block).count }
        guard state == .durable else { return }
        durableBlocks += sign
        if isVerified(block) { certainBlocks += sign }
    }

    func isVerified(_ block: Int) -> Bool { extents.isVerified(block) }

    /// Of these blocks it is known that they are what was written.
    mutating func trust(_ blocks: BlockMap) {
        guard blocks.length == length else { return }
        for (extent, word) in blocks.extents.enumerated() where word != 0 {
            extents.update(extent) { certainBlocks += $0.verify(word & $0.word(of: .durable)) }
        }
    }

    /// The checksum was right.
    mutating func verify(_ block: Int) { setVerified(block, true) }

    /// It was wrong: the next read looks again.
    mutating func doubt(_ block: Int) { setVerified(block, false) }

    /// The file was touched from outside: everything on the disk is looked at again.
    mutating func doubt() {
        forEachTouched(0..<blockCount) { $0.doubt($1) }
        for block in inFlight.keys { inFlight[block]?.pieces.isDoubtful = true }
    }

    /// Blocks that are not empty. Looks at none of an extent that was never touched.
    private mutating func forEachTouched(_ blocks: Range<Int>, _ body: (inout BlockTable, Int) -> Void) {
        let blocks = blocks.clamped(to: 0..<blockCount)
        guard !blocks.isEmpty else { return }
        let range = blocks.lowerBound / 64...(blocks.upperBound - 1) / 64
        let touched = range.count < extents.all.count ? range.filter { extents[$0] != nil } : extents.all.map(\.number)
        for extent in touched where range.contains(extent) {
            for block in blocks.clamped(to: extent * 64..<extent * 64 + 64) where self[block] != .empty {
                body(&self, block)
            }
        }
    }

    func durableWord(_ extent: Int) -> UInt64 { extents[extent]?.word(of: .durable) ?? 0 }
}
