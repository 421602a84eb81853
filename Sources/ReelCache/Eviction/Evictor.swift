import ReelCore
import ReelThreads
import Synchronization

/// Evicts cached data: to make space for new bytes, for its age, or at a person's request.
///
/// Rows go first, durably, then the bytes, then their part of the quota. Never called under a lock that a holder's
/// `relinquish` takes.
struct Evictor: Sendable {
    let index: CacheIndex
    let files: DataFiles
    let quota: CacheQuota
    let disk: DiskWatch
    let clock: UseClock
    let commits: StoreThread
    /// Data unused for this long is evicted, nil if age evicts nothing.
    let age: Duration?
    let reached: @Sendable (CrashPoint) -> Void
    /// Counts what it evicts.
    let tally = EvictionTally()
    /// Makes room ahead (`makeRoomAhead`).
    let ahead = StoreThread("evictor")
    /// One at a time makes it: two would find the same blocks, and each would wait for the other's syncs.
    let turn = Turn()
    /// Counts the blocks that are in memory.
    let memory: MemoryAccount

    // MARK: For what is about to be written

    /// Takes `bytes` (whole blocks, the last one of a file short) from the quota before data is written, and evicts
    /// extents where they do not fit. - Returns: false where that is not enough.
    func reserve(_ bytes: Int64) -> Bool {
        defer { if quota.isTight { ahead.schedule(urgent: true) } }
        if quota.reserve(bytes) { return true }
        var isReserved = false
        makeRoomAhead {
            isReserved = quota.reserve(bytes)
            return isReserved
        }
        if isReserved || quota.reserve(bytes) { return true }
        let slack = quota.slack
        let shortfall = quota.shortfall(bytes)
        guard shortfall > 0 else { return quota.reserve(bytes) }
        do throws(CacheError) {
            _ = try evict(shortfall, slack: slack)
        } catch {
            if error != .closed, error != .busy { disk.failed(error) }
        }
        return quota.reserve(bytes)
    }

    /// A block in memory, for bytes that the disk does not take, or not yet. - Throws: `.full` where no other block can
    /// go.
    func memoryBlock(_ count: Int64) throws(CacheError) -> MemoryBlock {
        // Blocks in part go before whole ones where no request fills them any more, and after them where one waits.
        for (inPart, isScarce) in [(true, false), (false, false), (false, true), (true, true)] {
            if let block = MemoryBlock(count, memory) { return block }
            freeMemory(inPart: inPart, isScarce: isScarce)
        }
        guard let block = MemoryBlock(count, memory) else { throw .full }
        return block
    }

    /// Lets blocks go that are in memory. - Parameter isScarce: also those that a reader will need.
    private func freeMemory(inPart: Bool, isScarce: Bool) {
        // An eighth at a time: the search for blocks costs more than freeing them.
        let goal = memory.bytes - MemoryAccount.keptLimit / 8
        for object in files.objects.sorted(by: { $0.file.lastUse < $1.file.lastUse }) where object.file.isInMemory {
            guard memory.bytes > goal else { continue }
            // The longest unused extents first.
            let blocks = object.file.memoryBlocks.filter { object.file.isFilled($0) != inPart }.map { block in
                (object.file.withBlocks { $0.states.lastUse(ofExtent: block / 64) }, block)
            }.sorted { $0 < $1 }.map(\.1)
            guard let holder = object.holder else {
                for block in blocks where memory.bytes > goal { try? discard(block..<block + 1, of: object.file) }
                continue
            }
            if inPart {
                for block in blocks where memory.bytes > goal { holder.relinquishPart(block, isScarce: isScarce) }
            } else {
                _ = holder.relinquish(
                    blocks.map { $0..<$0 + 1 }, scarce: isScarce ? memory.bytes - goal : nil, evenPinned: true)
            }
        }
    }

    // MARK: By extents

    /// Frees about `wanted` bytes that are not pinned, by extents of closed and open files alike, in the order of
    /// `EvictionCandidate`. Blocks that readers of an open file need right now stay; blocks read ahead for them go only
    /// where nothing else is left.
    /// - Parameters:
    ///   - slack: extra bytes to free if no open file loses readahead.
    ///   - limit: only extents last used before this go.
    ///   - closedOnly: required on any thread but the one that writes.
    ///   - sparesOpen: keeps files whole that a program has open.
    /// - Returns: bytes freed.
    func evict(
        _ wanted: Int64, slack: Int64 = 0, usedBefore limit: Int64 = .max, closedOnly: Bool = false,
        sparesOpen: Bool = false
    ) throws(CacheError) -> Int64 {
        guard disk.mayWriteIndex, wanted > 0 else { return 0 }
        var freed: Int64 = 0
        var found: [EvictionCandidate] = []
        var search = EvictionSearch(wanted + slack)
        while freed < wanted + slack, search.goesOn {
            found = try candidates(search.begin(), usedBefore: limit, sparing: search.spared) { file in
                !(closedOnly && files.isHeld(file.row))
                    && !(sparesOpen && files.held(file.row)?.holder?.isInUse == true)
            }
            freed += try evict(found, until: wanted + slack - freed, closedOnly: closedOnly, &search)
        }
        if freed < wanted, !closedOnly {
            freed += try evict(found, until: wanted - freed, isScarce: true, closedOnly: closedOnly, &search)
        }
        return freed
    }

