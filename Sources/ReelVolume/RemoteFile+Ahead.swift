import ReelCore
import ReelThreads

/// What is fetched before a read asks for it, and the statistics of it.
extension RemoteFile {
    /// What all files of the mount, and the origin, leave to this one; `room` without what this one has taken.
    /// - Parameter requests: at a time, for one reader.
    func limits(_ requests: Int, _ moment: Duration) -> Ledger.Limits {
        let counters = services.counters
        let (ahead, early) = (counters.ahead.load(ordering: .relaxed), counters.early.load(ordering: .relaxed))
        return services.budget.withLock {
            Ledger.Limits(
                requests: requests, room: $0.unreadLimit - ahead, allowsEarly: $0.allowsEarly(early, now: moment))
        }
    }

    /// Asks the ledger under these limits, and reports what has changed in its statistics.
    func decide<Answer>(_ limits: Ledger.Limits? = nil, _ body: (inout State) -> sending Answer) -> sending Answer {
        state.withLock { state in
            if let limits {
                state.ledger.limits = limits
                state.ledger.limits.room += state.reportedAhead
            }
            defer { report(&state) }
            return body(&state)
        }
    }

    /// After a hit that has left too little before its reader.
    func readAhead(_ moment: Duration) {
        perform(decide(limits(concurrency.share, moment)) { $0.ledger.readAhead(now: moment) })
    }

    /// Adds what is new in the statistics to the counters of the mount. Called under the lock, where an atomic addition
    /// is no call out.
    func report(_ state: inout State) {
        let ahead = state.ledger.ahead
        if ahead != state.reportedAhead {
            services.counters.ahead.add(ahead - state.reportedAhead, ordering: .relaxed)
            state.reportedAhead = ahead
        }
        let (sums, before) = (state.ledger.statistics.sums, state.reported)
        guard sums != before else { return }
        services.counters.demanded.add(sums.demanded - before.demanded, ordering: .relaxed)
        services.counters.speculative.add(sums.speculative - before.speculative, ordering: .relaxed)
        services.counters.wasted.add(sums.wasted - before.wasted, ordering: .relaxed)
        services.counters.early.add(sums.early - before.early, ordering: .relaxed)
        state.reported = sums
    }

    /// The file leaves the table: no reader is expected for what was fetched ahead.
    func writeOff() { decide { $0.ledger.writeOff() } }

    /// Fetched ahead and not read so far.
    var unread: Int64 { state.withLock { $0.ledger.statistics.unread.count } }

    /// Asks for what of these is neither there nor under way, if the mount's budget has so much left.
    func prefetch(_ ranges: [ByteRange], as spending: SpeculationBudget.Spending) {
        let moment = now()
        let missing = state.withLock { $0.ledger.missing(in: ranges) }
        guard missing > 0, services.budget.withLock({ $0.spend(missing, on: spending, now: moment) }) else { return }
        services.ticker.add(self)
        perform(decide { state in ranges.flatMap { state.ledger.prebuffer($0, now: moment) } })
    }

    func cancelPrebuffer() { perform(decide { $0.ledger.cancelPrebuffer() }) }

    /// Players look at the end of a film right after its beginning.
    func prefetchTail(_ name: String) {
        guard isMedia(name), let tail = Readahead.tail(of: length) else { return }
        prefetch([tail], as: .tail)
    }

    private func isMedia(_ name: String) -> Bool {
        if MediaName.isMedia(name) { return true }
        guard let type = information.mediaType else { return false }
        return type.hasPrefix("video/") || type.hasPrefix("audio/")
    }
}
