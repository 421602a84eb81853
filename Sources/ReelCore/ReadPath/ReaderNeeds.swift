/// Decides which streams readers need at one moment: rules without state of their own.
///
/// Bytes that a read waits for go before bytes that are fetched ahead, and a body that comes whole does not run away
/// from its reader.
struct ReaderNeeds {
    /// Shorter rests are over before a pause would be felt.
    private static let worthHolding = 2 * BlockSize.block
    /// A body that comes whole and has paused goes on when its reader has taken so much. A film takes a second or two
    /// for it; servers end a connection that takes nothing for 60 s (`send_timeout` of nginx, `TimeOut` of Apache).
    private static let pauseLength = Readahead.near
    /// A player that has not asked for more by then has its picture.
    private static let seekTime = Duration.milliseconds(500)

    private let cursors: Cursors
    private let waiting: WaitingReads
    private let acceptsRanges: Bool
    private let length: Int64
    private let now: Duration
    private let isPrefetched: Bool

    /// - Parameters:
    ///   - length: of the version, in bytes.
    ///   - isPrefetched: a command wants all of the file.
    init(
        _ cursors: Cursors, _ waiting: WaitingReads, acceptsRanges: Bool, length: Int64, now: Duration,
        isPrefetched: Bool = false
    ) {
        self.isPrefetched = isPrefetched
        self.cursors = cursors
        self.waiting = waiting
        self.acceptsRanges = acceptsRanges
        self.length = length
        self.now = now
    }

    /// Whether this stream has to pause. Never, where a read waits for its bytes.
    func isHeld(_ stream: Stream) -> Bool {
        guard stream.end - stream.position > Self.worthHolding, stream.retryAt == nil, !waiting.wait(for: stream)
        else { return false }
        guard acceptsRanges else { return !isPrefetched && stream.position > reach(isPaused: stream.isPaused) }
        // A stream that lies ahead of waiting readers is theirs; any other is in their way. It is also in the way of a
        // reader that has just sought: the bytes that it asks for one after another come sooner, also where it looks at
        // some of them in between.
        let seeking = cursors.last.flatMap { $0.isSeeking && now - $0.lastRead < Self.seekTime ? $0 : nil }
        guard seeking != nil || !waiting.isEmpty else { return false }
        if let seeking {
            if isAhead(stream, of: seeking) { return false }
            // Nor is it in the way if it runs ahead of another reader, which has read since the seek began.
            let hasOtherReader = cursors.all.contains { $0.lastRead > seeking.began && isAhead(stream, of: $0) }
            if waiting.isEmpty, hasOtherReader { return false }
        }
        return !waiting.all.contains {
            isAhead(stream, of: $0.range.lower, $0.range.upper, by: cursors.windowLimit)
        }
    }

    private func isAhead(_ stream: Stream, of cursor: Cursor) -> Bool {
        isAhead(stream, of: cursor.start, cursor.position, by: cursors.window(of: cursor))
    }

    private func isAhead(_ stream: Stream, of lower: Int64, _ upper: Int64, by window: Int64) -> Bool {
        stream.end > lower && stream.position <= upper + 2 * max(window, Readahead.early)
    }

    /// The offset up to which a body that comes whole may run. A body that is let go of comes from the first byte
    /// again, so it goes on for a reader that has proven itself, if the cache can hold it all.
    private func reach(isPaused: Bool) -> Int64 {
        let isProven = cursors.anyProven
        if isProven, cursors.fitCache { return length }
        let lead = isProven ? cursors.windowLimit : min(cursors.windowLimit, Readahead.early)
        // Ahead of the last reader: a place that was left, or only looked at, does not count.
        let position = cursors.last?.position ?? 0
        return position + (isPaused ? max(lead / 2, lead - Self.pauseLength) : lead)
    }

    /// Whether a body has run past all readers, so that it brings none of the bytes that are read next.
    func isOvertaken(_ stream: Stream) -> Bool {
        let reach = 2 * max(cursors.windowLimit, Readahead.early)
        return !waiting.wait(for: stream)
            && !cursors.all.contains { $0.position <= stream.position && stream.position <= $0.position + reach }
    }

    /// Whether a stream goes on: while a read waits for it, while its reader is there, and for some seconds after the
    /// last close. A reader that has jumped away has two seconds to come back; one that waits at its place is there.
    /// - Parameter lastClose: nil while a handle is open.
    func isNeeded(_ stream: Stream, lastClose: Duration?) -> Bool {
        if waiting.wait(for: stream) { return true }
        if stream.retryAt != nil { return false }
        // `Ledger.cancelPrefetch` ends it.
        if stream.purpose == .prefetch { return true }
        // It is short, or `Ledger.cancelPrebuffer` ends it; a body that comes whole is neither, and may pause.
        if stream.purpose == .prebuffer, acceptsRanges { return true }
        if let lastClose { return now - lastClose < Ledger.linger }
        let rest = stream.end - stream.position
        if !acceptsRanges || rest <= Self.worthHolding { return true }
        // A program that has opened the file is about to read it: on a busy machine that takes a moment.
        if cursors.all.isEmpty, rest <= Self.pauseLength { return true }
        // A paused player comes back to its place; one that waits elsewhere has left it.
        let latest = waiting.isEmpty ? cursors.all.map(\.lastRead).max() ?? now : now
        return cursors.all.contains { cursor in
            (latest - cursor.lastRead < .seconds(2) || waiting.wait(at: cursor.position))
                && cursor.position < stream.end
                && stream.position <= cursor.position + 2 * max(cursors.window(of: cursor), Readahead.early)
        }
    }

    /// Whether a stream can be let go of for others that have no connection. A body that comes whole cannot, unless it
    /// pauses: its bytes come only from the first one on again. Those of a version with an open end never come again.
    func isSpared(_ stream: Stream) -> Bool {
        (acceptsRanges || stream.isPaused) && length != BlockSize.openEnd
            && stream.end - stream.position > Self.worthHolding && !waiting.wait(for: stream)
    }
}
