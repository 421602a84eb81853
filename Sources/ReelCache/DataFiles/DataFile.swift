import Glibc
import ReelCore
import ReelThreads
import Synchronization

/// One sparse file with its row in the index. It outlives its `CacheObject` until its blocks are committed.
///
/// Where the disk or the index did not take it, it has neither file nor row, and its bytes are in memory.
final class DataFile: Sendable {
    /// The extents of the longest file. The index is not trusted to name only these.
    static let extents = 0..<Int(BlockSize.longestFile / BlockSize.extent)

    /// `objects.id`; below zero where there is no row.
    let row: Int64
    private let key: String
    /// A copy of `BlockTable.length`. Each hit reads it several times, without the lock.
    private let lengthCount: Atomic<Int64>
    /// nil where there is no file.
    let name: FileName?
    let descriptor: Descriptor
    /// nil where the bytes are on the disk as they are.
    let cipher: BlockCipher?
    /// How often in a row stat(2) counted too few blocks although nothing was missing (`hasLostBytes`). Each hit reads
    /// it, after its bytes and without the lock.
    private let shortCounts = Atomic(0)
    private let changes: ChangeWatch
    private let state: Lock<State>
    /// A copy of `BlockTable.removals`. Each hit compares it after its bytes, without the lock.
    private let removalCount: Atomic<UInt64>

    private struct State {
        var validator: Validator
        var blocks: BlockTable
        var lastUse: Int64
        var isShared: Bool
        var lent: LentExtents
    }

    init(
        row: Int64, version: Version, name: FileName?, descriptor: consuming Descriptor, blocks: BlockTable,
        lastUse: Int64, cipher: BlockCipher? = nil, wasLent: Bool = false
    ) {
        self.row = row
        key = version.key
        lengthCount = Atomic(version.length)
        self.name = name
        self.cipher = cipher
        changes = ChangeWatch(descriptor)
        // A process before this one may have given it to the kernel, whose handles and mappings outlive that.
        let isShared = name != nil && descriptor.isOpenElsewhere
        self.descriptor = descriptor
        removalCount = Atomic(blocks.removals)
        state = Lock(
            State(
                validator: version.validator, blocks: blocks, lastUse: lastUse, isShared: isShared,
                lent: LentExtents(wasLent: wasLent)))
    }

    var version: Version { Version(key: key, validator: state.withLock { $0.validator }, length: length) }
    func rename(_ validator: Validator) { state.withLock { $0.validator = validator } }
    var length: Int64 { lengthCount.load(ordering: .acquiring) }
    var isOpenEnded: Bool { length == BlockSize.openEnd }
    var hasFile: Bool { name != nil }

    /// Runs `body` on the table of blocks, under its lock.
    func withBlocks<Result: Sendable>(_ body: (inout BlockTable) -> Result) -> Result {
        state.withLock { state in
            defer { removalCount.store(state.blocks.removals, ordering: .releasing) }
            return body(&state.blocks)
        }
    }

    /// Ends the version at this length. - Returns: bytes of the quota that are free now.
    func settle(length: Int64, now: Int64) -> Int64 {
        withBlocks { blocks in
            defer { lengthCount.store(length, ordering: .releasing) }
            return blocks.settle(length: length, now: now)
        }
    }

    /// Whether all blocks stay as they are if the version becomes longer: a last block that is short is empty.
    var endsWhole: Bool { withBlocks { $0.endsWhole } }

    /// Makes the version a longer one, unless bytes have come into a last block that is not whole.
    func lengthen(to length: Int64, _ validator: Validator) -> Bool {
        state.withLock { state in
            guard state.blocks.endsWhole else { return false }
            state.blocks.lengthen(to: length)
            state.validator = validator
            lengthCount.store(length, ordering: .releasing)
            return true
        }
    }

    func bytes(of block: Int) -> ByteRange { BlockSize.bytes(of: block, length: length) }

    func blocks(touching range: ByteRange) -> Range<Int> { BlockSize.blocks(touching: range, length: length) }

    var blockCount: Int { withBlocks { $0.blockCount } }

    /// In filled blocks on the disk.
    var bytesOnDisk: Int64 { withBlocks { $0.states.bytesOnDisk } }

    /// In the order of `UseClock`.
    var lastUse: Int64 { state.withLock { $0.lastUse } }
    func use(_ now: Int64) { state.withLock { $0.lastUse = max($0.lastUse, now) } }

    /// Whether the kernel was given the file itself, and may have readers that this program does not see.
    var isShared: Bool {
        get { state.withLock { $0.isShared } }
        set { state.withLock { $0.isShared = newValue } }
    }

