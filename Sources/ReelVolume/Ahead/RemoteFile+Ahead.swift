import ReelCore
import ReelThreads

/// Fetches bytes before a read asks for them, within the limits of the mount.
extension RemoteFile {
    /// The limits that the mount and the origin set now; `room` does not count the bytes that this file has taken.
    /// - Parameter requests: at a time, for one reader.
    func limits(_ requests: Int, _ moment: Duration) -> Ledger.Limits {
        let counters = services.counters
        let isInMemory = object.isInMemory
        let isContended = services.transport.line.isContended(besides: ObjectIdentifier(self), now: moment)
        // Second: a player of another file needs the line.
        let (url, program, isSecond) = ask {
            ($0.url, $0.reader.program, isContended && !$0.ledger.hasPlayer(now: moment))
        }
        let isScan = program?.isScanning(now: moment) ?? false
        let isWide = isContended && !isScan && !concurrency.isRefused(now: moment)
        let requests = isWide ? max(requests, Self.requestsOfContended) : requests
        let reach = isScan ? program?.reach(url.fileExtension) ?? 0 : 0
        let allowsEarly = program?.allowsEarly(now: moment) ?? true
        let (ahead, early) = (counters.ahead.load(ordering: .relaxed), counters.early.load(ordering: .relaxed))
        let isOneBody = url.fileProtocol == .ftp
        return services.budget.withLock {
            Ledger.Limits(
                requests: isOneBody || isSecond ? 1 : requests, room: $0.unreadLimit - ahead,
                allowsEarly: $0.allowsEarly(early, now: moment) && allowsEarly && !isSecond,
                window: isInMemory ? Self.windowInMemory : isSecond ? Readahead.near : .max,
                mayHedge: url.fileProtocol == nil && !isSecond, probe: services.options.probeLimit, isScan: isScan,
                isContended: isContended, reach: reach, isOneBody: isOneBody)
        }
    }

    /// Reports to the line of the mount what the file's player needs.
    /// - Parameter isNews: a read has begun to wait, or the player has gone.
    func tellLine(_ moment: Duration, isNews: Bool = false) {
        guard let need = decide({ $0.need(moment, isNews: isNews) }) else { return }
        services.transport.line.tell(ObjectIdentifier(self), ahead: need.ahead, by: need.rank, now: moment)
    }

    /// A server shares a line among connections: those of a file that begins are too few beside a copy's.
    private static let requestsOfContended = 3

    /// Bytes that are kept in memory must have room there for all readers.
    private static let windowInMemory = 2 * Readahead.near

    /// After a hit that has left too little before its reader.
    func readAhead(_ moment: Duration) {
        // One whose reads find what its open has fetched never waits.
        if let program = decide({ $0.isReadAhead() }) { begins(program, moment) }
        perform(decide(under: limits(concurrency.share, moment)) { $0.readAhead(now: moment) })
        readsOn()
    }

    /// The file leaves the table: no reader is expected for bytes fetched ahead.
    func writeOff() { decide { $0.writeOff() } }

    /// Bytes fetched ahead and not read so far.
    var unread: Int64 { ask { $0.ledger.statistics.unread.count } }

    /// Asks for the bytes of these that are neither there nor under way, if the mount's budget has so much left.
    func prefetch(_ ranges: [ByteRange], as spending: SpeculationBudget.Spending) {
        let moment = now()
        let missing = ask { $0.ledger.missing(in: ranges) }
        guard missing > 0, services.budget.withLock({ $0.spend(missing, on: spending, now: moment) }) else { return }
        perform(
            decide { $0.prebuffer(ranges, now: moment) },
            for: spending == .tail ? .tail : spending == .index ? .index : .nextItem)
    }

    func cancelPrebuffer() { perform(decide { $0.cancelPrebuffer() }) }

    /// A command fetches all of the file. - Parameter report: hears of the end of each request.
    func addPrefetch(of command: FileFetch, _ report: @escaping FileState.PrefetchReport) {
        decide { $0.addPrefetch(of: command, report) }
    }

    /// Goes on with fetching all of the file for a command, one request at a time.
    func prefetchAll(_ limit: RateLimit?) {
        perform(decide { $0.prefetch(now: now()) }, limit: limit)
    }

    /// A command does not want all of the file any more; the requests end with the last one that does.
    func cancelPrefetch(of command: FileFetch) { perform(decide { $0.cancelPrefetch(of: command) }) }

    /// A request for the file is under way.
    var isFetching: Bool { ask { !$0.ledger.isIdle } }

    /// What is missing cannot be had any more, whatever is asked for.
    var isBrokenOff: Bool { ask { $0.ledger.isIdle && !$0.ledger.comesAgain } }
}
