/// One range request that fills a version from some offset onward.
struct Stream: Sendable {
    enum Purpose: Sendable {
        /// A read waited for its first byte.
        case demand
        case readahead
        /// Fetched before any read comes there, until `Ledger.cancelPrebuffer`.
        case prebuffer
        /// A command wants the whole file, until `Ledger.cancelPrefetch`.
        case prefetch
    }

    let id: Ledger.StreamID
    /// Where the next byte goes.
    fileprivate(set) var position: Int64
    /// No byte from here on is wanted of it. Lowered when a later stream takes over; never raised.
    fileprivate(set) var end: Int64
    let purpose: Purpose
    /// Its last sign of life, or when it was asked for.
    fileprivate(set) var lastProgress: Duration
    /// The stream of which this is a second try, or the second try of this one, while both run: the first byte of
    /// either ends the other.
    fileprivate(set) var rival: Ledger.StreamID?
    /// It is a second try beside a stream that is not silent: of use at another place alone.
    fileprivate(set) var isBesideSlow = false
    /// Failures in a row without a byte of progress.
    fileprivate var attempts = 0
    fileprivate(set) var lastFailure: OriginFailure?
    /// Set while it waits for its next attempt.
    fileprivate(set) var retryAt: Duration?
    /// Its request was asked to pause.
    fileprivate(set) var isPaused = false
    /// Its request goes before those that fetch ahead.
    fileprivate(set) var isDemanded: Bool
    /// Its request has left the queue, so that its silence is the origin's.
    fileprivate(set) var isSent = false
    /// When it was sent first, or when the last second try beside it failed; zero where it was sent before it became a
    /// stream.
    fileprivate var sentAt = Duration.zero

    /// Why its next request is made.
    var reason: OriginRequest.Reason {
        if attempts > 0 { return .retry }
        if rival != nil { return .hedge }
        switch purpose {
        case .demand: return .demand
        case .readahead: return .ahead
        case .prebuffer: return .nextItem
        case .prefetch: return .prefetch
        }
    }

    /// The bytes that it has yet to bring.
    var rest: ByteRange { ByteRange(position, max(position, end)) }

    func brings(_ offset: Int64) -> Bool { position <= offset && offset < end }
}

/// The requests under way for one version, with their pauses, second tries and retries.
///
/// A stream's legal life: requested → (head) running ⇄ paused → gone, or requested/running → failed → waiting for its
/// retry → requested again, at the byte where it stopped.
///
/// When a stream goes before it has brought all, its bytes are no longer on their way, and the readers' frontiers are
/// wrong: the `Planner` corrects them.
struct Streams: Sendable {
    let present: any PresentBytes
    /// Oldest first.
    private(set) var all: [Stream] = []
    private(set) var pace = Pace()
    /// False once the origin has answered a range with the whole body, until it answers an open with a range: then one
    /// stream from zero serves all.
    private(set) var acceptsRanges: Bool
    /// Why a version that had an open end is not fetched again: its body broke off, or is not kept. nil while the body
    /// runs, and where the version is like any other now.
    private(set) var brokenOff: ReadFailure?
    private var nextID: Ledger.StreamID = 1
    /// Requests begin and end at multiples of this many bytes, as far as the bytes up to there are missing.
    let alignment: Int64

    /// - Parameter alignment: a power of two, of one block or more.
    init(_ present: any PresentBytes, acceptsRanges: Bool, alignment: Int64 = BlockSize.block) {
        self.present = present
        self.alignment = alignment
        self.acceptsRanges = acceptsRanges && !present.isOpenEnded
    }

    var isEmpty: Bool { all.isEmpty }
    /// The one body of the version has begun, and cannot be had again.
    var comesOnce: Bool { present.isOpenEnded || brokenOff != nil }

    subscript(id: Ledger.StreamID) -> Stream? { all.first { $0.id == id } }

    private func index(of id: Ledger.StreamID) -> Int? { all.firstIndex { $0.id == id } }

    // MARK: Starting

    /// - Parameter isSent: its request has left the queue already.
    mutating func add(
        _ range: ByteRange, _ purpose: Stream.Purpose, now: Duration, isSent: Bool = false
    ) -> Ledger.StreamID {
        defer { nextID += 1 }
        all.append(
            Stream(
                id: nextID, position: range.lower, end: range.upper, purpose: purpose, lastProgress: now,
                isDemanded: purpose == .demand, isSent: isSent))
        return nextID
    }

