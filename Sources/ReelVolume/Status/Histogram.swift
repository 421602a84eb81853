import Synchronization

/// Durations by size, for Prometheus. Any thread may add: two atomic additions, no lock and no allocation.
///
/// `@unchecked Sendable`: the memory holds atomics alone, and stays at its place until the end.
final class Histogram: @unchecked Sendable {
    private let counts: UnsafeMutablePointer<Atomic<Int64>>
    private let nanoseconds = Atomic<Int64>(0)

    init() {
        counts = .allocate(capacity: HistogramCounts.bounds.count + 1)
        for place in 0...HistogramCounts.bounds.count { (counts + place).initialize(to: Atomic(0)) }
    }

    deinit {
        counts.deinitialize(count: HistogramCounts.bounds.count + 1)
        counts.deallocate()
    }

    /// - Parameter weight: of how many durations this one is the sample.
    func add(_ time: Duration, weight: Int64 = 1) {
        let (seconds, attoseconds) = time.components
        // A clock that stands still for a year is none.
        let spent = min(max(seconds, 0), 1 << 25) * 1_000_000_000 + max(attoseconds, 0) / 1_000_000_000
        var place = 0
        while place < HistogramCounts.bounds.count, spent > HistogramCounts.bounds[place] { place += 1 }
        counts[place].add(weight, ordering: .relaxed)
        nanoseconds.add(spent * weight, ordering: .relaxed)
    }

    /// The counts as they stand.
    var value: HistogramCounts {
        HistogramCounts(
            counts: (0...HistogramCounts.bounds.count).map { counts[$0].load(ordering: .relaxed) },
            nanoseconds: nanoseconds.load(ordering: .relaxed))
    }
}

/// What a ``Histogram`` has counted.
package struct HistogramCounts: Sendable, Hashable {
    /// The longest duration of each class but the last, in nanoseconds: from a read of the page cache to a deadline.
    package static let bounds: [Int64] = [
        10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000,
        50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000, 5_000_000_000, 10_000_000_000,
        30_000_000_000,
    ]

    /// The count of each class; the last one has no bound.
    package private(set) var counts = [Int64](repeating: 0, count: bounds.count + 1)
    /// The sum of all durations.
    package private(set) var nanoseconds: Int64 = 0

    package init() {}

    fileprivate init(counts: [Int64], nanoseconds: Int64) {
        self.counts = counts
        self.nanoseconds = nanoseconds
    }

    /// The number of all durations.
    package var total: Int64 { counts.reduce(0, &+) }

    package mutating func add(_ other: HistogramCounts) {
        for place in counts.indices { counts[place] &+= other.counts[place] }
        nanoseconds &+= other.nanoseconds
    }
}
