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
