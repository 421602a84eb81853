import ReelCore

/// One data file, for lists. Lengths are in bytes.
package struct ObjectSummary: Hashable, Sendable {
    /// The resource's URL as text, without credentials.
    package var key: String
    /// The version's length; nil until its end is known.
    package var length: Int64?
    /// In filled blocks on the disk.
    package var cachedBytes: Int64
    /// Milliseconds since 1970, moved on by at least one at each use.
    package var lastUse: Int64
    /// Never evicted by itself.
    package var isPinned: Bool
}

/// The commands of a person on a cache: list, pin, evict, verify.
extension Store {
    // MARK: Looking

    /// The objects that the cache holds, the last used first.
    package func objects() -> [ObjectSummary] {
        let found = try? index.read { (index) throws(CacheError) in
            (try index.rows(where: "NOT superseded ORDER BY last_use DESC"), try index.pins())
        }
        guard let (rows, pins) = found else { return [] }
        return rows.compactMap { row in
            let file = files.file(row.id)
            let version = file?.version ?? row.version
            guard let key = scope.outside(version.key) else { return nil }
            return ObjectSummary(
                key: key, length: version.isOpenEnded ? nil : version.length,
                cachedBytes: file?.bytesOnDisk ?? row.cached, lastUse: file?.lastUse ?? row.lastUse,
                isPinned: pins.contains(ExactText(version.key)))
        }
    }

    /// Every version of which something is cached, the last used first.
    package func versions() throws(CacheError) -> [Version] {
        commit()
        return try index.read { (index) throws(CacheError) in
            try index.rows(where: "NOT superseded AND cached > 0 ORDER BY last_use DESC").compactMap {
                scope.outside($0.version)
            }
        }
    }

    /// Bytes of filled blocks under this key; 0 where nothing of it is cached.
    package func cachedBytes(of key: String) -> Int64 {
        let sql = "SELECT id, \(ObjectRow.cached) FROM objects WHERE key = ? AND NOT superseded"
        let rows = try? index.read { (index) throws(CacheError) in
            try index.all(sql, [index.key(scope.inside(key))]) { ($0.integer(0), $0.integer(1)) }
        }
        return (rows ?? []).reduce(0) { $0 + (files.file($1.0)?.bytesOnDisk ?? $1.1) }
    }

    // MARK: Pins

    /// Keys that are never evicted, also those of which nothing is cached yet.
    package func pins() throws(CacheError) -> Set<ExactText> {
        let all = try index.read { (index) throws(CacheError) in try index.pins() }
        return Set(all.compactMap { scope.outside($0.text).map { ExactText($0) } })
    }

    /// Keeps every version of these keys from eviction, or allows it again. One transaction, durable when it returns.
    /// - Throws: also where nothing is ever written.
    package func pin(_ keys: some Collection<String>, _ isPinned: Bool = true) throws(CacheError) {
        if let failure = index.failure { throw failure }
        try index.write { (index) throws(CacheError) in
            let sql = isPinned ? "INSERT OR IGNORE INTO pins VALUES (?)" : "DELETE FROM pins WHERE key = ?"
            try index.transaction { () throws(CacheError) in
                for key in keys { try index.run(sql, [index.key(scope.inside(key))]) }
            }
            files.mayHaveEvictable = true
        }
    }

    /// What was pinned by one key is pinned by another one from now on. Costs a look where it was not.
    package func movePin(from key: String, to other: String) throws(CacheError) {
        let inside = scope.inside(key)
        guard try index.read({ (index) throws(CacheError) in try index.isPinned(inside) }) else { return }
        try pin([other])
        try pin([key], false)
    }

    // MARK: Evicting

    /// Frees the bytes that are cached under a key, pinned or not. Blocks that readers of an open file need right now
    /// stay, and files that the kernel reads itself. On the thread that writes. - Returns: bytes freed.
    /// - Throws: also where nothing is ever written.
    package func evict(key: String) throws(CacheError) -> Int64 {
        if let failure = index.failure { throw failure }
        return try evictor.evict(key: scope.inside(key))
    }

    /// Evicts the longest unused extents that are neither pinned nor of an open file, until `bytes` are freed. On the
    /// thread that writes.
    /// - Parameter share: bytes; this call frees no more, as streams stand still meanwhile.
    /// - Returns: bytes freed; 0 when it is done.
    package func prune(freeing bytes: Int64, atMost share: Int64 = 64 << 20) throws(CacheError) -> Int64 {
        try evictor.evict(min(bytes, share), sparesOpen: true)
    }

    // MARK: Verifying

    /// Compares the filled blocks of one version on the disk with their checksums. It counts as no use of them, and no
    /// read believes in a bad block from then on.
    /// - Parameter progress: gets the bytes verified since the last call; false ends the work.
    /// - Returns: damaged blocks. If the file is gone, all that were filled; then no row covers it any more.
    package func verify(_ version: Version, _ progress: (Int64) -> Bool) throws(CacheError) -> [Int] {
        let version = scope.inside(version)
        var bad: [Int] = []
        var extent = 0
        // Taken again for each extent: a file can go as a whole only where nobody has an object of it.
        while let found = try objectStore.known(version) {
            guard case .object(let object) = found else {
                if case .lost(let blocks) = found { return blocks }
                return bad
            }
            let file = object.file
            let next = file.firstCovered(from: Int64(extent) * BlockSize.extent, limit: version.length)
            guard next < version.length else { return bad }
            extent = Int(next / BlockSize.extent)
            for block in extent * BlockSize.blocksPerExtent..<(extent + 1) * BlockSize.blocksPerExtent
            where file.isFilled(block) {
                if !object.isIntact(block) { bad.append(block) }
                guard progress(file.bytes(of: block).count) else { return bad }
            }
            extent += 1
        }
        return bad
    }

    /// Takes blocks out that `verify` found bad: the next read fetches them again. Of a closed file.
    package func lose(_ blocks: [Int], of version: Version) throws(CacheError) {
        objectStore.found(damaged: blocks.count)
        guard case .object(let object) = try objectStore.known(scope.inside(version)) else { return }
        for run in runs(of: blocks) { try object.discard(run) }
    }
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

extension IndexConnection {
    fileprivate func pins() throws(CacheError) -> Set<ExactText> {
        Set(try all("SELECT key FROM pins") { keyText($0, 0).map { ExactText($0) } }.compactMap { $0 })
    }
}
