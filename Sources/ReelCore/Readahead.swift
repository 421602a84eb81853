/// How far ahead of a reader to fetch. Bytes.
package enum Readahead {
    /// A probe costs this and no more: header and index of most media fit, one block more lets the kernel's own
    /// readahead of 128 KiB not run into the end at once.
    package static let first: Int64 = (1 << 20) + BlockSize.block
    /// Half a minute of high-rate video; on a fast link enough that requests follow one another without a gap.
    package static let most: Int64 = 32 << 20
    /// A reader that lands this little before or behind its place goes on reading there: the kernel asks out of order,
    /// players skip over what they do not need.
    package static let slack: Int64 = 1 << 20
    /// Places remembered in one file: audio, video and subtitle positions of two or three programs.
    package static let cursorLimit = 8
}

/// One place in a file at which somebody reads forward.
package struct Cursor: Hashable, Sendable {
    /// One behind the furthest byte read here.
    package var position: Int64
    /// Length of the next range fetched ahead; doubles each time the reader has proven that it goes on.
    package var window: Int64 = Readahead.first
    package var lastRead: Duration
    /// No byte before this is missing, as far as was looked: spares the hit path from walking the map.
    package var frontier: Int64

    package init(at range: ByteRange, now: Duration) {
        position = range.upper
        frontier = range.upper
        lastRead = now
    }

    package func continues(with range: ByteRange) -> Bool {
        range.lower >= position - Readahead.slack - range.count && range.lower <= position + Readahead.slack
    }

    /// True where more has to be under way: less than half a window lies between reader and frontier.
    package var isRunningDry: Bool { frontier - position < window / 2 }

    package mutating func advance(to range: ByteRange, now: Duration) {
        position = max(position, range.upper)
        frontier = max(frontier, position)
        lastRead = now
    }

    /// The next range was started: the reader has proven itself.
    package mutating func grow(atMost limit: Int64) { window = max(window, min(window * 2, limit)) }
}
