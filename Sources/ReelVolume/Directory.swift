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
        var waiting: [Completion<Listed>] = []
        /// What the origin said of single resources since the listing was made, which it contradicts.
        var corrections: [ExactText: Node.Facts] = [:]
    }

    /// Entries in the listing's order, and where each name stands. A value: who reads it keeps it as it was.
    struct Listed: Sendable {
        let entries: [SourceEntry]
        let places: [ExactText: Int]
        /// When the origin last said so: seconds since 1970.
        var fetchedAt: Int64
        /// When it first did: what a directory without a date shows as its own.
        var changedAt: Int64
        /// What asks the origin whether it still says so; nil: it gave nothing to ask with.
        var condition: OriginRequest.Condition?

        init(_ entries: [SourceEntry], fetchedAt: Int64, condition: OriginRequest.Condition? = nil) {
            self.entries = entries
            self.fetchedAt = fetchedAt
            self.condition = condition
            changedAt = fetchedAt
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
