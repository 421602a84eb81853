import Glibc
import ReelCore
import Synchronization

/// One sparse file with its row in the index; outlives its `CacheObject` until what it holds is committed.
///
/// Where the disk or the index did not take it, it has neither file nor row, and its bytes live in memory.
final class DataFile: Sendable {
    /// `objects.id`; below zero where there is no row.
    let row: Int64
    let version: Version
    /// nil where there is no file.
    let name: FileName?
    let descriptor: Descriptor
    let lastUse: Atomic<Int64>
    let isPinned: Atomic<Bool>
    /// The kernel was given the file itself: there may be readers that nobody here sees.
    let isShared = Atomic(false)
    /// Blocks that the disk did not take.
    private let memory = Mutex<[Int: MemoryBlock]>([:])
    /// Spares the hit path a second lock.
    private let hasMemory = Atomic(false)
    /// Goes up when a block has moved to memory, before its bytes leave the disk.
    private let moves = Atomic<UInt64>(0)
    /// How often in a row stat(2) counted fewer blocks than were written, and nothing was missing (`hasLostBytes`).
    let shortCounts = Atomic(0)
    private let changes: ChangeWatch
    private let state: Mutex<FillState>
    private let pieces = Mutex<[Int: Pieces]>([:])

    init(
        row: Int64, version: Version, name: FileName?, descriptor: consuming Descriptor, fill: FillState,
        lastUse: Int64,
        isPinned: Bool = false
    ) {
        self.row = row
        self.version = version
        self.name = name
        changes = ChangeWatch(descriptor)
        self.descriptor = descriptor
        self.lastUse = Atomic(lastUse)
        self.isPinned = Atomic(isPinned)
        state = Mutex(fill)
    }

    var hasFile: Bool { name != nil }

    /// Not a byte of it may go: somebody reads the file itself.
    var isReadDirectly: Bool { isShared.load(ordering: .relaxed) && descriptor.isOpenElsewhere }

