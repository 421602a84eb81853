import ReelCore
import ReelThreads

/// What is fetched before anybody asks for it, and the account of it.
extension RemoteFile {
    /// What all files of the mount, and the origin, leave to this one.
    struct Limits {
        var lanes: Int
        /// Bytes that may still be fetched ahead, but for this file's own.
        var room: Int64
        var isTrusting: Bool
    }

    func limits(lanes: Int, _ moment: Duration) -> Limits {
        let onTrust = services.counters.onTrust.load(ordering: .relaxed)
        return Limits(
            lanes: lanes, room: services.aheadLimit - services.counters.ahead.load(ordering: .relaxed),
            isTrusting: services.shield.withLock { $0.allows(onTrust, now: moment) })
    }

    /// Asks the ledger, under these limits and with the account told after it.
    func decide<Answer>(_ limits: Limits? = nil, _ body: (inout State) -> sending Answer) -> sending Answer {
        state.withLock { state in
            if let limits {
                state.ledger.lanes = limits.lanes
                state.ledger.room = limits.room + state.toldAhead
                state.ledger.isTrusting = limits.isTrusting
            }
            defer { tell(&state) }
            return body(&state)
        }
    }

    /// After a hit that has left too little before its reader.
    func readAhead(_ moment: Duration) {
        perform(decide(limits(lanes: lanes.count, moment)) { $0.ledger.readAhead(now: moment) })
    }

    /// Adds what is new in the account to the counters of the mount. Called under the lock, where an atomic addition is no
    /// call out.
    func tell(_ state: inout State) {
        let ahead = state.ledger.ahead
        if ahead != state.toldAhead {
            services.counters.ahead.add(ahead - state.toldAhead, ordering: .relaxed)
            state.toldAhead = ahead
        }
        let sums = state.ledger.account.sums
        guard sums != state.told else { return }
        services.counters.demanded.add(sums.demanded - state.told.demanded, ordering: .relaxed)
        services.counters.speculative.add(sums.speculative - state.told.speculative, ordering: .relaxed)
        services.counters.wasted.add(sums.wasted - state.told.wasted, ordering: .relaxed)
        services.counters.onTrust.add(sums.onTrust - state.told.onTrust, ordering: .relaxed)
        state.told = sums
    }

    /// Nobody will read what was fetched ahead here: its file leaves the table.
    func closeAccount() {
        decide { $0.ledger.writeOff() }
    }

    /// Fetched ahead and not read so far.
    var unread: Int64 { state.withLock { $0.ledger.account.unread.count } }

    /// Asks for what of these is neither there nor under way, if the mount's allowance has so much left.
    func prebuffer(_ ranges: [ByteRange], isSpare: Bool = false) {
        let moment = now()
        let missing = state.withLock { $0.ledger.missing(in: ranges) }
        guard missing > 0, services.allowance.withLock({ $0.take(missing, isSpare: isSpare, now: moment) })
        else { return }
        services.ticker.add(self)
        perform(decide { state in ranges.flatMap { state.ledger.prebuffer($0, now: moment) } })
    }

    func cancelPrebuffer() { perform(decide { $0.ledger.cancelPrebuffer() }) }

    var isPrebuffering: Bool { state.withLock { $0.ledger.isPrebuffering } }

    /// Players look at the end of a film right after its beginning.
    func touchTail(_ name: String) {
        guard isMedia(name), let tail = Readahead.tail(of: length) else { return }
        prebuffer([tail])
    }

    private func isMedia(_ name: String) -> Bool {
        if MediaName.isMedia(name) { return true }
        guard let type = information.mediaType else { return false }
        return type.hasPrefix("video/") || type.hasPrefix("audio/")
    }
}
