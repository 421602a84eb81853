import ReelCore

/// Memory that readers have left behind: see `DropBehind`. Each byte should be in the page cache once at most, and those
/// of a long file only while somebody is near them.
extension RemoteFile {
    /// What leaves the page cache as part of the data file. While the file is being fetched its pages in the mount go as
    /// well, or the next hour of a film would cost memory twice; of a complete file those are the ones that stay, as the
    /// kernel then reads from them without asking.
    func takeBehind(_ state: inout State) -> ByteRange? {
        guard let range = state.ledger.takeBehind() else { return nil }
        if !state.ledger.coverage.isComplete {
            state.behind =
                state.behind.map { ByteRange(min($0.lower, range.lower), max($0.upper, range.upper)) } ?? range
            hasBehind.store(true, ordering: .relaxed)
        }
        return range
    }

    /// What the kernel is to forget.
    func takeBehind() -> ByteRange? {
        state.withLock { state in
            hasBehind.store(false, ordering: .relaxed)
            defer { state.behind = nil }
            return state.behind
        }
    }
}
