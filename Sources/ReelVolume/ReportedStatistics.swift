import ReelCore

/// How much of a ledger's statistics the counters of the mount have already.
struct ReportedStatistics {
    private var sums = FetchStatistics.Sums()
    /// Bytes fetched ahead and not read, or asked for.
    private(set) var ahead: Int64 = 0

    /// Adds what is new to the counters. Called under the file's lock, where an atomic addition is no call out.
    mutating func report(_ ledger: Ledger, to counters: Counters) {
        let ahead = ledger.ahead
        if ahead != self.ahead {
            counters.ahead.add(ahead - self.ahead, ordering: .relaxed)
            self.ahead = ahead
        }
        let sums = ledger.statistics.sums
        guard sums != self.sums else { return }
        counters.demanded.add(sums.demanded - self.sums.demanded, ordering: .relaxed)
        counters.speculative.add(sums.speculative - self.sums.speculative, ordering: .relaxed)
        counters.wasted.add(sums.wasted - self.sums.wasted, ordering: .relaxed)
        counters.early.add(sums.early - self.sums.early, ordering: .relaxed)
        self.sums = sums
    }
}
