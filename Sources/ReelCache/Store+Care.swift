import ReelCore
import ReelThreads
import Synchronization

/// What a person does with a cache: look, pin, prune, verify.
extension Store {
    /// What the cache holds; the last used first.
    package func objects() -> [ObjectSummary] {
        let found = try? reader.use { (index) throws(CacheError) in
            (try index.rows(where: "NOT superseded ORDER BY last_use DESC"), try index.pins())
        }
        guard let (rows, pins) = found else { return [] }
        return rows.map { row in
            let file = files.file(row.id)
            let version = file?.version ?? row.version
            return ObjectSummary(
                key: version.key, length: version.isOpenEnded ? nil : version.length,
                cachedBytes: file?.bytesOnDisk ?? row.cached, lastUse: file?.lastUse ?? row.lastUse,
                isPinned: pins.contains(ExactText(version.key)))
        }
    }

    /// Keys that are never evicted, also those of which nothing is cached yet.
    package func pins() throws(CacheError) -> Set<ExactText> {
        try reader.use { (index) throws(CacheError) in try index.pins() }
    }

    /// Never evict this again, whatever version of it; or do. Durable when it returns.
    package func pin(_ key: String, _ isPinned: Bool = true) throws(CacheError) { try pin([key], isPinned) }

    /// In one transaction.
    package func pin(_ keys: some Collection<String>, _ isPinned: Bool = true) throws(CacheError) {
        let names = Set(keys.map { ExactText($0) })
        try writer.use { (index) throws(CacheError) in
            let sql = isPinned ? "INSERT OR IGNORE INTO pins VALUES (?)" : "DELETE FROM pins WHERE key = ?"
            try index.transaction { () throws(CacheError) in for key in keys { try index.run(sql, [.text(key)]) } }
            for file in files.all where names.contains(ExactText(file.version.key)) {
                file.isPinned = isPinned
            }
        }
    }

    /// Frees what is cached under a key, pinned or not; what the readers of an open file need right now stays, and a file
    /// that the kernel reads directly. On the thread that writes. - Returns: bytes freed.
    package func evict(key: String) throws(CacheError) -> Int64 {
        var freed: Int64 = 0
        for file in files.all.filter({ $0.row >= 0 && ExactText($0.version.key) == ExactText(key) })
        where !file.isReadDirectly && !file.isOpenEnded {
            let blocks = 0..<file.blockCount
            if let object = files.held(file.row) {
                freed += object.holder?.relinquish([blocks], scarce: nil) ?? 0
            } else {
                let before = file.bytesOnDisk
                try discard(blocks, of: file, unlessHeld: true)
                freed += before - file.bytesOnDisk
            }
        }
        let names = try writer.use { (index) throws(CacheError) -> [(FileName?, Int64)] in
            let rows = try index.rows(ofKey: key).filter { files.file($0.id) == nil }
            try index.transaction { () throws(CacheError) in for row in rows { try index.delete(row.id) } }
            return rows.map { ($0.name, $0.cached) }
        }
        for (name, bytes) in names {
            remove(name)
            room.release(bytes)
            freed += bytes
        }
        return freed
    }

    /// Evicts until at most `bytes` are in use, or nothing is left that may go: what is pinned and what is open stays. On
    /// the thread that writes.
    /// - Parameter share: at most so much in this call, as streams stand still meanwhile.
    /// - Returns: bytes freed; 0 when it is done.
    package func prune(to bytes: Int64, atMost share: Int64 = 64 << 20) throws(CacheError) -> Int64 {
        let surplus = room.usage.used - max(0, bytes)
        return surplus > 0 ? try evict(min(surplus, share), sparesOpen: true) : 0
    }

    /// What nobody has open and was not used for longer than the limit allows goes. Looked at every tenth of that time,
    /// but at most once a second and at least once an hour.
    /// - Parameter last: when that was last done, on the clock of `now()`; nil: not yet.
    func evictAged(_ last: inout Duration?) throws(CacheError) {
        guard let age = limits.age else { return }
        let pause = max(.seconds(1), min(age / 10, .seconds(3600)))
        defer { committer.schedule(after: pause) }
        if let last, now() - last < pause { return }
        last = now()
        let limit = clock.now() - age.components.seconds * 1000 - age.components.attoseconds / 1_000_000_000_000_000
        _ = try evict(.max / 2, usedBefore: limit, closedOnly: true)
    }

