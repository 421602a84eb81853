/// The readers of one version: the places at which programs read forward, and how far ahead of each to fetch.
///
/// Functions that a hit calls have plain loops: a build without optimisation allocates in the library's.
struct Cursors: Sendable {
    private let present: any PresentBytes
    private let cacheCap: Int64
    /// In the order of their last reads.
    private(set) var all: [Cursor] = []
    /// Bytes asked for ahead of readers that had not read on by then, and have not since.
    private(set) var early: Int64 = 0
    /// Set by the mount and the origin.
    var limits = Ledger.Limits()
    /// The end of the file's index in front (`Container.front`).
    var front: Int64 = 0
    /// What programs read of the file besides its media, to open it and to seek; nil while its layout is not known.
    var index: [ByteRange]?
    /// Bytes a second that the film takes while it plays, by its playing time; nil if that is not known.
    var filmRate: Double?
    /// More was fetched ahead than this file's readers may cause (`Ledger.Limits.probe`).
    var isOverdrawn = false

    /// - Parameter cacheCap: bytes; readahead takes an eighth of it at most.
    init(_ present: any PresentBytes, cacheCap: Int64) {
        self.present = present
        self.cacheCap = cacheCap
    }

    /// The one that read last.
    var last: Cursor? { all.last }
    var isEmpty: Bool { all.isEmpty }
    /// All of the version can be in the cache beside others.
    var fitCache: Bool { present.length <= cacheCap / 2 }

    // MARK: Reads

    /// A program reads `range`: moves the cursor that goes on there to the end of the list; makes one where none does.
    /// - Parameter isKept: it waits for bytes there all the same.
    mutating func touch(_ range: ByteRange, now: Duration, isKept: Bool = false) {
        var index = all.count - 1
        while index >= 0, !all[index].continues(with: range) { index -= 1 }
        if index >= 0 {
            all[index].advance(to: range, now: now, isScan: limits.isScan, isKept: isKept)
            all[index].pass(front)
            if all[index].early > 0, isSettled(all[index]) {
                early -= all[index].early
                all[index].early = 0
            }
            if index != all.count - 1 { all.append(all.remove(at: index)) }
            return
        }
        let isSeek = hasReadOn || resumes(at: range)
        if all.count == Readahead.cursorLimit { all.remove(at: leastRecent) }
        all.append(Cursor(at: range, now: now, isSeek: isSeek))
        all[all.count - 1].pass(front)
    }

    /// A reader that waited counts as active from now. It may have gone elsewhere meanwhile, and its place there stays.
    mutating func answered(_ range: ByteRange, now: Duration) {
        guard let index = all.lastIndex(where: { $0.continues(with: range) }) else { return }
        all[index].answered(now: now)
    }

    /// The one that read last had to wait although its bytes were fetched ahead.
    mutating func underran(now: Duration) { all[all.count - 1].lastUnderrun = now }

    /// Whether any reader has come far enough in a row to be a player or a copier.
    var hasReadOn: Bool {
        var index = 0
        while index < all.count {
            if all[index].hasReadOn { return true }
            index += 1
        }
        return false
    }

    /// Whether a program that has begun the file goes to a place in its media, and plays on where somebody left it. One
    /// that then goes elsewhere looks about.
    private func resumes(at range: ByteRange) -> Bool {
        guard let index, !limits.isScan, range.lower >= front, range.upper <= present.length - Readahead.near
        else { return false }
        var (place, hasBegun) = (0, false)
        while place < all.count {
            if all[place].isSeeking { return false }
            if all[place].isFromHead { hasBegun = true }
            place += 1
        }
        place = 0
        while place < index.count {
            if index[place].overlaps(range) { return false }
            place += 1
        }
        return hasBegun
    }

    /// Whether a reader takes no more than its film needs, or leaves some of its time, as players do: a copy, or a
    /// player that fills its buffer, has the line behind it.
    func isSure(_ cursor: Cursor) -> Bool {
        if cursor.hasLeisure { return true }
        return (filmRate ?? cursor.pace).map { (cursor.rate ?? 0) <= 1.5 * $0 } ?? false
    }

