/// What is there of one resource version, what is on its way, and who waits for it: the decisions of the read path as a
/// value. Events go in, actions come out; nothing here fetches, writes or replies.
///
/// A stream's legal life: requested → (head) running → gone, or requested/running → failed → waiting for its retry →
/// requested again, at the byte where it stopped. `Ledger+Streams` holds those transitions.
package struct Ledger: Sendable {
    package typealias StreamID = UInt64
    package typealias ReadID = UInt64

    package enum Action: Hashable, Sendable {
        /// Ask the origin for these bytes. A stream that retries is started again under its old name.
        case start(StreamID, ByteRange, isDemanded: Bool)
        /// Let the running request go.
        case stop(StreamID)
        /// All bytes of this read are there.
        case complete(ReadID)
        case fail(ReadID, ReadFailure)
    }

    /// Why a waiting read gets no bytes.
    package enum ReadFailure: Hashable, Sendable {
        case timedOut, unreachable, offline, accessDenied, changed, failed
    }

    struct Stream: Sendable {
        var id: StreamID
        /// Where the next byte goes.
        var position: Int64
        /// Nothing from here on is wanted of it. Lowered when a later stream takes over; never raised.
        var end: Int64
        /// Failures in a row without a byte of progress.
        var attempts = 0
        var lastFailure: OriginFailure?
        /// Set while it waits for its next attempt.
        var retryAt: Duration?
    }

    struct WaitingRead: Sendable {
        var id: ReadID
        var range: ByteRange
        var deadline: Duration
        var parkedAt: Duration
        /// Who reads here wants what follows, too.
        var readsOn = true
    }

    package internal(set) var coverage: Coverage
    /// False once the origin has answered a range with the whole body: then one stream from zero serves all.
    package var acceptsRanges: Bool
    /// The origin has another version now: what is covered can be read, nothing more can come.
    package internal(set) var isSuperseded = false
    /// How far a cursor's readahead may grow: what lies ahead of a few readers has to fit into the cache.
    package var windowLimit: Int64
    /// Longer than the kernel takes to ask again, shorter than a person.
    static let echo = Duration.milliseconds(300)
    package var openHandles = 0
    package var lastClose: Duration = .zero

    var streams: [Stream] = []
    var waiting: [WaitingRead] = []
    var cursors: [Cursor] = []
    var pace = Pace()
    /// No readahead before this: it failed a moment ago.
    var quietUntil: Duration = .zero
    var speculativeFailures = 0
    /// Reads that their deadline ended a moment ago: the kernel asks for the pages of a failed readahead once more, and
    /// the program that waits is to hear of it now.
    var timedOut: [(range: ByteRange, at: Duration, failure: ReadFailure)] = []
    private var nextStream: StreamID = 1

    /// - Parameter cacheCap: bytes; readahead takes an eighth of it at most.
    package init(_ map: BlockMap, acceptsRanges: Bool = true, cacheCap: Int64 = .max) {
        coverage = Coverage(map)
        windowLimit = min(Readahead.most, cacheCap / 8)
        self.acceptsRanges = acceptsRanges
    }

    package var length: Int64 { coverage.length }
    package var isIdle: Bool { streams.isEmpty && waiting.isEmpty }

    // MARK: Reading

    /// The hit path. - Returns: true where every byte of `range` is there. Then `readAhead` is to be called if
    /// `wantsReadahead` says so.
    package mutating func hit(_ range: ByteRange, now: Duration) -> Bool {
        guard coverage.covers(range) else { return false }
        if !coverage.isComplete { touchCursor(range, now: now) }
        return true
    }

    /// True where the cursor that read last has too little before it.
    package var wantsReadahead: Bool {
        guard !coverage.isComplete, acceptsRanges, !isSuperseded, let cursor = cursors.last else { return false }
        return cursor.isRunningDry && cursor.frontier < length && cursor.lastRead >= quietUntil
    }

    /// A read that was no hit: it waits, and what has to be fetched for it is started.
    /// - Parameter readsOn: false: these bytes alone are fetched, in whole blocks.
    package mutating func park(
        _ id: ReadID, _ range: ByteRange, deadline: Duration, now: Duration, readsOn: Bool = true
    ) -> [Action] {
        // The bytes may have come since they were missed.
        if coverage.covers(range) { return [.complete(id)] }
        if isSuperseded { return [.fail(id, .changed)] }
        timedOut.removeAll { now - $0.at >= Self.echo }
        if let echo = timedOut.last(where: { $0.range.overlaps(range) }) { return [.fail(id, echo.failure)] }
        waiting.append(WaitingRead(id: id, range: range, deadline: deadline, parkedAt: now, readsOn: readsOn))
        guard readsOn else { return planDemanded() }
        touchCursor(range, now: now)
        return planDemanded() + readAhead()
    }

    /// A request that runs already, made before anything was known of the resource, becomes a stream.
    package mutating func adopt(_ range: ByteRange) -> StreamID {
        let id = nextStream
        nextStream += 1
        streams.append(Stream(id: id, position: range.lower, end: min(range.upper, length)))
        return id
    }

    /// The request of a stream was sent: from here its time to the head counts.
    package mutating func requested(_ id: StreamID, now: Duration) { pace.started(id, now: now) }

    /// Nobody waits for this read any more. What was asked for it goes on: its bytes are kept.
    package mutating func abandon(_ id: ReadID) {
        waiting.removeAll { $0.id == id }
    }

    /// Starts what keeps the cursor that read last from running dry.
    package mutating func readAhead() -> [Action] {
        guard wantsReadahead, let last = cursors.indices.last else { return [] }
        let horizon = min(length, cursors[last].position + cursors[last].window)
        let frontier = firstUnplanned(from: cursors[last].frontier, limit: horizon)
        cursors[last].frontier = frontier
        guard cursors[last].isRunningDry, frontier < length else { return [] }
        cursors[last].grow(atMost: windowLimit)
        return startStream(at: frontier, count: cursors[last].window, isDemanded: false)
    }

    /// Moves the cursor that goes on at `range` to the end of the list, where the latest is; makes one where none does.
    private mutating func touchCursor(_ range: ByteRange, now: Duration) {
        if let index = cursors.lastIndex(where: { $0.continues(with: range) }) {
            cursors[index].advance(to: range, now: now)
            if index != cursors.count - 1 { cursors.swapAt(index, cursors.count - 1) }
        } else {
            if cursors.count == Readahead.cursorLimit {
                cursors.remove(at: cursors.indices.min { cursors[$0].lastRead < cursors[$1].lastRead }!)
            }
            cursors.append(Cursor(at: range, now: now))
        }
    }

    // MARK: Planning

    /// Makes sure that every missing byte somebody waits for is on its way.
    mutating func planDemanded() -> [Action] {
        var actions: [Action] = []
        for read in waiting {
            var offset = read.range.lower
            while true {
                offset = coverage.firstMissing(from: offset, limit: read.range.upper)
                guard offset < read.range.upper else { break }
                if let stream = streams.first(where: { serves($0, offset) }) {
                    offset = min(stream.end, read.range.upper)
                } else if acceptsRanges {
                    let count = max(read.range.upper - offset, read.readsOn ? Readahead.first : 0)
                    actions += startStream(at: offset, count: count, isDemanded: true)
                    offset = streams.last!.end
                } else {
                    actions += startStream(at: 0, count: length, isDemanded: true)
                    break
                }
            }
        }
        return actions
    }

    /// True where `offset` comes with this stream soon enough: waiting for it is no worse than a new request.
    private func serves(_ stream: Stream, _ offset: Int64) -> Bool {
        guard stream.position <= offset, offset < stream.end else { return false }
        return !acceptsRanges || offset - stream.position <= pace.joinDistance
    }

    /// First byte from `offset` on that is neither there nor on its way.
    private func firstUnplanned(from offset: Int64, limit: Int64) -> Int64 {
        var offset = offset
        while offset < limit {
            offset = coverage.firstMissing(from: offset, limit: limit)
            guard let stream = streams.first(where: { $0.position <= offset && offset < $0.end }) else { return offset }
            offset = stream.end
        }
        return min(offset, limit)
    }

    /// One range request around `offset`, which is missing: from the start of its block, so that whole blocks come, up
    /// to the next byte that is there or on its way. Without ranges: everything.
    private mutating func startStream(at offset: Int64, count: Int64, isDemanded: Bool) -> [Action] {
        var range = ByteRange(0, length)
        if acceptsRanges {
            range.lower = coverage.startOfGap(at: offset)
            for other in streams where other.end <= offset { range.lower = max(range.lower, other.end) }
            let wanted = offset + min(count, length - offset)
            range.upper = coverage.map.bytes(of: Int((wanted - 1) / BlockSize.block)).upper
            range.upper = coverage.firstCovered(from: offset, limit: range.upper)
            for other in streams where other.position > offset { range.upper = min(range.upper, other.position) }
            // An older stream on its way here ends where this one begins: no byte is fetched twice.
            for index in streams.indices where streams[index].position <= offset {
                streams[index].end = min(streams[index].end, max(range.lower, streams[index].position))
            }
        }
        let id = nextStream
        nextStream += 1
        streams.append(Stream(id: id, position: range.lower, end: range.upper))
        return [.start(id, range, isDemanded: isDemanded)]
    }
}
