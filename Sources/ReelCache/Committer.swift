import ReelCore
import ReelThreads
import Synchronization

/// Moments between two steps of the format's protocol: CacheFormat tells what a crash there leaves.
enum CrashPoint: String, CaseIterable, Sendable {
    case fileMade, rowInserted
    case entriesWritten, dataSynced, rowsCommitted, idleRowsCommitted, swept
    case discardRowsCommitted, discardPunched
    case evictionRowsCommitted, evictionPunched
}

/// Makes durable what was filled and remembered, and tidies files that are closed.
final class Committer: Sendable {
    /// A commit runs early once so much is filled: the most that a power loss may forget, and that one fdatasync has to
    /// write.
    static let commitBytes: Int64 = 32 << 20

    private struct State: Sendable {
        var isSwept = false
        /// When the age limit was last looked at, on the clock of `now()`.
        var agedAt: Duration?
    }

    private let index: CacheIndex
    private let files: DataFiles
    private let metadata: Metadata
    private let evictor: Evictor
    private let verified: VerificationCache
    private let thread: CommitThread
    /// Held over a whole commit, fdatasync included, so that `commit` returns only when all earlier ones have ended.
    /// Only commits wait for it.
    private let state = Lock(State(), .commit)
    /// Bytes filled since the last commit began.
    private let uncommitted = Atomic<Int64>(0)

    private var disk: DiskWatch { evictor.disk }
    private var reached: @Sendable (CrashPoint) -> Void { evictor.reached }

    init(
        _ index: CacheIndex, _ files: DataFiles, _ metadata: Metadata, _ evictor: Evictor, _ verified: VerificationCache
    ) {
        self.index = index
        self.files = files
        self.metadata = metadata
        self.evictor = evictor
        self.verified = verified
        thread = evictor.commits
    }

    deinit { thread.stop(waiting: false) }

    /// Commits from a thread of its own from now on.
    func start() throws(CacheError) {
        try thread.start { [weak self] in self?.commit() }
        thread.schedule()
    }

    /// Ends the thread.
    func stop() { thread.stop(waiting: true) }

    /// A block is filled, and its bytes are on the disk.
    func filled(_ bytes: Int64, _ block: Int, of file: DataFile, _ sum: UInt64) {
        if !file.isOpenEnded { index.journal?.note(FillJournal.Entry(object: file.row, block: block, sum: sum)) }
        filled(bytes)
    }

    func filled(_ bytes: Int64) {
        let sum = uncommitted.add(bytes, ordering: .relaxed).newValue
        thread.schedule(urgent: sum >= Self.commitBytes)
    }

    /// The last instance of an object may be gone; its file is tidied with the next commit.
    func closed(_ file: DataFile) {
        files.closed(file)
        thread.schedule()
    }

    /// Everything filled and remembered so far is durable when this returns, unless the disk refuses; then it is tried
    /// again with the next batch. The order: snapshot of what is filled, fdatasync of the data, entries of listings,
    /// rows in one transaction.
    func commit() {
        state.withLock { state in
            uncommitted.store(0, ordering: .relaxed)
            index.journal?.turn()
            releaseIdleMemory()
            let synced = files.all.filter(synchronise)
            if !files.all.contains(where: { $0.withBlocks { $0.isPending } }) { disk.hasNothingToSync() }
            do throws(CacheError) {
                try write(synced)
                try metadata.removeStrays()
                try tidyIdle()
                if !state.isSwept {
                    try files.sweep(index)
                    reached(.swept)
                    try metadata.sweep()
                    state.isSwept = true
                }
                try evictor.evictAged(&state.agedAt)
            } catch {
                guard error != .closed else { return }
                if error != .busy { disk.failed(error) }
                thread.schedule(after: DiskHealth.longestPause / 6)
            }
        }
    }

    /// Runs `body` while no commit does.
    func betweenCommits<Result>(_ body: () throws -> Result) rethrows -> Result {
        try state.withLock { _ in try body() }
    }

    /// True where there are rows to write. A second fdatasync may succeed without the bytes that the first one lost:
    /// blocks of a failed sync are never committed.
    private func synchronise(_ file: DataFile) -> Bool {
        guard file.withBlocks({ $0.beginSync() }), hasReachedDisk(file) else { return false }
        if file.withBlocks({ $0.isSyncingBlocks }) { disk.dataWasSynced() }
        return true
    }