    private func evict(
        _ candidates: [EvictionCandidate], until goal: Int64, isScarce: Bool = false, closedOnly: Bool,
        _ search: inout EvictionSearch
    ) throws(CacheError) -> Int64 {
        var freed: Int64 = 0
        var rest = candidates[...]
        while freed < goal, !rest.isEmpty {
            let batch = rest.takeBatch(goal - freed)
            freed += try evict(batch, scarce: isScarce ? goal - freed : nil, closedOnly: closedOnly, &search)
        }
        return freed
    }

    /// Evicts the blocks of a key, pinned or not. Blocks that readers of an open file need right now stay, and files
    /// that the kernel reads itself. On the thread that writes. - Returns: bytes freed.
    func evict(key: String) throws(CacheError) -> Int64 {
        let name = ExactText(key)
        let all = try candidates(.max, key: key) { ExactText($0.version.key) == name }
        var search = EvictionSearch(.max)
        return try evict(all, scarce: nil, evenPinned: true, &search)
    }

    /// Evicts closed files that were unused for longer than the limit allows. Looks every tenth of that time, but at
    /// most once a second and at least once an hour.
    /// - Parameter last: the time of the last look, on the clock of `now()`, nil if none yet.
    func evictAged(_ last: inout Duration?) throws(CacheError) {
        guard let age else { return }
        let pause = max(.seconds(1), min(age / 10, .seconds(3600)))
        defer { commits.schedule(after: pause) }
        if let last, now() - last < pause { return }
        last = now()
        let limit = clock.now() - age.components.seconds * 1000 - age.components.attoseconds / 1_000_000_000_000_000
        _ = try evict(.max / 2, usedBefore: limit, closedOnly: true)
    }

    /// Extents that could go, in order: all of files in use, and of closed files as many as are wanted.
    /// - Parameters:
    ///   - key: only files of this key, pinned or not, nil for all that are not pinned.
    ///   - spared: rows of closed files that take no part.
    ///   - mayGo: whether a file in use takes part.
    func candidates(
        _ wanted: Int64, usedBefore limit: Int64 = .max, key: String? = nil, sparing spared: Set<Int64> = [],
        _ mayGo: (DataFile) -> Bool
    ) throws(CacheError) -> [EvictionCandidate] {
        // Before the lock, as it asks holders.
        let movable = files.all.filter { $0.mayMakeRoom && mayGo($0) }
        return try index.write { (index) throws(CacheError) in
            // Files leave the table until here.
            let inUse = files.all
            var closed: [EvictionCandidate] = []
            if key != nil || files.mayHaveEvictable {
                let rows = spared.union(inUse.map(\.row))
                closed = try index.evictionCandidates(wanted, usedBefore: limit, key: key) { !rows.contains($0) }
            }
            // When those that are spared may go is not known.
            if closed.isEmpty, spared.isEmpty, key == nil, limit == .max { files.mayHaveEvictable = false }
            let staying = Set(inUse.map { ObjectIdentifier($0) })
            let open = try index.evictionCandidates(
                of: movable.filter { staying.contains(ObjectIdentifier($0)) }, usedBefore: limit,
                evenPinned: key != nil)
            return (closed + open).sorted(by: EvictionCandidate.goesBefore)
        }
    }

    private func evict(
        _ batch: [EvictionCandidate], scarce: Int64?, closedOnly: Bool = false, evenPinned: Bool = false,
        _ search: inout EvictionSearch
    ) throws(CacheError) -> Int64 {
        var freed = try evictClosed(batch.filter { $0.file == nil }, evenPinned: evenPinned, &search)
        for (row, candidates) in Dictionary(grouping: batch.filter { $0.file != nil }, by: \.object) {
            guard let file = candidates[0].file else { continue }
            if !closedOnly, let object = files.held(row) {
                let blocks = candidates.map(\.blocks)
                let rest = scarce.map { $0 - freed }
                if let holder = object.holder {
                    freed += holder.relinquish(blocks, scarce: rest, evenPinned: evenPinned)
                } else {
                    // Whoever has it asks for no bytes: an upload, or a comparison.
                    let blocks = object.wasLent ? object.freeExtents(of: blocks) : blocks
                    freed += try discard(blocks, of: file, unlessHeld: false, evenPinned: evenPinned)
                }
            } else {
                let unused = candidates.filter { candidate in
                    file.withBlocks { $0.states.lastUse(ofExtent: candidate.extent) } == candidate.lastUse
                }
                freed += try discard(unused.map(\.blocks), of: file, unlessHeld: true, evenPinned: evenPinned)
            }
        }
        tally.bytes.add(freed, ordering: .relaxed)
        return freed
    }

