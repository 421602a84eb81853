import ReelCore
import ReelThreads

/// Facts remembered beside the bytes: content information of resources, listings of directories, small facts of the
/// mount. Readers see a fact at once; the next commit writes it.
///
/// A listing may have a million entries, and opens and streams wait for the index's locks. So entries are written, read
/// and deleted in slices, and the lock is free between two of them.
final class Metadata: Sendable {
    /// Rows of `entries` in one slice: some 10 ms.
    static let sliceOfEntries = 1000
    /// Listings looked at in one slice of the search for stray entries; each may be a read of a slow disk.
    private static let soughtAtOnce = 10

    /// The facts that one commit writes.
    struct Batch: Sendable {
        var information: [ExactText: StoredInformation] = [:]
        var listings: [ExactText: StoredListing] = [:]
        var settings: [ExactText: String] = [:]
        /// The numbers under which the listings' entries were written.
        fileprivate(set) var numbers: [ExactText: Int64] = [:]

        var isEmpty: Bool { information.isEmpty && listings.isEmpty && settings.isEmpty }
    }

    private struct State: Sendable {
        var waiting = Batch()
        var writing = Batch()
        /// Listings whose entries are to be deleted. Only commits touch it.
        var strays: [Int64] = []
    }

    private let index: CacheIndex
    private let commits: StoreThread
    private let reached: @Sendable (CrashPoint) -> Void
    private let state = Lock(State())

    init(_ index: CacheIndex, _ commits: StoreThread, _ reached: @escaping @Sendable (CrashPoint) -> Void) {
        self.index = index
        self.commits = commits
        self.reached = reached
    }

    /// Remembers a fact.
    func add(_ change: (inout Batch) -> Void) {
        state.withLock { change(&$0.waiting) }
        commits.schedule()
    }

    private func find<Fact: Sendable>(_ find: (Batch) -> Fact?) -> Fact? {
        state.withLock { find($0.waiting) ?? find($0.writing) }
    }

    // MARK: Looking

    func information(for key: String) -> StoredInformation? {
        find { $0.information[ExactText(key)] }
            ?? (try? index.read { (index) throws(CacheError) in try index.information(for: key) })
    }

    func setting(_ name: String) -> String? {
        find { $0.settings[ExactText(name)] }
            ?? (try? index.read { (index) throws(CacheError) in
                try index.setting(name)
            })
    }

    func hasListing(_ directory: String) -> Bool {
        if find({ $0.listings[ExactText(directory)] }) != nil { return true }
        return (try? index.read { (index) throws(CacheError) in try index.listing(directory) }) != nil
    }

    func hasEntries(_ directory: String) -> Bool {
        if let waiting = find({ $0.listings[ExactText(directory)] }) { return waiting.entries.count > 0 }
        let found = try? index.read { (index) throws(CacheError) -> Bool? in
            guard let listing = try index.listing(directory) else { return nil }
            return try !index.entries(listing.number, after: -1, atMost: 1).isEmpty
        }
        return found ?? false
    }

    /// The entries of a listing, one by one.
    /// - Parameters:
    ///   - begin: called before the first, and again where another listing has replaced this one meanwhile: earlier
    ///     entries do not count then.
    ///   - take: in the listing's order.
    func listing(
        _ directory: String, begin: () -> Void, _ take: (StoredEntry) -> Void
    ) -> (fetchedAt: Int64, complete: Bool)? {
        if let waiting = find({ $0.listings[ExactText(directory)] }) {
            begin()
            for place in 0..<waiting.entries.count { take(waiting.entries.stored(at: place)) }
            return (waiting.fetchedAt, waiting.complete)
        }
        return try? indexed(directory, begin, take)
    }

    private func indexed(
        _ directory: String, _ begin: () -> Void, _ take: (StoredEntry) -> Void
    ) throws(CacheError) -> (fetchedAt: Int64, complete: Bool)? {
        var head = try index.read { (index) throws(CacheError) in try index.listing(directory) }
        again: while let listing = head {
            begin()
            var last: Int64? = -1
            while let after = last {
                let (slice, now) = try index.read { (index) throws(CacheError) in
                    let slice = try index.entries(listing.number, after: after, atMost: Self.sliceOfEntries)
                    // Read after the slice: a listing's entries go only after the row that names the listing.
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

    // MARK: Committing

    /// Takes the facts that wait, to be written now. `end` must follow.
    func begin() -> Batch {
        state.withLock { state in
            state.writing = state.waiting
            state.waiting = Batch()
            return state.writing
        }
    }

    /// - Parameters:
    ///   - isWritten: false: the batch waits for the next commit.
    ///   - replaced: the listings that those of the batch have replaced, nil if no rows were written.
    func end(isWritten: Bool, replaced: [Int64]? = nil) {
        state.withLock { state in
            if let replaced { state.strays = replaced }
            if !isWritten {
                // Newer facts win over those that could not be written.
                state.waiting.information.merge(state.writing.information) { newer, _ in newer }
                state.waiting.listings.merge(state.writing.listings) { newer, _ in newer }
                state.waiting.settings.merge(state.writing.settings) { newer, _ in newer }
            }
            state.writing = Batch()
        }
    }

    /// Writes the entries under numbers that no row of `listings` has yet. They are stray, and no read finds them,
    /// until the rows of the batch name their numbers.
    func writeEntries(of batch: inout Batch) throws(CacheError) {
        // Entries of an attempt that failed, on a disk that was full then.
        try removeStrays()
        guard !batch.listings.isEmpty else { return }
        var next = try index.write { (index) throws(CacheError) in try index.freeListing() }
        for (directory, listing) in batch.listings {
            batch.numbers[directory] = next
            state.withLock { $0.strays.append(next) }
            for start in stride(from: 0, to: listing.entries.count, by: Self.sliceOfEntries) {
                let slice = start..<min(start + Self.sliceOfEntries, listing.entries.count)
                try index.write { (index) throws(CacheError) in
                    try index.unsynced { () throws(CacheError) in
                        try index.insert(listing.entries, slice, listing: next)
                    }
                }
                reached(.entriesWritten)
            }
            next += 1
        }
    }

    /// Deletes entries of listings that were replaced, or that could not be written.
    func removeStrays() throws(CacheError) {
        while let stray = state.withLock({ $0.strays.last }) {
            let count = try index.write { (index) throws(CacheError) in
                try index.unsynced { () throws(CacheError) in
                    try index.deleteEntries(stray, atMost: Self.sliceOfEntries)
                }
            }
            if count == 0 { state.withLock { _ = $0.strays.popLast() } }
        }
    }

    /// Deletes stray entries of a daemon that died. Must not run while listings are written.
    func sweep() throws(CacheError) {
        var strays: [Int64] = []
        var last: Int64? = .min
        while let after = last {
            let (next, found) = try index.read { (index) throws(CacheError) in
                try index.strays(after: after, among: Self.soughtAtOnce)
            }
            strays += found
            last = next
        }
        state.withLock { $0.strays = strays }
        try removeStrays()
    }
}
