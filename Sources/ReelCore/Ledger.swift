/// Decides what to fetch of one version of a resource, and which of its reads get an answer: the read path as a value.
/// Events go in, actions come out; nothing here fetches, writes or replies.
///
/// A stream's legal life: requested → (head) running ⇄ paused → gone, or requested/running → failed → waiting for its
/// retry → requested again, at the byte where it stopped. `Ledger+Streams` and `Ledger+Holding` hold those transitions.
package struct Ledger: Sendable {
    package typealias StreamID = UInt64
    package typealias ReadID = UInt64

    package enum Action: Hashable, Sendable {
        /// Ask the origin for these bytes. A stream that retries starts again under its old name.
        case start(StreamID, ByteRange, isDemanded: Bool)
        /// End the running request.
        case stop(StreamID)
        /// Let a request go on that was told to pause.
        case resume(StreamID)
        /// A read waits now for what was asked for ahead.
        case promote(StreamID)
        /// All bytes of this read are there.
        case complete(ReadID)
        /// The deadline of this read has passed, and these bytes of it are there. Of a version with an open end alone:
        /// only there a short answer is not taken for the end.
        case completeInPart(ReadID, ByteRange)
        case fail(ReadID, ReadFailure)
    }

    /// Why a waiting read gets no bytes.
    package enum ReadFailure: Hashable, Sendable {
        case timedOut, unreachable, offline, accessDenied, changed, failed
    }

    enum Purpose: Sendable {
        /// A read waited for its first byte.
        case demand
        case readahead
        /// Fetched before any read comes there, until `cancelPrebuffer`.
        case prebuffer
    }

    struct Stream: Sendable {
        var id: StreamID
        /// Where the next byte goes.
        var position: Int64
        /// Nothing from here on is wanted of it. Lowered when a later stream takes over; never raised.
        var end: Int64
        var purpose: Purpose
        /// When it last showed a sign of life, or was asked for.
        var lastProgress: Duration
        /// The stream of which this is a second try, or the second try of this one, while both run: the first byte of
        /// either ends the other.
        var rival: StreamID?
        /// Failures in a row without a byte of progress.
        var attempts = 0
        var lastFailure: OriginFailure?
        /// Set while it waits for its next attempt.
        var retryAt: Duration?
        /// Its request was told to pause.
        var isPaused = false
        /// Its request goes before those that fetch ahead.
        var isDemanded: Bool
        /// Its request has left the queue, so that its silence is the origin's.
        var isSent = false
    }

    struct WaitingRead: Sendable {
        var id: ReadID
        var range: ByteRange
        var deadline: Duration
        var parkedAt: Duration
        /// The reader wants what follows, too.
        var readsOn = true
    }

    /// What the mount and the origin leave to this file.
    package struct Limits: Sendable {
        /// At a time, for one reader (`ConcurrencyLimit`).
        package var requests = 1
        /// Bytes that may still be fetched ahead; a reader that has proven itself is never left without any.
        package var room = Int64.max
        /// Whether to read ahead for readers that may yet stop early (`SpeculationBudget.allowsEarly`).
        package var allowsEarly = true

        package init(requests: Int = 1, room: Int64 = .max, allowsEarly: Bool = true) {
            (self.requests, self.room, self.allowsEarly) = (requests, room, allowsEarly)
        }
    }

    /// Which bytes are there.
    let present: any PresentBytes
    /// `present.removals` when `notice` last looked.
    var noticedRemovals: UInt64
    /// Of the version, in bytes; `BlockSize.openEnd` until its end is known.
    package var length: Int64 { present.length }
    /// Nobody knows yet where the version ends: its one body comes from the first byte on, and once.
    package var isOpenEnded: Bool { length == BlockSize.openEnd }
    /// Why a version that had an open end is not fetched again: its body broke off, or is not kept. nil while the body
    /// runs, and where the version is like any other now.
    package var brokenOff: ReadFailure?
    /// False once the origin has answered a range with the whole body: then one stream from zero serves all.
    package var acceptsRanges: Bool
    /// The origin has another version now: what is covered can be read, nothing more can come.
    package internal(set) var isSuperseded = false
    /// How far a cursor's readahead may grow: what lies ahead of a few readers has to fit into the cache.
    package var windowLimit: Int64
    /// All of it can be in the cache beside others.
    var fitsCache: Bool { length <= cacheCap / 2 }
    private let cacheCap: Int64
    package var limits = Limits()
    package internal(set) var statistics = FetchStatistics()
    /// Longer than the kernel takes to ask again, shorter than a person.
    static let echo = Duration.milliseconds(300)
    package var openHandles = 0 { didSet { if openHandles == 0 { toldNext = 0 } } }
    private var toldNext = 0
    package var lastClose: Duration = .zero

    var streams: [Stream] = []
    var waiting: [WaitingRead] = []
    var cursors: [Cursor] = []
    var pace = Pace()
    /// No readahead before this: it failed a moment ago.
    var quietUntil: Duration = .zero
    var speculativeFailures = 0
    /// Reads that failed at their deadline a moment ago. The kernel asks for the pages of a failed readahead once more,
    /// and the program that waits has to hear of the failure at once.
    var timedOut: [(range: ByteRange, at: Duration, failure: ReadFailure)] = []
    private var nextStream: StreamID = 1

    /// - Parameter cacheCap: bytes; readahead takes an eighth of it at most.
    package init(_ present: any PresentBytes, acceptsRanges: Bool = true, cacheCap: Int64 = .max) {
        self.present = present
        noticedRemovals = present.removals
        windowLimit = min(Readahead.longest, cacheCap / 8)
        self.cacheCap = cacheCap
        self.acceptsRanges = acceptsRanges && present.length != BlockSize.openEnd
    }

    /// Bytes a second that one request brings; nil where nothing has come yet.
    package var rate: Double? { pace.wholeRate }
    package var isComplete: Bool { present.isComplete }
    package var isIdle: Bool { streams.isEmpty && waiting.isEmpty }

    // MARK: Reading

    /// The hit path. - Returns: true where every byte of `range` is there. Then `readAhead` is to be called if
    /// `wantsReadahead` says so.
    /// - Parameter wasParked: the read has waited. Its reader may have gone elsewhere meanwhile, and its place there
    ///   stays.
    package mutating func hit(_ range: ByteRange, now: Duration, wasParked: Bool = false) -> Bool {
        notice()
        guard present.covers(range) else { return false }
        statistics.read(range)
        // Of a complete file nothing is fetched, but who has played it through wants the next one.
        if wasParked { answered(range, now: now) } else { touchCursor(range, now: now) }
        return true
    }

    /// Bytes that lie ahead of the readers and have not been read, or are asked for. A body that comes whole is not
    /// asked for in pieces, so it does not count.
    package var ahead: Int64 {
        guard acceptsRanges else { return statistics.unread.count }
        var count = statistics.unread.count
        for stream in streams { count += max(0, stream.end - stream.position) }
        return count
    }

    /// Half of the file, and no less than this, was read in a row: it is being played, or copied, as a whole.
    package var isPlayed: Bool { cursors.last.map { $0.run >= max(length / 2, Readahead.near) } ?? false }

    /// True once for each time that a file is played through, as soon as its own bytes are no worry: those of half a
    /// window ahead are there. And once more when all that its reader still wants is there.
    package mutating func takeWantsNext() -> Bool {
        guard toldNext < 2, isPlayed, waiting.isEmpty, let cursor = cursors.last else { return false }
        if present.isComplete || cursor.frontier >= length && streams.isEmpty && isThereToTheEnd() {
            toldNext = 2
            return true
        }
        guard toldNext == 0 else { return false }
        let limit = min(length, cursor.position + window(of: cursor) / 2)
        guard present.firstMissing(from: cursor.position, limit: limit) >= limit else { return false }
        toldNext = 1
        return true
    }

    /// What who read last has left behind, and nobody else is near: see `DropBehind`. Each extent once for each time
    /// that it is passed.
    package mutating func takeBehind() -> ByteRange? {
        guard !cursors.isEmpty, let range = cursors[cursors.count - 1].takeBehind() else { return nil }
        var index = 0
        while index < cursors.count - 1 {
            let position = cursors[index].position
            if position > range.lower - Readahead.near, position < range.upper + DropBehind.kept { return nil }
            index += 1
        }
        // The kernel holds the pages of a read that waits: who asks it to forget them waits as well.
        return waiting.contains { $0.range.overlaps(range) } ? nil : range
    }

    /// Asks the map instead of the frontier of who read last; if it is wrong, it is set right.
    private mutating func isThereToTheEnd() -> Bool {
        let missing = present.firstMissing(from: cursors[cursors.count - 1].position, limit: length)
        if missing < length { cursors[cursors.count - 1].frontier = missing }
        return missing >= length
    }

    /// Nothing is left to fetch for who plays it through.
    package var isPlayedFromCache: Bool { toldNext == 2 }

    /// A read that is no hit: true where its reader has proven itself, so that its bytes should have been there.
    package func isUnderrun(_ range: ByteRange) -> Bool {
        cursors.contains { $0.isProven && $0.continues(with: range) } && !present.covers(range)
    }

    /// A read that was no hit: it waits, and what has to be fetched for it is started.
    /// - Parameter readsOn: false: these bytes alone are fetched, in whole blocks.
    package mutating func park(
        _ id: ReadID, _ range: ByteRange, deadline: Duration, now: Duration, readsOn: Bool = true
    ) -> [Action] {
        notice()
        // The bytes may have come since they were missed.
        if present.covers(range) { return [.complete(id)] }
        if isSuperseded { return [.fail(id, .changed)] }
        timedOut.removeAll { now - $0.at >= Self.echo }
        if let echo = timedOut.last(where: { $0.range.overlaps(range) }) { return [.fail(id, echo.failure)] }
        waiting.append(WaitingRead(id: id, range: range, deadline: deadline, parkedAt: now, readsOn: readsOn))
        guard readsOn else { return planDemanded(now: now) + resumeHeld(now: now) }
        let isUnderrun = isUnderrun(range)
        touchCursor(range, now: now)
        if isUnderrun { cursors[cursors.count - 1].lastUnderrun = now }
        return planDemanded(now: now) + readAhead(now: now) + resumeHeld(now: now)
    }

    /// Makes a stream of a request that runs already, and was made before anything was known of the resource.
    package mutating func adopt(_ range: ByteRange, now: Duration) -> StreamID {
        let id = add(range.clamped(to: ByteRange(0, length)), .demand, now)
        streams[streams.count - 1].isSent = true
        return id
    }

    /// The same of one that was made beside it, by a length that only the listing told. - Returns: nil where some of
    /// its bytes are there or under way, and where the file has none of them.
    package mutating func adoptBeside(_ range: ByteRange, now: Duration) -> StreamID? {
        let range = range.clamped(to: ByteRange(0, length))
        guard !range.isEmpty, acceptsRanges, !isSuperseded,
            present.firstCovered(from: range.lower, limit: range.upper) == range.upper,
            !streams.contains(where: { $0.position < range.upper && range.lower < $0.end })
        else { return nil }
        return add(range, .prebuffer, now)
    }

    mutating func add(_ range: ByteRange, _ purpose: Purpose, _ now: Duration) -> StreamID {
        let id = nextStream
        nextStream += 1
        streams.append(
            Stream(
                id: id, position: range.lower, end: range.upper, purpose: purpose, lastProgress: now,
                isDemanded: purpose == .demand))
        return id
    }

    /// The request of a stream was sent: from here its time to the head counts.
    /// - Parameter isTimed: false where it was sent before it was a stream: the time to its head tells nothing.
    package mutating func requested(_ id: StreamID, now: Duration, isTimed: Bool = true) {
        guard let index = streams.firstIndex(where: { $0.id == id }) else { return }
        if isTimed, !streams[index].isSent { pace.started(id, now: now) }
        streams[index].isSent = true
        streams[index].lastProgress = now
    }

    /// Whether somebody waits, or has waited, for what this stream brings.
    package func isDemanded(_ id: StreamID) -> Bool { streams.contains { $0.id == id && $0.isDemanded } }

    /// Others have no connection for what they wait for. - Returns: true where this stream was let go of for them. A
    /// body that comes whole is not, unless it pauses: its bytes can only be had from the first one on again. Those of
    /// a version with an open end cannot be had again.
    package mutating func yield(_ id: StreamID) -> Bool {
        guard let stream = streams.first(where: { $0.id == id }), acceptsRanges || stream.isPaused, !isOpenEnded,
            stream.end - stream.position > Self.worthHolding,
            !waiting.contains(where: { isWaiting($0, for: stream) })
        else { return false }
        drop { $0.id == id }
        return true
    }

    /// Removes streams that have not brought all, and no other function does: their bytes are no longer on their way.
    mutating func drop(where isGone: (Stream) -> Bool) {
        streams.removeAll(where: isGone)
        doubtFrontiers()
    }

    mutating func doubtFrontiers() {
        for index in cursors.indices { cursors[index].frontier = cursors[index].position }
    }

    /// The caller of this read has gone. Its requests go on: their bytes are kept.
    package mutating func abandon(_ id: ReadID) {
        waiting.removeAll { $0.id == id }
    }

    /// A read that the ledger did not hold has met its deadline: a second try that follows at once fails, as after
    /// `tick`.
    package mutating func expire(_ range: ByteRange, now: Duration) {
        // Thousands may expire at the same moment; each read that parks looks at all of these.
        if timedOut.count >= 256 { timedOut.removeFirst() }
        timedOut.append((range, now, .timedOut))
    }

    func isSettled(_ cursor: Cursor) -> Bool { cursor.run >= Readahead.settled || cursor.position >= length }

    /// Moves the cursor that goes on at `range` to the end of the list, where the latest is; makes one where none does.
    /// Plain loops: every hit comes by here, and a build without optimisation allocates in the library's.
    private mutating func touchCursor(_ range: ByteRange, now: Duration) {
        var index = cursors.count - 1
        while index >= 0, !cursors[index].continues(with: range) { index -= 1 }
        if index >= 0 {
            cursors[index].advance(to: range, now: now)
            if cursors[index].early > 0, isSettled(cursors[index]) {
                statistics.sums.early -= cursors[index].early
                cursors[index].early = 0
            }
            if index != cursors.count - 1 { cursors.append(cursors.remove(at: index)) }
            return
        }
        let isSeek = hasReadOn
        if cursors.count == Readahead.cursorLimit { cursors.remove(at: leastRecentCursor) }
        cursors.append(Cursor(at: range, now: now, isSeek: isSeek))
    }

    /// A reader that waited counts as active from now.
    private mutating func answered(_ range: ByteRange, now: Duration) {
        guard let index = cursors.lastIndex(where: { $0.continues(with: range) }) else { return }
        cursors[index].answered(now: now)
    }

    /// Whether a reader has come far enough in a row to be a player or a copier.
    private var hasReadOn: Bool {
        var index = 0
        while index < cursors.count {
            if cursors[index].hasReadOn { return true }
            index += 1
        }
        return false
    }

    private var leastRecentCursor: Int {
        var (oldest, index) = (0, 1)
        while index < cursors.count {
            if cursors[index].lastRead < cursors[oldest].lastRead { oldest = index }
            index += 1
        }
        return oldest
    }
}