    /// Holds the filled blocks of one version against their checksums, as far as they are on the disk. No use of it
    /// counts, and no read believes in a bad block from then on.
    /// - Parameter progress: gets the bytes looked at since the last call; false ends it.
    /// - Returns: blocks that are not what was written. Of a file that is gone or was cut all that were filled: no row
    ///   tells of it any more.
    package func verify(_ version: Version, _ progress: (Int64) -> Bool) throws(CacheError) -> [Int] {
        var bad: [Int] = []
        var extent = 0
        // Taken anew for each extent: what is held by nobody who can give up parts of it cannot be evicted.
        while let found = try known(version) {
            guard case .object(let object) = found else {
                if case .lost(let blocks) = found { return blocks }
                return bad
            }
            let file = object.file
            let next = file.firstCovered(from: Int64(extent) * BlockSize.extent, limit: version.length)
            guard next < version.length else { return bad }
            extent = Int(next / BlockSize.extent)
            let word = file.withBlocks { $0.filledWord(extent) }
            for index in 0..<BlockSize.blocksPerExtent where word & 1 << UInt64(index) != 0 {
                let block = extent * BlockSize.blocksPerExtent + index
                if !object.isIntact(block) { bad.append(block) }
                guard progress(file.bytes(of: block).count) else { return bad }
            }
            extent += 1
        }
        return bad
    }

    /// Takes blocks out that `verify` found bad: who reads them next fetches them again. Of a file that nobody has open.
    package func lose(_ blocks: [Int], of version: Version) throws(CacheError) {
        found(damaged: blocks.map { $0..<$0 + 1 })
        guard case .object(let object) = try known(version) else { return }
        for run in runs(of: blocks) { try discard(run, of: object.file) }
    }

    private enum Known {
        case object(CacheObject)
        /// Its file cannot be used: these blocks were filled.
        case lost([Int])
    }

    /// nil where the index does not know it.
    private func known(_ version: Version) throws(CacheError) -> Known? {
        try writer.use { (index) throws(CacheError) -> Known? in
            guard let row = try index.row(of: version), !row.isSuperseded else { return nil }
            let blocks = files.file(row.id) == nil ? try index.blocks(of: row).durable : nil
            if let file = try openFile(row, index) { return .object(files.object(file, self)) }
            return .lost(blocks.map { map in (0..<map.blockCount).filter { map[$0] } } ?? [])
        }
    }

    /// Every version of which something is cached.
    package func versions() throws(CacheError) -> [Version] {
        commit()
        return try reader.use { (index) throws(CacheError) in
            try index.rows(where: "NOT superseded AND cached > 0 ORDER BY last_use DESC").map(\.version)
        }
    }

    /// The source, as the user gave it, without credentials and query; nil where nobody has mounted it yet.
    package var source: String? {
        try? reader.use { (index) throws(CacheError) in
            try index.first("SELECT value FROM meta WHERE name = ?", [.text("source")]) { $0.text(0) }
        }
    }

    /// Blocks were not what was written to them.
    package func found(damaged blocks: [Range<Int>]) {
        damage.add(blocks.reduce(0) { $0 + Int64($1.count) }, ordering: .relaxed)
    }

    /// False where the directory is left as it is as long as this store lives.
    package var isWritable: Bool { disk.isWritable }

    /// Why nothing is written to the disk at present; nil: it is.
    package var failure: CacheError? { disk.failure }

    /// What the disk does not take.
    package var bytesInMemory: Int64 { memory.bytes }

    /// Blocks that were not what was written to them, since the program started.
    package var damagedBlocks: Int64 { damage.load(ordering: .relaxed) }
}

/// Numbers in ascending order as ranges without gaps.
/// - Parameter most: no range has more of them.
package func runs(of numbers: [Int], most: Int = .max) -> [Range<Int>] {
    var runs: [Range<Int>] = []
    for number in numbers {
        if let last = runs.last, last.upperBound == number, last.count < most {
            runs[runs.count - 1] = last.lowerBound..<number + 1
        } else {
            runs.append(number..<number + 1)
        }
    }
    return runs
}

extension Connection {
    fileprivate func pins() throws(CacheError) -> Set<ExactText> {
        var keys: Set<ExactText> = []
        try query("SELECT key FROM pins") {
            keys.insert(ExactText($0.text(0)))
            return true
        }
        return keys
    }
}