    /// Whether no byte of it may go: the kernel reads the file itself, or was offered it.
    var isReadDirectly: Bool {
        let (isOffered, isShared) = state.withLock { ($0.blocks.offers > 0, $0.isShared) }
        return isOffered || isShared && descriptor.isOpenElsewhere
    }

    /// Empties blocks to make way for others; nil where the file is read directly, or bytes of them are lent. It looks
    /// and clears in one step, because an offer or a loan can come at any time.
    func clear(_ blocks: Range<Int>) -> BlockTable.Cleared? {
        state.withLock { state in
            guard state.blocks.offers == 0, !(state.isShared && descriptor.isOpenElsewhere),
                state.lent.allow(blocks, of: state.blocks)
            else { return nil }
            defer { removalCount.store(state.blocks.removals, ordering: .releasing) }
            return state.blocks.clear(blocks)
        }
    }

    /// Durable blocks begin to leave; none where the file is read directly, or gives up whole extents only.
    func depart(_ blocks: [Range<Int>]) -> BlockTable.Departing {
        state.withLock { state in
            guard state.blocks.offers == 0, !state.lent.wasLent, !(state.isShared && descriptor.isOpenElsewhere) else {
                return BlockTable.Departing()
            }
            defer { removalCount.store(state.blocks.removals, ordering: .releasing) }
            return state.blocks.depart(blocks)
        }
    }

    /// Lends blocks of one extent of a complete file, and counts a use.
    /// - Returns: bytes in filled blocks on the disk; nil where the blocks are not verified and durable.
    func lend(_ blocks: Range<Int>, now: Int64) -> Int64? {
        state.withLock { state in
            guard state.blocks.isComplete, state.blocks.uncertain(blocks) == 0 else { return nil }
            state.blocks.use(blocks, now: now)
            state.lent.lend(blocks.lowerBound / 64)
            return state.blocks.states.bytesOnDisk
        }
    }

    func takeBack(_ range: ByteRange) { state.withLock { $0.lent.takeBack(Int(range.lower / BlockSize.extent)) } }

    var wasLent: Bool { state.withLock { $0.lent.wasLent } }

    func freeExtents(of runs: [Range<Int>]) -> [Range<Int>] {
        state.withLock { $0.lent.extents(of: runs, blockCount: $0.blocks.blockCount) }
    }

