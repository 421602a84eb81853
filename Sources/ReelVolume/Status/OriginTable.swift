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
        var trouble: (word: String, VolumeStatus.Trouble)?
        /// Why it could last not be reached, since it last answered.
        var absence: VolumeStatus.Trouble?
        var lastGood = Duration.zero

        /// Its trouble is that the resolver gave no place.
        var isUnresolved: Bool { trouble?.1.reason == OriginFailure.unresolved.reason }
    }

    /// A playlist may name many hosts: the one unused for longest makes room.
    static let most = 32
    /// The weight of a new time to the first byte, in the smoothed one.
    private static let weight = 0.2
    /// A trouble is shown for so long after others have answered.
    private static let memory = Duration.seconds(60)

    private let records = Lock<[String: Record]>([:])
    private let loginTrouble: @Sendable () -> String?

    /// - Parameter loginTrouble: as in `VolumeOptions`.
    init(_ loginTrouble: @escaping @Sendable () -> String? = { nil }) { self.loginTrouble = loginTrouble }

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

    /// What an answer, or none, says of the origin itself.
    func judge(_ origin: String, by failure: OriginFailure?) {
        guard let failure else {
            return change(origin) { record, moment in
                // An origin may list its files while the command finds no place of theirs.
                if !record.isUnresolved { record.trouble = nil }
                (record.absence, record.lastGood) = (nil, moment)
            }
        }
        if case .unreachable = failure {
            let told = VolumeStatus.Trouble(culprit: "origin", reason: failure.reason, since: wallClock())
            return change(origin) { record, _ in record.absence = told }
        }
        guard let fault = failure.fault else { return }
        let word = fault.word
        var (culprit, reason) = (fault.culprit, failure.reason)
        if culprit == "login", let trouble = loginTrouble() { (culprit, reason) = ("command", trouble) }
        change(origin) { record, moment in
            // One file among others that it gives may be forbidden, or have a name that the server does not understand.
            if case .status(let status, _) = failure, [400, 403].contains(status),
                record.lastGood > max(.zero, moment - Self.memory)
            {
                return
            }
            let since = record.trouble?.word == word.rawValue ? record.trouble?.1.since : nil
            let told = VolumeStatus.Trouble(culprit: culprit, reason: reason, since: since ?? wallClock())
            record.trouble = (word.rawValue, told)
        }
    }

    /// The resolver gave a place of one of its files.
    func resolved(_ origin: String) {
        records.withLock { if $0[origin]?.isUnresolved == true { $0[origin]?.trouble = nil } }
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
        let lastGood = sorted.map(\.value.lastGood).max() ?? .zero
        return sorted.map { origin, record in
            // One of many hosts that nobody asks any more is no trouble of the mount's.
            let isOver = record.lastUse < moment - Self.memory && record.lastUse < lastGood
            let standing = standings[origin]
            let trouble = standing == nil && !isOver ? record.trouble : nil
            let absence = if case .away = standing { record.absence } else { nil as VolumeStatus.Trouble? }
            return VolumeStatus.Origin(
                origin: origin, health: standing?.word ?? trouble?.word ?? "well", trouble: trouble?.1 ?? absence,
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

extension OriginFailure {
    /// What it says of an origin, and whose fault that is; nil where it is of one file, or the origin's circuit knows.
    var fault: (word: Verdict.Word, culprit: String)? {
        switch self {
        case .status(401, _), .status(403, _), .status(407, _): (.refused, "login")
        case .untrusted, .hostKey: (.refused, "origin")
        case .unresolved: (.refused, "command")
        case .noLogin: (.refused, "login")
        case .wrongAnswer: (.wrong, "origin")
        case .status where meaning.isOverloaded: (.slow, "origin")
        case .status where meaning.isUnwell: (.wrong, "origin")
        // A server that wants a client certificate may say so by it (nginx).
        case .status(400, _): (.wrong, "origin")
        case .status, .changed, .unreachable, .interrupted, .timedOut, .away, .cancelled: nil
        }
    }
}
