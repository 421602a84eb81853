/// What to ask for, and in how many pieces.
extension Ledger {
    // MARK: Bytes that reads wait for

    /// Makes sure that every missing byte that a read waits for is on its way.
    mutating func planDemanded(now: Duration) -> [Action] {
        var actions: [Action] = []
        var hopeless: [ReadID] = []
        for read in waiting {
            var offset = read.range.lower
            while true {
                offset = present.firstMissing(from: offset, limit: read.range.upper)
                guard offset < read.range.upper else { break }
                if let index = streams.firstIndex(where: { serves($0, offset) }) {
                    // One that was sent stands in line again where it is redirected.
                    if !streams[index].isDemanded {
                        streams[index].isDemanded = true
                        actions.append(.promote(streams[index].id))
                    }
                    offset = min(streams[index].end, read.range.upper)
                } else if acceptsRanges {
                    let reader = cursors.lastIndex { $0.isProven && $0.continues(with: read.range) }
                    if let reader, read.readsOn, offset == read.range.lower, answersSeek(cursors[reader]) {
                        actions += answerSeek(at: offset, now)
                    } else {
                        actions += startStream(
                            at: offset, count: demand(of: read, by: reader.map { cursors[$0] }, from: offset), .demand,
                            now)
                    }
                    offset = streams.last!.end
                    countEarly(reader, offset - read.range.upper)
                } else if isOpenEnded || brokenOff != nil {
                    // The one body has passed this place, or broken off.
                    hopeless.append(read.id)
                    break
                } else {
                    actions += dropOvertaken()
                    actions += startStream(at: 0, count: length, .demand, now)
                    break
                }
            }
        }
        return actions + fail(hopeless, brokenOff ?? .failed)
    }

    /// How much to ask for where a read misses: a proven reader wants what comes next as well.
    private func demand(of read: WaitingRead, by reader: Cursor?, from offset: Int64) -> Int64 {
        let count = read.range.upper - offset
        guard read.readsOn, let reader else { return count }
        let window = window(of: reader)
        return max(
            count, min(segment(of: window, for: reader, requests: limits.requests), reader.position + window - offset))
    }

    /// True where `offset` comes with this stream soon enough: waiting for it is no worse than a new request. Bytes
    /// that others wait for are no distance.
    private func serves(_ stream: Stream, _ offset: Int64) -> Bool {
        guard stream.position <= offset, offset < stream.end else { return false }
        if !acceptsRanges { return true }
        var from = stream.position
        for read in waiting where read.range.upper <= offset && read.range.upper > from { from = read.range.upper }
        return offset - from <= pace.joinDistance
    }

    // MARK: Bytes fetched ahead

    /// True where the cursor that read last has too little before it.
    package func wantsReadahead(now: Duration) -> Bool {
        guard !present.isComplete, acceptsRanges, !isSuperseded, let cursor = cursors.last, now >= quietUntil,
            openHandles > 0, cursor.isProven, cursor.frontier < length
        else { return false }
        return cursor.underruns(now) || cursor.frontier - cursor.position < window(of: cursor) / 2
    }

    /// Starts what keeps the cursor that read last from running dry.
    package mutating func readAhead(now: Duration) -> [Action] {
        guard wantsReadahead(now: now) else { return [] }
        let index = cursors.count - 1
        let cursor = cursors[index]
        let window = window(of: cursor)
        let horizon = min(length, cursor.position + window)
        let isUrgent = cursor.underruns(now) || cursor.isSeeking
        let requests = isUrgent ? limits.requests : 1
        let segment = isUrgent ? segment(of: window, for: cursor, requests: requests) : window
        var actions: [Action] = []
        while true {
            let frontier = firstUnplanned(from: max(cursors[index].frontier, cursor.position), limit: horizon)
            cursors[index].frontier = frontier
            // Short requests are mostly round trips: where the horizon moves on slowly, so does this.
            guard frontier < horizon, horizon == length || horizon - frontier >= min(window / 4, segment),
                isUrgent || frontier - cursor.position < window / 2,
                busyRequests(of: cursor, upTo: horizon, requests: requests) < requests
            else { return actions }
            actions += startStream(at: frontier, count: min(segment, horizon - frontier), .readahead, now)
            countEarly(index, streams.last!.end - frontier)
        }
    }

    /// Counts bytes fetched ahead for a reader that may yet want none of them.
    private mutating func countEarly(_ index: Int?, _ count: Int64) {
        guard let index, count > 0, !isSettled(cursors[index]) else { return }
        cursors[index].early += count
        statistics.sums.early += count
    }

    /// How far ahead of this cursor to fetch.
    func window(of cursor: Cursor) -> Int64 {
        guard limits.allowsEarly || isSettled(cursor) else { return 0 }
        return cursor.window(atMost: min(windowLimit, max(limits.room, Readahead.near)))
    }

    private func segment(of window: Int64, for cursor: Cursor, requests: Int) -> Int64 {
        if requests == 1 { return window }
        if cursor.isSeeking { return Readahead.seekNext }
        let most = max(Readahead.segments.upperBound, min(4 * pace.turnaround, Readahead.longestSegment))
        return min(max(window / Int64(requests), Readahead.segments.lowerBound), most)
    }

