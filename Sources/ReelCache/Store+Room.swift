import ReelCore

/// Which data goes before other data, for files that are fetched before anybody opens them.
extension Store {
    /// Changes the place of files in the order of eviction, in one transaction.
    /// - Parameters:
    ///   - keys: without those of which nothing is cached.
    ///   - goesFirst: before all other data; false: after all other data, as if they had just been read.
    package func order(_ keys: some Collection<String>, goesFirst: Bool) throws(CacheError) {
        try index.write { (index) throws(CacheError) in
            let moment = evictor.clock.now()
            let first = try index.first("SELECT min(last_use) FROM extents") { $0.integer(0) }
            let use = goesFirst ? min(first ?? moment, moment) - 1 : moment
            try index.transaction { () throws(CacheError) in
                for key in keys {
                    let rows = try index.rows(where: "key = ? AND NOT superseded", [index.key(scope.inside(key))])
                    for row in rows {
                        // What is in use is written by the next commit.
                        if let file = files.file(row.id) {
                            file.withBlocks { $0.useAll(now: use) }
                        } else {
                            let values: [Value] = [.integer(use), .integer(row.id)]
                            try index.run("UPDATE extents SET last_use = ? WHERE object = ?", values)
                        }
                    }
                }
            }
        }
        evictor.commits.schedule()
    }

    /// Whether these bytes can be written if nothing goes but data that is older, and goes first anyway.
    /// - Parameters:
    ///   - limit: seconds since 1970; what was used since then does not count as room.
    ///   - spared: keys whose data does not count as room, nor what goes after it.
    package func hasRoom(
        for bytes: Int64, usedBefore limit: Int64, sparing spared: Set<ExactText>
    ) throws(CacheError) -> Bool {
        let usage = quota.usage
        // As much more as an eviction frees beyond its need (`Evictor.reserve`).
        let needed = bytes + min(usage.cap / 16, 2 * BlockSize.extent) - (usage.cap - usage.used)
        guard needed > 0 else { return true }
        guard bytes <= usage.cap else { return false }
        let inUse = files.all.filter { $0.row >= 0 && !$0.isReadDirectly && !$0.isOpenEnded }
        let rows = Set(files.all.map(\.row))
        return try index.read { (index) throws(CacheError) in
            let closed = try index.evictionCandidates(needed, usedBefore: .max, key: nil) { !rows.contains($0) }
            let all = try (closed + index.evictionCandidates(of: inUse)).sorted(by: EvictionCandidate.goesBefore)
            var keys: [Int64: String] = [:]
            var sum: Int64 = 0
            for candidate in all where sum < needed {
                let object = candidate.object
                var known = candidate.file?.version.key ?? keys[object]
                if known == nil { known = try index.row(object)?.version.key }
                guard let key = known, candidate.lastUse < limit * 1000 else { return false }
                keys[object] = key
                if let outside = scope.outside(key), spared.contains(ExactText(outside)) { return false }
                sum += candidate.bytes
            }
            return sum >= needed
        }
    }
}
