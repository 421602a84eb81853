import ReelCore
import Synchronization

/// What is remembered beside the bytes, waiting to be written in one batch. Seen by readers from the first moment.
struct Facts: Sendable {
    var information: [ExactText: Remembered] = [:]
    var listings: [ExactText: RememberedListing] = [:]
    var settings: [ExactText: String] = [:]

    var isEmpty: Bool { information.isEmpty && listings.isEmpty && settings.isEmpty }

    /// - Parameter numbers: under which the listings' entries were written.
    /// - Returns: those of the listings that these replace.
    func write(to index: Connection, _ numbers: [ExactText: Int64]) throws(CacheError) -> [Int64] {
        for (key, fact) in information { try index.insert(fact, for: key.text) }
        var replaced: [Int64] = []
        for (directory, listing) in listings {
            if let old = try index.insert(listing, numbers[directory]!, for: directory.text) { replaced.append(old) }
        }
        for (name, value) in settings {
            try index.run("INSERT OR REPLACE INTO settings VALUES (?, ?)", [.text(name.text), .text(value)])
        }
        return replaced
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
        self.init(entityTag: tag, lastModified: row.moment(column + 2))
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

    /// Its entries are there already, under that number.
    /// - Returns: the number of the listing that this one replaces.
    fileprivate func insert(
        _ listing: RememberedListing, _ number: Int64, for directory: String
    ) throws(CacheError) -> Int64? {
        let old = try first("SELECT id FROM listings WHERE directory = ?", [.text(directory)]) { $0.integer(0) }
        let values: [Value] = [
            .integer(number), .text(directory), .integer(listing.fetchedAt), Value(listing.complete),
        ]
        try run("INSERT OR REPLACE INTO listings VALUES (?, ?, ?, ?)", values)
        return old
    }

    func information(for key: String) throws(CacheError) -> Remembered? {
        let columns = "length, tag, weak, modified, media_type, ranges, checked"
        let known = try first("SELECT \(columns) FROM resources WHERE key = ?", [.text(key)]) { row in
            // A length below zero is no length: the index is not trusted.
            let information = ContentInformation(
                length: row.optionalInteger(0).flatMap { $0 < 0 ? nil : $0 }, validator: Validator(row, at: 1),
                mediaType: row.optionalText(4), acceptsRanges: row.flag(5))
            return Remembered(information: information, checkedAt: row.moment(6) ?? 0)
        }
        // A daemon that was killed has left bytes and not yet what was said of them: what they are of was written first.
        if let known { return known }
        let rows = try rows(ofKey: key).filter { !$0.isSuperseded && !$0.version.isOpenEnded }
        return rows.max { $0.lastUse < $1.lastUse }.map { row in
            let (length, validator) = (row.version.length, row.version.validator)
            return Remembered(information: ContentInformation(length: length, validator: validator), checkedAt: 0)
        }
    }
}