    /// Requests that fetch for this cursor, but for those that are over before a new one would be answered: a third of
    /// `requests`, and one at least, may have its successor on the way.
    private func busyRequests(of cursor: Cursor, upTo horizon: Int64, requests: Int) -> Int {
        var (all, ending) = (0, 0)
        for stream in streams where stream.end > cursor.position && stream.position < horizon {
            all += 1
            if stream.end - stream.position <= pace.handover { ending += 1 }
        }
        return all - min(ending, max(1, requests / 3))
    }

    /// Bytes of these that `prebuffer` would ask for, each counted once.
    package func missing(in ranges: [ByteRange]) -> Int64 {
        guard acceptsRanges, !isSuperseded else { return 0 }
        var union = ByteRangeSet()
        for range in ranges { union.insert(range) }
        return union.ranges.reduce(0) { $0 + missing(in: $1) }
    }

    private func missing(in range: ByteRange) -> Int64 {
        let limit = min(range.upper, length)
        var offset = firstUnplanned(from: range.lower, limit: limit)
        var count: Int64 = 0
        while offset < limit {
            let end = streams.reduce(present.firstCovered(from: offset, limit: limit)) { end, stream in
                stream.position > offset ? min(end, stream.position) : end
            }
            count += end - offset
            offset = firstUnplanned(from: end, limit: limit)
        }
        return count
    }

    /// Nobody will read what was fetched ahead.
    package mutating func writeOff() { statistics.writeOff() }

    /// Read past the daemon, by who has the file itself.
    package mutating func readAll() { statistics.read(ByteRange(0, length)) }

    /// Asks for the bytes of `range` that are neither there nor on their way, although no reader is there.
    package mutating func prebuffer(_ range: ByteRange, now: Duration) -> [Action] {
        guard acceptsRanges, !isSuperseded else { return [] }
        let range = range.clamped(to: ByteRange(0, length))
        var actions: [Action] = []
        var offset = range.lower
        while true {
            offset = firstUnplanned(from: offset, limit: range.upper)
            guard offset < range.upper else { return actions }
            actions += startStream(at: offset, count: range.upper - offset, .prebuffer, now)
            offset = streams.last!.end
        }
    }

    /// Ends what `prebuffer` began, but for streams that a read waits for by now.
    package mutating func cancelPrebuffer() -> [Action] {
        let gone = streams.filter { stream in
            stream.purpose == .prebuffer && !waiting.contains { isWaiting($0, for: stream) }
        }
        drop { stream in gone.contains { $0.id == stream.id } }
        return gone.map { .stop($0.id) }
    }

    // MARK: Requests

    /// First byte from `offset` on that is neither there nor on its way.
    private func firstUnplanned(from offset: Int64, limit: Int64) -> Int64 {
        var offset = offset
        while offset < limit {
            offset = present.firstMissing(from: offset, limit: limit)
            guard let stream = streams.first(where: { $0.position <= offset && offset < $0.end }) else { return offset }
            offset = stream.end
        }
        return min(offset, limit)
    }

    private func answersSeek(_ cursor: Cursor) -> Bool {
        limits.requests > 1 && cursor.isSeeking && window(of: cursor) >= Readahead.near
    }

    /// After a seek, where connections are slow: two requests at a time bring what a player needs for its first
    /// picture, and a third what lies before it in its block, which would be in its way.
    private mutating func answerSeek(at offset: Int64, _ now: Duration) -> [Action] {
        let front = startOfRequest(at: offset)
        // Known first, so that the others begin behind it; sent last.
        let before =
            front < offset ? startStream(at: front, count: offset - front, .demand, now, upTo: offset) : []
        let first = startStream(at: offset, count: Readahead.seekFirst, .demand, now)
        let end = streams.last!.end
        guard end < length, firstUnplanned(from: end, limit: length) == end else { return first + before }
        return first + startStream(at: end, count: Readahead.seekNext, .demand, now) + before
    }

    /// The start of the block, or the end of what is there or on its way of it.
    private func startOfRequest(at offset: Int64) -> Int64 {
        streams.reduce(present.startOfGap(at: offset)) { $1.end <= offset ? max($0, $1.end) : $0 }
    }

    /// One range request around `offset`, which is missing: from the start of its block, so that whole blocks come, up
    /// to the next byte that is there or on its way. Without ranges: everything.
    /// - Parameter limit: nothing from here on is asked for.
    private mutating func startStream(
        at offset: Int64, count: Int64, _ purpose: Purpose, _ now: Duration, upTo limit: Int64 = .max
    ) -> [Action] {
        var range = ByteRange(0, length)
        if acceptsRanges {
            range.lower = startOfRequest(at: offset)
            let wanted = offset + min(count, length - offset)
            range.upper = BlockSize.bytes(of: Int((wanted - 1) / BlockSize.block), length: length).upper
            range.upper = present.firstCovered(from: offset, limit: min(range.upper, limit))
            for other in streams where other.position > offset { range.upper = min(range.upper, other.position) }
            // An older stream on its way here ends where this one begins: no byte is fetched twice.
            for index in streams.indices where streams[index].position <= offset && streams[index].end > range.lower {
                // What it would have brought behind the new one is on nobody's way now.
                if streams[index].end > range.upper { doubtFrontiers() }
                streams[index].end = max(range.lower, streams[index].position)
            }
        }
        return [.start(add(range, purpose, now), range, isDemanded: purpose == .demand)]
    }
}