    /// Bytes a second that a player takes: no less than its film, as a line that is too slow shows less.
    func playingRate(_ cursor: Cursor) -> Double { max(cursor.playingRate, filmRate ?? 0) }

    /// Bytes a second that a player here takes; nil if it may be none. One whose rate is not measured yet is told by
    /// its film where others need the line.
    func playersRate(_ cursor: Cursor) -> Double? {
        if cursor.isPaced { return playingRate(cursor) }
        return limits.isContended && !limits.isScan && isSure(cursor) ? filmRate : nil
    }

    /// Whether a program begins the file at `range` that may be a player, and others need the line: a request for each
    /// read would wait for its turn among theirs.
    func isBeginning(at range: ByteRange) -> Bool {
        guard limits.isContended, !limits.isScan, let cursor = last else { return false }
        return cursor.isFromHead && cursor.continues(with: range)
    }

    private var leastRecent: Int {
        var (oldest, index) = (0, 1)
        while index < all.count {
            if all[index].lastRead < all[oldest].lastRead { oldest = index }
            index += 1
        }
        return oldest
    }

    /// The proven reader that `range` continues.
    func proven(at range: ByteRange) -> Int? { all.lastIndex { $0.isProven && $0.continues(with: range) } }

    var anyProven: Bool { all.contains { $0.isProven } }

    // MARK: Bytes ahead

    /// The reader has read on, or to the end: bytes fetched ahead of it are not early any more.
    func isSettled(_ cursor: Cursor) -> Bool {
        cursor.run >= Readahead.settled || cursor.position >= present.length
    }

    /// The longest window: the bytes ahead of a few readers have to fit into the cache.
    var windowLimit: Int64 { min(Readahead.longest, cacheCap / 8, limits.window) }

    /// Bytes to fetch ahead of this cursor.
    func window(of cursor: Cursor) -> Int64 {
        if cursor.isProven, staysInReach(cursor) { return max(0, reach(of: cursor) - cursor.position) }
        guard limits.allowsEarly || isSettled(cursor), !isOverdrawn || cursor.isPaced else { return 0 }
        return cursor.window(atMost: min(windowLimit, max(limits.room, Readahead.near)))
    }

    /// The end of what the program reads of each file (`Ledger.Limits.reach`); 0 if that says nothing about the
    /// reader at `range`, which read last.
    func reach(at range: ByteRange) -> Int64 { last.map { $0.continues(with: range) ? reach(of: $0) : 0 } ?? 0 }

    func reach(of cursor: Cursor) -> Int64 {
        limits.reach > 0 && cursor.isFromHead ? min(present.length, cursor.start + limits.reach) : 0
    }

    /// It has not read on behind what its program reads of each file; the kernel has a little, by itself.
    private func staysInReach(_ cursor: Cursor) -> Bool {
        limits.reach > 0 && cursor.isFromHead && !cursor.isPaced && cursor.run < limits.reach + Readahead.proof
    }

    /// Bytes that were read in a row from the beginning of the file on, its index left out, nil if none were.
    var headRun: Int64? { all.filter(\.isFromHead).map(\.run).max() }

    /// No byte between the position of this cursor and `frontier` is missing or unplanned.
    mutating func plan(_ index: Int, upTo frontier: Int64) { all[index].frontier = frontier }

    /// Bytes have left the cache, or are no longer on their way: each frontier has to be looked for again.
    mutating func doubtFrontiers() {
        for index in all.indices { all[index].frontier = all[index].position }
    }

    /// Counts bytes fetched ahead for a reader that may yet want none of them.
    mutating func countEarly(_ index: Int?, _ count: Int64) {
        guard let index, count > 0, !isSettled(all[index]) else { return }
        all[index].early += count
        early += count
    }

    // MARK: Bytes behind

    /// The bytes that the last reader has left behind, where no other reader is near: see `DropBehind`. Each extent
    /// once for each time that it is passed.
    mutating func takeBehind() -> ByteRange? {
        guard !all.isEmpty, let range = all[all.count - 1].takeBehind() else { return nil }
        var index = 0
        while index < all.count - 1 {
            let position = all[index].position
            if position > range.lower - Readahead.near, position < range.upper + DropBehind.kept { return nil }
            index += 1
        }
        return range
    }
}
