import ReelCore

/// How blocks become durable: a snapshot of the written ones, fdatasync, rows.
extension BlockTable {
    /// Extents whose rows have to be written.
    struct Sync: Sendable {
        /// With written blocks that no running sync covers.
        var changed: Set<Int> = []
        /// Extents of the running sync, and which of them were stale before.
        fileprivate var running: Set<Int> = []
        fileprivate var runningStale: Set<Int> = []
        /// Extents whose rows cover lost blocks.
        var stale: Set<Int> = []
        fileprivate(set) var failures = 0
    }

    /// The row of one extent, as the index is to have it.
    struct Row: Equatable {
        var extent: Int
        var word: UInt64
        /// The sums of the blocks that are new in `word`.
        var sums = ExtentSums()
        var lastUse: Int64 = 0
    }

    /// False for a version whose end is not known, as no row covers its blocks.
    var isPending: Bool {
        !isOpenEnded && (!sync.changed.isEmpty || !sync.running.isEmpty || !sync.stale.isEmpty)
    }

    /// The snapshot before fdatasync; false where there is nothing to sync.
    mutating func beginSync() -> Bool {
        if isOpenEnded { return false }
        move(sync.changed, .syncBegins)
        sync.running.formUnion(sync.changed.filter { hasSyncing($0) })
        sync.running.formUnion(sync.stale)
        sync.runningStale.formUnion(sync.stale)
        sync.changed = []
        sync.stale = []
        return !sync.running.isEmpty
    }

    /// False where the running sync only takes lost blocks out of rows.
    var isSyncingBlocks: Bool { sync.running.contains { hasSyncing($0) } }

    private func hasSyncing(_ extent: Int) -> Bool { states.extent(extent)?.word(of: .syncing) ?? 0 != 0 }

    /// The rows that may be written once fdatasync has returned.
    var rowsAfterSync: [Row] {
        sync.running.map { number in
            let extent = states.extent(number)
            return Row(
                extent: number, word: extent?.word(of: .durable, .syncing) ?? 0, sums: extent?.sums ?? ExtentSums(),
                lastUse: states.lastUse(ofExtent: number))
        }
    }

    /// `durableBytes` once the running sync has ended.
    var durableBytesAfterSync: Int64 {
        sync.running.reduce(states.durableBytes) { sum, number in
            let word = states.extent(number)?.word(of: .syncing) ?? 0
            return sum + BlockStates.bytes(of: word, inExtent: number, length: length)
        }
    }

    /// Marks the rows of the running sync as durable.
    mutating func endSync() {
        move(sync.running, .syncEnds)
        let keepsSums = keepsSums
        for extent in sync.running {
            let isDurable = isDurable(extent)
            states.update(extent) { extent in
                extent.writtenUse = extent.lastUse
                if isDurable, !keepsSums { extent.sums = nil }
            }
        }
        sync.running = []
        sync.runningStale = []
        if keepsSums { dropSums() }
    }

    /// The rows of the running sync could not be written: the next sync takes them along.
    mutating func abandonSync() {
        move(sync.running, .syncAbandoned)
        sync.stale.formUnion(sync.runningStale)
        sync.running = []
        sync.runningStale = []
    }

    /// fdatasync failed, and reports that only once: blocks that are not durable never will be. They can be read as
    /// long as the page cache has them; their checksums show whether it has.
    mutating func loseUnsynced() {
        move(sync.changed.union(sync.running), .syncFails)
        // The written bytes of these are in doubt as well; the next sync would vouch for them.
        for (block, flight) in inFlight where flight.memory == nil { doubtSync(of: block) }
        sync.stale.formUnion(sync.runningStale)
        sync.changed = []
        sync.running = []
        sync.runningStale = []
        sync.failures += 1
    }

    private mutating func move(_ extents: Set<Int>, _ event: BlockState.Event) {
        for extent in extents {
            for block in extent * 64..<min(blockCount, extent * 64 + 64) { _ = apply(event, to: block) }
        }
    }

    /// Extents that were used since their rows were written, with that use.
    var unwrittenUses: [(extent: Int, lastUse: Int64)] {
        states.extents.filter { $0.lastUse != $0.writtenUse && $0.word(of: .durable) != 0 }.map {
            ($0.number, $0.lastUse)
        }
    }

    /// Their rows have these uses now. One that came meanwhile is yet to be written.
    mutating func setWritten(_ uses: [(extent: Int, lastUse: Int64)]) {
        for use in uses { states.update(use.extent) { $0.writtenUse = use.lastUse } }
    }

    /// Whether all filled blocks of the extent are durable.
    func isDurable(_ number: Int) -> Bool {
        guard let extent = states.extent(number) else { return true }
        return extent.word(of: .durable).nonzeroBitCount == extent.filledBlocks
    }

    // MARK: Leaving the page cache

    /// No reader comes here soon. - Returns: whether the extent may leave the page cache now. An extent that is not all
    /// durable has to wait until a sync has ended: if that fails, only the page cache has the right bytes.
    mutating func leaveMemory(_ extent: Int) -> Bool {
        if isDurable(extent) { return true }
        leaving.insert(extent)
        return false
    }

    /// The extents that had to wait and need not any more.
    mutating func takeLeaving() -> [Int] {
        guard !leaving.isEmpty else { return [] }
        let ready = leaving.filter { isDurable($0) }
        leaving.subtract(ready)
        return ready.sorted()
    }
}
