/// How far ahead of a reader to fetch. Bytes, unless said otherwise.
package enum Readahead {
    /// What an open or a first read at a place asks for: one block, which answers the kernel's first request. Two hundred
    /// films of which somebody looks at the first 64 KiB cost 25 MiB so.
    package static let first = BlockSize.block
    /// The same of a film or song, while few are opened: a player reads more than a block before its first picture, and
    /// what it lacks costs it a round trip.
    package static let firstOfMedia = 2 * BlockSize.block
    /// Reading from the very start of a file has proven itself sooner: most who read two blocks there go on.
    static let headProof: Int64 = 256 << 10
    /// Elsewhere nothing is fetched ahead before so much was read in a row: a program that takes a piece of 256 KiB out
    /// of the middle makes the kernel ask for 512.
    static let proof: Int64 = 640 << 10
    /// From there on, until the reader has come as far as `settled`: a reader who stops after 4 MiB has cost less than 8.
    package static let early: Int64 = 5 << 19
    static let settled: Int64 = 5 << 20
    /// What a reader gets where all files together have used up what they may fetch ahead: as far as it is better to
    /// wait for a stream than to start another.
    static let least: Int64 = 1 << 20
    /// For who takes bytes as fast as they come, or whose rate is unknown: on a fast link enough that requests follow one another without a gap, for six of them at a time.
    package static let most: Int64 = 32 << 20
    /// For who reads at a rate of its own, as players do, and has read as much: half a minute of 30 Mbit/s.
    package static let longest: Int64 = 128 << 20
    /// For who reads faster than lines with a delay bring (bytes a second): what is fetched ahead of such a reader should
    /// still be in memory when he comes, and no round trip is worth more.
    static let fastest = 256.0 * 1024 * 1024
    static let near: Int64 = 8 << 20
    /// So much read tells a rate before a second has passed.
    static let telling: Int64 = 64 << 20
    /// Where somebody lands who has read on elsewhere in the file, as far as to `settled`: a player that jumps. It needs
    /// some pieces before its first picture, and each asked for by itself would be a round trip.
    package static let landing: Int64 = 1 << 20
    /// Of it, where connections are slow, what each of several requests fetches: the first two together, the first of them
    /// short, as the reader waits for it; then those that are ahead.
    static let landingFirst = BlockSize.block
    static let landingNext = 3 * BlockSize.block
    static let landingSegment = 2 * BlockSize.block
    /// A window is as long as a reader at the observed rate needs for this: longer than most disturbances of a line.
    static let seconds = 30.0
    /// Pieces that parallel requests fetch: longer ones make the reader wait for the first while the last comes, shorter
    /// ones are mostly round trips. Where a round trip is worth more than the usual, four times that.
    static let segments: ClosedRange<Int64> = (512 << 10)...(2 << 20)
    static let longestSegment: Int64 = 8 << 20
    /// A reader that lands this little before or behind its place goes on reading there: the kernel asks out of order,
    /// players skip over what they do not need.
    package static let slack: Int64 = 1 << 20
    /// Places remembered in one file: audio, video and subtitle positions of two or three programs.
    package static let cursorLimit = 8
    /// A last block shorter than this gets the one before it as well: an index of some hundred chapters, ID3v1 and APE
    /// tags fit.
    private static let leastTail: Int64 = 32 << 10

    /// The end of a media file, which players ask for right after its beginning (index, cues, tags); nil where the file is
    /// so short that reading on brings it as soon.
    package static func tail(of length: Int64) -> ByteRange? {
        guard length > 4 * BlockSize.block else { return nil }
        var lower = (length - 1) / BlockSize.block * BlockSize.block
        if length - lower < leastTail { lower -= BlockSize.block }
        return ByteRange(lower, length)
    }
}

/// One place in a file at which somebody reads forward.
package struct Cursor: Hashable, Sendable {
    /// Where reading forward began.
    package private(set) var start: Int64
    /// One behind the furthest byte read here.
    package private(set) var position: Int64
    package private(set) var lastRead: Duration
    let began: Duration
    /// Whoever reads here has read on elsewhere.
    private let isLanding: Bool
    /// No byte before this is missing, as far as was looked: spares the hit path from walking the map.
    package var frontier: Int64
    /// When the reader last had to wait although its bytes were fetched ahead.
    package var lastStarved: Duration?
    /// What is asked for ahead of this reader while it may still stop early.
    var onTrust: Int64 = 0
    /// Bytes a second that are read here; nil before the first second, or the first 64 MiB.
    private var rate: Double?
    private var measuredSince: Duration
    private var measuredBytes: Int64 = 0
    private var behind: DropBehind

    package init(at range: ByteRange, now: Duration, isLanding: Bool = false) {
        self.isLanding = isLanding
        start = range.lower
        position = range.upper
        frontier = range.upper
        lastRead = now
        began = now
        measuredSince = now
        behind = DropBehind(from: range.lower)
    }

    /// How much was read in a row.
    package var run: Int64 { position - start }
    package var isProven: Bool {
        if isLanding { return true }
        return run >= Readahead.proof || start == 0 && run >= Readahead.headProof
    }
    /// Whoever reads here has jumped here a moment ago.
    var hasLanded: Bool { isLanding && run < Readahead.proof }
    package var hasReadOn: Bool { run >= Readahead.settled }

    package func continues(with range: ByteRange) -> Bool {
        range.lower >= position - Readahead.slack - range.count && range.lower <= position + Readahead.slack
    }

    /// How far before the reader bytes should be there or under way: nothing until the reader has proven itself, then
    /// always less than was read already or little, then as much as the observed rate needs.
    package func window(atMost limit: Int64) -> Int64 {
        guard isProven else { return 0 }
        guard run >= Readahead.proof else { return min(isLanding ? Readahead.landing : run, limit) }
        let grown = Readahead.early + max(0, 3 * (run - Readahead.settled))
        let needed = rate.map { max(Readahead.early, Int64(min($0 * Readahead.seconds, 1e12))) } ?? .max
        // Who takes bytes as they come gains nothing by more; of who has a rate no more is at stake than was read.
        let most = rate == nil || isHungry(lastRead) ? Readahead.most : max(Readahead.most, min(run, Readahead.longest))
        let isFast = rate.map { $0 >= Readahead.fastest } ?? false
        return min(grown, needed, isFast ? Readahead.near : most, limit)
    }

    /// The reader takes bytes as fast as they come.
    package func isHungry(_ now: Duration) -> Bool { lastStarved.map { now - $0 < .seconds(1) } ?? false }

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
