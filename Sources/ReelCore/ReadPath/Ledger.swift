/// Decides what to fetch of one version of a resource, and which of its reads get an answer: the read path as a value.
/// Events go in, actions come out; nothing here fetches, writes or replies.
///
/// `Streams` are the requests under way, `Cursors` the readers, `WaitingReads` the reads without an answer; the
/// `Planner` decides over all three, and `FetchStatistics` counts what came of it.
package struct Ledger: Sendable {
    /// After the last close streams go on for this time, and their file stays known.
    package static let linger = Duration.seconds(10)

    /// Shows which bytes are there.
    let present: any PresentBytes
    private(set) var planner: Planner
    private var counts = FetchStatistics()
    /// `present.removals` when `notice` last looked.
    private var noticedRemovals: UInt64
    /// Bytes have left the cache since the requests for the reads that wait were planned.
    private var hasLost = false
    /// The origin has another version now: the bytes that are there can be read, no more can come.
    package private(set) var isSuperseded = false
    /// Handles of the file that are open.
    package private(set) var openHandles = 0
    private var lastClose: Duration = .zero
    /// How often `takeWantsNext` was true since the first open.
    private var toldNext = 0
    /// What the first seek will read; empty once it was taken.
    private var seekIndex: [ByteRange] = []

    /// - Parameters:
    ///   - cacheCap: bytes; readahead takes an eighth of it at most.
    ///   - alignment: a power of two, of one block or more: requests begin and end at its multiples, as far as the
    ///     bytes up to there are missing.
    package init(
        _ present: any PresentBytes, acceptsRanges: Bool = true, cacheCap: Int64 = .max,
        alignment: Int64 = BlockSize.block
    ) {
        self.present = present
        noticedRemovals = present.removals
        planner = Planner(present, acceptsRanges: acceptsRanges, cacheCap: cacheCap, alignment: alignment)
    }

    // MARK: Facts

    /// The length of the version in bytes; `BlockSize.openEnd` until its end is known.
    package var length: Int64 { present.length }
    /// The end of the version is not known yet: its one body comes from the first byte on, and once.
    package var isOpenEnded: Bool { present.isOpenEnded }
    /// False where one body from zero serves all reads.
    package var acceptsRanges: Bool { planner.streams.acceptsRanges }
    /// No read waits and no request is under way: the clock brings nothing.
    package var isIdle: Bool { planner.streams.isEmpty && planner.waiting.isEmpty }
    /// Bytes a second that one request brings; nil where no byte has come yet.
    package var rate: Double? { planner.streams.pace.wholeRate }

    /// Set by the mount and the origin.
    package var limits: Limits {
        get { planner.cursors.limits }
        set { planner.cursors.limits = newValue }
    }

    /// Counts why the bytes of this file were fetched, and which were read.
    package var statistics: FetchStatistics {
        var statistics = counts
        statistics.sums.early = planner.cursors.early
        return statistics
    }

    /// Bytes that lie ahead of the readers and have not been read, or are asked for. A body that comes whole is not
    /// asked for in pieces, so it does not count.
    package var ahead: Int64 {
        counts.unread.count + (acceptsRanges && !planner.isPrefetched ? planner.streams.owed : 0)
    }

    /// Bytes that were read in a row from the beginning of the file on, its index left out, nil if none were.
    package var headRun: Int64? { planner.cursors.headRun }

    // MARK: Handles

    /// A handle was opened.
    package mutating func opened() { openHandles += 1 }

    /// A handle was closed. - Parameter isReadWhole: the kernel read the file itself, past the daemon.
    /// - Returns: whether it was the last one.
    @discardableResult
    package mutating func closed(now: Duration, isReadWhole: Bool = false) -> Bool {
        if isReadWhole { counts.read(ByteRange(0, length)) }
        openHandles -= 1
        lastClose = now
        if openHandles == 0 { toldNext = 0 }
        return openHandles == 0
    }

    // MARK: Reads

    /// The hit path. - Returns: true where every byte of `range` is there. Then `readAhead` is due if
    /// `wantsReadahead` says so.
    /// - Parameter wasParked: the read has waited. Its reader may have gone elsewhere meanwhile, and its place there
    ///   stays.
    package mutating func hit(_ range: ByteRange, now: Duration, wasParked: Bool = false) -> Bool {
        notice()
        guard present.covers(range) else { return false }
        counts.read(range)
        // Nothing of a complete file is fetched, but a reader that has played it through wants the next one.
        if wasParked {
            planner.cursors.answered(range, now: now)
        } else {
            planner.cursors.touch(range, now: now, isKept: planner.waiting.keep(readerAt: range))
        }
        return true
    }

    /// Whether every byte of `range` is there. Nothing is counted.
    package func isThere(_ range: ByteRange) -> Bool { present.covers(range) }

    /// A read that is no hit: true where its reader has proven itself, so that its bytes should have been there.
    package func isUnderrun(_ range: ByteRange) -> Bool {
        planner.cursors.proven(at: range) != nil && !present.covers(range)
    }

    /// A read that was no hit: it waits, and the requests for its bytes are started.
    /// - Parameter readsOn: false: these bytes alone are fetched, in whole blocks.
    package mutating func park(
        _ id: ReadID, _ range: ByteRange, deadline: Duration, now: Duration, readsOn: Bool = true
    ) -> [Action] {
        notice()
        // The bytes may have come since they were missed. Its reader has come on all the same: `hit` counts no place
        // of a read that has waited.
        if present.covers(range) {
            if readsOn { planner.cursors.touch(range, now: now) }
            return [.complete(id)]
        }
        if isSuperseded { return [.fail(id, .changed)] }
        if let failure = planner.waiting.recentFailure(of: range, now: now) { return [.fail(id, failure)] }
        planner.waiting.add(
            WaitingReads.Read(id: id, range: range, deadline: deadline, parkedAt: now, readsOn: readsOn))
        guard readsOn else { return planner.demand(now: now) + planner.resume(now: now) }
        weigh()
        let isUnderrun = isUnderrun(range)
        planner.cursors.touch(range, now: now, isKept: planner.waiting.keep(readerAt: range, besides: id))
        if isUnderrun { planner.cursors.underran(now: now) }
        return planner.demand(now: now) + readAhead(now: now) + planner.resume(now: now)
    }

    /// The caller of this read has gone. Its requests go on: their bytes are kept.
    package mutating func abandon(_ id: ReadID) { planner.waiting.remove(id) }

    /// A read that the ledger did not hold has met its deadline: a second try that follows at once fails, as after
    /// `tick`.
    package mutating func expire(_ range: ByteRange, now: Duration) { planner.waiting.expire(range, now: now) }

    // MARK: Bytes ahead and behind

    /// The layout of the file is known.
    package mutating func learn(_ container: Container) {
        planner.cursors.front = container.front
        planner.cursors.index = container.opening + container.seeking
        seekIndex = container.seeking
        if let seconds = container.seconds { learn(seconds: seconds) }
    }

    /// The playing time of the file is known. No film takes more than `Readahead.fastestPlayer`.
    package mutating func learn(seconds: Double) {
        let rate = Double(length) / seconds
        planner.cursors.filmRate = rate > 0 && rate <= Readahead.fastestPlayer ? rate : nil
    }

    /// What a seek will read first, once a reader has read on, so that it may be a player; empty from then on.
    package mutating func takeSeekIndex() -> [ByteRange] {
        guard !seekIndex.isEmpty, hasReadOn else { return [] }
        defer { seekIndex = [] }
        return seekIndex
    }

    /// A reader has come far enough in a row to be a player or a copier.
    package var hasReadOn: Bool { planner.cursors.hasReadOn }

    /// Holds what was asked for ahead against what was read.
    private mutating func weigh() {
        let (allowance, isOver) = counts.readBytes.multipliedReportingOverflow(by: 4)
        planner.cursors.isOverdrawn = !isOver && planner.askedAhead - allowance > limits.probe
    }

    /// True where the cursor that read last has too little before it.
    package func wantsReadahead(now: Duration) -> Bool {
        openHandles > 0 && !isSuperseded && planner.wantsReadahead(now: now)
    }

    /// Starts the requests that keep the cursor that read last from running dry.
    package mutating func readAhead(now: Duration) -> [Action] {
        weigh()
        return wantsReadahead(now: now) ? planner.readAhead(now: now) : []
    }

    /// Bytes of these that `prebuffer` would ask for, each counted once.
    package func missing(in ranges: [ByteRange]) -> Int64 {
        guard acceptsRanges, !isSuperseded else { return 0 }
        var union = ByteRangeSet()
        for range in ranges { union.insert(range) }
        return union.ranges.reduce(0) { $0 + planner.streams.missing(in: $1) }
    }

    /// Asks for the bytes of `range` that are neither there nor on their way, although no reader is there.
    package mutating func prebuffer(_ range: ByteRange, now: Duration) -> [Action] {
        acceptsRanges && !isSuperseded ? planner.prebuffer(range, now: now) : []
    }

    /// Ends the streams of `prebuffer` that no read waits for.
    package mutating func cancelPrebuffer() -> [Action] {
        let waiting = planner.waiting
        return planner.stop { $0.purpose == .prebuffer && !waiting.wait(for: $0) }
    }

    /// Goes on with fetching all of the file, as a command wants it: one request at a time, behind all readers. What
    /// comes counts as demanded, and what has come as read.
    package mutating func prefetch(now: Duration) -> [Action] {
        if isSuperseded { return [] }
        counts.wanted()
        return planner.prefetch(now: now)
    }

    /// False where its one body has begun, or broken off: what is missing then does not come.
    package var comesAgain: Bool { !planner.streams.comesOnce }

    /// Ends the streams of `prefetch` that no read waits for.
    package mutating func cancelPrefetch() -> [Action] {
        planner.isPrefetched = false
        let waiting = planner.waiting
        return planner.stop { $0.purpose == .prefetch && !waiting.wait(for: $0) }
    }

    /// No reader is expected for the bytes that were fetched ahead.
    package mutating func writeOff() { counts.writeOff() }

    /// Half of the file, and no less than a mebibyte, was read in a row: it is being played, or copied, as a whole.
    package var isPlayed: Bool {
        planner.cursors.last.map { $0.run >= max(length / 2, Readahead.near) } ?? false
    }

    /// The last reader has played the file, and less than a twentieth is left: the credits of a film.
    package var isReadToEnd: Bool {
        isPlayed && planner.cursors.last.map { $0.position >= length - length / 20 } ?? false
    }

    /// True twice while a file is played through: when the bytes of half a window ahead are there, so that the next
    /// item may be begun, and when all bytes that its reader still wants are there.
    package mutating func takeWantsNext() -> Bool {
        guard toldNext < 2, isPlayed, planner.waiting.isEmpty, let cursor = planner.cursors.last else { return false }
        if present.isComplete || cursor.frontier >= length && planner.streams.isEmpty && isThereToTheEnd(cursor) {
            toldNext = 2
            return true
        }
        guard toldNext == 0 else { return false }
        let limit = min(length, cursor.position + planner.cursors.window(of: cursor) / 2)
        guard present.firstMissing(from: cursor.position, limit: limit) >= limit else { return false }
        toldNext = 1
        return true
    }

    /// Asks the map instead of the frontier of the last reader; if the frontier is wrong, sets it right.
    private mutating func isThereToTheEnd(_ cursor: Cursor) -> Bool {
        let missing = present.firstMissing(from: cursor.position, limit: length)
        if missing < length { planner.cursors.plan(planner.cursors.all.count - 1, upTo: missing) }
        return missing >= length
    }

    /// Nothing is left to fetch for a reader that plays it through.
    package var isPlayedFromCache: Bool { toldNext == 2 }

    /// The bytes that the last reader has left behind, where no other reader is near and no read waits: see
    /// `DropBehind`. Each extent once for each time that it is passed.
    package mutating func takeBehind() -> ByteRange? {
        guard let range = planner.cursors.takeBehind() else { return nil }
        // The kernel holds the pages of a read that waits: a thread that asks it to forget them waits as well.
        return planner.waiting.all.contains { $0.range.overlaps(range) } ? nil : range
    }

    // MARK: Requests that others made

    /// Makes a stream of a request that runs already, and was made before anything was known of the resource.
    /// - Parameter isWhole: it was for a range, and brings the whole body.
    package mutating func adopt(_ range: ByteRange, isWhole: Bool = false, now: Duration) -> StreamID {
        let range = range.clamped(to: ByteRange(0, length))
        let id = planner.streams.add(range, .demand, now: now, isSent: true)
        if isWhole { planner.streams.becomeWhole(id) } else if range.count < length { planner.streams.acceptRanges() }
        return id
    }

    /// Makes a stream of a request that was made beside the first one, by a length that only the listing gave.
    /// - Returns: nil where some of its bytes are there or under way, and where the file has none of them.
    package mutating func adoptBeside(_ range: ByteRange, now: Duration) -> StreamID? {
        let range = range.clamped(to: ByteRange(0, length))
        guard !range.isEmpty, acceptsRanges, !isSuperseded, planner.streams.missing(in: range) == range.count
        else { return nil }
        return planner.streams.add(range, .prebuffer, now: now)
    }

    // MARK: Events of streams

    /// True while the stream is known and its bytes are wanted.
    package func isLive(_ id: StreamID) -> Bool { place(of: id, count: 1) != nil }

    /// Why the stream's next request is made.
    package func reason(of id: StreamID) -> OriginRequest.Reason { planner.streams[id]?.reason ?? .demand }

    /// Whether the stream is a second try beside one whose bytes come, but too slowly.
    package func isBesideSlow(_ id: StreamID) -> Bool { planner.streams[id]?.isBesideSlow ?? false }

    /// Whether any read waits, or has waited, for bytes of this stream.
    package func isDemanded(_ id: StreamID) -> Bool { planner.streams[id]?.isDemanded ?? false }

    /// Where the next `count` bytes of a stream go, cut to those that are still wanted; nil where none is.
    package func place(of id: StreamID, count: Int64) -> ByteRange? {
        guard let stream = planner.streams[id], stream.position < stream.end else { return nil }
        return ByteRange(stream.position, min(stream.position + count, stream.end))
    }

    /// The request of a stream was sent: from here its time to the head counts.
    /// - Parameter isTimed: false if it was sent before it was a stream: the time to its head says nothing.
    package mutating func requested(_ id: StreamID, now: Duration, isTimed: Bool = true) {
        planner.streams.sent(id, isTimed: isTimed, now: now)
    }

    /// Another request needs this stream's connection. - Returns: true if the stream was dropped to free it.
    package mutating func yield(_ id: StreamID) -> Bool {
        guard let stream = planner.streams[id], planner.isSpared(stream) else { return false }
        planner.drop(id)
        return true
    }

    /// The head was good. - Parameter isWhole: the origin sends the whole body instead of the range.
    package mutating func began(_ id: StreamID, isWhole: Bool, now: Duration) -> [Action] {
        guard planner.streams.began(id, now: now), isWhole else { return [] }
        planner.streams.becomeWhole(id)
        return planner.stop { $0.id != id }
    }

    /// Bytes of the stream are in the cache, at the place that `place` gave. To be called even if the stream was
    /// dropped in between.
    /// - Parameter news: parts of `range` that were not there before: `PresentBytes.gaps`.
    /// - Returns: the actions, and whether more of the body is wanted.
    package mutating func arrived(
        _ id: StreamID, _ range: ByteRange, news: [ByteRange], now: Duration
    ) -> (actions: [Action], answer: BodyAnswer) {
        counts.dropped(range.count - news.reduce(0) { $0 + $1.count })
        for part in news {
            if planner.isPrefetched {
                counts.took(part, for: CollectionOfOne(part))
            } else {
                counts.took(part, for: planner.waiting.all.lazy.map(\.range))
            }
        }
        notice()
        planner.succeeded()
        // Until now these have kept their readers waiting.
        for read in planner.waiting.all where read.range.overlaps(range) && present.covers(read.range) {
            planner.cursors.answered(read.range, now: now)
        }
        var actions = planner.waiting.complete(range)
        guard planner.streams.arrived(id, range, now: now) else { return (actions, .stop) }
        let isMore = isLive(id)
        actions += planner.settleRival(of: id, now: now)
        // Bytes that a read waits for may have left behind the streams that brought them.
        actions += demandLost(now: now)
        // A request that is nearly over makes way for the next.
        actions += readAhead(now: now)
        actions += planner.resume(now: now)
        guard isMore else { return (actions, .stop) }
        return (actions, planner.hold(id, now: now) ? .pause : .more)
    }

    /// Bytes came that have no place: their stream was let go of, or the cache takes nothing.
    package mutating func dropped(_ count: Int64) { counts.dropped(count) }

    /// The request of a stream is over, nil if its body came whole. Of a version with an open end `present` knows the
    /// length by then, and a body that broke off is not asked for again: nothing says where it would go on.
    /// - Parameter random: from 0 to 1, for the pause before the next attempt.
    package mutating func ended(
        _ id: StreamID, _ failure: OriginFailure?, now: Duration, random: Double
    ) -> [Action] {
        guard let stream = planner.streams.over(id) else { return [] }
        if stream.end == BlockSize.openEnd {
            planner.streams.remove(id)
            if let failure { breakOff(failure.meaning.read) }
            return planner.waiting.complete() + planner.demand(now: now)
        }
        if stream.position >= stream.end {
            planner.streams.remove(id)
            return planner.demand(now: now) + readAhead(now: now) + planner.resume(now: now)
        }
        let failure = failure ?? .interrupted("fewer bytes than announced")
        if failure == .cancelled {
            // Readahead does not ask for it again at once: it was let go of for a reason. Nor is a second try repeated.
            _ = planner.streams.leaveToRival(id, now: now)
            planner.drop(id)
            return planner.demand(now: now) + planner.resume(now: now)
        }
        if case .changed = failure { return supersede() }
        if let actions = planner.leaveToRival(id, now: now) { return actions }
        let dependents = planner.waiting.reads(waitingFor: stream)
        guard let latest = dependents.map(\.deadline).max() else {
            // Only read ahead: a read that needs it asks again, and nothing is asked for ahead for a while.
            planner.drop(id)
            planner.failedAhead(failure, now: now, random: random)
            return []
        }
        if planner.streams.retry(id, after: failure, before: latest, now: now, random: random) { return [] }
        planner.drop(id)
        return planner.waiting.fail(dependents, of: failure, now: now) + planner.demand(now: now)
    }

    /// The body of a version with an open end cannot be had again: it broke off, or the cache has not all of it.
    package mutating func breakOff(_ failure: ReadFailure) { planner.streams.breakOff(failure) }

    // MARK: The version and the clock

    /// The origin has another version: no more bytes can come for this one.
    package mutating func supersede() -> [Action] {
        isSuperseded = true
        let covered = planner.waiting.complete()
        return covered + planner.stop { _ in true } + planner.waiting.fail(planner.waiting.all.map(\.id), .changed)
    }

    /// The origin has this version, after all.
    package mutating func revive() { isSuperseded = false }

    /// Does the work that is due: deadlines, retries, second tries, the end of streams that no reader needs.
    package mutating func tick(now: Duration) -> [Action] {
        var actions: [Action] = []
        notice()
        actions += demandLost(now: now)
        // The cache may keep a part of what it then fails to take as a whole.
        actions += planner.waiting.complete()
        actions += planner.waiting.endLate(planner.streams, now: now)
        actions += planner.streams.startRetries(now: now)
        if limits.mayHedge {
            actions += planner.streams.hedge(for: planner.waiting, hasMirror: limits.hasMirror, now: now)
        }
        actions += planner.stopIdle(lastClose: openHandles == 0 ? lastClose : nil, now: now)
        return actions + planner.resume(now: now)
    }

    /// Looks whether bytes have left the cache since the last look: plans again around them, and counts those that were
    /// not read as wasted. Reads that wait for them are asked for at the next arrival or tick.
    package mutating func notice() {
        let removals = present.removals
        guard removals != noticedRemovals else { return }
        noticedRemovals = removals
        hasLost = true
        for range in counts.unread.ranges { for gap in present.gaps(in: range) { counts.lost(gap) } }
        planner.cursors.doubtFrontiers()
    }

    /// Asks for the bytes that have left and that a read waits for.
    private mutating func demandLost(now: Duration) -> [Action] {
        defer { hasLost = false }
        return hasLost ? planner.demand(now: now) : []
    }
}
