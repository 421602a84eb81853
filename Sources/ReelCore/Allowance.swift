/// Bytes that may be fetched on mere suspicion (ends of files, next items) by all files of a mount together: so many a
/// minute, which come back little by little.
package struct Allowance: Sendable {
    private let perMinute: Int64
    private var left: Int64
    private var refilledAt = Duration.zero

    package init(perMinute: Int64) {
        self.perMinute = perMinute
        left = perMinute
    }

    /// - Parameter isSpare: taken only where half of the allowance is left after it.
    /// - Returns: whether these bytes may be fetched; they are then taken.
    package mutating func take(_ count: Int64, isSpare: Bool = false, now: Duration) -> Bool {
        let back = Int64(Double(perMinute) * min((now - refilledAt).seconds, 60) / 60)
        left = min(perMinute, left + back)
        refilledAt = now
        guard count <= left - (isSpare ? perMinute / 2 : 0) else { return false }
        left -= count
        return true
    }
}

/// Readahead on trust: for readers that have proven themselves, but may turn out to be a scanner that reads a megabyte of
/// each file. All files of a mount together get so many bytes of it a minute. What a reader got on trust comes back when
/// it has read on (`Account.onTrust` then goes down again), so that only those who stop early use it up.
package struct ProbeShield: Sendable {
    private let perMinute: Int64
    private var level = 0.0
    private var seen: Int64 = 0
    private var seenAt = Duration.zero

    package init(perMinute: Int64) { self.perMinute = perMinute }

    /// - Parameter onTrust: the sum over all files.
    package mutating func allows(_ onTrust: Int64, now: Duration) -> Bool {
        let drained = Double(perMinute) * (now - seenAt).seconds / 60
        level = max(0, level + Double(onTrust - seen) - drained)
        (seen, seenAt) = (onTrust, now)
        return level < Double(perMinute)
    }
}
