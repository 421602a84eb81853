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
