import ReelCore

/// How blocks become durable: a snapshot of what is written, fdatasync, rows.
extension BlockTable {
    /// Extents by what the next rows have to tell of them.
    struct Sync: Sendable {
        /// With written blocks that nobody has begun to sync.
        var changed: Set<Int> = []
        /// Those of the running sync, and which of them were stale before.
        fileprivate var running: Set<Int> = []
        fileprivate var runningStale: Set<Int> = []
        /// Their rows tell of blocks that are lost.
        var stale: Set<Int> = []
        fileprivate(set) var failures = 0
    }

    /// What the index is to say of one extent.
    struct Row: Equatable {
        var extent: Int
        var word: UInt64
        /// Of the blocks that are new in `word`.
        var sums = ExtentSums()
        var lastUse: Int64 = 0
    }

    /// No row tells of blocks of a version whose end is not known.
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

    /// False where the running sync is for rows alone, which lose something.
    var isSyncingBlocks: Bool { sync.running.contains { hasSyncing($0) } }

    private func hasSyncing(_ extent: Int) -> Bool { extents[extent]?.word(of: .syncing) ?? 0 != 0 }

    /// What the rows may say once fdatasync has returned.
    var rowsAfterSync: [Row] {
        sync.running.map { extent in
            Row(
                extent: extent, word: extents[extent]?.word(of: .durable, .syncing) ?? 0,
                sums: extents[extent]?.sums ?? ExtentSums(), lastUse: lastUse(ofExtent: extent))
        }
    }

    /// What `durableBytes` will be then.
    var durableBytesAfterSync: Int64 {
        sync.running.reduce(durableBytes) { sum, extent in
            (extents[extent]?.states.indices ?? 0..<0).reduce(sum) { sum, index in
                extents[extent]?.state(index) == .syncing ? sum + bytes(of: extent * 64 + index).count : sum
            }
        }
    }

    /// Those rows are durable.
    mutating func endSync() {
        move(sync.running, .syncEnds)
        for extent in sync.running {
            let isDurable = isDurable(extent)
            extents.update(extent) { extent in
                extent.writtenUse = extent.lastUse
                if isDurable { extent.sums = nil }
            }
        }
        sync.running = []
        sync.runningStale = []
    }

    /// They are not: the next sync takes them along.
    mutating func abandonSync() {
        move(sync.running, .syncAbandoned)
        sync.stale.formUnion(sync.runningStale)
        sync.running = []
        sync.runningStale = []
    }

    /// fdatasync failed, and reports that only once: what is not durable never will be. It can be read as long as the
    /// page cache has it, which its checksum tells.
    mutating func loseUnsynced() {
        move(sync.changed.union(sync.running), .syncFails)
        // What had been written of these is in doubt as well; the next sync would vouch for it.
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
    mutating func takeUses() -> [(extent: Int, lastUse: Int64)] {
        var result: [(extent: Int, lastUse: Int64)] = []
        for extent in extents.all where extent.lastUse != extent.writtenUse && extent.word(of: .durable) != 0 {
            result.append((extent.number, extent.lastUse))
            extents.update(extent.number) { $0.writtenUse = $0.lastUse }
        }
        return result
    }

    /// All that is filled of the extent.
    private func isDurable(_ number: Int) -> Bool {
        guard let extent = extents[number] else { return true }
        return extent.word(of: .durable).nonzeroBitCount == extent.filledBlocks
    }

    // MARK: Leaving the page cache

    /// Nobody reads here soon. - Returns: whether the extent may leave the page cache now. One of which some is not on
    /// the disk for sure has to wait until a sync has ended: were that to fail, the page cache has the only bytes that
    /// are right.
    mutating func leaveMemory(_ extent: Int) -> Bool {
        if isDurable(extent) { return true }
        leaving.insert(extent)
        return false
    }

    /// Those that had to wait and need not any more.
    mutating func takeLeaving() -> [Int] {
        guard !leaving.isEmpty else { return [] }
        let ready = leaving.filter { isDurable($0) }
        leaving.subtract(ready)
        return ready.sorted()
    }
}
