import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// One directory: its last good listing, and the answers that contradict it.
final class Directory: Sendable {
    /// Where it is listed.
    let place: SourcePlace
    /// Reading what is remembered, or asking the origin.
    let loading = SharedWork<Result<Listed, VolumeError>>()
    private let state: Lock<State>

    private struct State {
        var listing: Listed?
        /// Lengths and dates of single resources that the origin told since, and that the listing contradicts.
        var corrections: [ExactText: Node.Facts] = [:]
        /// The last time that the kernel was told all entries of a listing with their attributes: which listing, and
        /// when that began (on the clock of `now()`).
        var told: (entries: EntryList, at: Duration)?
    }

    /// Entries in the listing's order. A value: a reader keeps it as it was.
    struct Listed: Sendable {
        let entries: EntryList
        /// Higher than that of any earlier one.
        let serial: UInt64
        /// When the origin last said so: seconds since 1970.
        var fetchedAt: Int64
        /// When it first did: what a directory without a date shows as its own.
        var changedAt: Int64
        /// Asks whether that is still so; nil: the answer told nothing to ask with.
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

    init(_ place: SourcePlace, _ listing: Listed? = nil) {
        self.place = place
        state = Lock(State(listing: listing), .tree)
    }

    /// The last good listing; nil where there is none yet.
    var listing: Listed? { state.withLock { $0.listing } }

    /// The remembered listing, unless there is one. - Returns: the listing there is now.
    func recall(_ remembered: Listed?) -> Listed? {
        state.withLock { state in
            state.listing = state.listing ?? remembered
            return state.listing
        }
    }

    // MARK: News

    /// The origin says that the listing is as it was. - Returns: the listing there is now.
    func confirm() -> Listed? {
        state.withLock { state in
            state.listing?.fetchedAt = wallClock()
            return state.listing
        }
    }

    /// - Parameters:
    ///   - old: the one before; what both say is contradicted as before.
    ///   - isSame: both have the same entries.
    func replace(_ old: Listed?, with new: Listed, isSame: Bool) {
        state.withLock { state in
            state.listing = new
            if isSame { return }
            state.corrections = state.corrections.filter { old?[$0.key.text] == new[$0.key.text] }
            state.told = nil
        }
    }

    /// An entry's length and date, as far as they are known.
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

    // MARK: What the kernel knows

    /// The kernel was told all of these entries with their attributes. - Parameter began: on the clock of `now()`.
    func told(_ entries: EntryList, began: Duration) {
        state.withLock { state in
            // A reader of an old list tells nothing of the one that is there now.
            guard let current = state.listing?.entries, current.isIdentical(to: entries) else { return }
            state.told = (current, began)
        }
    }

    /// The kernel's knowledge of the entries is out of date.
    func untold() { state.withLock { $0.told = nil } }

    /// Whether the kernel was told all of these entries, and may still believe it.
    func isTold(_ entries: EntryList) -> Bool {
        guard let told = state.withLock({ $0.told }) else { return false }
        return told.entries.isIdentical(to: entries) && now() - told.at < KernelBelief.known
    }
}
