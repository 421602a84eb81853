/// How to ask again for bytes that did not come.
package struct RetryPolicy: Hashable, Sendable {
    /// Failures in a row without a byte of progress.
    private let limit: Int
    /// Seconds; each further pause is twice as long.
    private let firstPause: Double

    /// A second in all.
    static let twice = RetryPolicy(limit: 2, firstPause: 0.2)
    static let soon = RetryPolicy(limit: 6, firstPause: 0.1)
    static let later = RetryPolicy(limit: 6, firstPause: 0.2)

    /// The pause before the next attempt.
    /// - Parameters:
    ///   - attempt: failures in a row without a byte of progress, 1 for the first.
    ///   - random: from 0 to 1, spreads clients that failed together.
    /// - Returns: how long to wait; nil where asking again is of no use.
    package static func pause(after failure: OriginFailure, attempt: Int, random: Double) -> Duration? {
        guard let policy = failure.meaning.retry, attempt <= policy.limit else { return nil }
        if let retryAfter = failure.retryAfter { return max(retryAfter, .milliseconds(100)) }
        let doubled = min(policy.firstPause * Double(1 << (attempt - 1)), 5)
        return .milliseconds(Int64(doubled * (0.75 + 0.5 * random) * 1000))
    }
}
