/// What a thread may wait for a disk that is behind: a hiccup at once, and in the long run a tenth of its time.
struct WaitBudget: Sendable {
    static let most = Duration.milliseconds(200)
    static let share = 10

    private var left = WaitBudget.most
    private var refilledAt: Duration?

    /// - Returns: how long it may wait now.
    mutating func refill(now: Duration) -> Duration {
        if let refilledAt { left = min(Self.most, left + (now - refilledAt) / Self.share) }
        refilledAt = now
        return left
    }

    mutating func spend(_ time: Duration) { left = max(.zero, left - time) }
}
