import CSQLite
import ReelCore
import ReelThreads

extension Validator {
    /// The columns tag, weak, modified. The lowest bit of `weak` says so; the others are the mirror.
    var columns: [Value] {
        [
            Value(entityTag?.opaque), .integer(mirror << 1 | (entityTag?.isWeak ?? false ? 1 : 0)),
            Value(lastModified),
        ]
    }

    init(_ row: any RowColumns, at column: Int32) {
        let number = row.integer(column + 1)
        let tag = row.optionalText(column).flatMap { EntityTag((number & 1 == 1 ? "W/" : "") + "\"\($0)\"") }
        self.init(entityTag: tag, lastModified: row.moment(column + 2), mirror: number >> 1)
    }
}

// Reads and writes metadata in the index's tables.
extension IndexConnection {
    /// Writes the rows of a batch, whose listings' entries are there already.
    /// - Returns: the listings that these replace.
    func write(_ batch: Metadata.Batch) throws(CacheError) -> [Int64] {
        for (key, information) in batch.information { try insert(information, for: key.text) }
        for (name, value) in batch.settings {
            let value = sealed([.text(value)], of: "setting \(name.text)")
            try run("INSERT OR REPLACE INTO settings VALUES (?, ?)", [key(name.text)] + value)
        }
        var replaced: [Int64] = []
        for (directory, listing) in batch.listings {
            guard let number = batch.numbers[directory] else { continue }
            if let old = try insert(listing, number, for: directory.text) { replaced.append(old) }
        }
        return replaced
    }

    func setting(_ name: String) throws(CacheError) -> String? {
        try first("SELECT value FROM settings WHERE name = ?", [key(name)]) {
            opened($0, from: 0, of: "setting \(name)")?.text(0)
        } ?? nil
    }

    private func insert(_ stored: StoredInformation, for text: String) throws(CacheError) {
        let information = stored.information
        let values = [
            [Value(information.length)], information.validator.columns,
            [Value(information.mediaType), Value(information.acceptsRanges), .integer(stored.checkedAt)],
        ]
        try run(
            "INSERT OR REPLACE INTO resources VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [key(text)] + sealed(Array(values.joined()), of: "resource \(text)"))
    }

    /// Writes the row of a listing, whose entries are there already, under that number.
    /// - Returns: the number of the listing that this one replaces.
    private func insert(
        _ listing: StoredListing, _ number: Int64, for directory: String
    ) throws(CacheError) -> Int64? {
        let old = try first("SELECT id FROM listings WHERE directory = ?", [key(directory)]) { $0.integer(0) }
        let values: [Value] = [
            .integer(number), key(directory), .integer(listing.fetchedAt), Value(listing.complete),
        ]
        try run("INSERT OR REPLACE INTO listings VALUES (?, ?, ?, ?)", values)
        return old
    }

    func information(for text: String) throws(CacheError) -> StoredInformation? {
        let columns = "length, tag, weak, modified, media_type, ranges, checked"
        let known = try first("SELECT \(columns) FROM resources WHERE key = ?", [key(text)]) {
            row -> StoredInformation? in
            guard let row = opened(row, from: 0, of: "resource \(text)") else { return nil }
            // A length that no file has counts as none: the index is not trusted.
            let length = row.optionalInteger(0).flatMap { (0...BlockSize.longestFile).contains($0) ? $0 : nil }
            let information = ContentInformation(
                length: length, validator: Validator(row, at: 1),
                mediaType: row.optionalText(4), acceptsRanges: row.flag(5))
            return StoredInformation(information: information, checkedAt: row.moment(6) ?? 0)
        }
        // A killed daemon may have left an object's row, which is written first, without content information.
        if let known, let known { return known }
        let lengths = "length BETWEEN 0 AND \(BlockSize.longestFile)"
        let rows = try rows(where: "key = ? AND NOT superseded AND \(lengths) ORDER BY last_use DESC", [key(text)])
        return rows.first { $0.name != nil }.map { row in
            let (length, validator) = (row.version.length, row.version.validator)
            return StoredInformation(
                information: ContentInformation(length: length, validator: validator), checkedAt: 0)
        }
    }

    // MARK: Listings

    /// A number above all listings and entries, so that a stray entry never becomes part of a listing.
    func freeListing() throws(CacheError) -> Int64 {
        let sql = "SELECT max(ifnull((SELECT max(id) FROM listings), 0), ifnull((SELECT max(listing) FROM entries), 0))"
        let last = try first(sql) { $0.integer(0) } ?? 0
        // The index is not trusted to leave numbers above.
        var numbers = RandomNumbers()
        return last < 1 << 60 ? max(last, 0) + 1 : .random(in: 1..<1 << 60, using: &numbers)
    }

    func insert(
        _ entries: any StoredEntries, _ slice: Range<Int>, listing number: Int64
    ) throws(CacheError) {
        for position in slice {
            let entry = entries.stored(at: position)
            let values: [Value] = [
                .text(entry.name), .text(entry.url), Value(entry.isDirectory), Value(entry.length),
                Value(entry.modified),
            ]
            try run(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)",
                [.integer(number), .integer(Int64(position))]
                    + sealed(values, of: "entry \(number) \(position)"))
        }
    }

    /// - Returns: how many were deleted, at most `count`.
    func deleteEntries(_ number: Int64, atMost count: Int) throws(CacheError) -> Int {
        let slice = "SELECT position FROM entries WHERE listing = ? ORDER BY position LIMIT ?"
        try run(
            "DELETE FROM entries WHERE listing = ? AND position IN (\(slice))",
            [.integer(number), .integer(number), .integer(Int64(count))])
        return changes
    }

    /// - Returns: where to go on, nil at the end; and the listings that have entries and no row.
    func strays(after last: Int64, among count: Int) throws(CacheError) -> (next: Int64?, found: [Int64]) {
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

    func listing(
        _ directory: String
    ) throws(CacheError) -> (number: Int64, fetchedAt: Int64, complete: Bool)? {
        let sql = "SELECT id, fetched, complete FROM listings WHERE directory = ?"
        return try first(sql, [key(directory)]) { ($0.integer(0), $0.moment(1) ?? 0, $0.flag(2)) }
    }

    func entries(
        _ number: Int64, after position: Int64, atMost count: Int
    ) throws(CacheError) -> [(position: Int64, entry: StoredEntry)] {
        let columns = "position, name, url, is_directory, length, modified"
        let sql = "SELECT \(columns) FROM entries WHERE listing = ? AND position > ? ORDER BY position LIMIT ?"
        let values: [Value] = [.integer(number), .integer(position), .integer(Int64(count))]
        let found = try all(sql, values) { row -> (position: Int64, entry: StoredEntry)? in
            let place = row.integer(0)
            guard let row = opened(row, from: 1, of: "entry \(number) \(place)") else { return nil }
            let length = row.optionalInteger(4).flatMap { $0 < 0 ? nil : $0 }
            let entry = StoredEntry(
                name: row.text(1), url: row.text(2), isDirectory: row.flag(3), length: length, modified: row.moment(5))
            return (place, entry)
        }
        let entries = found.compactMap { $0 }
        // Without all of them the listing is none: it is fetched again.
        guard entries.count == found.count else { throw .index(SQLITE_MISMATCH) }
        return entries
    }
}
