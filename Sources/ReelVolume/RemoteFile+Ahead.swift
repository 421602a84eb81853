import ReelCore
import ReelThreads

/// What is fetched before anybody asks for it, and the account of it.
extension RemoteFile {
    /// Bytes that may still be fetched ahead, with what is there for this file's own readers.
    var room: Int64 {
        services.aheadLimit - services.counters.ahead.load(ordering: .relaxed)
            + state.withLock { $0.told.unread }
    }

    /// After a hit that has left too little before its reader.
    func readAhead(_ moment: Duration) {
        let (count, room) = (lanes.count, room)
        perform(
            state.withLock { state in
                state.ledger.lanes = count
                state.ledger.room = room
                return state.ledger.readAhead(now: moment)
            })
    }

    /// Adds what is new in the account to the counters of the mount. Called under the lock, where an atomic addition is no
    /// call out.
    func tell(_ state: inout State) {
        let sums = state.ledger.account.sums
        guard sums != state.told else { return }
        services.counters.demanded.add(sums.demanded - state.told.demanded, ordering: .relaxed)
        services.counters.speculative.add(sums.speculative - state.told.speculative, ordering: .relaxed)
        services.counters.wasted.add(sums.wasted - state.told.wasted, ordering: .relaxed)
        services.counters.ahead.add(sums.unread - state.told.unread, ordering: .relaxed)
        state.told = sums
    }

    /// Nobody will read what was fetched ahead here: its file leaves the table.
    func closeAccount() {
        state.withLock { state in
            state.ledger.writeOff()
            tell(&state)
        }
    }

    /// Fetched ahead and not read so far.
    var unread: Int64 { state.withLock { $0.ledger.account.unread.count } }

    /// Asks for what of these is neither there nor under way, if the mount's allowance has so much left.
    func prebuffer(_ ranges: [ByteRange]) {
        let moment = now()
        let missing = state.withLock { state in ranges.reduce(0) { $0 + state.ledger.missing(in: $1) } }
        guard missing > 0, services.allowance.withLock({ $0.take(missing, now: moment) }) else { return }
        services.ticker.add(self)
        perform(state.withLock { state in ranges.flatMap { state.ledger.prebuffer($0, now: moment) } })
    }

    func cancelPrebuffer() { perform(state.withLock { $0.ledger.cancelPrebuffer() }) }

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

    /// A request that was made beside the first one. - Returns: nil where its bytes are not wanted.
    func adoptBeside(_ range: ByteRange) -> Ledger.StreamID? {
        services.ticker.add(self)
        return state.withLock { $0.isOver ? nil : $0.ledger.adoptBeside(range, now: now()) }
    }
}
