/// Counts the bytes of one file by why they were fetched, and how many of those fetched ahead were read. Each byte that
/// comes is either demanded or speculative.
package struct FetchStatistics: Hashable, Sendable {
    /// Bytes, since the file was opened first.
    package struct Sums: Hashable, Sendable {
        /// A read waited for them.
        package fileprivate(set) var demanded: Int64 = 0
        /// All others.
        package fileprivate(set) var speculative: Int64 = 0
        /// Speculative bytes that came a second time or too late, or left the cache before they were read.
        package fileprivate(set) var wasted: Int64 = 0
        /// Asked for ahead of readers that have come neither as far as `Readahead.settled` nor to the end of the file:
        /// `Cursors.early`.
        package internal(set) var early: Int64 = 0

        /// Bytes that came.
        package var all: Int64 { demanded + speculative }

        /// All zero.
        package init() {}
    }

    /// The bytes since the file was opened first.
    package internal(set) var sums = Sums()
    /// Fetched ahead and not read yet.
    package private(set) var unread = ByteRangeSet()
    /// Bytes of all reads, also of those that were read before.
    package private(set) var readBytes: Int64 = 0

    /// Counts bytes that were not there before they came.
    /// - Parameter demands: ranges that reads wait for.
    mutating func took(_ range: ByteRange, for demands: some Sequence<ByteRange>) {
        let before = unread.count
        unread.insert(range)
        for demand in demands where demand.overlaps(range) { unread.remove(demand.clamped(to: range)) }
        let ahead = unread.count - before
        sums.speculative += ahead
        sums.demanded += range.count - ahead
    }

    /// Counts bytes that came although they were there, or whose stream had been let go of.
    mutating func dropped(_ count: Int64) {
        sums.speculative += count
        sums.wasted += count
    }

    /// Each hit calls this. It allocates only where a read cuts an unread range in two.
    mutating func read(_ range: ByteRange) {
        readBytes &+= range.count
        unread.remove(range)
    }

    /// Bytes have left the cache.
    mutating func lost(_ range: ByteRange) {
        let before = unread.count
        unread.remove(range)
        sums.wasted += before - unread.count
    }

    /// All of the file is wanted: nothing was wasted.
    mutating func wanted() { unread = ByteRangeSet() }

    /// No reader is expected any more: unread bytes are wasted.
    mutating func writeOff() {
        sums.wasted += unread.count
        unread = ByteRangeSet()
    }
}
