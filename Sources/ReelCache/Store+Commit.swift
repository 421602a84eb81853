import Glibc
import ReelCore
import Synchronization

extension Store {
    /// A commit runs early once so much is filled: what a crash may forget, and what one fdatasync has to write.
    static let commitBytes: Int64 = 32 << 20

    /// A block is filled, and its bytes are on the disk.
    func filled(_ bytes: Int64, _ block: Int, of file: DataFile, _ sum: UInt64) {
        if !file.isOpenEnded { log?.note(FillLog.Entry(object: file.row, block: block, sum: sum)) }
        filled(bytes)
    }

    func filled(_ bytes: Int64) {
        let sum = uncommitted.add(bytes, ordering: .relaxed).newValue
        committer.schedule(urgent: sum >= Self.commitBytes)
    }

    /// Everything filled and remembered so far is durable when this returns, unless the disk refuses; then it is tried
    /// again with the next batch. The order: snapshot of what is filled, fdatasync of the data, entries of listings, rows
    /// in one transaction.
    package func commit() {
        commits.withLock { state in
            uncommitted.store(0, ordering: .relaxed)
            log?.turn()
            releaseIdleMemory()
            let synced = files.all.filter(synchronise)
            if !files.all.contains(where: { $0.withBlocks { $0.isPending } }) { disk.hasNothingToSync() }
            let facts = facts.begin()
            do throws(CacheError) {
                try write(synced, facts, &state.strays)
                try removeStrays(&state.strays)
                try tidyIdle()
                if !state.isSwept {
                    try sweep()
                    state.strays = try seekStrays()
                    try removeStrays(&state.strays)
                    state.isSwept = true
                }
                try evictAged(&state.agedAt)
            } catch {
                guard error != .closed else { return }
                if error != .busy { disk.failed(error) }
                committer.schedule(after: DiskHealth.longestPause / 6)
            }
        }
    }

    /// True where there are rows to write. A second fdatasync may well succeed and yet not bring back what the first
    /// one lost: what it was to save is never committed.
    private func synchronise(_ file: DataFile) -> Bool {
        guard file.withBlocks({ $0.beginSync() }), hasReachedDisk(file) else { return false }
        if file.withBlocks({ $0.isSyncingBlocks }) { disk.dataWasSynced() }
        return true
    }

    /// fdatasync(2), which tells a failure once: whoever hears of it has to note it.
    private func hasReachedDisk(_ file: DataFile) -> Bool {
        do throws(CacheError) {
            try file.descriptor.synchronise()
            reached(.dataSynced)
            return true
        } catch {
            file.withBlocks { $0.loseUnsynced() }
            disk.failed(error, needsProof: true)
            // To find out whether it is well again, also where nothing comes.
            committer.schedule(after: DiskHealth.longestPause)
            return false
        }
    }

    private func write(_ synced: [DataFile], _ facts: Facts, _ strays: inout [Int64]) throws(CacheError) {
        var isWritten = false
        defer {
            self.facts.written(isWritten)
            if !isWritten { for file in synced { file.withBlocks { $0.abandonSync() } } }
        }
        let used = files.all.filter { $0.row >= 0 }.map { file in (file.row, file.withBlocks { $0.takeUses() }) }
        guard !synced.isEmpty || !facts.isEmpty || used.contains(where: { !$0.1.isEmpty }) else {
            isWritten = true
            return
        }
        // Of an attempt that failed: on a disk that was full then.
        try removeStrays(&strays)
        let numbers = try writeEntries(of: facts.listings, &strays)
        let replaced = try writer.use { (index) throws(CacheError) -> [Int64] in
            // Evicted while it was synced: its row is gone and must stay so.
            let living = synced.filter { files.file($0.row) === $0 }
            let replaced = try index.transaction { () throws(CacheError) in
                let replaced = try facts.write(to: index, numbers)
                for file in living { try index.write(file) }
                for (row, uses) in used { try index.write(uses, of: row) }
                return replaced
            }
            disk.indexWasWritten()
            log?.settle()
            reached(.rowsCommitted)
            for file in living { file.withBlocks { $0.endSync() } }
            return replaced
        }
        for file in synced { file.leaveMemory() }
        isWritten = true
        strays = replaced
    }

