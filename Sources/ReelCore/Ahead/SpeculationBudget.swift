/// Limits the bytes that all files of a mount together fetch before a read asks for them: this many a minute, which
/// come back little by little.
///
/// Each kind of spending leaves a share of the budget to the more useful ones, so that a program that looks at every
/// file uses up its own share and not the ends of films.
package struct SpeculationBudget: Sendable {
    /// The purpose of bytes that are fetched ahead.
    package enum Spending: Sendable, CaseIterable {
        /// The end of a media file.
        case tail
        /// Ranges that the first bytes of a media file name.
        case index
        /// The beginning and the end of the next item.
        case nextItem
        /// More of the next item.
        case moreOfNextItem
        /// The second block of a film or song that is opened.
        case secondBlock
    }

    /// What a line of 10 Mbit/s brings in a minute.
    package static let perMinute: Int64 = 64 << 20
    /// The next item counts for no more than this, however long `--prebuffer` makes it: the user has chosen that.
    private static let largestCharge = perMinute / 4

    /// Bytes that all files together may have fetched ahead and unread, or asked for.
    package let unreadLimit: Int64
    private let perMinute: Int64
    /// Below zero where early readahead has taken more than was left.
    private var left: Double
    private var refilledAt = Duration.zero
    /// Early readahead that `left` takes into account.
    private var early: Int64 = 0

    /// A full budget.
    /// - Parameter unreadLimit: enough for a few films; the cache must be able to hold it. No sum with it overflows.
    package init(perMinute: Int64 = perMinute, unreadLimit: Int64 = 1 << 60) {
        self.perMinute = perMinute
        self.unreadLimit = unreadLimit
        left = Double(perMinute)
    }

    /// Spends bytes, if enough are left. - Parameter count: bytes that are missing.
    /// - Returns: whether they may be fetched.
    package mutating func spend(_ count: Int64, on spending: Spending, now: Duration) -> Bool {
        refill(now)
        let (charge, kept): (Int64, Int64) =
            switch spending {
            case .tail: (count, 0)
            // Whoever opens the file reads them: hardly any are wasted.
            case .index: (count / 8, 0)
            case .nextItem: (min(count, Self.largestCharge), 0)
            case .moreOfNextItem: (min(count, Self.largestCharge), perMinute / 2)
            // A person opens fewer films than a scanner: 32 films with their ends take the half that they may take.
            case .secondBlock: (7 * count, perMinute / 2)
            }
        guard Double(charge + kept) <= left else { return false }
        left -= Double(charge)
        return true
    }

    /// Whether to read ahead for readers that have not read on yet and may stop early (`Readahead.settled`). The bytes
    /// fetched for them come back when they read on.
    /// - Parameter early: bytes asked for ahead of such readers in all files (`FetchStatistics.Sums.early`).
    package mutating func allowsEarly(_ early: Int64, now: Duration) -> Bool {
        refill(now)
        left = min(Double(perMinute), left - Double(early - self.early))
        self.early = early
        return left > Double(perMinute / 4)
    }

    private mutating func refill(_ now: Duration) {
        left = min(Double(perMinute), left + Double(perMinute) * (now - refilledAt).seconds / 60)
        refilledAt = now
    }
}
