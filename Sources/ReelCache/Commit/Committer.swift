import ReelCore
import ReelThreads
import Synchronization

/// Moments between two steps of the commit protocol. The page CacheFormat says what a crash leaves at each.
enum CrashPoint: String, CaseIterable, Sendable {
    case fileMade, rowInserted
    case entriesWritten, dataSynced, rowsCommitted, idleRowsCommitted, swept
    case discardRowsCommitted, discardPunched
    case evictionRowsCommitted, evictionPunched
}

/// Makes filled blocks and remembered facts durable, and tidies closed files.
final class Committer: Sendable {
    /// A commit runs early once this many bytes are filled: a power loss forgets no more, and one fdatasync writes no
    /// more.
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
    private let thread: StoreThread
    /// Held over a whole commit, fdatasync included, so that `commit` returns only when all earlier commits have ended.
    /// Only commits wait for it.
    private let state = Lock(State(), .commit)
    /// A commit runs early once this number of files is closed: each keeps its descriptor until it is tidied.
    static let mostClosed = 64

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

    deinit {
        evictor.ahead.stop(waiting: false)
        thread.stop(waiting: false)
    }

    /// Starts the thread that commits, and the one that makes room.
    func start() throws(CacheError) {
        try thread.start { [weak self] in self?.commit() }
        try evictor.ahead.start { [weak self] in self?.evictor.makeRoomAhead() }
        thread.schedule()
    }

    /// Ends the threads.
    func stop() {
        evictor.ahead.stop(waiting: true)
        thread.stop(waiting: true)
    }

    /// A block is filled, and its bytes are in the data file.
    func filled(_ bytes: Int64) {
        let sum = uncommitted.add(bytes, ordering: .relaxed).newValue
        thread.schedule(urgent: sum >= Self.commitBytes)
    }

    /// An instance of an object is gone. If it was the last, the next commit tidies its file.
    func closed(_ file: DataFile) {
        thread.schedule(urgent: files.closed(file) >= Self.mostClosed)
    }

