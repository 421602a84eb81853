import ReelCore
import ReelSources
import Synchronization

/// What is known of one directory: its last good listing, and who waits for one.
final class Directory: Sendable {
    /// Where it is listed.
    let place: SourcePlace
    let state = Mutex(State())

    struct State {
        var listing: Listed?
        var isFetching = false
        var waiting: [Completion<Listed>] = []
        /// Who waits while one of them reads what is remembered.
        var recalling: [Completion<Listed>] = []
        /// What the origin said of single resources since the listing was made, which it contradicts.
        var corrections: [ExactText: Node.Facts] = [:]
        /// The last time that the kernel was told all entries of a listing with their attributes: which listing, and
        /// when that began (on the clock of `now()`).
        var told: (entries: EntryList, at: Duration)?
    }

    /// Entries in the listing's order. A value: who reads it keeps it as it was.
    struct Listed: Sendable {
        let entries: EntryList
        /// Higher than that of any earlier one.
        let serial: UInt64
        /// When the origin last said so: seconds since 1970.
        var fetchedAt: Int64
        /// When it first did: what a directory without a date shows as its own.
        var changedAt: Int64
        /// What asks whether that is still so; nil: there is nothing to ask with.
        var mark: FolderMark?

        private static let lastSerial = Atomic<UInt64>(0)

        init(_ entries: EntryList, fetchedAt: Int64, mark: FolderMark? = nil) {
            self.entries = entries
            self.fetchedAt = fetchedAt
            self.mark = mark
            changedAt = fetchedAt
            serial = Listed.lastSerial.add(1, ordering: .relaxed).newValue
        }

        subscript(name: String) -> SourceEntry? { entries.place(of: name).map { entries[$0] } }
    }

    init(_ place: SourcePlace) { self.place = place }

    /// What is known of an entry's length and date.
    func facts(of place: Int, in list: EntryList) -> Node.Facts {
        state.withLock { $0.corrections.isEmpty ? nil : $0.corrections[ExactText(list.name(at: place))] }
            ?? Node.Facts(list, at: place)
    }

    /// - Returns: whether it is the first contradiction of the listing that is there.
    @discardableResult
    func correct(_ name: String, _ facts: Node.Facts) -> Bool {
        state.withLock { state in
            defer {
                state.corrections[ExactText(name)] = facts
                state.told = nil
            }
            return state.corrections.isEmpty
        }
    }
}
