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
            // The index may be full of nonsense.
            let use = goesFirst ? min(max(first ?? moment, 0), moment) - 1 : moment
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
        let needed = bytes + max(quota.slack, quota.ahead) - (usage.cap - usage.used)
        guard needed > 0 else { return true }
        guard bytes <= usage.cap else { return false }
        return try readNext(needed) { (index, candidates) throws(CacheError) in
            var keys: [Int64: String] = [:]
            var sum: Int64 = 0
            for candidate in candidates where sum < needed {
                var known = keys[candidate.object]
                if known == nil { known = try index.key(of: candidate) }
                guard let key = known, candidate.lastUse < limit * 1000 else { return false }
                keys[candidate.object] = key
                if let outside = scope.outside(key), spared.contains(ExactText(outside)) { return false }
                sum += candidate.bytes
            }
            return sum >= needed
        }
    }
}
