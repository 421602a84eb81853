/// Events of streams: heads, bytes, ends, failures, the clock.
extension Ledger {
    package enum BodyDecision: Hashable, Sendable {
        case more
        /// No more of it until `Action.resume`.
        case pause
        /// The rest of the body is not wanted.
        case enough
    }

    /// True while the stream is known and its bytes are wanted.
    package func isLive(_ id: StreamID) -> Bool {
        streams.contains { $0.id == id && $0.position < $0.end }
    }

    /// Where the next `count` bytes of a stream go, cut to those that are still wanted; nil where none is.
    package func place(of id: StreamID, count: Int64) -> ByteRange? {
        guard let stream = streams.first(where: { $0.id == id }), stream.position < stream.end else { return nil }
        return ByteRange(stream.position, min(stream.position + count, stream.end))
    }

    /// The head was good. - Parameter isWhole: the origin sends the whole body instead of the range.
    package mutating func began(_ id: StreamID, isWhole: Bool, now: Duration) -> [Action] {
        guard let index = streams.firstIndex(where: { $0.id == id }) else { return [] }
        pace.head(of: id, now: now)
        streams[index].lastProgress = now
        guard isWhole else { return [] }
        acceptsRanges = false
        streams[index].position = 0
        streams[index].end = length
        let others = streams.filter { $0.id != id }
        drop { $0.id != id }
        return others.map { .stop($0.id) }
    }

    /// Parts of `range` that are not there.
    package func gaps(in range: ByteRange) -> [ByteRange] {
        var gaps: [ByteRange] = []
        var offset = present.firstMissing(from: range.lower, limit: range.upper)
        while offset < range.upper {
            gaps.append(ByteRange(offset, present.firstCovered(from: offset, limit: range.upper)))
            offset = present.firstMissing(from: gaps[gaps.count - 1].upper, limit: range.upper)
        }
        return gaps
    }

    /// Bytes of the stream are in the cache, at the place that `place` gave, also where the stream was let go
    /// meanwhile.
    /// - Parameter news: parts of `range` that were not there before: `gaps`.
    /// - Returns: what to do, and whether more of the body is wanted.
    package mutating func arrived(
        _ id: StreamID, _ range: ByteRange, news: [ByteRange], now: Duration
    ) -> (actions: [Action], answer: BodyDecision) {
        let count = news.reduce(0) { $0 + $1.count }
        statistics.dropped(range.count - count)
        for part in news { statistics.took(part, for: waiting.lazy.map(\.range)) }
        let hasLost = notice()
        pace.bytes(range.count, of: id, now: now)
        quietUntil = .zero
        speculativeFailures = 0
        var actions = completeCovered(by: range)
        guard let index = streams.firstIndex(where: { $0.id == id }) else { return (actions, .enough) }
        streams[index].position = range.upper
        streams[index].lastProgress = now
        streams[index].attempts = 0
        streams[index].lastFailure = nil
        let isMore = streams[index].position < streams[index].end
        actions += settleRival(of: id, now: now)
        // Bytes that somebody waits for have left behind the streams that brought them.
        if hasLost { actions += planDemanded(now: now) }
        // A request that is nearly over makes way for the next.
        actions += readAhead(now: now)
        actions += resumeHeld(now: now)
        guard isMore else { return (actions, .enough) }
        return (actions, hold(id, now: now) ? .pause : .more)
    }

    /// Reads all of whose bytes are there, of those that want some of `range`.
    private mutating func completeCovered(by range: ByteRange) -> [Action] {
        var actions: [Action] = []
        waiting.removeAll { read in
            guard read.range.overlaps(range), present.covers(read.range) else { return false }
            actions.append(.complete(read.id))
            return true
        }
        return actions
    }

    /// Bytes came that have no place: their stream was let go of, or the cache takes nothing.
    package mutating func dropped(_ count: Int64) { statistics.dropped(count) }

    /// The request of a stream is over; nil: its body came whole. Of a version with an open end `present` knows the
    /// length by then, and a body that broke off is not asked for again: nothing tells where it would go on.
    /// - Parameter random: from 0 to 1, for the pause before the next attempt.
    package mutating func ended(
        _ id: StreamID, _ failure: OriginFailure?, now: Duration, random: Double
    ) -> [Action] {
        pace.ended(id)
        guard let index = streams.firstIndex(where: { $0.id == id }) else { return [] }
        if streams[index].end == BlockSize.openEnd {
            streams.remove(at: index)
            if let failure { brokenOff = ReadFailure(failure) }
            return completeCovered(by: ByteRange(0, .max)) + planDemanded(now: now)
        }
        if failure == .cancelled, streams[index].position < streams[index].end {
            // Not asked for ahead again at once: it was let go of for a reason.
            drop { $0.id == id }
            return planDemanded(now: now) + resumeHeld(now: now)
        }
        if streams[index].position >= streams[index].end {
            streams.remove(at: index)
            return planDemanded(now: now) + readAhead(now: now) + resumeHeld(now: now)
        }
        let failure = failure ?? .interrupted("fewer bytes than announced")
        if case .changed = failure { return supersede() }
        if let actions = leaveToRival(id, now: now) { return actions }
        let dependents = waiting.filter { isWaiting($0, for: streams[index]) }
        guard !dependents.isEmpty else {
            // Only read ahead: a read that needs it asks again, and nothing is asked for ahead for a while.
            drop { $0.id == id }
            speculativeFailures += 1
            let pause = RetryPolicy.pause(after: failure, attempt: speculativeFailures, random: random)
            quietUntil = now + (pause ?? .seconds(30))
            return []
        }
        streams[index].attempts += 1
        streams[index].lastFailure = failure
        let latest = dependents.map(\.deadline).max()!
        if let pause = RetryPolicy.pause(after: failure, attempt: streams[index].attempts, random: random),
            now + pause < latest
        {
            if !acceptsRanges { streams[index].position = 0 }
            streams[index].retryAt = now + pause
            return []
        }
        drop { $0.id == id }
        // The same moment as the reads' own deadline, seen from the other side; or the end of long trying.
        for read in dependents {
            // The second time may take the whole deadline: both together are not to be over it by more than this.
            let isLate = now - read.parkedAt > .seconds(1)
            if failure == .timedOut || isLate { timedOut.append((read.range, now, ReadFailure(failure))) }
        }
        return fail(dependents.map(\.id), ReadFailure(failure)) + planDemanded(now: now)
    }