    /// Makes all blocks and facts so far durable before it returns. If the disk refuses, the next batch tries again.
    /// The order: snapshot of filled blocks, fdatasync of the data, entries of listings, rows in one transaction.
    func commit() {
        state.withLock { state in
            uncommitted.store(0, ordering: .relaxed)
            files.beginCommit()
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
                releaseIdle()
                thread.schedule(after: DiskHealth.longestPause / 6)
            }
        }
    }

    /// Runs `body` while no commit does.
    func betweenCommits<Result>(_ body: () throws -> Result) rethrows -> Result {
        try state.withLock { _ in try body() }
    }

    /// Syncs the written blocks of a file. A second fdatasync may succeed without the bytes that the first one lost, so
    /// blocks of a failed sync are never committed. - Returns: whether there are rows to write.
    private func synchronise(_ file: DataFile) -> Bool {
        guard file.withBlocks({ $0.beginSync() }), hasReachedDisk(file) else { return false }
        if file.withBlocks({ $0.isSyncingBlocks }) { disk.dataWasSynced() }
        return true
    }

    /// fdatasync(2). It reports a failure once, so the failure is noted here.
    private func hasReachedDisk(_ file: DataFile) -> Bool {
        do throws(CacheError) {
            try file.descriptor.synchronise()
            reached(.dataSynced)
            return true
        } catch {
            file.withBlocks { $0.loseUnsynced() }
            disk.failed(error, needsProof: true)
            // A later sync finds out whether the disk is well again, even if nothing new comes.
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
        let used = files.all.filter { $0.row >= 0 }.map { file in (file, file.withBlocks { $0.unwrittenUses }) }
        guard !synced.isEmpty || !batch.isEmpty || used.contains(where: { !$0.1.isEmpty }) else {
            isWritten = true
            return
        }
        try metadata.writeEntries(of: &batch)
        let rows = batch
        replaced = try index.write { (connection) throws(CacheError) -> [Int64] in
            // A file that was evicted meanwhile has no row, and must not get one.
            let living = synced.filter { files.file($0.row) === $0 }
            let replaced = try connection.transaction { () throws(CacheError) in
                let replaced = try connection.write(rows)
                for file in living { try connection.write(file) }
                for (file, uses) in used { try connection.write(uses, of: file.row) }
                return replaced
            }
            reached(.rowsCommitted)
            for file in living { file.withBlocks { $0.endSync() } }
            for (file, uses) in used { file.withBlocks { $0.setWritten(uses) } }
            return replaced
        }
        isWritten = true
        disk.indexWasWritten()
        for file in synced { file.leaveMemory() }
    }

    /// Drops the memory blocks of closed files. Comes first, because a full disk may refuse all later steps.
    private func releaseIdleMemory() {
        guard files.idle.contains(where: \.isInMemory) else { return }
        // A file becomes held only under the write lock.
        try? index.write { _ in for file in files.idle { file.withBlocks { $0.dropMemory() } } }
    }

    /// Tidies closed files: writes their last use, punches out stray bytes, removes files that hold nothing.
    private func tidyIdle() throws(CacheError) {
        guard !files.idle.isEmpty else { return }
        // If a power loss brought bytes of a hole back, no quota would count them once the file counts as clean.
        for file in files.idle where file.hasFile && !file.isOpenEnded { _ = hasReachedDisk(file) }
        let removed = try index.write { (connection) throws(CacheError) -> [DataFile] in
            let idle = withoutStrays()
            let removed = idle.filter(isToGo)
            try connection.transaction { () throws(CacheError) in
                for file in removed { try connection.delete(file.row) }
                for file in idle where file.row >= 0 { try connection.close(file) }
            }
            reached(.idleRowsCommitted)
            for file in idle { drop(file) }
            return removed
        }
        for file in removed {
            files.remove(file.name)
            evictor.quota.release(file.bytesOnDisk)
        }
    }

    /// The closed files that wait for no row, once their bytes are gone that get none. Under the write lock.
    private func withoutStrays() -> [DataFile] {
        let idle = files.idle.filter { !$0.withBlocks { $0.isPending } }
        // Blocks that are not whole, or that a failed sync has lost, get no row.
        for file in idle {
            let (durable, isStray) = file.withBlocks { blocks in
                blocks.dropMemory()
                return (
                    blocks.states.durable, blocks.hasLeftovers || !blocks.inFlight.isEmpty || !blocks.isAllDurable
                )
            }
            let isClean = !isStray || file.isOpenEnded || (try? file.punch(allBut: durable)) != nil
            evictor.quota.release(file.withBlocks { $0.abandon(hasLeftovers: !isClean) })
        }
        return idle
    }

    /// Whether the row of a closed file goes with it.
    private func isToGo(_ file: DataFile) -> Bool {
        file.row >= 0 && (files.isSuperseded(file.row) || file.bytesOnDisk == 0 && file.version.length > 0)
    }

    private func drop(_ file: DataFile) {
        if file.hasFile { verified.keep(file) }
        files.drop(file.row)
    }

    /// The index takes nothing, perhaps for long. Where many files are closed, each of which has a descriptor, those go
    /// whose rows are right as they are: the times of their last uses are lost, and a row stays unclean for the next
    /// start.
    private func releaseIdle() {
        guard files.idle.count > Self.mostClosed else { return }
        try? index.write { (connection) throws(CacheError) in
            for file in withoutStrays() where !isToGo(file) {
                if file.row >= 0 {
                    // The next open takes both from the row.
                    guard let row = try connection.row(file.row), row.cached == file.bytesOnDisk,
                        row.isUnclean || !file.withBlocks({ $0.hasLeftovers })
                    else { continue }
                }
                drop(file)
            }
        }
    }
}

extension IndexConnection {
    /// Writes the rows of a file whose sync has ended.
    func write(_ file: DataFile) throws(CacheError) {
        let (rows, cached) = file.withBlocks { ($0.rowsAfterSync, $0.durableBytesAfterSync) }
        try write(rows, of: file)
        let values: [Value] = [.integer(cached), .integer(file.lastUse), .integer(file.row)]
        try run("UPDATE objects SET cached = ?, last_use = ? WHERE id = ?", values)
    }

    /// Marks the row of a closed file as clean, unless its leftovers could not be punched out: no others come until it
    /// is opened again.
    fileprivate func close(_ file: DataFile) throws(CacheError) {
        let (durable, isUnclean) = file.withBlocks { ($0.states.durableBytes, $0.hasLeftovers) }
        let values: [Value] = [.integer(file.lastUse), .integer(durable), Value(isUnclean), .integer(file.row)]
        try run("UPDATE objects SET last_use = ?, cached = ?, unclean = ? WHERE id = ?", values)
    }
}
