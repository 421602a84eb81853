import ReelCore

/// Reads of one file beyond `parkedLimit`, which wait outside of the ledger.
///
/// Each read that the ledger holds makes every decision of it longer, and each decision is made under the file's lock
/// by a thread that serves the whole mount: thousands of reads of one file would keep the reads of all others waiting.
extension RemoteFile {
    /// Four for each place in a file that readahead keeps track of.
    static let parkedLimit = 4 * Readahead.cursorLimit

    /// - Returns: false where the read is for the ledger at once.
    func queue(_ parked: Parked) -> Bool {
        let isQueued = state.withLock { state in
            guard !state.isOver, state.parked.count >= Self.parkedLimit || !state.queue.isEmpty else { return false }
            state.queue.append(parked)
            return true
        }
        if isQueued { services.ticker.add(self) }
        return isQueued
    }

    /// Fails reads whose deadline has passed, and hands the oldest of the others to the ledger as far as it has room.
    func moveQueue(_ now: Duration) {
        let (late, next) = state.withLock { state -> ([Parked], [Parked]) in
            if state.queue.isEmpty { return ([], []) }
            let late = state.queue.filter { $0.deadline <= now }
            state.queue.removeAll { $0.deadline <= now }
            // Some of their bytes may be there, which the ledger finds out.
            if state.ledger.isOpenEnded { return ([], late) }
            for parked in late { state.ledger.expire(parked.range, now: now) }
            let next = state.queue.prefix(max(0, Self.parkedLimit - state.parked.count))
            state.queue.removeFirst(next.count)
            return (late, Array(next))
        }
        for parked in late { parked.read.fail(.timedOut) }
        for parked in next { park(parked) }
    }

    /// Removes a read whose caller has gone. - Returns: false where it is not in the queue.
    static func unqueue(_ read: any ParkedRead, _ state: inout State) -> Bool {
        guard let index = state.queue.firstIndex(where: { $0.read === read }) else { return false }
        state.queue.remove(at: index)
        return true
    }
}