    /// The origin has another version: nothing more can come for this one.
    package mutating func supersede() -> [Action] {
        isSuperseded = true
        let stopped = streams.map { Action.stop($0.id) }
        drop { _ in true }
        return stopped + fail(waiting.map(\.id), .changed)
    }

    /// The origin has this version, after all.
    package mutating func revive() { isSuperseded = false }

    /// What is due: deadlines, retries, the end of streams that no reader needs.
    package mutating func tick(now: Duration) -> [Action] {
        var actions: [Action] = []
        if notice() { actions += planDemanded(now: now) }
        for read in waiting where read.deadline <= now {
            let end = isOpenEnded ? present.firstMissing(from: read.range.lower, limit: read.range.upper) : 0
            if end > read.range.lower {
                actions.append(.completeInPart(read.id, ByteRange(read.range.lower, end)))
                continue
            }
            let cause = streams.first { isWaiting(read, for: $0) }?.lastFailure
            let failure = cause.map { ReadFailure($0) } ?? .timedOut
            timedOut.append((read.range, now, failure))
            actions.append(.fail(read.id, failure))
        }
        waiting.removeAll { $0.deadline <= now }
        for index in streams.indices {
            guard let due = streams[index].retryAt, due <= now else { continue }
            streams[index].retryAt = nil
            streams[index].isSent = false
            let range = ByteRange(streams[index].position, max(streams[index].position, streams[index].end))
            streams[index].lastProgress = now
            actions.append(.start(streams[index].id, range, isDemanded: true))
        }
        actions += hedge(now: now)
        let idle = streams.filter { !isNeeded($0, now: now) }
        if !idle.isEmpty { drop { stream in idle.contains { $0.id == stream.id } } }
        for stream in idle { actions.append(.stop(stream.id)) }
        return actions + resumeHeld(now: now)
    }

    /// Whether the clock may bring anything.
    package var isTicking: Bool { !isIdle }

    /// Looks whether bytes have left the cache since the last look: plans anew around them, and counts those that were
    /// not read as wasted. - Returns: whether any have.
    @discardableResult
    package mutating func notice() -> Bool {
        let removals = present.removals
        guard removals != noticedRemovals else { return false }
        noticedRemovals = removals
        for range in statistics.unread.ranges { for gap in gaps(in: range) { statistics.lost(gap) } }
        doubtFrontiers()
        return true
    }

    mutating func fail(_ ids: [ReadID], _ failure: ReadFailure) -> [Action] {
        waiting.removeAll { ids.contains($0.id) }
        return ids.map { .fail($0, failure) }
    }

    /// True where a missing byte of the read lies in what the stream has yet to bring.
    func isWaiting(_ read: WaitingRead, for stream: Stream) -> Bool {
        let rest = ByteRange(stream.position, max(stream.position, stream.end))
        guard read.range.overlaps(rest) else { return false }
        let part = read.range.clamped(to: rest)
        return present.firstMissing(from: part.lower, limit: part.upper) < part.upper
    }

    /// As long as streams go on, and their file is known, after its last close.
    package static let linger = Duration.seconds(10)

    /// A stream goes on while a read waits for it, while its reader is there, and for some seconds after the last
    /// close; a reader that has jumped away has two seconds to come back.
    private func isNeeded(_ stream: Stream, now: Duration) -> Bool {
        if waiting.contains(where: { isWaiting($0, for: stream) }) { return true }
        if stream.retryAt != nil { return false }
        // It is short, or `cancelPrebuffer` ends it.
        if stream.purpose == .prebuffer { return true }
        if openHandles == 0 { return now - lastClose < Self.linger }
        if !acceptsRanges || stream.end - stream.position <= Self.worthHolding { return true }
        // A paused player comes back to its place; one that waits elsewhere has left it.
        let latest = waiting.isEmpty ? cursors.map(\.lastRead).max() ?? now : now
        return cursors.contains { cursor in
            (latest - cursor.lastRead < .seconds(2))
                && cursor.position < stream.end
                && stream.position <= cursor.position + 2 * max(window(of: cursor), Readahead.early)
        }
    }
}

extension Ledger.ReadFailure {
    package init(_ failure: OriginFailure) {
        self =
            switch failure {
            case .unreachable: .unreachable
            case .away(.unreachable): .offline
            case .timedOut, .away(.silent): .timedOut
            case .status(401, _), .status(403, _): .accessDenied
            case .status(404, _), .status(410, _), .changed: .changed
            case .status, .interrupted, .wrongAnswer, .untrusted, .cancelled: .failed
            }
    }
}
