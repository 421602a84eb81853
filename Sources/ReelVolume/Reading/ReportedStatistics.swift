import ReelCore

/// How much of a ledger's statistics the counters of the mount have already.
struct ReportedStatistics {
    private var sums = FetchStatistics.Sums()
    /// Bytes fetched ahead and not read, or asked for.
    private(set) var ahead: Int64 = 0
    private var readBytes: Int64 = 0

    /// Adds what is new to the counters, and to those of the program that reads the file. Called under the file's lock,
    /// over which the program's may be taken: a leaf.
    mutating func report(_ ledger: Ledger, to counters: Counters, _ program: ProgramTally?) {
        let ahead = ledger.ahead
        if ahead != self.ahead {
            counters.ahead.add(ahead - self.ahead, ordering: .relaxed)
            self.ahead = ahead
        }
        let statistics = ledger.statistics
        let sums = statistics.sums
        guard sums != self.sums else { return }
        program?.add(fetched: sums.all - self.sums.all, early: sums.early - self.sums.early)
        settle(statistics, program)
        counters.demanded.add(sums.demanded - self.sums.demanded, ordering: .relaxed)
        counters.speculative.add(sums.speculative - self.sums.speculative, ordering: .relaxed)
        counters.wasted.add(sums.wasted - self.sums.wasted, ordering: .relaxed)
        counters.early.add(sums.early - self.sums.early, ordering: .relaxed)
        self.sums = sums
    }

    /// Adds to the program's counters what was read since bytes last came.
    mutating func settle(_ statistics: FetchStatistics, _ program: ProgramTally?) {
        program?.add(read: statistics.readBytes - readBytes)
        readBytes = statistics.readBytes
    }
}
