/// The reads that wait for bytes of one version, and those that failed at their deadline a moment ago.
struct WaitingReads: Sendable {
    struct Read: Sendable {
        let id: Ledger.ReadID
        let range: ByteRange
        let deadline: Duration
        let parkedAt: Duration
        /// The reader wants the bytes behind `range`, too.
        let readsOn: Bool
    }

    /// Longer than the kernel takes to ask again, shorter than a person.
    private static let echo = Duration.milliseconds(300)
    /// Thousands of reads may expire at the same moment, and each read that parks looks at all of them.
    private static let mostExpired = 256

    private let present: any PresentBytes
    /// Oldest first.
    private(set) var all: [Read] = []
    /// The kernel asks for the pages of a failed readahead once more, and the program that waits has to hear of the
    /// failure at once.
    private var expired: [(range: ByteRange, at: Duration, failure: ReadFailure)] = []

    init(_ present: any PresentBytes) { self.present = present }

    var isEmpty: Bool { all.isEmpty }

    /// Whether a read that begins or ends at this place, or goes over it, waits.
    func wait(at position: Int64) -> Bool { all.contains { $0.range.lower <= position && position <= $0.range.upper } }

    /// Whether a read keeps the reader waiting that goes on at `range`, besides that one.
    func keep(readerAt range: ByteRange, besides id: Ledger.ReadID? = nil) -> Bool {
        var index = 0
        while index < all.count {
            let read = all[index]
            if read.id != id, abs(read.range.lower - range.lower) <= 2 * Readahead.near { return true }
            index += 1
        }
        return false
    }

    mutating func add(_ read: Read) { all.append(read) }

    mutating func remove(_ id: Ledger.ReadID) { all.removeAll { $0.id == id } }

    // MARK: Ends of reads

    /// Removes the reads that overlap `range` and whose bytes are all there.
    mutating func complete(_ range: ByteRange = ByteRange(0, .max)) -> [Ledger.Action] {
        var actions: [Ledger.Action] = []
        all.removeAll { read in
            guard read.range.overlaps(range), present.covers(read.range) else { return false }
            actions.append(.complete(read.id))
            return true
        }
        return actions
    }

    mutating func fail(_ ids: [Ledger.ReadID], _ failure: ReadFailure) -> [Ledger.Action] {
        all.removeAll { ids.contains($0.id) }
        return ids.map { .fail($0, failure) }
    }

    /// Fails the reads of a stream that is given up.
    mutating func fail(_ reads: [Read], of failure: OriginFailure, now: Duration) -> [Ledger.Action] {
        for read in reads {
            // The second time may take the whole deadline: both together are not to be over it by more than this.
            let isLate = now - read.parkedAt > .seconds(1)
            if failure == .timedOut || isLate { expire(read.range, failure.meaning.read, now: now) }
        }
        return fail(reads.map(\.id), failure.meaning.read)
    }

    /// Ends the reads whose deadline has passed.
    mutating func endLate(_ streams: Streams, now: Duration) -> [Ledger.Action] {
        var actions: [Ledger.Action] = []
        for read in all where read.deadline <= now {
            let end = present.isOpenEnded ? present.firstMissing(from: read.range.lower, limit: read.range.upper) : 0
            if end > read.range.lower {
                actions.append(.completeInPart(read.id, ByteRange(read.range.lower, end)))
                continue
            }
            let cause = streams.all.first { isWaiting(read, for: $0) }?.lastFailure
            let failure = cause?.meaning.read ?? .timedOut
            expire(read.range, failure, now: now)
            actions.append(.fail(read.id, failure))
        }
        all.removeAll { $0.deadline <= now }
        return actions
    }

    // MARK: Second tries

    /// Remembers a read that failed at its deadline: a second try that follows at once fails as well.
    mutating func expire(_ range: ByteRange, _ failure: ReadFailure = .timedOut, now: Duration) {
        if expired.count >= Self.mostExpired { expired.removeFirst() }
        expired.append((range, now, failure))
    }

    /// The failure of a read of these bytes a moment ago; nil where none has failed.
    mutating func recentFailure(of range: ByteRange, now: Duration) -> ReadFailure? {
        expired.removeAll { now - $0.at >= Self.echo }
        return expired.last { $0.range.overlaps(range) }?.failure
    }

    // MARK: What they wait for

    /// True where the stream has yet to bring a missing byte of the read.
    private func isWaiting(_ read: Read, for stream: Stream) -> Bool {
        guard read.range.overlaps(stream.rest) else { return false }
        let part = read.range.clamped(to: stream.rest)
        return present.firstMissing(from: part.lower, limit: part.upper) < part.upper
    }

    /// Whether any read waits for bytes of this stream.
    func wait(for stream: Stream) -> Bool { all.contains { isWaiting($0, for: stream) } }

    /// The reads that wait for bytes of this stream.
    func reads(waitingFor stream: Stream) -> [Read] { all.filter { isWaiting($0, for: stream) } }
}
