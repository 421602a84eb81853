/// Pauses of streams: bytes that a read waits for go before bytes that are fetched ahead, and a body that is sent as a
/// whole does not run away from its reader.
extension Ledger {
    /// Shorter rests are over before a pause would be felt.
    static let worthHolding = 2 * BlockSize.block
    /// A body that comes whole and has paused goes on when its reader has taken so much. A film takes a second or two
    /// for it; servers end a connection that takes nothing for 60 s (`send_timeout` of nginx, `TimeOut` of Apache).
    static let pauseLength = Readahead.near

    /// Whether this stream has to wait. Never, where somebody waits for its bytes.
    private func isHeld(_ stream: Stream, now: Duration) -> Bool {
        guard stream.end - stream.position > Self.worthHolding, stream.retryAt == nil,
            !waiting.contains(where: { isWaiting($0, for: stream) })
        else { return false }
        guard acceptsRanges else { return stream.position > reach(isPaused: stream.isPaused) }
        // What lies ahead of readers that wait is theirs; the rest is in their way. It is also in the way of a reader
        // that has just sought: what it asks for one after another comes sooner, also where it looks at some of it in
        // between.
        let seeking = cursors.last.flatMap { $0.isSeeking && now - $0.lastRead < Self.seekTime ? $0 : nil }
        guard seeking != nil || !waiting.isEmpty else { return false }
        if let seeking, isAhead(stream, of: seeking.start, seeking.position, by: window(of: seeking)) { return false }
        // Nor is it in the way where another reader has read before it since.
        if let seeking, waiting.isEmpty,
            cursors.contains(where: {
                $0.lastRead > seeking.began && isAhead(stream, of: $0.start, $0.position, by: window(of: $0))
            })
        {
            return false
        }
        return !waiting.contains { isAhead(stream, of: $0.range.lower, $0.range.upper, by: windowLimit) }
    }

    private func isAhead(_ stream: Stream, of lower: Int64, _ upper: Int64, by window: Int64) -> Bool {
        stream.end > lower && stream.position <= upper + 2 * max(window, Readahead.early)
    }

    /// A player that has not asked for more by then has its picture.
    private static let seekTime = Duration.milliseconds(500)

    /// How far a body that comes as a whole may get. What is let go of there can only be had from the first byte again,
    /// so it goes on for a reader that has proven itself, if the cache can hold it all.
    private func reach(isPaused: Bool) -> Int64 {
        let isProven = cursors.contains { $0.isProven }
        if isProven, fitsCache { return length }
        let lead = isProven ? windowLimit : min(windowLimit, Readahead.early)
        // Of who read last: nobody is on the way to a place that was left, or only looked at.
        let position = cursors.last?.position ?? 0
        return position + (isPaused ? max(lead / 2, lead - Self.pauseLength) : lead)
    }

    /// After bytes of this stream. - Returns: whether it pauses from here on.
    mutating func hold(_ id: StreamID, now: Duration) -> Bool {
        guard let index = streams.firstIndex(where: { $0.id == id }) else { return false }
        streams[index].isPaused = isHeld(streams[index], now: now)
        return streams[index].isPaused
    }

    /// Lets streams go on that nothing holds back any more.
    mutating func resumeHeld(now: Duration) -> [Action] {
        var actions: [Action] = []
        for index in streams.indices where streams[index].isPaused && !isHeld(streams[index], now: now) {
            streams[index].isPaused = false
            streams[index].lastProgress = now
            pace.resumed(streams[index].id, now: now)
            actions.append(.resume(streams[index].id))
        }
        return actions
    }

    /// Stops bodies that have run past all readers: a new one is about to start from the first byte.
    mutating func dropOvertaken() -> [Action] {
        let reach = 2 * max(windowLimit, Readahead.early)
        let gone = streams.filter { stream in
            !waiting.contains { isWaiting($0, for: stream) }
                && !cursors.contains { $0.position <= stream.position && stream.position <= $0.position + reach }
        }
        drop { stream in gone.contains { $0.id == stream.id } }
        return gone.map { .stop($0.id) }
    }
}
