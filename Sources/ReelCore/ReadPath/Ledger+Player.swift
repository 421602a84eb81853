/// How the file's player fares, for the line that it shares with others (`LineShare`).
extension Ledger {
    /// A place where nobody has read for so long has no player any more.
    private static let memory = Duration.seconds(10)

    /// Whether one reads the file that has shown by its pace that it plays, for people who look. Whom the line serves
    /// first is decided sooner: `hasPlayer`.
    package func isShownPlaying(now: Duration) -> Bool {
        planner.cursors.all.contains { $0.isPaced && isPlaying($0, now) }
    }

    /// Whether a player reads the file, or may.
    package func hasPlayer(now: Duration) -> Bool { planner.cursors.all.contains { isPlaying($0, now) } }

    /// The rank of the file's requests, by the first of its readers.
    package func rank(now: Duration) -> LineRank {
        let playing = planner.cursors.all.filter { isPlaying($0, now) }
        if playing.contains(where: planner.cursors.isSure) { return .player }
        if planner.cursors.all.contains(where: { isBeginning($0, now) }) { return .beginner }
        return playing.isEmpty ? .reader : .filler
    }

    /// Seconds for which the neediest reader of the file's rank can go on with what is there: none where it waits,
    /// infinity where all is there, nil if there is no player.
    package func secondsAhead(now: Duration) -> Double? {
        let playing = planner.cursors.all.filter { isPlaying($0, now) }
        let sure = playing.filter(planner.cursors.isSure)
        if sure.isEmpty, planner.cursors.all.contains(where: { isBeginning($0, now) && waits($0) }) { return 0 }
        return (sure.isEmpty ? playing : sure).map(secondsAhead).min()
    }

    /// Whether who reads on here may be a player, which a wait would make stand. A copy is none, once it has read more
    /// than a player's buffer holds.
    package func mayPlay(at range: ByteRange) -> Bool {
        planner.cursors.all.contains { $0.isPlayer && $0.continues(with: range) }
    }

    /// Since when the read waits that has waited longest, nil if none waits.
    package var waitsSince: Duration? { planner.waiting.all.map(\.parkedAt).min() }

    /// A server that hands on films to many opens as many files as a scanner, which reads little of each.
    private func isPlaying(_ cursor: Cursor, _ now: Duration) -> Bool {
        guard isThere(cursor, now) else { return false }
        return cursor.isPaced || cursor.isPlayer && (!limits.isScan || cursor.run >= Readahead.proof)
    }

    private func isThere(_ cursor: Cursor, _ now: Duration) -> Bool {
        now - cursor.lastRead < Self.memory || waits(cursor)
    }

    /// Whether it may become a player: it reads the file's first bytes, and its program does not scan.
    private func isBeginning(_ cursor: Cursor, _ now: Duration) -> Bool {
        !limits.isScan && cursor.isFromHead && cursor.run < Readahead.early && isThere(cursor, now)
    }

    private func waits(_ cursor: Cursor) -> Bool { planner.waiting.all.contains { cursor.continues(with: $0.range) } }

    private func secondsAhead(of cursor: Cursor) -> Double {
        if waits(cursor) { return 0 }
        let rate = planner.cursors.playingRate(cursor)
        let enough = Int64(min(rate, 1e12) * Readahead.seconds)
        let limit = min(length, cursor.position + min(enough, Readahead.longest))
        let missing = present.firstMissing(from: min(cursor.position, length), limit: limit)
        return missing >= limit ? .infinity : Double(missing - cursor.position) / rate
    }
}
