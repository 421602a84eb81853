/// Decides what to ask for, and in how many pieces, from the requests, the readers and the waiting reads that it holds.
///
/// Each plan starts or removes streams, and returns the actions that do it.
struct Planner: Sendable {
    private let present: any PresentBytes
    var streams: Streams
    var cursors: Cursors
    var waiting: WaitingReads
    /// No readahead before this: it failed a moment ago.
    private var quietUntil: Duration = .zero
    /// Failures of readahead in a row.
    private var failures = 0
    /// Bytes asked for ahead of readers, of all requests so far.
    private(set) var askedAhead: Int64 = 0
    /// A command wants all of the file.
    var isPrefetched = false

    /// - Parameters:
    ///   - cacheCap: bytes; readahead takes an eighth of it at most.
    ///   - alignment: as of `Streams`.
    init(_ present: any PresentBytes, acceptsRanges: Bool, cacheCap: Int64, alignment: Int64 = BlockSize.block) {
        self.present = present
        streams = Streams(present, acceptsRanges: acceptsRanges, alignment: alignment)
        cursors = Cursors(present, cacheCap: cacheCap)
        waiting = WaitingReads(present)
    }

    // MARK: Bytes that reads wait for

    /// Makes sure that every missing byte that a read waits for is on its way.
    mutating func demand(now: Duration) -> [Ledger.Action] {
        var actions: [Ledger.Action] = []
        var hopeless: [Ledger.ReadID] = []
        for read in waiting.all {
            var offset = read.range.lower
            while true {
                offset = present.firstMissing(from: offset, limit: read.range.upper)
                guard offset < read.range.upper else { break }
                if let stream = streams.all.first(where: { serves($0, offset) }) {
                    if streams.demand(stream.id) { actions.append(.promote(stream.id)) }
                    offset = min(stream.end, read.range.upper)
                } else if streams.acceptsRanges {
                    let reader = cursors.proven(at: read.range)
                    let started: Started
                    if let reader, read.readsOn, offset == read.range.lower, answersSeek(cursors.all[reader]) {
                        started = answerSeek(at: offset, now)
                    } else {
                        let reader = reader.map { cursors.all[$0] }
                        started = start(at: offset, count: demand(of: read, by: reader, from: offset), now: now)
                    }
                    actions += started.actions
                    offset = started.end
                    cursors.countEarly(reader, offset - max(read.range.upper, cursors.reach(at: read.range)))
                    if reader != nil { askedAhead += max(0, offset - read.range.upper) }
                } else if streams.comesOnce {
                    // The one body has passed this place, or broken off.
                    hopeless.append(read.id)
                    break
                } else {
                    let needs = needs(now)
                    actions += stop { needs.isOvertaken($0) }
                    actions += start(at: 0, count: present.length, now: now).actions
                    break
                }
            }
        }
        return actions + waiting.fail(hopeless, streams.brokenOff ?? .failed)
    }

    /// How much to ask for where a read misses: a proven reader wants the bytes that come next as well.
    private func demand(of read: WaitingReads.Read, by reader: Cursor?, from offset: Int64) -> Int64 {
        let count = read.range.upper - offset
        guard read.readsOn else { return count }
        let known = cursors.reach(at: read.range) - offset
        guard known <= count else { return known }
        guard let reader else {
            return cursors.isBeginning(at: read.range) ? max(count, 4 * BlockSize.block) : count
        }
        let window = cursors.window(of: reader)
        let segment = segment(of: window, for: reader, requests: cursors.limits.requests)
        // The kernel reads little ahead of a scanner: one that reads on would wait for each block.
        let least = cursors.limits.isScan && !cursors.isOverdrawn ? 4 * BlockSize.block : 0
        return max(count, least, min(segment, reader.position + window - offset))
    }

    /// True where `offset` comes with this stream soon enough: waiting for it is no worse than a new request. Bytes
    /// that another read waits for do not count as distance: they come in any case.
    private func serves(_ stream: Stream, _ offset: Int64) -> Bool {
        guard stream.brings(offset) else { return false }
        if !streams.acceptsRanges { return true }
        var from = stream.position
        for read in waiting.all where read.range.upper <= offset && read.range.upper > from { from = read.range.upper }
        return offset - from <= streams.pace.joinDistance
    }

    /// A request that brings a whole piece is no shorter for being one of several.
    private func answersSeek(_ cursor: Cursor) -> Bool {
        streams.alignment == BlockSize.block && cursors.limits.requests > 1 && cursor.isSeeking
            && cursors.window(of: cursor) >= Readahead.near
    }

