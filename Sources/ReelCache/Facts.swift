import ReelCore
import Synchronization

/// What is remembered beside the bytes, waiting to be written in one batch. Seen by readers from the first moment.
struct Facts: Sendable {
    var information: [ExactText: Remembered] = [:]
    var listings: [ExactText: RememberedListing] = [:]
    var settings: [ExactText: String] = [:]

    var isEmpty: Bool { information.isEmpty && listings.isEmpty && settings.isEmpty }

    func write(to index: Connection) throws(CacheError) {
        for (key, fact) in information { try index.insert(fact, for: key.text) }
        for (directory, listing) in listings { try index.insert(listing, for: directory.text) }
        for (name, value) in settings {
            try index.run("INSERT OR REPLACE INTO settings VALUES (?, ?)", [.text(name.text), .text(value)])
        }
    }
}

/// The facts that are not in the index yet: those that wait, and those that are being written.
final class FactQueue: Sendable {
    private struct State {
        var waiting = Facts()
        var writing = Facts()
    }

    private let state = Mutex(State())

    func add(_ change: (inout Facts) -> Void) { state.withLock { change(&$0.waiting) } }

    func find<Fact: Sendable>(_ find: (Facts) -> Fact?) -> Fact? {
        state.withLock { find($0.waiting) ?? find($0.writing) }
    }

    /// What waits, to be written now; ends with `written`.
    func begin() -> Facts {
        state.withLock { state in
            state.writing = state.waiting
            state.waiting = Facts()
            return state.writing
        }
    }

    func written(_ succeeded: Bool) {
        state.withLock { state in
            if !succeeded {
                // Newer facts win over those that could not be written.
                state.waiting.information.merge(state.writing.information) { newer, _ in newer }
                state.waiting.listings.merge(state.writing.listings) { newer, _ in newer }
                state.waiting.settings.merge(state.writing.settings) { newer, _ in newer }
            }
            state.writing = Facts()
        }
    }
}

extension Validator {
    /// As the columns tag, weak, modified hold it.
    var columns: [Value] { [Value(entityTag?.opaque), Value(entityTag?.isWeak ?? false), Value(lastModified)] }

    init(_ row: Statement, at column: Int32) {
        let weak = row.flag(column + 1)
        let tag = row.optionalText(column).flatMap { EntityTag((weak ? "W/" : "") + "\"\($0)\"") }
        self.init(entityTag: tag, lastModified: row.optionalInteger(column + 2))
    }
}

extension Connection {
    fileprivate func insert(_ fact: Remembered, for key: String) throws(CacheError) {
        let information = fact.information
        let values = [
            [.text(key), Value(information.length)], information.validator.columns,
            [Value(information.mediaType), Value(information.acceptsRanges), .integer(fact.checkedAt)],
        ]
        try run("INSERT OR REPLACE INTO resources VALUES (?, ?, ?, ?, ?, ?, ?, ?)", Array(values.joined()))
    }

    fileprivate func insert(_ listing: RememberedListing, for directory: String) throws(CacheError) {
        let old = try first("SELECT id FROM listings WHERE directory = ?", [.text(directory)]) { $0.integer(0) }
        if let old { try run("DELETE FROM entries WHERE listing = ?", [.integer(old)]) }
        let values: [Value] = [.text(directory), .integer(listing.fetchedAt), Value(listing.complete)]
        try run("INSERT OR REPLACE INTO listings (directory, fetched, complete) VALUES (?, ?, ?)", values)
        let number = lastRow
        for position in 0..<listing.entries.count {
            let entry = listing.entries.stored(at: position)
            let values: [Value] = [
                .integer(number), .integer(Int64(position)), .text(entry.name), .text(entry.url),
                Value(entry.isDirectory), Value(entry.length), Value(entry.modified),
            ]
            try run("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        }
    }

    func information(for key: String) throws(CacheError) -> Remembered? {
        let columns = "length, tag, weak, modified, media_type, ranges, checked"
        let known = try first("SELECT \(columns) FROM resources WHERE key = ?", [.text(key)]) { row in
            // A length below zero is no length: the index is not trusted.
            let information = ContentInformation(
                length: row.optionalInteger(0).flatMap { $0 < 0 ? nil : $0 }, validator: Validator(row, at: 1),
                mediaType: row.optionalText(4), acceptsRanges: row.flag(5))
            return Remembered(information: information, checkedAt: row.integer(6))
        }
        // A daemon that was killed has left bytes and not yet what was said of them: what they are of was written first.
        if let known { return known }
        let rows = try rows(ofKey: key).filter { !$0.isSuperseded }
        return rows.max { $0.lastUse < $1.lastUse }.map { row in
            let (length, validator) = (row.version.length, row.version.validator)
            return Remembered(information: ContentInformation(length: length, validator: validator), checkedAt: 0)
        }
    }

    /// Calls `take` for each entry of a listing, in their order; nil where there is no such listing.
    func listing(
        _ directory: String, _ take: (StoredEntry) -> Void
    ) throws(CacheError) -> (fetchedAt: Int64, complete: Bool)? {
        let head = "SELECT id, fetched, complete FROM listings WHERE directory = ?"
        guard
            let (number, fetched, complete) = try first(
                head, [.text(directory)],
                { row in
                    (row.integer(0), row.integer(1), row.flag(2))
                })
        else { return nil }
        let columns = "name, url, is_directory, length, modified"
        try query("SELECT \(columns) FROM entries WHERE listing = ? ORDER BY position", [.integer(number)]) { row in
            let length = row.optionalInteger(3).flatMap { $0 < 0 ? nil : $0 }
            take(
                StoredEntry(
                    name: row.text(0), url: row.text(1), isDirectory: row.flag(2), length: length,
                    modified: row.optionalInteger(4)))
            return true
        }
        return (fetched, complete)
    }
}
