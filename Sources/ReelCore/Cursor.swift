/// One place in a file at which a program reads forward.
struct Cursor: Hashable, Sendable {
    /// Where reading forward began.
    private(set) var start: Int64
    /// One behind the furthest byte read here.
    private(set) var position: Int64
    private(set) var lastRead: Duration
    let began: Duration
    /// A program that had read on elsewhere in the file began here.
    private let isSeek: Bool
    /// No byte before this is missing, as far as was looked: spares the hit path from walking the map.
    var frontier: Int64
    /// When the reader last had to wait although its bytes were fetched ahead.
    var lastUnderrun: Duration?
    /// Bytes asked for ahead of this reader before it had read on.
    var early: Int64 = 0
    /// Bytes a second that are read here; nil before the first second, or the first 64 MiB.
    private var rate: Double?
    private var measuredSince: Duration
    private var measuredBytes: Int64 = 0
    private var behind: DropBehind

    init(at range: ByteRange, now: Duration, isSeek: Bool = false) {
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
    var run: Int64 { position - start }
    var isProven: Bool { isSeek || run >= (start == 0 ? Readahead.headProof : Readahead.proof) }
    /// The reader has come here by a seek a moment ago.
    var isSeeking: Bool { isSeek && run < Readahead.proof }
    var hasReadOn: Bool { run >= Readahead.settled }

    func continues(with range: ByteRange) -> Bool {
        range.lower >= position - Readahead.near - range.count && range.lower <= position + Readahead.near
    }

    /// Bytes ahead of the reader that should be there or under way: none until it has proven itself; then little, or
    /// less than it has read; then as many as the observed rate needs.
    func window(atMost limit: Int64) -> Int64 {
        guard isProven else { return 0 }
        guard run >= Readahead.proof else { return min(isSeek ? Readahead.near : run, limit) }
        let grown = Readahead.early + max(0, 3 * (run - Readahead.settled))
        guard let rate else { return min(grown, Readahead.most, limit) }
        let needed = max(Readahead.early, Int64(min(rate * Readahead.seconds, 1e12)))
        // A reader that takes bytes as they come gains nothing by more. For one with a rate, no more is at stake than
        // it has read.
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
    func underruns(_ now: Duration) -> Bool { lastUnderrun.map { now - $0 < Readahead.underrunTime } ?? false }

    mutating func advance(to range: ByteRange, now: Duration) {
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

    /// The bytes that were read here and may leave the page cache; each extent once.
    mutating func takeBehind() -> ByteRange? { behind.take(position) }
}
