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

    /// Seconds for which the neediest player of the file can go on with what is there: none where it waits, infinity
    /// where all is there, nil if there is no player.
    package func secondsAhead(now: Duration) -> Double? {
        planner.cursors.all.filter { isPlaying($0, now) }.map(secondsAhead).min()
    }

    /// Whether who reads on here may be a player, which a wait would make stand. A copy is none, once it has read more
    /// than a player's buffer holds.
    package func mayPlay(at range: ByteRange) -> Bool {
        planner.cursors.all.contains { $0.isPlayer && $0.continues(with: range) }
    }

    /// Since when the read waits that has waited longest, nil if none waits.
    package var waitsSince: Duration? { planner.waiting.all.map(\.parkedAt).min() }

    private func isPlaying(_ cursor: Cursor, _ now: Duration) -> Bool {
        (limits.isScan ? cursor.isPaced : cursor.isPlayer) && (now - cursor.lastRead < Self.memory || waits(cursor))
    }

    private func waits(_ cursor: Cursor) -> Bool { planner.waiting.all.contains { cursor.continues(with: $0.range) } }

    private func secondsAhead(of cursor: Cursor) -> Double {
        if waits(cursor) { return 0 }
        let enough = Int64(min(cursor.playingRate, 1e12) * Readahead.seconds)
        let limit = min(length, cursor.position + min(enough, Readahead.longest))
        let missing = present.firstMissing(from: min(cursor.position, length), limit: limit)
        return missing >= limit ? .infinity : Double(missing - cursor.position) / cursor.playingRate
    }
}
