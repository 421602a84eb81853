import ReelCore
import ReelThreads

/// The numbers of a mount that only a monitoring system wants, since the mount began.
package struct VolumeMetrics: Sendable {
    /// Where the bytes of a read came from.
    package enum Answer: String, CaseIterable, Sendable {
        /// Blocks that the disk does not take.
        case memory
        case disk
        /// The read waited for the source.
        case origin
        /// The read waited for a mirror.
        case mirror
        /// The read waited for the tier.
        case tier

        init(_ place: AnswerPlace) {
            switch place {
            case .origin: self = .origin
            case .mirror: self = .mirror
            case .tier: self = .tier
            }
        }
    }

    /// An origin that was asked.
    package struct Origin: Sendable {
        /// Scheme, host and port.
        package var name: String
        /// From a request's departure to the head of its answer.
        package var firstByte: HistogramCounts
        package var requests: Int64 = 0
        /// Requests that failed by the fault of the origin.
        package var failed: Int64 = 0
    }

    /// How long reads took, by answer. Every 64th read from the cache is timed, and counts for 64.
    package var reads: [Answer: HistogramCounts] = [:]
    /// Reads from the cache, which were answered from the disk and from memory; each other read is in `reads`.
    package var diskHits: Int64 = 0
    package var memoryHits: Int64 = 0
    /// Bytes that were fetched ahead, and that no reader will get. Those of a closed file may still find one.
    package var wastedBytes: Int64 = 0
    /// Bytes that left the cache to make room, for their age, or by a command.
    package var evictedBytes: Int64 = 0
    /// Seconds since the origin last confirmed the root's listing; nil: there is none.
    package var listingAge: Int64?
    package var origins: [Origin] = []
    /// Origins that are in doubt or away.
    package var standings: [String: OriginStanding] = [:]

    package init() {}

    /// Adds those of another source of the same mount.
    mutating func add(_ other: VolumeMetrics) {
        reads.merge(other.reads) { mine, theirs in
            var sum = mine
            sum.add(theirs)
            return sum
        }
        diskHits &+= other.diskHits
        memoryHits &+= other.memoryHits
        wastedBytes &+= other.wastedBytes
        listingAge = [listingAge, other.listingAge].compactMap { $0 }.max()
        for origin in other.origins {
            if let place = origins.firstIndex(where: { $0.name == origin.name }) {
                origins[place].firstByte.add(origin.firstByte)
                origins[place].requests &+= origin.requests
                origins[place].failed &+= origin.failed
            } else {
                origins.append(origin)
            }
        }
        // Where two sources disagree, one of them has just found out.
        standings.merge(other.standings) { mine, theirs in if case .away = theirs { theirs } else { mine } }
    }
}

/// The times of a volume's reads.
final class ReadTimes: Sendable {
    let memory = Histogram()
    let disk = Histogram()
    let origin = Histogram()
    let mirror = Histogram()
    let tier = Histogram()

    subscript(answer: VolumeMetrics.Answer) -> Histogram {
        switch answer {
        case .memory: memory
        case .disk: disk
        case .origin: origin
        case .mirror: mirror
        case .tier: tier
        }
    }
}

extension Volume {
    package func metrics() -> VolumeMetrics {
        let (counters, times) = (services.counters, services.times)
        var metrics = VolumeMetrics()
        for answer in VolumeMetrics.Answer.allCases { metrics.reads[answer] = times[answer].value }
        metrics.diskHits = counters.diskHits.load(ordering: .relaxed)
        metrics.memoryHits = counters.memoryHits.load(ordering: .relaxed)
        metrics.wastedBytes = counters.wasted.load(ordering: .relaxed)
        metrics.evictedBytes = services.store.evictedBytes
        metrics.listingAge = tree.root.directory?.listing.map { max(0, wallClock() - $0.fetchedAt) }
        metrics.origins = services.origins.metrics
        metrics.standings = services.origin.standings
        return metrics
    }
}