    /// After a seek, where connections are slow: two requests at a time bring the bytes that a player needs for its
    /// first picture, and a third the bytes before them in their block, which would be in their way.
    private mutating func answerSeek(at offset: Int64, _ now: Duration) -> Started {
        let front = streams.startOfRequest(at: offset)
        // Known first, so that the others begin behind it; sent last.
        let before = front < offset ? start(at: front, count: offset - front, now: now, upTo: offset).actions : []
        let (first, end) = start(at: offset, count: Readahead.seekFirst, now: now)
        guard end < present.length, streams.firstUnplanned(from: end, limit: present.length) == end else {
            return (first + before, end)
        }
        let next = start(at: end, count: Readahead.seekNext, now: now)
        return (first + next.actions + before, next.end)
    }

    // MARK: Bytes fetched ahead

    /// True where the cursor that read last has too little before it.
    func wantsReadahead(now: Duration) -> Bool {
        guard !present.isComplete, streams.acceptsRanges, let cursor = cursors.last, now >= quietUntil,
            cursor.isProven, cursor.frontier < present.length
        else { return false }
        return cursor.underruns(now) || cursor.frontier - cursor.position < cursors.window(of: cursor) / 2
    }

    /// Starts the requests that keep the cursor that read last from running dry.
    mutating func readAhead(now: Duration) -> [Ledger.Action] {
        guard wantsReadahead(now: now) else { return [] }
        let index = cursors.all.count - 1
        let cursor = cursors.all[index]
        let window = cursors.window(of: cursor)
        let isUrgent = cursor.underruns(now) || cursor.isSeeking || outplays(cursor)
        let requests = isUrgent ? cursors.limits.requests : 1
        var horizon = min(present.length, cursor.position + window)
        if requests > 1, let lack = lack(of: cursor) {
            horizon = min(horizon, lack + spread(of: cursor, requests: requests))
        }
        let segment = isUrgent ? segment(of: window, for: cursor, requests: requests) : window
        var actions: [Ledger.Action] = []
        while true {
            let planned = max(cursors.all[index].frontier, cursor.position)
            let frontier = streams.firstUnplanned(from: planned, limit: horizon)
            cursors.plan(index, upTo: frontier)
            // A short request is mostly a round trip: waits until the gap is worth one.
            guard frontier < horizon, horizon == present.length || horizon - frontier >= min(window / 4, segment),
                isUrgent || frontier - cursor.position < window / 2,
                busyRequests(of: cursor, upTo: horizon, requests: requests) < requests
            else { return actions }
            let started = start(at: frontier, count: min(segment, horizon - frontier), .readahead, now: now)
            actions += started.actions
            cursors.countEarly(index, started.end - max(frontier, cursors.reach(of: cursor)))
            askedAhead += started.end - frontier
        }
    }

    private func segment(of window: Int64, for cursor: Cursor, requests: Int) -> Int64 {
        if requests == 1 || cursors.reach(of: cursor) > cursor.position { return window }
        if cursor.isSeeking { return Readahead.seekNext }
        let most = max(Readahead.segments.upperBound, trips)
        let spread = lack(of: cursor) == nil ? window : spread(of: cursor, requests: requests)
        return min(max(min(window, spread) / Int64(requests), Readahead.segments.lowerBound), most)
    }

    /// Where a round trip costs more than usual, four times the bytes that it costs.
    private var trips: Int64 { min(4 * streams.pace.turnaround, Readahead.longestSegment) }

    /// The first byte that a player lacks of the next few seconds, nil if none, or it is no player.
    private func lack(of cursor: Cursor) -> Int64? {
        guard let rate = cursors.playersRate(cursor) else { return nil }
        let seconds = Int64(min(rate, 1e12)) * Readahead.shortSeconds
        let limit = min(present.length, cursor.position + seconds)
        let missing = present.firstMissing(from: min(cursor.position, limit), limit: limit)
        return missing < limit ? missing : nil
    }

    /// What is fetched in parallel behind that byte: a second of the film. On a line that all requests share, what
    /// comes later is in the way of it.
    private func spread(of cursor: Cursor, requests: Int) -> Int64 {
        max(Int64(min(cursors.playersRate(cursor) ?? cursor.playingRate, 1e12)), trips * Int64(requests))
    }

    /// Whether a player takes bytes faster than one request brings them: it would wait before the next one is asked
    /// for.
    private func outplays(_ cursor: Cursor) -> Bool {
        guard cursors.limits.requests > 1, let rate = cursors.playersRate(cursor) else { return false }
        return streams.pace.wholeRate.map { $0 < rate } ?? false
    }

    /// Requests that fetch for this cursor. Those that end before a new one could be answered do not count; at most a
    /// third of `requests`, or one, are left out, and none where the new one goes on with their body.
    private func busyRequests(of cursor: Cursor, upTo horizon: Int64, requests: Int) -> Int {
        var (all, ending) = (0, 0)
        for stream in streams.all where stream.end > cursor.position && stream.position < horizon {
            all += 1
            if !cursors.limits.isOneBody, stream.end - stream.position <= streams.pace.handover { ending += 1 }
        }
        return all - min(ending, max(1, requests / 3))
    }