    /// Around what this program changes of the file.
    func change<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        try changes.change(descriptor, body)
    }

    /// nil where somebody else has changed the file since it was opened.
    var ownMark: FileMark? { changes.own(descriptor) }

    func fill<Result: Sendable>(_ change: (inout FillState) -> Result) -> Result { state.withLock { change(&$0) } }

    func bytes(of block: Int) -> ByteRange { BlockSize.bytes(of: block, length: version.length) }

    /// In filled blocks on the disk.
    var filledBytes: Int64 {
        let inMemory = memoryBlocks
        return fill { state in
            inMemory.reduce(state.map.filledBytes) { $0 - (state.map[$1] ? state.map.bytes(of: $1).count : 0) }
        }
    }

    // MARK: Pieces

    /// Bytes that are in their place now.
    /// - Parameters:
    ///   - hasRoom: room on the disk was taken for their blocks.
    ///   - failures: `FillState.failedSyncs` before they were written to the file.
    func wrote(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange, hasRoom: Bool, failures: Int? = nil) {
        let blocks = blocks(touching: range)
        let isFilled = fill { state in
            if hasRoom { state.wrote(blocks, failures: failures) }
            return blocks.map { state.map[$0] }
        }
        pieces.withLock { pieces in
            for (block, isFilled) in zip(blocks, isFilled) where !isFilled {
                let part = range.clamped(to: self.bytes(of: block))
                pieces[block, default: Pieces()].add(bytes.part(part, from: range.lower), at: part)
            }
        }
    }

    func blocks(touching range: ByteRange) -> Range<Int> {
        BlockSize.blocks(touching: range, length: version.length)
    }

    /// The checksum of a block all bytes of which were written; nil where they are not there any more. Its pieces stay,
    /// as readers look at them until it is filled.
    func sum(ofWritten block: Int) -> UInt64? {
        guard let pieces = pieces(of: block) else { return nil }
        let range = bytes(of: block)
        if let sum = pieces.whole(range) { return sum }
        guard pieces.cover(range) else { return nil }
        return withWhole(block) { pieces.agree(with: $0, of: range) ? checksum($0) : nil } ?? nil
    }

    func pieces(of block: Int) -> Pieces? { pieces.withLock { $0[block] } }

    /// Reads what was written of a block that is not filled from the disk, piece by piece. - Parameter buffer: for `range`.
    /// - Returns: false where it is not what came, or nobody knows.
    func readPieces(of block: Int, into buffer: UnsafeMutableRawBufferPointer, _ range: ByteRange) -> Bool {
        // What comes meanwhile is added to the very same sums.
        let written = pieces.withLock { pieces in
            pieces[block]?.all.filter { !$0.range.clamped(to: range).isEmpty }.map { ($0.range, $0.checksum.value) }
        }
        return written?.allSatisfy { descriptor.read($0, $1, into: buffer, range) } ?? false
    }

    /// What was written of blocks that are not filled.
    var written: [Int: [ByteRange]] { pieces.withLock { $0.mapValues { $0.all.map(\.range) } } }

    /// Their bytes are read again before they count.
    func doubtPieces() {
        pieces.withLock { pieces in for block in pieces.keys { pieces[block]!.isDoubtful = true } }
    }

    func forgetPieces(_ blocks: Range<Int>) {
        pieces.withLock { pieces in
            for block in pieces.keys where blocks.contains(block) { pieces[block] = nil }
        }
    }

    // MARK: Memory

    var isInMemory: Bool { hasMemory.load(ordering: .relaxed) }

    func memoryBlock(_ block: Int) -> MemoryBlock? { isInMemory ? memory.withLock { $0[block] } : nil }

    func keep(_ block: Int, in memoryBlock: MemoryBlock) {
        memory.withLock { $0[block] = memoryBlock }
        hasMemory.store(true, ordering: .relaxed)
        moves.add(1, ordering: .acquiringAndReleasing)
    }

    var memoryBlocks: [Int] { isInMemory ? memory.withLock { $0.keys.sorted() } : [] }

    func dropMemory() { dropMemory(0..<fill { $0.map.blockCount }) }

    /// They are in no account of the disk.
    func dropMemory(_ blocks: Range<Int>) {
        guard isInMemory else { return }
        let gone = memoryBlocks.filter { blocks.contains($0) }
        // First nobody believes that they are there.
        fill { state in for block in gone { _ = state.lose(block..<block + 1) } }
        memory.withLock { memory in
            for block in gone { memory[block] = nil }
            if memory.isEmpty { hasMemory.store(false, ordering: .relaxed) }
        }
    }

    // MARK: Reading

    /// Bytes of the file or, block by block, of memory.
    /// - Returns: how many, -1 on error; and which of the first 64 blocks came from memory, as bits.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> (count: Int, fromMemory: UInt64) {
        while true {
            let before = moves.load(ordering: .acquiring)
            let result = readOnce(into: buffer, at: offset)
            if moves.load(ordering: .acquiring) == before { return result }
        }
    }

    private func readOnce(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) -> (count: Int, fromMemory: UInt64) {
        guard isInMemory else { return (descriptor.read(into: buffer, at: offset), 0) }
        let range = ByteRange(offset, min(version.length, offset + Int64(buffer.count)))
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

    /// Calls with all bytes of a block; nil where they cannot be read.
    func withWhole<Result>(_ block: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        if let memory = memoryBlock(block) { return body(memory.bytes) }
        return descriptor.withBytes(bytes(of: block), body)
    }

    // MARK: Leaving memory

    /// Whole extents that nobody reads soon leave the page cache: now, or as soon as they are durable. No allocation where
    /// they are.
    func leaveMemory(_ range: ByteRange) {
        guard hasFile else { return }
        var extent = Int(range.lower / BlockSize.extent)
        while Int64(extent) * BlockSize.extent < range.upper {
            if fill({ $0.leaveMemory(extent) }) { dropPages(ofExtent: extent) }
            extent += 1
        }
    }

    /// After a sync.
    func leaveMemory() {
        for extent in fill({ $0.takeLeaving() }) { dropPages(ofExtent: extent) }
    }

    private func dropPages(ofExtent extent: Int) {
        let lower = Int64(extent) * BlockSize.extent
        descriptor.dropPages(ByteRange(lower, lower + BlockSize.extent))
    }

    // MARK: Tidying

    /// Gives the disk back what lies in no filled block: leftovers of streams that were cut, of a crash.
    func punchUnfilled(_ map: BlockMap) throws(CacheError) {
        var end = 0
        func punch(upTo block: Int) throws(CacheError) {
            let lower = Int64(end) * BlockSize.block
            guard end < block else { return end = block + 1 }
            try change { () throws(CacheError) in try descriptor.punch(lower, Int64(block) * BlockSize.block - lower) }
            end = block + 1
        }
        try map.forEachFilled { (block) throws(CacheError) in try punch(upTo: block) }
        try punch(upTo: map.blockCount)
    }
}
