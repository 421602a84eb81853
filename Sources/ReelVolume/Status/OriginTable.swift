import ReelCore
import ReelThreads

/// How each origin answers, for `status`. It gets each attempt of each request, on the transport's thread.
final class OriginTable: Sendable {
    private struct Record {
        var lastUse = Duration.zero
        /// Seconds.
        var firstByte: Double?
        /// Counts all times to the first byte.
        let firstBytes = Histogram()
        var rate = RateMeter()
        var bytes: Int64 = 0
        var requests: Int64 = 0
        var failed: Int64 = 0
    }

    /// A playlist may name many hosts: the one unused for longest makes room.
    static let most = 32
    /// The weight of a new time to the first byte, in the smoothed one.
    private static let weight = 0.2

    private let records = Lock<[String: Record]>([:])

    /// The head of an answer came.
    func answered(_ origin: String, after time: Duration) {
        change(origin) { record, _ in
            let seconds = time.seconds
            record.firstByte = record.firstByte.map { $0 + (seconds - $0) * Self.weight } ?? seconds
            record.firstBytes.add(time)
        }
    }

    func took(_ count: Int64, from origin: String) {
        change(origin) { record, moment in
            record.bytes += count
            record.rate.add(count, moment)
        }
    }

    /// - Parameter isUnwell: it failed by the fault of the origin.
    func ended(_ origin: String, isUnwell: Bool) {
        change(origin) { record, _ in
            record.requests += 1
            record.failed += isUnwell ? 1 : 0
        }
    }

    private func change(_ origin: String, _ body: (inout Record, Duration) -> Void) {
        let moment = now()
        records.withLock { records in
            if records[origin] == nil, records.count >= Self.most,
                let oldest = records.min(by: { $0.value.lastUse < $1.value.lastUse })?.key
            {
                records[oldest] = nil
            }
            body(&records[origin, default: Record()], moment)
            records[origin]!.lastUse = moment
        }
    }

    /// From a request's departure to the head of its answer.
    var firstBytes: Labelled<HistogramCounts> { labelled { $0.firstBytes.value } }
    var requests: Labelled<Int64> { labelled(\.requests) }
    /// Requests that failed by the fault of the origin.
    var failures: Labelled<Int64> { labelled(\.failed) }

    /// By name.
    private func labelled<Value>(_ value: (Record) -> Value) -> Labelled<Value> {
        Labelled(records.withLock { $0 }.sorted { $0.key < $1.key }.map { ($0.key, value($0.value)) })
    }

    /// The states of the origins that were asked, or are in doubt or away, by name.
    func circuits(_ standings: [String: OriginStanding]) -> Labelled<Int64> {
        let names = Set(records.withLock { Array($0.keys) }).union(standings.keys)
        return Labelled(names.sorted().map { ($0, standings[$0]?.state ?? 0) })
    }

    /// The last used first.
    func status(_ standings: [String: OriginStanding]) -> [VolumeStatus.Origin] {
        let moment = now()
        let sorted = records.withLock { $0 }.sorted { ($0.value.lastUse, $0.key) > ($1.value.lastUse, $1.key) }
        return sorted.map { origin, record in
            VolumeStatus.Origin(
                origin: origin, health: standings[origin]?.word ?? "well",
                firstByte: record.firstByte.map { Int64(min($0 * 1000, 1e9).rounded()) },
                rate: record.rate.perSecond(moment), bytes: record.bytes, requests: record.requests,
                failed: record.failed)
        }
    }
}

extension OriginStanding {
    fileprivate var word: String {
        switch self {
        case .doubtful: "doubtful"
        case .away(let outage, _): outage.rawValue
        }
    }

    /// 0 is an origin that answers.
    fileprivate var state: Int64 {
        switch self {
        case .doubtful: 1
        case .away: 2
        }
    }
}
