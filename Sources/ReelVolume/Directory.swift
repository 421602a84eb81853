import ReelCore
import ReelSources
import Synchronization

/// What is known of one directory: its last good listing, and who waits for one.
final class Directory: Sendable {
    /// nil: not listed from the origin, but from a list, once and for all.
    let url: ResourceURL?
    let state = Mutex(State())

    struct State {
        var listing: Listed?
        var isFetching = false
        /// On the clock of `now()`: after an attempt the origin is left in peace until then.
        var refreshFrom: Duration = .zero
        var waiting: [Completion<Listed>] = []
        /// What the origin said of single resources since the listing was made, which it contradicts.
        var corrections: [ExactText: Node.Facts] = [:]
    }

    /// Entries in the listing's order, and where each name stands. A value: who reads it keeps it as it was.
    struct Listed: Sendable {
        let entries: [SourceEntry]
        let places: [ExactText: Int]
        /// Seconds since 1970.
        let fetchedAt: Int64

        init(_ entries: [SourceEntry], fetchedAt: Int64) {
            self.entries = entries
            self.fetchedAt = fetchedAt
            places = Dictionary(entries.enumerated().map { (ExactText($1.name), $0) }) { first, _ in first }
        }

        subscript(name: String) -> SourceEntry? { places[ExactText(name)].map { entries[$0] } }
    }

    init(_ url: ResourceURL?) { self.url = url }

    /// What is known of an entry's length and date.
    func facts(of entry: SourceEntry) -> Node.Facts {
        state.withLock { $0.corrections[ExactText(entry.name)] }
            ?? Node.Facts(length: entry.length, modified: entry.modified)
    }

    func correct(_ name: String, _ facts: Node.Facts) { state.withLock { $0.corrections[ExactText(name)] = facts } }
}
