/// Limits a rate: bytes that came are paid for afterwards, and no more may come until the debt is paid.
///
/// Over any time no more than `rate` times that time passes, except for a burst and the last piece.
package struct TokenBucket: Sendable {
    /// So much of a second may come at once.
    private static let burst = 0.1

    /// Bytes a second, nil for no limit.
    package private(set) var rate: Double?
    /// Bytes that may come now; below zero: a debt.
    private var credit = 0.0
    private var refilledAt = Duration.zero

    /// - Parameter rate: bytes a second, nil for no limit.
    package init(rate: Double? = nil) { self.rate = rate }

    /// Another rate holds from now on. A debt from a lower rate is paid at the new one.
    package mutating func change(to rate: Double?, now: Duration) {
        guard rate != self.rate else { return }
        refill(now)
        self.rate = rate
    }

    /// Bytes came, or are paid for before they come; below zero: they are given back.
    package mutating func took(_ count: Int64, now: Duration) {
        refill(now)
        if rate != nil { credit -= Double(count) }
    }

    /// The time until more may come, a second at most, nil if they may come now.
    package mutating func pause(now: Duration) -> Duration? {
        refill(now)
        guard let rate, credit < 0 else { return nil }
        return .seconds(min(-credit / rate, 1))
    }

    private mutating func refill(_ now: Duration) {
        defer { refilledAt = max(refilledAt, now) }
        guard let rate else { return credit = 0 }
        credit = min(rate * Self.burst, credit + rate * max(0, (now - refilledAt).seconds))
    }
}
