/// What the bytes of one file were fetched for, and what came of those that nobody had asked for yet. All that came is
/// either demanded or speculative.
package struct Account: Hashable, Sendable {
    /// Somebody waited for them.
    package private(set) var demanded: Int64 = 0
    /// All others.
    package private(set) var speculative: Int64 = 0
    /// Of these: came although they were there or nobody wanted them any more, or left the cache before anybody read them.
    package private(set) var wasted: Int64 = 0
    /// Fetched ahead and not read yet.
    package private(set) var unread = ByteRangeSet()

    package init() {}

    package struct Sums: Hashable, Sendable {
        package var demanded: Int64 = 0
        package var speculative: Int64 = 0
        package var wasted: Int64 = 0
        package var unread: Int64 = 0

        package init() {}
    }

    package var sums: Sums {
        var sums = Sums()
        (sums.demanded, sums.speculative, sums.wasted, sums.unread) = (demanded, speculative, wasted, unread.count)
        return sums
    }

    /// Bytes came that were not there. - Parameter demands: what is waited for.
    mutating func took(_ range: ByteRange, for demands: some Sequence<ByteRange>) {
        let before = unread.count
        unread.insert(range)
        for demand in demands where demand.overlaps(range) { unread.remove(demand.clamped(to: range)) }
        let ahead = unread.count - before
        speculative += ahead
        demanded += range.count - ahead
    }

    /// Bytes came for nothing: they were there, or their stream was let go of.
    mutating func dropped(_ count: Int64) {
        speculative += count
        wasted += count
    }

    /// On the path of a hit: no allocation unless somebody reads in the middle of what nobody has read.
    mutating func read(_ range: ByteRange) {
        if !unread.isEmpty { unread.remove(range) }
    }

    mutating func lost(_ range: ByteRange) {
        let before = unread.count
        unread.remove(range)
        wasted += before - unread.count
    }

    mutating func writeOff() {
        wasted += unread.count
        unread = ByteRangeSet()
    }
}

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

    /// - Returns: whether these bytes may be fetched; they are then taken.
    package mutating func take(_ count: Int64, now: Duration) -> Bool {
        let back = Int64(Double(perMinute) * min((now - refilledAt).seconds, 60) / 60)
        left = min(perMinute, left + back)
        refilledAt = now
        guard count <= left else { return false }
        left -= count
        return true
    }
}
