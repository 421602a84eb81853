import ReelCore
import Synchronization

/// The atomic counters of a volume, since the mount began.
final class Counters: Sendable {
    let bytesServed = Atomic<Int64>(0)
    /// Reads from the cache. Each answer is counted for itself: the difference of two counters may fall.
    let diskHits = Atomic<Int64>(0)
    let memoryHits = Atomic<Int64>(0)
    let misses = Atomic<Int64>(0)
    /// One hit in this many is timed.
    static let hitsPerTime: Int64 = 64
    /// The sums of `FetchStatistics` over all files. Listings and content information count as demanded. All bytes from
    /// the origin are either demanded or speculative.
    let demanded = Atomic<Int64>(0)
    let speculative = Atomic<Int64>(0)
    let wasted = Atomic<Int64>(0)
    /// Bytes that are fetched ahead, or asked for, and not read yet, of the files in the table.
    let ahead = Atomic<Int64>(0)
    let early = Atomic<Int64>(0)
    /// Reads that kept a reader waiting for long, by what took most of it.
    private let originStalls = Atomic<Int64>(0)
    private let queueStalls = Atomic<Int64>(0)
    private let diskStalls = Atomic<Int64>(0)

    func stalled(for fault: ReadWait.Stall.Fault) {
        switch fault {
        case .origin: originStalls.add(1, ordering: .relaxed)
        case .queue: queueStalls.add(1, ordering: .relaxed)
        case .disk: diskStalls.add(1, ordering: .relaxed)
        }
    }

    var stalls: VolumeStatus.Stalls {
        VolumeStatus.Stalls(origin: originStalls.value, queue: queueStalls.value, disk: diskStalls.value)
    }

    func demandedBytes(_ count: Int) {
        demanded.add(Int64(count), ordering: .relaxed)
    }

    func droppedBytes(_ count: Int) {
        speculative.add(Int64(count), ordering: .relaxed)
        wasted.add(Int64(count), ordering: .relaxed)
    }
}

extension Atomic<Int64> {
    var value: Int64 { load(ordering: .relaxed) }
}
