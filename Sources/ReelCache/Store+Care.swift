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
            return ObjectSummary(
                key: row.version.key, length: row.version.length, cachedBytes: file?.filledBytes ?? row.cached,
                lastUse: file?.lastUse.load(ordering: .relaxed) ?? row.lastUse,
                isPinned: pins.contains(ExactText(row.version.key)))
        }
    }

    /// Keys that are never evicted, also those of which nothing is cached yet.
    package func pins() throws(CacheError) -> Set<ExactText> {
        try reader.use { (index) throws(CacheError) in try index.pins() }
    }

    /// Never evict this again, whatever version of it; or do. Durable when it returns.
    package func pin(_ key: String, _ isPinned: Bool = true) throws(CacheError) {
        try writer.use { (index) throws(CacheError) in
            let sql = isPinned ? "INSERT OR IGNORE INTO pins VALUES (?)" : "DELETE FROM pins WHERE key = ?"
            try index.run(sql, [.text(key)])
            for file in files.all where ExactText(file.version.key) == ExactText(key) {
                file.isPinned.store(isPinned, ordering: .relaxed)
            }
        }
    }

    /// Frees what is cached under a key, pinned or not; what the readers of an open file need right now stays. On the
    /// thread that writes. - Returns: bytes freed.
    package func evict(key: String) throws(CacheError) -> Int64 {
        var freed: Int64 = 0
        for file in files.all where file.row >= 0 && ExactText(file.version.key) == ExactText(key) {
            let blocks = 0..<file.fill { $0.map.blockCount }
            if let object = files.held(file.row) {
                freed += object.holder?.relinquish([blocks], scarce: nil) ?? 0
            } else {
                let before = file.filledBytes
                try discard(blocks, of: file, unlessHeld: true)
                freed += before - file.filledBytes
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

    /// Evicts until at most `bytes` are in use, or nothing is left that may go. On the thread that writes.
    /// - Parameter share: at most so much in this call, as streams stand still meanwhile.
    /// - Returns: bytes freed; 0 when it is done.
    package func prune(to bytes: Int64, atMost share: Int64 = 64 << 20) throws(CacheError) -> Int64 {
        let surplus = room.usage.used - max(0, bytes)
        return surplus > 0 ? try evict(min(surplus, share)) : 0
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

    /// Holds the filled blocks of one version against their checksums, as far as they are on the disk.
    /// - Parameter progress: gets the bytes looked at since the last call; false ends it.
    /// - Returns: blocks that are not what was written.
    package func verify(_ version: Version, _ progress: (Int64) -> Bool) throws(CacheError) -> [Int] {
        guard let object = try knownObject(version) else { return [] }
        var bad: [Int] = []
        let map = object.filled
        for block in 0..<map.blockCount where map[block] {
            if !object.isIntact(block) { bad.append(block) }
            guard progress(map.bytes(of: block).count) else { break }
        }
        return bad
    }

    /// Takes blocks out that `verify` found bad: who reads them next fetches them again. Of a file that nobody has open.
    package func lose(_ blocks: [Int], of version: Version) throws(CacheError) {
        guard let object = try knownObject(version) else { return }
        damage.add(Int64(blocks.count), ordering: .relaxed)
        for block in blocks { try discard(block..<block + 1, of: object.file) }
    }

    private func knownObject(_ version: Version) throws(CacheError) -> CacheObject? {
        let isKnown = try reader.use { (index) throws(CacheError) in try index.row(of: version) != nil }
        return isKnown ? try object(for: version) : nil
    }

    /// Every version of which something is cached.
    package func versions() throws(CacheError) -> [Version] {
        commit()
        return try reader.use { (index) throws(CacheError) in
            try index.rows(where: "NOT superseded AND cached > 0 ORDER BY last_use DESC").map(\.version)
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