    /// Runs a change of the file by this program.
    func change<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        try changes.change(descriptor, body)
    }

    /// The file's mark; nil where another program has changed the file since it was opened.
    var ownMark: FileMark? { changes.own(descriptor) }

    // MARK: Memory

    var isInMemory: Bool { withBlocks { $0.isInMemory } }

    /// A block's bytes; nil where they are not in memory.
    func memoryBlock(_ block: Int) -> MemoryBlock? { withBlocks { $0.inFlight[block]?.memory } }

    var memoryBlocks: [Int] { withBlocks { $0.inFlight.filter { $0.value.memory != nil }.keys.sorted() } }

    // MARK: Reading

    /// Copies bytes of the file or, block by block, of memory.
    /// - Returns: how many, -1 on error; and which of the first 64 blocks came from memory, as bits.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> (count: Int, fromMemory: UInt64) {
        let range = ByteRange(offset, min(length, offset + Int64(buffer.count)))
        let blocks = blocks(touching: range)
        var fromMemory: UInt64 = 0
        for block in blocks {
            let bytes = bytes(of: block)
            let part = range.clamped(to: bytes)
            let slice = buffer.part(part, from: offset)
            if let memory = memoryBlock(block) {
                memory.read(into: slice, at: Int(part.lower - bytes.lower))
                fromMemory |= 1 << UInt64(block - blocks.lowerBound)
            } else {
                let count = descriptor.read(into: slice, at: part.lower)
                if count != slice.count {
                    return (count < 0 ? -1 : Int(part.lower - offset) + count, fromMemory)
                }
            }
        }
        return (Int(range.count), fromMemory)
    }

    /// Reads the written bytes of a block that is not filled, piece by piece, from the disk. - Parameter buffer: for
    /// `range`.
    /// - Returns: false where a piece has another checksum, or cannot be read.
    func readPieces(of block: Int, into buffer: UnsafeMutableRawBufferPointer, _ range: ByteRange) -> Bool {
        // Copied under the lock: bytes that come meanwhile are added to these sums.
        let written = withBlocks { blocks in
            blocks.inFlight[block]?.pieces.all.filter { !$0.range.clamped(to: range).isEmpty }
                .map { ($0.range, $0.checksum?.value) }
        }
        guard let written else { return false }
        return written.allSatisfy { piece, sum in
            if let sum { descriptor.read(piece, sum, into: buffer, range) } else { false }
        }
    }

    /// Calls with all bytes of a block; nil where they cannot be read.
    func withWhole<Result>(_ block: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        if let memory = memoryBlock(block) { return body(memory.bytes) }
        return descriptor.withBytes(bytes(of: block), body)
    }

    /// Whether a block on the disk has this proof.
    func proves(_ block: Int, _ sum: BlockSum) -> Bool {
        guard let cipher else { return withWhole(block, checksum) == sum.plain }
        let range = bytes(of: block)
        return withScratch(Int(range.count)) {
            descriptor.read(into: $0, at: range.lower) == $0.count && cipher.open($0, block: block, sum)
        }
    }

    // MARK: Counting blocks on the disk

    /// A count of blocks that is short so often in a row is no chance: the filesystem compresses, or keeps zeros as
    /// holes.
    private static let believed = 64

    /// True where bytes of filled blocks have gone from the disk: the file was cut and has grown again, or it was
    /// punched.
    ///
    /// Too few blocks alone prove nothing: while ext4 writes pages back, it counts some for a moment neither as
    /// reserved nor as allocated, and the sum of stat(2) is short. The file has no holes then.
    /// - Parameter bytes: in filled blocks, counted before the read.
    func hasLostBytes(of bytes: Int64) -> Bool {
        let seen = shortCounts.load(ordering: .relaxed)
        guard seen < DataFile.believed else { return false }
        if descriptor.holds(bytes, of: length) {
            if seen > 0 { shortCounts.store(0, ordering: .relaxed) }
            return false
        }
        guard hasNoHoles else { return true }
        shortCounts.add(1, ordering: .relaxed)
        return false
    }

    /// All blocks were compared with their checksums and are right: counting them proves nothing here.
    func countsNoBlocks() {
        if descriptor.isLong(length) { shortCounts.store(DataFile.believed, ordering: .relaxed) }
    }

    // MARK: Leaving the page cache

    /// Lets whole extents leave the page cache: now, or as soon as they are durable. Allocates nothing where they are.
    func leaveMemory(_ range: ByteRange) {
        guard hasFile else { return }
        var extent = Int(range.lower / BlockSize.extent)
        while Int64(extent) * BlockSize.extent < range.upper {
            if withBlocks({ $0.leaveMemory(extent) }) { dropPages(ofExtent: extent) }
            extent += 1
        }
    }

    /// The same of the extents that had to wait, after a sync.
    func leaveMemory() {
        for extent in withBlocks({ $0.takeLeaving() }) { dropPages(ofExtent: extent) }
    }

    private func dropPages(ofExtent extent: Int) {
        let lower = Int64(extent) * BlockSize.extent
        descriptor.dropPages(ByteRange(lower, lower + BlockSize.extent))
    }

    // MARK: Tidying

    /// Punches out the bytes of these blocks. Where the disk refuses that, the file does not count as clean.
    func punch(_ blocks: Range<Int>) throws(CacheError) {
        do throws(CacheError) {
            try change { () throws(CacheError) in try descriptor.punch(blocks) }
        } catch {
            withBlocks { $0.leaveStrays() }
            throw error
        }
    }

    /// Punches out all bytes outside of these blocks: leftovers of streams that were cut.
    func punch(allBut kept: RangeSet<Int>) throws(CacheError) {
        let count = blockCount
        try change { () throws(CacheError) in try descriptor.punch(allBut: kept, of: count) }
    }
}

extension DataFile: PresentBytes {
    var isComplete: Bool { withBlocks { $0.isComplete } }
    var removals: UInt64 { removalCount.load(ordering: .acquiring) }
    func covers(_ range: ByteRange) -> Bool { withBlocks { $0.covers(range) } }
    func firstMissing(from offset: Int64, limit: Int64) -> Int64 {
        withBlocks { $0.firstMissing(from: offset, limit: limit) }
    }
    func firstCovered(from offset: Int64, limit: Int64) -> Int64 {
        withBlocks { $0.firstCovered(from: offset, limit: limit) }
    }
    func startOfGap(at offset: Int64) -> Int64 { withBlocks { $0.startOfGap(at: offset) } }
    func isFilled(_ block: Int) -> Bool { withBlocks { $0[block].isFilled } }
}
