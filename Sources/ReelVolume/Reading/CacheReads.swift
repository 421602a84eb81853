import ReelCore
import ReelThreads
import Synchronization

/// What the cache answered at once of the reads of one handle: a line of the user's log when the handle is closed.
final class CacheReads: Sendable {
    /// The program that opened it, as far as it is known.
    let program = Lock<String?>(nil)
    private let first = Atomic(Int64.max)
    private let end = Atomic<Int64>(0)
    private let bytes = Atomic<Int64>(0)
    private let openedAt = wallClock()
    private let start = now()

    /// Counts a hit.
    func add(_ offset: Int64, _ count: Int) {
        guard count > 0 else { return }
        bytes.add(Int64(count), ordering: .relaxed)
        if offset < first.load(ordering: .relaxed) { first.min(offset, ordering: .relaxed) }
        if offset + Int64(count) > end.load(ordering: .relaxed) { end.max(offset + Int64(count), ordering: .relaxed) }
    }

    /// The line; nil where the cache answered nothing. Its time is that between open and close.
    func record(of url: ResourceURL) -> RequestRecord? {
        let count = bytes.load(ordering: .relaxed)
        guard count > 0 else { return nil }
        return RequestRecord(
            when: dateText(openedAt), file: url.description,
            range: [first.load(ordering: .relaxed), end.load(ordering: .relaxed) - 1],
            why: OriginRequest.Reason.demand.rawValue, program: program.withLock { $0 }, from: "cache", bytes: count,
            milliseconds: Int64((now() - start) / .milliseconds(1)))
    }
}
