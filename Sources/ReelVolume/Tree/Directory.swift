import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import Synchronization

/// One directory: its last good listing, and the answers of the origin that contradict it.
final class Directory: Sendable {
    /// The place that lists it.
    let place: SourcePlace
    /// The reading of the remembered listing, or the request for a new one; calls join it.
    let loading = SharedWork<Result<Listed, VolumeError>>()
    /// Whether a call waits for that.
    let demand = CallDemand()
    private let state: Lock<State>

    private struct State {
        var listing: Listed?
        /// Lengths and dates of single resources, which the origin gave later and the listing contradicts.
        var corrections: [ExactText: Node.Facts] = [:]
        /// The listing whose entries the kernel got last, all with their attributes, and when that began (on the clock
        /// of `now()`), nil if none.
        var told: (entries: EntryList, at: Duration)?
    }

    /// A listing, as a value that a reader keeps while the directory gets a newer one.
    struct Listed: Sendable {
        /// In the order of the document.
        let entries: EntryList
        /// Higher than that of any listing before.
        let serial: UInt64
        /// When the origin last confirmed it, in seconds since 1970.
        var fetchedAt: Int64
        /// When the origin first sent it, as far as is remembered, in seconds since 1970: the date of a directory that
        /// has none.
        var changedAt: Int64
        /// Asks whether it has changed, nil if the answer gave nothing to ask with.
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

    /// Takes the remembered listing, unless there is one. - Returns: the listing that there is now.
    func recall(_ remembered: Listed?) -> Listed? {
        state.withLock { state in
            state.listing = state.listing ?? remembered
            return state.listing
        }
    }

    // MARK: News

    /// The origin confirms the listing. - Returns: the listing that there is now.
    func confirm() -> Listed? {
        state.withLock { state in
            state.listing?.fetchedAt = wallClock()
            return state.listing
        }
    }

    /// Takes a newer listing.
    /// - Parameters:
    ///   - old: the one before; corrections of entries that both have stay.
    ///   - isSame: both have the same entries.
    func replace(_ old: Listed?, with new: Listed, isSame: Bool) {
        state.withLock { state in
            state.listing = new
            if isSame { return }
            state.corrections = state.corrections.filter { old?[$0.key.text] == new[$0.key.text] }
            state.told = nil
        }
    }

    /// The length and date that are known of an entry.
    func facts(of place: Int, in list: EntryList) -> Node.Facts {
        state.withLock { $0.corrections.isEmpty ? nil : $0.corrections[ExactText(list.name(at: place))] }
            ?? Node.Facts(list, at: place)
    }

    /// Keeps other facts that the origin gave of an entry. - Returns: whether no other entry was corrected before.
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

    // MARK: The kernel's knowledge

    /// The kernel got all of these entries with their attributes. - Parameter began: when it got the first one, on the
    /// clock of `now()`.
    func told(_ entries: EntryList, began: Duration) {
        state.withLock { state in
            // The reader of an old listing has given the kernel nothing of this one.
            guard let current = state.listing?.entries, current.isIdentical(to: entries) else { return }
            state.told = (current, began)
        }
    }

    /// The attributes of an entry have changed since the kernel got them.
    func untold() { state.withLock { $0.told = nil } }

    /// Whether the kernel got all of these entries, and may still believe them.
    func isTold(_ entries: EntryList) -> Bool {
        guard let told = state.withLock({ $0.told }) else { return false }
        return told.entries.isIdentical(to: entries) && now() - told.at < KernelBelief.known
    }
}
