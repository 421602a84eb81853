/// How far ahead of a reader to fetch. Bytes, unless said otherwise.
///
/// All sizes follow from three: a block, `near` and `most`.
package enum Readahead {
    /// Waiting this far for a stream that runs is no worse than another request. Also the distance at which a reader
    /// goes on reading at its place (the kernel asks out of order, players skip over what they do not need), what a
    /// reader gets where all files together have used up what they may fetch ahead, and what a player needs after a
    /// seek before it shows a picture.
    package static let near: Int64 = 1 << 20
    /// For readers that take bytes as fast as they come, or whose rate is unknown: on a fast link enough that requests
    /// follow one another without a gap, for six of them at a time.
    package static let most: Int64 = 32 << 20
    /// For readers with a rate of their own, as players have, that have read as much: half a minute of 30 Mbit/s.
    package static let longest = 4 * most
    /// A window is as long as a reader at the observed rate needs for this: longer than most disturbances of a line.
    static let seconds = 30.0
    /// Longer than a reader pauses between reads of a row: until then an underrun says that it takes bytes as they
    /// come.
    static let underrunTime = Duration.seconds(1)

    // MARK: Until a reader has read on

    /// What an open or a first read at a place asks for: one block, which answers the kernel's first request. Two
    /// hundred films of which the first 64 KiB are read cost 25 MiB.
    package static let first = BlockSize.block
    /// The same of a film or song, while few are opened: a player reads more than a block before its first picture, and
    /// asking for the rest then would cost it a round trip.
    package static let firstOfMedia = 2 * first
    /// From the very start of a file readers prove themselves sooner: most that read two blocks there go on.
    static let headProof = 2 * first
    /// Elsewhere nothing is fetched ahead before so much was read in a row: a program that takes a piece of 256 KiB out
    /// of the middle makes the kernel ask for 512.
    static let proof = 5 * first
    /// From here on a reader is expected to go on. Before, its window is `early`: one that stops at 4 MiB has cost less
    /// than 8.
    static let settled = 8 * proof
    static let early = settled / 2

    // MARK: Fast readers, slow connections

    /// For readers that are faster than lines with a delay bring (bytes a second): what is fetched ahead of them should
    /// still be in memory when they come, and no round trip is worth more.
    static let fastest = 256.0 * 1024 * 1024
    static let mostOfFastest = most / 4
    /// So much read tells a rate before a second has passed.
    static let telling = 2 * most
    /// Pieces that parallel requests fetch: longer ones make the reader wait for the first while the last comes,
    /// shorter ones are mostly round trips. Where a round trip is worth more than the usual, four times that.
    static let segments = (near / 2)...(2 * near)
    static let longestSegment = 4 * segments.upperBound
    /// After a seek several requests fetch `near` together, the first of them short, as the reader waits for it.
    static let seekFirst = BlockSize.block
    static let seekNext = 3 * BlockSize.block

    /// Places remembered in one file: audio, video and subtitle positions of two or three programs.
    package static let cursorLimit = 8
    /// A last block shorter than this gets the one before it as well: an index of some hundred chapters, ID3v1 and APE
    /// tags fit.
    private static let leastTail = BlockSize.block / 4

    /// The end of a media file, which players ask for right after its beginning (index, cues, tags); nil where the file
    /// is so short that reading on brings it as soon.
    package static func tail(of length: Int64) -> ByteRange? {
        guard length > 4 * BlockSize.block else { return nil }
        var lower = (length - 1) / BlockSize.block * BlockSize.block
        if length - lower < leastTail { lower -= BlockSize.block }
        return ByteRange(lower, length)
    }
}

/// One place in a file at which a program reads forward.
package struct Cursor: Hashable, Sendable {
    /// Where reading forward began.
    package private(set) var start: Int64
    /// One behind the furthest byte read here.
    package private(set) var position: Int64
    package private(set) var lastRead: Duration
    let began: Duration
    /// A program that had read on elsewhere in the file began here.
    private let isSeek: Bool
    /// No byte before this is missing, as far as was looked: spares the hit path from walking the map.
    package var frontier: Int64
    /// When the reader last had to wait although its bytes were fetched ahead.
    package var lastUnderrun: Duration?
    /// Bytes asked for ahead of this reader before it had read on.
    var early: Int64 = 0
    /// Bytes a second that are read here; nil before the first second, or the first 64 MiB.
    private var rate: Double?
    private var measuredSince: Duration
    private var measuredBytes: Int64 = 0
    private var behind: DropBehind

    package init(at range: ByteRange, now: Duration, isSeek: Bool = false) {
        self.isSeek = isSeek
        start = range.lower
        position = range.upper
        frontier = range.upper
        lastRead = now
        began = now
        measuredSince = now
        behind = DropBehind(from: range.lower)
    }

    /// Bytes read in a row.
    package var run: Int64 { position - start }
    package var isProven: Bool { isSeek || run >= (start == 0 ? Readahead.headProof : Readahead.proof) }
    /// The reader has come here by a seek a moment ago.
    var isSeeking: Bool { isSeek && run < Readahead.proof }
    package var hasReadOn: Bool { run >= Readahead.settled }

    package func continues(with range: ByteRange) -> Bool {
        range.lower >= position - Readahead.near - range.count && range.lower <= position + Readahead.near
    }

    /// How far before the reader bytes should be there or under way: nothing until the reader has proven itself, then
    /// always less than was read already or little, then as much as the observed rate needs.
    package func window(atMost limit: Int64) -> Int64 {
        guard isProven else { return 0 }
        guard run >= Readahead.proof else { return min(isSeek ? Readahead.near : run, limit) }
        let grown = Readahead.early + max(0, 3 * (run - Readahead.settled))
        guard let rate else { return min(grown, Readahead.most, limit) }
        let needed = max(Readahead.early, Int64(min(rate * Readahead.seconds, 1e12)))
        // A reader that takes bytes as they come gains nothing by more; of one with a rate no more is at stake than was
        // read.
        let most =
            if rate >= Readahead.fastest {
                Readahead.mostOfFastest
            } else if underruns(lastRead) {
                Readahead.most
            } else {
                max(Readahead.most, min(run, Readahead.longest))
            }
        return min(grown, needed, most, limit)
    }

    /// The reader takes bytes as fast as they come.
    package func underruns(_ now: Duration) -> Bool { lastUnderrun.map { now - $0 < Readahead.underrunTime } ?? false }

    package mutating func advance(to range: ByteRange, now: Duration) {
        measuredBytes += max(0, range.upper - position)
        if now - measuredSince >= .seconds(1) || measuredBytes >= Readahead.telling && now > measuredSince {
            rate = Double(measuredBytes) / (now - measuredSince).seconds
            measuredSince = now
            measuredBytes = 0
        }
        position = max(position, range.upper)
        frontier = max(frontier, position)
        lastRead = now
    }

    mutating func answered(now: Duration) { lastRead = now }

    /// What was read here and may leave the page cache; each extent once.
    mutating func takeBehind() -> ByteRange? { behind.take(position) }
}