    /// Makes one range request around `offset`, which is missing: from the start of its piece (`alignment`), so that
    /// whole blocks come, up to the next byte that is there or on its way. Without ranges: everything.
    /// - Parameter limit: no byte from here on is asked for.
    /// - Returns: the action that starts it, where it ends, and whether bytes of an older stream are no longer on their
    ///   way; nil where the byte at `offset` has come since it was found missing: a request that was let go of still
    ///   writes.
    mutating func start(
        at offset: Int64, count: Int64, _ purpose: Stream.Purpose, now: Duration, upTo limit: Int64 = .max
    ) -> (action: Ledger.Action, end: Int64, isCut: Bool)? {
        let length = present.length
        var range = ByteRange(0, length)
        var isCut = false
        if acceptsRanges {
            range.lower = startOfPiece(at: offset)
            let wanted = offset + min(count, length - offset)
            let last = (wanted - 1) / alignment * alignment
            range.upper = last + min(alignment, length - last)
            range.upper = present.firstCovered(from: offset, limit: min(range.upper, limit))
            for other in all where other.position > offset { range.upper = min(range.upper, other.position) }
            guard range.upper > offset else { return nil }
            // An older stream on its way here ends where this one begins: no byte is fetched twice.
            for index in all.indices where all[index].position <= offset && all[index].end > range.lower {
                // Its bytes behind the new one are not on their way any more.
                if all[index].end > range.upper { isCut = true }
                all[index].end = max(range.lower, all[index].position)
            }
        }
        guard !range.isEmpty else { return nil }
        let id = add(range, purpose, now: now)
        return (.start(id, range, isDemanded: purpose == .demand), range.upper, isCut)
    }

    /// A read waits for bytes of this stream. - Returns: whether its request has to be promoted.
    mutating func demand(_ id: Ledger.StreamID) -> Bool {
        // One that was sent stands in line again where it is redirected.
        guard let index = index(of: id), !all[index].isDemanded else { return false }
        all[index].isDemanded = true
        return true
    }

    // MARK: What comes of them

    /// The request was sent. - Parameter isTimed: false where it was sent before it was a stream.
    mutating func sent(_ id: Ledger.StreamID, isTimed: Bool, now: Duration) {
        guard let index = index(of: id) else { return }
        if isTimed, !all[index].isSent { pace.started(id, now: now) }
        if !all[index].isSent { all[index].sentAt = now }
        all[index].isSent = true
        all[index].lastProgress = now
    }

    /// The head was good. - Returns: false where there is no such stream.
    mutating func began(_ id: Ledger.StreamID, now: Duration) -> Bool {
        guard let index = index(of: id) else { return false }
        pace.head(of: id, now: now)
        all[index].lastProgress = now
        return true
    }

    /// The origin sends the whole body in answer to this stream: no other is needed.
    mutating func becomeWhole(_ id: Ledger.StreamID) {
        guard let index = index(of: id) else { return }
        acceptsRanges = false
        all[index].position = 0
        all[index].end = present.length
    }

    /// The origin has answered with a range: the whole body before was that of another server, or of a moment. A stream
    /// that brings it goes on.
    mutating func acceptRanges() { acceptsRanges = !comesOnce }

    /// Bytes came, also of a stream that is gone. - Returns: false where it is gone.
    mutating func arrived(_ id: Ledger.StreamID, _ range: ByteRange, now: Duration) -> Bool {
        pace.bytes(range.count, of: id, now: now)
        guard let index = index(of: id) else { return false }
        all[index].position = range.upper
        all[index].lastProgress = now
        all[index].attempts = 0
        all[index].lastFailure = nil
        return true
    }

    /// The request is over. - Returns: its stream, which stays until `remove`; nil where it is gone already.
    mutating func over(_ id: Ledger.StreamID) -> Stream? {
        pace.ended(id)
        return self[id]
    }

    mutating func breakOff(_ failure: ReadFailure) { brokenOff = failure }

    /// The stream failed. - Parameter deadline: of the read that waits longest for it.
    /// - Returns: whether it tries again before then.
    mutating func retry(
        _ id: Ledger.StreamID, after failure: OriginFailure, before deadline: Duration, now: Duration, random: Double
    ) -> Bool {
        guard let index = index(of: id) else { return false }
        all[index].attempts += 1
        all[index].lastFailure = failure
        guard let pause = RetryPolicy.pause(after: failure, attempt: all[index].attempts, random: random),
            now + pause < deadline
        else { return false }
        if !acceptsRanges { all[index].position = 0 }
        all[index].retryAt = now + pause
        return true
    }

