import ReelCore

/// Listings on their way to the index and back. One may have a million entries, and opens and streams wait for the
/// gates: so they go in slices, a use of a gate each, and nobody waits for longer than one takes.
extension Store {
    /// Rows of `entries` that are written, read or deleted at a time: some 10 ms.
    static let sliceOfEntries = 1000
    /// Listings looked at in one use of a gate while stray entries are sought; each may be a read of a slow disk.
    private static let soughtAtOnce = 10

    /// Writes the entries under numbers that no row of `listings` tells of yet; nobody reads them until `Facts.write`
    /// names their numbers. Until then they are stray.
    func writeEntries(
        of listings: [ExactText: RememberedListing], _ strays: inout [Int64]
    ) throws(CacheError) -> [ExactText: Int64] {
        guard !listings.isEmpty else { return [:] }
        var numbers: [ExactText: Int64] = [:]
        var next = try writer.use { (index) throws(CacheError) in try index.freeListing() }
        for (directory, listing) in listings {
            numbers[directory] = next
            strays.append(next)
            for start in stride(from: 0, to: listing.entries.count, by: Self.sliceOfEntries) {
                let slice = start..<min(start + Self.sliceOfEntries, listing.entries.count)
                try writer.use { (index) throws(CacheError) in
                    try index.unsynced { () throws(CacheError) in
                        try index.insert(listing.entries, slice, listing: next)
                    }
                }
                reached(.entriesWritten)
            }
            next += 1
        }
        return numbers
    }

    /// Entries that no listing tells of any more, or does not yet where their writing has failed.
    func removeStrays(_ strays: inout [Int64]) throws(CacheError) {
        while let stray = strays.last {
            let count = try writer.use { (index) throws(CacheError) in
                try index.unsynced { () throws(CacheError) in
                    try index.deleteEntries(stray, atMost: Self.sliceOfEntries)
                }
            }
            if count == 0 { strays.removeLast() }
        }
    }

    /// What a daemon has left that died in between. Nothing else may be writing listings meanwhile.
    func seekStrays() throws(CacheError) -> [Int64] {
        var strays: [Int64] = []
        var last: Int64? = .min
        while let after = last {
            let (next, found) = try reader.use { (index) throws(CacheError) in
                try index.strays(after: after, among: Self.soughtAtOnce)
            }
            strays += found
            last = next
        }
        return strays
    }

    /// The entries of a remembered listing, one by one.
    /// - Parameters:
    ///   - begin: called before the first; and again where another listing has replaced this one meanwhile: then nothing
    ///     that was taken counts.
    ///   - take: in the listing's order.
    /// - Returns: when the listing was fetched, in seconds since 1970; nil where there is none.
    package func listing(
        _ directory: String, begin: () -> Void, _ take: (StoredEntry) -> Void
    ) -> (fetchedAt: Int64, complete: Bool)? {
        let name = ExactText(directory)
        if let waiting = facts.find({ $0.listings[name] }) {
            begin()
            for place in 0..<waiting.entries.count { take(waiting.entries.stored(at: place)) }
            return (waiting.fetchedAt, waiting.complete)
        }
        return try? indexed(directory, begin, take)
    }

    private func indexed(
        _ directory: String, _ begin: () -> Void, _ take: (StoredEntry) -> Void
    ) throws(CacheError) -> (fetchedAt: Int64, complete: Bool)? {
        var head = try reader.use { (index) throws(CacheError) in try index.listing(directory) }
        again: while let listing = head {
            begin()
            var last: Int64? = -1
            while let after = last {
                let (slice, now) = try reader.use { (index) throws(CacheError) in
                    let slice = try index.entries(listing.number, after: after, atMost: Self.sliceOfEntries)
                    // Behind the slice: a listing's rows go only after the row that tells of them.
                    return (slice, try index.listing(directory))
                }
                guard now?.number == listing.number else {
                    head = now
                    continue again
                }
                for (_, entry) in slice { take(entry) }
                last = slice.count == Self.sliceOfEntries ? slice.last?.position : nil
            }
            return (listing.fetchedAt, listing.complete)
        }
        return nil
    }