    /// Readahead failed: pauses it. - Parameter random: from 0 to 1, for the length of the pause.
    mutating func failedAhead(_ failure: OriginFailure, now: Duration, random: Double) {
        failures += 1
        quietUntil = now + (RetryPolicy.pause(after: failure, attempt: failures, random: random) ?? .seconds(30))
    }

    /// Bytes came: readahead goes on.
    mutating func succeeded() {
        quietUntil = .zero
        failures = 0
    }

    /// Asks for the bytes of `range` that are neither there nor on their way, although no reader is there.
    mutating func prebuffer(_ range: ByteRange, now: Duration) -> [Ledger.Action] {
        let range = range.clamped(to: ByteRange(0, present.length))
        var actions: [Ledger.Action] = []
        var offset = range.lower
        while true {
            offset = streams.firstUnplanned(from: offset, limit: range.upper)
            guard offset < range.upper else { return actions }
            let started = start(at: offset, count: range.upper - offset, .prebuffer, now: now)
            actions += started.actions
            offset = started.end
        }
    }

    /// Asks for the next bytes that are neither there nor on their way, one request at a time, as a command wants all.
    mutating func prefetch(now: Duration) -> [Ledger.Action] {
        isPrefetched = true
        guard !streams.all.contains(where: { $0.purpose == .prefetch }),
            streams.acceptsRanges || streams.isEmpty && !streams.comesOnce
        else { return resume(now: now) }
        var offset: Int64 = 0
        while true {
            offset = streams.firstUnplanned(from: offset, limit: present.length)
            guard offset < present.length else { return resume(now: now) }
            let started = start(at: offset, count: present.length - offset, .prefetch, now: now)
            if !started.actions.isEmpty { return started.actions }
        }
    }

    // MARK: Streams that start, pause and end

    /// The actions that start requests, and the byte behind the last one that they bring.
    private typealias Started = (actions: [Ledger.Action], end: Int64)

    /// - Returns: no action, and `offset`, where the byte there has come meanwhile.
    private mutating func start(
        at offset: Int64, count: Int64, _ purpose: Stream.Purpose = .demand, now: Duration, upTo limit: Int64 = .max
    ) -> Started {
        guard let started = streams.start(at: offset, count: count, purpose, now: now, upTo: limit) else {
            return ([], offset)
        }
        if started.isCut { cursors.doubtFrontiers() }
        return ([started.action], started.end)
    }

    private func needs(_ now: Duration) -> ReaderNeeds {
        ReaderNeeds(
            cursors, waiting, acceptsRanges: streams.acceptsRanges, length: present.length, now: now,
            isPrefetched: isPrefetched)
    }

    /// After bytes of this stream. - Returns: whether it pauses from here on.
    mutating func hold(_ id: Ledger.StreamID, now: Duration) -> Bool {
        let needs = needs(now)
        return streams.hold(id) { needs.isHeld($0) }
    }

    /// Lets streams go on that nothing holds back any more.
    mutating func resume(now: Duration) -> [Ledger.Action] {
        let needs = needs(now)
        return streams.resume(now: now) { needs.isHeld($0) }
    }

    /// Stops the streams that no reader needs. - Parameter lastClose: nil while a handle is open.
    mutating func stopIdle(lastClose: Duration?, now: Duration) -> [Ledger.Action] {
        let needs = needs(now)
        guard streams.all.contains(where: { !needs.isNeeded($0, lastClose: lastClose) }) else { return [] }
        return stop { !needs.isNeeded($0, lastClose: lastClose) }
    }

    /// Whether a stream can be let go of for others that have no connection.
    func isSpared(_ stream: Stream) -> Bool { needs(.zero).isSpared(stream) }

    /// Removes streams that have not brought all, and ends their requests: their bytes are no longer on their way.
    mutating func stop(where isGone: (Stream) -> Bool) -> [Ledger.Action] {
        defer { cursors.doubtFrontiers() }
        return streams.stop(where: isGone)
    }

    /// Removes a stream that has not brought all, and whose request is over.
    mutating func drop(_ id: Ledger.StreamID) { _ = stop { $0.id == id } }

    /// A stream brought a byte: stops its rival, and asks again for bytes that only the rival would have brought.
    mutating func settleRival(of id: Ledger.StreamID, now: Duration) -> [Ledger.Action] {
        guard let rival = streams.takeRival(of: id) else { return [] }
        return stop { $0.id == rival } + demand(now: now)
    }

    /// A stream failed. - Returns: the actions where its rival goes on in its place; nil where it has none.
    mutating func leaveToRival(_ id: Ledger.StreamID, now: Duration) -> [Ledger.Action]? {
        guard streams.leaveToRival(id, now: now) else { return nil }
        drop(id)
        return demand(now: now)
    }
}
