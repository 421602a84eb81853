/// What the bytes of one file were fetched for, and what came of those that nobody had asked for yet. All that came is
/// either demanded or speculative.
package struct Account: Hashable, Sendable {
    /// Somebody waited for them.
    package private(set) var demanded: Int64 = 0
    /// All others.
    package private(set) var speculative: Int64 = 0
    /// Of these: came although they were there or nobody wanted them any more, or left the cache before anybody read them.
    package private(set) var wasted: Int64 = 0
    /// Asked for ahead of readers that have not come as far as `Readahead.settled`, nor to the end of the file.
    package internal(set) var onTrust: Int64 = 0
    /// Fetched ahead and not read yet.
    package private(set) var unread = ByteRangeSet()

    package init() {}

    package struct Sums: Hashable, Sendable {
        package var demanded: Int64 = 0
        package var speculative: Int64 = 0
        package var wasted: Int64 = 0
        package var unread: Int64 = 0
        package var onTrust: Int64 = 0

        package init() {}
    }

    package var sums: Sums {
        var sums = Sums()
        (sums.demanded, sums.speculative, sums.wasted) = (demanded, speculative, wasted)
        (sums.unread, sums.onTrust) = (unread.count, onTrust)
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