    /// Whether a remembered listing has any entries.
    package func hasEntries(_ directory: String) -> Bool {
        let name = ExactText(directory)
        if let waiting = facts.find({ $0.listings[name] }) { return waiting.entries.count > 0 }
        let found = try? reader.use { (index) throws(CacheError) -> Bool? in
            guard let listing = try index.listing(directory) else { return nil }
            return try !index.entries(listing.number, after: -1, atMost: 1).isEmpty
        }
        return found ?? false
    }

    /// Whether there is a remembered listing, an empty one too.
    package func hasListing(_ directory: String) -> Bool {
        let name = ExactText(directory)
        if facts.find({ $0.listings[name] }) != nil { return true }
        return (try? reader.use { (index) throws(CacheError) in try index.listing(directory) }) != nil
    }
}

extension Connection {
    /// A number above all listings and entries: a stray entry never becomes one of a listing.
    fileprivate func freeListing() throws(CacheError) -> Int64 {
        let sql = "SELECT max(ifnull((SELECT max(id) FROM listings), 0), ifnull((SELECT max(listing) FROM entries), 0))"
        let last = try first(sql) { $0.integer(0) } ?? 0
        // The index is not trusted to leave room above.
        return last < 1 << 60 ? max(last, 0) + 1 : .random(in: 1..<1 << 60)
    }

    fileprivate func insert(
        _ entries: any StoredEntries, _ slice: Range<Int>, listing number: Int64
    ) throws(CacheError) {
        for position in slice {
            let entry = entries.stored(at: position)
            let values: [Value] = [
                .integer(number), .integer(Int64(position)), .text(entry.name), .text(entry.url),
                Value(entry.isDirectory), Value(entry.length), Value(entry.modified),
            ]
            try run("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        }
    }

    /// - Returns: how many there were, at most `count`.
    fileprivate func deleteEntries(_ number: Int64, atMost count: Int) throws(CacheError) -> Int {
        let slice = "SELECT position FROM entries WHERE listing = ? ORDER BY position LIMIT ?"
        try run(
            "DELETE FROM entries WHERE listing = ? AND position IN (\(slice))",
            [.integer(number), .integer(number), .integer(Int64(count))])
        return changes
    }

    /// - Returns: from where to go on, nil at the end; and the listings that have entries and no row.
    fileprivate func strays(after last: Int64, among count: Int) throws(CacheError) -> (next: Int64?, found: [Int64]) {
        var found: [Int64] = []
        var last = last
        for _ in 0..<count {
            let sql = "SELECT min(listing) FROM entries WHERE listing > ?"
            guard let next = try first(sql, [.integer(last)], { $0.optionalInteger(0) }) ?? nil, next > last else {
                return (nil, found)
            }
            let isTold = try first("SELECT 1 FROM listings WHERE id = ?", [.integer(next)]) { _ in true } ?? false
            if !isTold { found.append(next) }
            last = next
        }
        return (last, found)
    }

    fileprivate func listing(
        _ directory: String
    ) throws(CacheError) -> (number: Int64, fetchedAt: Int64, complete: Bool)? {
        let sql = "SELECT id, fetched, complete FROM listings WHERE directory = ?"
        return try first(sql, [.text(directory)]) { ($0.integer(0), $0.moment(1) ?? 0, $0.flag(2)) }
    }

    fileprivate func entries(
        _ number: Int64, after position: Int64, atMost count: Int
    ) throws(CacheError) -> [(position: Int64, entry: StoredEntry)] {
        let columns = "position, name, url, is_directory, length, modified"
        let sql = "SELECT \(columns) FROM entries WHERE listing = ? AND position > ? ORDER BY position LIMIT ?"
        var entries: [(position: Int64, entry: StoredEntry)] = []
        try query(sql, [.integer(number), .integer(position), .integer(Int64(count))]) { row in
            let length = row.optionalInteger(4).flatMap { $0 < 0 ? nil : $0 }
            let entry = StoredEntry(
                name: row.text(1), url: row.text(2), isDirectory: row.flag(3), length: length, modified: row.moment(5))
            entries.append((row.integer(0), entry))
            return true
        }
        return entries
    }
}
