/// One place in a file at which a program reads forward.
struct Cursor: Hashable, Sendable {
    /// Where reading forward began, the file's index in front left out.
    private(set) var start: Int64
    private var beginning: Beginning
    /// Bytes of the last reads that the kernel may have asked for by itself: where its readahead is longer than a block
    /// it comes as a few reads at once, the first of them of two blocks. Of a scanner's reads those of one block count
    /// too.
    private var unsure: Int64 = 0
    /// One behind the furthest byte read here.
    private(set) var position: Int64
    private(set) var lastRead: Duration
    let began: Duration
    /// No byte before this is missing, as far as was looked: spares the hit path from walking the map.
    var frontier: Int64
    /// When the reader last had to wait although its bytes were fetched ahead.
    var lastUnderrun: Duration?
    /// Bytes asked for ahead of this reader before it had read on.
    var early: Int64 = 0
    /// Bytes a second that are read here; nil before the first second, or the first 64 MiB.
    private(set) var rate: Double?
    private var measuredSince: Duration
    private var measuredBytes: Int64 = 0
    /// Since then, for which the reader asked for nothing although nothing kept it waiting.
    private var leisure = Duration.zero
    private var behind: DropBehind

    /// Where, and after what, reading forward began.
    private enum Beginning {
        case head, elsewhere
        /// A program that had read on elsewhere in the file, or had begun it, goes on here.
        case seek
    }

    init(at range: ByteRange, now: Duration, isSeek: Bool = false) {
        beginning = isSeek ? .seek : range.lower == 0 ? .head : .elsewhere
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
    var isProven: Bool {
        isSeek || run - unsure >= (beginning == .head ? Readahead.headProof : Readahead.proof)
    }
    private var isSeek: Bool { beginning == .seek }
    /// It has read from the beginning of the file on.
    var isFromHead: Bool { beginning == .head }
    /// The reader has come here by a seek a moment ago.
    var isSeeking: Bool { isSeek && run < Readahead.proof }
    var hasReadOn: Bool { run >= Readahead.settled }

    /// It plays, or may: a reader without a pace of its own is taken for a player that fills its buffer, until it has
    /// read more than that.
    var isPlayer: Bool { isPaced || isProven && run < Readahead.telling }
    /// The reader takes bytes at a pace of its own, as players do: when it was measured last, or for good.
    var isPaced: Bool { pace != nil || hasLeisure }
    /// The most bytes a second that it took while it had leisure, nil until it had some twice in a row: on a busy
    /// machine a copy has to wait for a processor now and then. Once is enough where a program reads many files, as a
    /// server does that hands on films to many players: those that show their pace first would keep the others from it.
    private(set) var pace: Double?
    /// When its rate was measured last, it asked for nothing for a quarter of the time.
    private(set) var hasLeisure = false
    /// Bytes a second that a player takes, as far as they are known.
    var playingRate: Double { max(rate ?? Readahead.usualRate, 1) }

    func continues(with range: ByteRange) -> Bool {
        range.lower >= position - Readahead.near - range.count && range.lower <= position + Readahead.near
    }

    /// Bytes ahead of the reader that should be there or under way: none until it has proven itself; then little, or
    /// less than it has read; then as many as the observed rate needs.
    func window(atMost limit: Int64) -> Int64 {
        guard isProven else { return 0 }
        guard run >= Readahead.proof else { return min(isSeek ? Readahead.near : run, limit) }
        // As much as was read: a program that stops after a megabyte has cost two.
        let grown = min(max(run, 2 * Readahead.proof), Readahead.early) + max(0, 3 * (run - Readahead.settled))
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

    /// What lies before `front` is the file's index: reading it shows nothing of what comes behind it.
    mutating func pass(_ front: Int64) {
        if beginning == .head, start < front { start = min(position, front) }
    }

    /// The reader takes bytes as fast as they come.
    func underruns(_ now: Duration) -> Bool { lastUnderrun.map { now - $0 < Readahead.underrunTime } ?? false }

    /// - Parameters:
    ///   - isScan: a program that looks into many files reads: it is not expected to go on.
    ///   - isKept: another read keeps it waiting since its last one.
    mutating func advance(to range: ByteRange, now: Duration, isScan: Bool = false, isKept: Bool = false) {
        // Of reads that the kernel sends at once, threads may bring the first one last.
        if range.lower == 0, beginning == .elsewhere, start <= range.upper { (beginning, start) = (.head, 0) }
        measuredBytes += max(0, range.upper - position)
        if !isKept || isScan { leisure += max(.zero, now - lastRead) }
        if now - measuredSince >= .seconds(1) || measuredBytes >= Readahead.telling && now > measuredSince {
            let elapsed = now - measuredSince
            let fresh = Double(measuredBytes) / elapsed.seconds
            let hadLeisure = hasLeisure
            hasLeisure = fresh < Readahead.fastestPlayer && leisure > elapsed / 4
            if hasLeisure, hadLeisure || isScan { pace = max(pace ?? 0, fresh) }
            rate = fresh
            measuredSince = now
            measuredBytes = 0
            leisure = .zero
        }
        let isBatch = unsure > 0 && now - lastRead < Readahead.batchTime
        let isLong = range.count > BlockSize.block || isScan && range.count == BlockSize.block
        unsure = isBatch ? unsure + range.count : isLong ? range.count : 0
        unsure = min(unsure, Readahead.mostOfKernel)
        position = max(position, range.upper)
        frontier = max(frontier, position)
        lastRead = now
    }

    mutating func answered(now: Duration) { lastRead = now }

    /// The bytes that were read here and may leave the page cache; each extent once.
    mutating func takeBehind() -> ByteRange? { behind.take(position) }
}