    /// Drops what the disk has not taken of files that nobody holds: first, as a full disk may refuse all that follows.
    private func releaseIdleMemory() {
        guard files.idle.contains(where: \.isInMemory) else { return }
        // Nobody begins to hold a file under the gate.
        try? writer.use { _ in for file in files.idle { file.withBlocks { $0.dropMemory() } } }
    }

    /// Files that nobody holds any more: their last use is written, stray bytes go, and so do those that hold nothing.
    private func tidyIdle() throws(CacheError) {
        guard !files.idle.isEmpty else { return }
        // A hole that a power loss fills again is one that no account knows of, once the file counts as clean.
        for file in files.idle where file.hasFile && !file.isOpenEnded { _ = hasReachedDisk(file) }
        let (removed, bytes) = try writer.use { (index) throws(CacheError) -> ([DataFile], Int64) in
            let idle = files.idle.filter { !$0.withBlocks { $0.isPending } }
            for file in idle { file.withBlocks { $0.dropMemory() } }
            // What no row will ever tell of: written in part, or not saved by a sync that failed.
            for file in idle {
                let (durable, isStray) = file.withBlocks { blocks in
                    (blocks.durable, blocks.hasLeftovers || !blocks.inFlight.isEmpty || !blocks.isAllDurable)
                }
                if isStray, !file.isOpenEnded { try? file.punchUnfilled(durable) }
                room.release(file.withBlocks { $0.abandon() })
            }
            let removed = idle.filter {
                $0.row >= 0 && (files.isSuperseded($0.row) || $0.bytesOnDisk == 0 && $0.version.length > 0)
            }
            try index.transaction { () throws(CacheError) in
                for file in removed { try index.delete(file.row) }
                for file in idle where file.row >= 0 { try index.close(file) }
            }
            reached(.idleRowsCommitted)
            for file in idle {
                if file.hasFile { seals.seal(file) }
                files.drop(file.row)
            }
            return (removed, removed.reduce(0) { $0 + $1.bytesOnDisk })
        }
        for file in removed { remove(file.name) }
        room.release(bytes)
    }

    /// Data files without a row: of a daemon that died between the two, or of an index that was set aside. Only names
    /// of our own form, one directory at a time.
    private func sweep() throws(CacheError) {
        guard disk.isWritable else { return }
        defer { reached(.swept) }
        for number in 0..<256 {
            let name = String(number + 256, radix: 16).suffix(2)
            guard let directory = try? Descriptor(directory: String(name), in: directory.objects.number) else {
                continue
            }
            try writer.use { (index) throws(CacheError) in
                for file in fileNames(directory) where file.directory == name {
                    let sql = "SELECT 1 FROM objects WHERE file = ?"
                    guard try index.first(sql, [.bytes(file.bytes)], { _ in true }) == nil else { continue }
                    unlinkat(directory.number, file.text, 0)
                }
            }
        }
    }
}

private func fileNames(_ directory: borrowing Descriptor) -> [FileName] {
    // closedir closes the descriptor it was given.
    let copy = fcntl(directory.number, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0, let stream = fdopendir(copy) else { return [] }
    defer { closedir(stream) }
    var names: [FileName] = []
    while let entry = readdir(stream) {
        let text = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if let name = FileName(text: text) { names.append(name) }
    }
    return names
}

extension Connection {
    /// Those blocks of it whose sync has ended.
    func write(_ file: DataFile) throws(CacheError) {
        let (rows, cached) = file.withBlocks { ($0.rowsAfterSync, $0.durableBytesAfterSync) }
        try write(rows, of: file)
        let values: [Value] = [.integer(cached), .integer(file.lastUse), .integer(file.row)]
        try run("UPDATE objects SET cached = ?, last_use = ? WHERE id = ?", values)
    }

    /// Nobody writes to this file until it is opened again.
    fileprivate func close(_ file: DataFile) throws(CacheError) {
        let values: [Value] = [
            .integer(file.lastUse), .integer(file.withBlocks { $0.durableBytes }),
            .integer(file.row),
        ]
        try run("UPDATE objects SET last_use = ?, cached = ?, unclean = 0 WHERE id = ?", values)
    }
}