    /// Starts the streams again whose pause after a failure is over.
    mutating func startRetries(now: Duration) -> [Ledger.Action] {
        var actions: [Ledger.Action] = []
        for index in all.indices {
            guard let due = all[index].retryAt, due <= now else { continue }
            all[index].retryAt = nil
            all[index].isSent = false
            all[index].lastProgress = now
            actions.append(.start(all[index].id, all[index].rest, isDemanded: true))
        }
        return actions
    }

    /// Removes a stream that has brought all.
    mutating func remove(_ id: Ledger.StreamID) { all.removeAll { $0.id == id } }

    /// Removes streams and ends their requests.
    mutating func stop(where isGone: (Stream) -> Bool) -> [Ledger.Action] {
        let gone = all.filter(isGone)
        all.removeAll { stream in gone.contains { $0.id == stream.id } }
        return gone.map { .stop($0.id) }
    }

    // MARK: Pauses

    /// - Returns: whether the stream pauses from here on.
    mutating func hold(_ id: Ledger.StreamID, if isHeld: (Stream) -> Bool) -> Bool {
        guard let index = index(of: id) else { return false }
        all[index].isPaused = isHeld(all[index])
        return all[index].isPaused
    }

    /// Lets paused streams go on.
    mutating func resume(now: Duration, unless isHeld: (Stream) -> Bool) -> [Ledger.Action] {
        var actions: [Ledger.Action] = []
        for index in all.indices where all[index].isPaused && !isHeld(all[index]) {
            all[index].isPaused = false
            all[index].lastProgress = now
            pace.resumed(all[index].id, now: now)
            actions.append(.resume(all[index].id))
        }
        return actions
    }

    // MARK: Second tries beside silent streams

    /// Starts a second try for each read whose stream has shown no sign of life for unusually long.
    /// - Parameter hasMirror: a second try asks another origin: one is started sooner, and also beside a stream whose
    ///   bytes come too slowly for the read. That one then has to end first: it is not the better one of the two
    ///   because it brings its next few bytes.
    mutating func hedge(for waiting: WaitingReads, hasMirror: Bool = false, now: Duration) -> [Ledger.Action] {
        guard acceptsRanges else { return [] }
        let limit = hasMirror ? pace.mirrorAfter : pace.hedgeAfter
        var actions: [Ledger.Action] = []
        for read in waiting.all {
            let offset = present.firstMissing(from: read.range.lower, limit: read.range.upper)
            let serving = all.indices.filter { all[$0].brings(offset) }
            guard serving.count == 1, let index = serving.first else { continue }
            let stream = all[index]
            guard stream.rival == nil, stream.retryAt == nil, stream.isSent,
                case let isSilent = now - stream.lastProgress >= limit,
                isSilent || hasMirror && now - max(read.parkedAt, stream.sentAt) >= limit
            else { continue }
            // The gathered bytes of its block are there; no read waits for the bytes before them.
            let lower = max(stream.position, present.startOfGap(at: offset))
            let range = ByteRange(lower, min(stream.end, max(read.range.upper, lower + BlockSize.block)))
            let id = add(range, .demand, now: now)
            all[all.count - 1].rival = stream.id
            all[all.count - 1].isBesideSlow = !isSilent
            if isSilent { all[index].rival = id }
            actions.append(.start(id, range, isDemanded: true))
        }
        return actions
    }

    /// A stream brought a byte. - Returns: its rival, which has to end; nil where none runs.
    mutating func takeRival(of id: Ledger.StreamID) -> Ledger.StreamID? {
        guard let index = index(of: id), let rival = all[index].rival else { return nil }
        all[index].rival = nil
        guard self[rival] != nil else { return nil }
        pace.ended(rival)
        return rival
    }

    /// A stream failed. - Returns: whether its rival goes on in its place.
    mutating func leaveToRival(_ id: Ledger.StreamID, now: Duration) -> Bool {
        guard let rival = self[id]?.rival, let other = index(of: rival) else { return false }
        all[other].rival = nil
        // Its own time begins now: it was asked for while the other had been silent for long.
        all[other].lastProgress = now
        all[other].sentAt = now
        return true
    }
}
