/// Decides when to ask again for bytes that did not come.
package enum RetryPolicy {
    /// The pause before the next attempt.
    /// - Parameters:
    ///   - attempt: failures in a row without a byte of progress, 1 for the first.
    ///   - random: from 0 to 1, spreads clients that failed together.
    /// - Returns: how long to wait; nil where asking again is of no use.
    package static func pause(after failure: OriginFailure, attempt: Int, random: Double) -> Duration? {
        let limit: Int
        let base: Double
        switch failure {
        case .unreachable:
            // A second in all: a user without a network wants to know soon, and complete files play without it.
            (limit, base) = (2, 0.2)
        case .interrupted, .timedOut:
            (limit, base) = (6, 0.1)
        // What is locked (WebDAV) or early is free or due in a moment; a method that is not known will not be.
        case .status(let status, let retryAfter)
        where [408, 423, 425, 429].contains(status) || (500...599).contains(status) && status != 501:
            if let retryAfter, attempt <= 6 { return max(retryAfter, .milliseconds(100)) }
            (limit, base) = (6, 0.2)
        case .status, .wrongAnswer, .untrusted, .hostKey, .changed, .away, .unresolved, .cancelled:
            return nil
        }
        guard attempt <= limit else { return nil }
        let doubled = min(base * Double(1 << (attempt - 1)), 5)
        return .milliseconds(Int64(doubled * (0.75 + 0.5 * random) * 1000))
    }
}