    /// fdatasync(2), which tells a failure once: its only hearer has to note it.
    private func hasReachedDisk(_ file: DataFile) -> Bool {
        do throws(CacheError) {
            try file.descriptor.synchronise()
            reached(.dataSynced)
            return true
        } catch {
            file.withBlocks { $0.loseUnsynced() }
            disk.failed(error, needsProof: true)
            // To find out whether it is well again, also where nothing comes.
            thread.schedule(after: DiskHealth.longestPause)
            return false
        }
    }

    private func write(_ synced: [DataFile]) throws(CacheError) {
        var batch = metadata.begin()
        var isWritten = false
        var replaced: [Int64]?
        defer {
            metadata.end(isWritten: isWritten, replaced: replaced)
            if !isWritten { for file in synced { file.withBlocks { $0.abandonSync() } } }
        }
        let used = files.all.filter { $0.row >= 0 }.map { file in (file.row, file.withBlocks { $0.takeUses() }) }
        guard !synced.isEmpty || !batch.isEmpty || used.contains(where: { !$0.1.isEmpty }) else {
            isWritten = true
            return
        }
        try metadata.writeEntries(of: &batch)
        let rows = batch
        replaced = try index.write { (connection) throws(CacheError) -> [Int64] in
            // Evicted while it was synced: its row is gone and must stay so.
            let living = synced.filter { files.file($0.row) === $0 }
            let replaced = try connection.transaction { () throws(CacheError) in
                let replaced = try connection.write(rows)
                for file in living { try connection.write(file) }
                for (row, uses) in used { try connection.write(uses, of: row) }
                return replaced
            }
            index.journal?.settle()
            reached(.rowsCommitted)
            for file in living { file.withBlocks { $0.endSync() } }
            return replaced
        }
        isWritten = true
        disk.indexWasWritten()
        for file in synced { file.leaveMemory() }
    }

    /// Drops what the disk has not taken of closed files: first, as a full disk may refuse all that follows.
    private func releaseIdleMemory() {
        guard files.idle.contains(where: \.isInMemory) else { return }
        // A file becomes held only under the write lock.
        try? index.write { _ in for file in files.idle { file.withBlocks { $0.dropMemory() } } }
    }

    /// Closed files: their last use is written, stray bytes go, and so do files that hold nothing.
    private func tidyIdle() throws(CacheError) {
        guard !files.idle.isEmpty else { return }
        // A hole that a power loss fills again is one that no quota counts, once the file counts as clean.
        for file in files.idle where file.hasFile && !file.isOpenEnded { _ = hasReachedDisk(file) }
        let removed = try index.write { (connection) throws(CacheError) -> [DataFile] in
            let idle = files.idle.filter { !$0.withBlocks { $0.isPending } }
            // Blocks that no row will ever tell of: not whole, or of a sync that failed.
            for file in idle {
                let (durable, isStray) = file.withBlocks { blocks in
                    blocks.dropMemory()
                    return (blocks.durable, blocks.hasLeftovers || !blocks.inFlight.isEmpty || !blocks.isAllDurable)
                }
                if isStray, !file.isOpenEnded { try? file.punchUnfilled(durable) }
                evictor.quota.release(file.withBlocks { $0.abandon() })
            }
            let removed = idle.filter {
                $0.row >= 0 && (files.isSuperseded($0.row) || $0.bytesOnDisk == 0 && $0.version.length > 0)
            }
            try connection.transaction { () throws(CacheError) in
                for file in removed { try connection.delete(file.row) }
                for file in idle where file.row >= 0 { try connection.close(file) }
            }
            reached(.idleRowsCommitted)
            for file in idle {
                if file.hasFile { verified.keep(file) }
                files.drop(file.row)
            }
            return removed
        }
        for file in removed {
            files.remove(file.name)
            evictor.quota.release(file.bytesOnDisk)
        }
    }
}

extension IndexConnection {
    /// The rows of a file whose sync has ended.
    func write(_ file: DataFile) throws(CacheError) {
        let (rows, cached) = file.withBlocks { ($0.rowsAfterSync, $0.durableBytesAfterSync) }
        try write(rows, of: file)
        let values: [Value] = [.integer(cached), .integer(file.lastUse), .integer(file.row)]
        try run("UPDATE objects SET cached = ?, last_use = ? WHERE id = ?", values)
    }

    /// The file is closed: no leftovers come until it is opened again.
    fileprivate func close(_ file: DataFile) throws(CacheError) {
        let durable = file.withBlocks { $0.durableBytes }
        let values: [Value] = [.integer(file.lastUse), .integer(durable), .integer(file.row)]
        try run("UPDATE objects SET last_use = ?, cached = ?, unclean = 0 WHERE id = ?", values)
    }
}
