import ReelCore

/// What is filled of one data file, in memory and in the index. A value: it takes events and says what to write.
///
/// A block goes one way: written in part → filled → syncing → durable. Only a block that was filled *before* fdatasync
/// began becomes durable after it; one that is cleared meanwhile leaves every stage at once, also when it is filled
/// anew before the sync has ended.
struct FillState: Sendable {
    /// Filled: all bytes were written.
    private(set) var map: BlockMap
    /// As the rows of the index say; a part of `map`, but for failures.
    private(set) var durable: BlockMap
    /// Extents with filled blocks that nobody has begun to sync.
    private var changed: Set<Int> = []
    /// Bits by extent that were filled when the running sync began.
    private var syncing: [Int: UInt64] = [:]
    /// Blocks with some bytes written, not filled: data on the disk that no row tells of.
    private(set) var partial: Set<Int> = []

    struct Row: Equatable {
        var extent: Int
        var word: UInt64
    }

    /// What `clear` took out, to be confirmed or put back.
    struct Cleared {
        var removed: [Row] = []
        /// Rows to write before the bytes may go.
        var rows: [Row] = []
        var bytes: Int64 = 0
    }

    init(durable: BlockMap) {
        map = durable
        self.durable = durable
    }

    var isPending: Bool { !changed.isEmpty || !syncing.isEmpty }

    mutating func wrote(_ blocks: Range<Int>) {
        for block in blocks where !map[block] { partial.insert(block) }
    }

    /// Bytes that became filled by this; 0 where they were.
    mutating func fill(_ block: Int) -> Int64 {
        guard !map[block] else { return 0 }
        map[block] = true
        partial.remove(block)
        changed.insert(block / 64)
        return map.bytes(of: block).count
    }

    mutating func fillAll() {
        for extent in map.extents.indices {
            map.load(extent: extent, word: .max)
            changed.insert(extent)
        }
        partial = []
    }

    /// The snapshot before fdatasync; false where there is nothing to sync.
    mutating func beginSync() -> Bool {
        for extent in changed { syncing[extent, default: 0] |= map.extents[extent] & ~durable.extents[extent] }
        changed = []
        return !syncing.isEmpty
    }

    /// What the rows may say once fdatasync has returned.
    var rowsAfterSync: [Row] { syncing.map { Row(extent: $0, word: durable.extents[$0] | $1) } }

    /// Those rows are durable.
    mutating func endSync() {
        for row in rowsAfterSync { durable.load(extent: row.extent, word: row.word) }
        syncing = [:]
    }

    /// They are not: the next sync takes them along.
    mutating func abandonSync() {
        changed.formUnion(syncing.keys)
        syncing = [:]
    }

    /// The data did not reach the disk and never will (fdatasync reports a failure only once): what is not durable is
    /// no longer filled. Gives the bytes lost.
    mutating func loseUnsynced() -> Int64 {
        let before = map.filledBytes
        for extent in map.extents.indices {
            for bit in 0..<64 where (map.extents[extent] & ~durable.extents[extent]) & (1 << UInt64(bit)) != 0 {
                partial.insert(extent * 64 + bit)
            }
        }
        map = durable
        changed = []
        syncing = [:]
        return before - map.filledBytes
    }

    /// Takes blocks out of every stage.
    mutating func clear(_ blocks: Range<Int>) -> Cleared {
        var cleared = Cleared()
        let before = map.filledBytes
        let blocks = blocks.clamped(to: 0..<map.blockCount)
        guard !blocks.isEmpty else { return cleared }
        for extent in blocks.lowerBound / 64...(blocks.upperBound - 1) / 64 {
            let lower = max(blocks.lowerBound - extent * 64, 0)
            let upper = min(blocks.upperBound - extent * 64, 64)
            let upTo: (Int) -> UInt64 = { $0 == 64 ? .max : (1 << UInt64($0)) - 1 }
            let mask = upTo(upper) & ~upTo(lower)
            let removed = map.extents[extent] & mask
            if removed != 0 { cleared.removed.append(Row(extent: extent, word: removed)) }
            map.load(extent: extent, word: map.extents[extent] & ~mask)
            if let bits = syncing[extent] { syncing[extent] = bits & ~mask == 0 ? nil : bits & ~mask }
            let kept = durable.extents[extent] & ~mask
            if kept != durable.extents[extent] { cleared.rows.append(Row(extent: extent, word: kept)) }
        }
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
            changed.insert(row.extent)
        }
    }
}