    /// - Returns: bytes freed.
    private func discard(
        _ blocks: [Range<Int>], of file: DataFile, unlessHeld: Bool, evenPinned: Bool
    ) throws(CacheError) -> Int64 {
        let before = file.bytesOnDisk
        for blocks in blocks {
            do throws(CacheError) {
                try discard(blocks, of: file, unlessHeld: unlessHeld, evenPinned: evenPinned)
            } catch {
                guard error == .busy else { throw error }
            }
        }
        return before - file.bytesOnDisk
    }

    /// Evicts extents of closed files: rows first, in one transaction, then the bytes. A file of which nothing is left
    /// goes as a whole. What was used since it was found stays.
    /// - Parameter evenPinned: also what was pinned since it was found.
    func evictClosed(
        _ batch: [EvictionCandidate], evenPinned: Bool = false, _ search: inout EvictionSearch
    ) throws(CacheError) -> Int64 {
        guard !batch.isEmpty else { return 0 }
        var shared: [Int64] = []
        var emptied: [(row: ObjectRow, extents: [Int], isGone: Bool)] = []
        let freed = try index.write { (index) throws(CacheError) -> Int64 in
            var freed: Int64 = 0
            try index.transaction { () throws(CacheError) in
                let objects = Dictionary(grouping: batch, by: \.object)
                for (id, candidates) in objects where files.file(id) == nil {
                    guard let row = try index.row(id) else { continue }
                    if !evenPinned, try index.isPinned(row.version.key) { continue }
                    // A mapping, or a handle of a lazily ended mount, may still read it.
                    if let file = try files.open(row), file.isOpenElsewhere {
                        shared.append(id)
                        continue
                    }
                    var gone: [Int] = []
                    for candidate in candidates {
                        let values: [Value] = [
                            .integer(id), .integer(Int64(candidate.extent)), .integer(candidate.lastUse),
                        ]
                        try index.run("DELETE FROM extents WHERE object = ? AND extent = ? AND last_use = ?", values)
                        if index.changes > 0 { gone.append(candidate.extent) }
                    }
                    if gone.isEmpty { continue }
                    let left = try index.blocks(of: row).states.filledBytes
                    freed += row.cached - left
                    emptied.append((row, gone, left == 0))
                    if left == 0 { try index.delete(id) } else { try index.setUnclean(id, cached: left) }
                }
            }
            reached(.evictionRowsCommitted)
            // Under the lock: if an open came before the hole, its writes would be lost in it.
            for (row, extents, isGone) in emptied where !isGone {
                // Where that fails the row stays unclean, and the next start punches.
                guard let file = try? files.open(row) else { continue }
                for extent in extents where DataFile.extents.contains(extent) {
                    try? file.punch(extent * 64..<extent * 64 + 64)
                }
            }
            return freed
        }
        search.spared.formUnion(shared)
        // Outside of the lock: the removal of a long file takes a while, and no row has its name any more.
        for (row, _, isGone) in emptied where isGone { files.remove(row.name) }
        reached(.evictionPunched)
        quota.release(freed)
        return freed
    }

    // MARK: By blocks

    /// Empties blocks of a file in use: first the rows of filled ones, durably, then the bytes on disk or in memory,
    /// then their part of the quota.
    /// - Parameters:
    ///   - unlessHeld: does nothing where the file has an object, whose holder relies on the blocks.
    ///   - evenPinned: false: does nothing where the file is pinned, perhaps since somebody looked last.
    func discard(
        _ blocks: Range<Int>, of file: DataFile, unlessHeld: Bool = false, evenPinned: Bool = true
    ) throws(CacheError) {
        guard file.row >= 0 else {
            _ = file.clear(blocks)
            return
        }
        // Reported outside of the lock, because a listener is called.
        var failure: CacheError?
        defer { if let failure { disk.failed(failure) } }
        try index.write { (index) throws(CacheError) in
            // One that has left the table has left the quota, too. A file that is idle under the lock stays so there.
            if files.file(file.row) !== file || unlessHeld && files.isHeld(file.row) { return }
            if !evenPinned, try index.isPinned(file.version.key) { return }
            guard let cleared = file.clear(blocks) else { throw .busy }
            do throws(CacheError) {
                if !cleared.rows.isEmpty {
                    let left = file.withBlocks { $0.states.durableBytes }
                    try index.transaction { () throws(CacheError) in
                        try index.write(cleared.rows, of: file)
                        try index.setUnclean(file.row, cached: left)
                    }
                }
            } catch {
                file.withBlocks { $0.putBack(cleared) }
                commits.schedule()
                // The blocks that were not whole are gone, with their part of the quota.
                quota.release(cleared.partialBytes)
                failure = error
                throw error
            }
            reached(.discardRowsCommitted)
            // No row covers them any more, even if the disk refuses the hole.
            quota.release(cleared.bytes + cleared.partialBytes)
            if cleared.bytes + cleared.partialBytes > 0 { try file.punch(blocks) }
            reached(.discardPunched)
        }
    }
}

/// Passed by one thread at a time.
final class Turn: Sendable {
    private let lock = Lock((), .room)
    func take<Value: Sendable>(_ body: () -> Value) -> Value { lock.withLock { _ in body() } }
}

/// The bytes that left a cache since the program started.
final class EvictionTally: Sendable {
    let bytes = Atomic<Int64>(0)
}
