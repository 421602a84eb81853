import Synchronization

/// Whose bytes a request brings: the first have the line before the others.
package enum LineRank: UInt8, Sendable, AtomicRepresentable, CaseIterable {
    case player
    /// The first bytes of a file for a program that does not scan: a player may begin.
    case beginner
    /// It may be a player, and takes more than its film needs, or shows no pace: its buffer fills, or it copies.
    case filler
    /// A program that is no player, or not yet.
    case reader
    /// A command fetches a file that no program waits for.
    case command

    /// Whether its bytes are held back for no need.
    package var isFirst: Bool { self == .player || self == .beginner }
}

/// Decides how much of the line that all requests of a mount share is left to those that no player waits for: bytes and
/// needs go in, a pause comes out.
///
/// A player that can go on for `well` seconds with the bytes that are there leaves all of it to the others. Below that
/// they get a part of what the line was seen to bring, which falls with the player's time ahead, so that the two meet:
/// the player's time neither falls further nor takes more from the others than it needs. They never get nothing.
///
/// One that only may be a player is among the others for those that surely are.
///
/// What commands fetch has the least of the line also while any program waits: a film that begins is no player yet.
package struct LineShare: Sendable {
    private struct Need {
        var ahead: Double
        /// Its reader surely is a player, or begins.
        var isSure: Bool
        var end: Duration
    }

    /// Seconds ahead from which a player leaves the whole line to others, and at which they have the least of it.
    private static let well = 10.0
    private static let poor = 2.0
    /// A part of the line, and in bytes a second: what opens of other files cost is hardly felt, also where the line
    /// was seen to bring little because nobody asked for more. Each that may be a player gets as much.
    private static let least = 1.0 / 16
    private static let leastRate = 1024.0 * 1024
    /// The part of the line that those get so together.
    private static let mostOfFillers = 1.0 / 2
    private static let leastRateOfCommands = 64.0 * 1024
    /// A player for which bytes are fetched reports all the time; one that is silent for longer needs none.
    private static let memory = Duration.seconds(1)
    private static let epoch = Duration.milliseconds(250)
    /// The part of the line's best rate that counts after an epoch that brought less: a line that has become slower is
    /// known as such within half a minute.
    private static let fading = 0.99
    /// Seconds for which commands get nothing at all when a program begins to wait: a film has as many ahead by then
    /// where the line brings twice what it takes.
    private static let hush = 2.0

    private var needs: [ObjectIdentifier: Need] = [:]
    /// Until then a program counts as waiting.
    private var readerWaitsUntil = Duration.zero
    /// Bytes a second that the line has brought.
    private var line = 0.0
    private var countedFrom = Duration.zero
    private var bytes: Int64 = 0
    /// What requests of no player may take: each the bytes of its own rank and of those below.
    private var fillers = TokenBucket()
    private var others = TokenBucket()
    private var commands = TokenBucket()
    /// Bytes a second that the user lets through, nil for all.
    private var limit: Double?

    /// No player is known.
    package init() {}

    // MARK: Events

    /// How a file stands for which bytes are fetched.
    /// - Parameters:
    ///   - ahead: seconds that it can go on with what is there, nil if it has no player, or all of it is there.
    ///   - rank: of its requests.
    package mutating func tell(_ file: ObjectIdentifier, ahead: Double?, by rank: LineRank = .player, now: Duration) {
        needs[file] = ahead.flatMap {
            $0 < Self.well ? Need(ahead: $0, isSure: rank.isFirst, end: now + Self.memory) : nil
        }
        adjust(now)
    }

    /// A program that is no player waits for bytes. - Returns: the ranks that make way at once for it: commands where
    /// none has waited for a while, and fillers for a beginner.
    package mutating func readerWaits(as rank: LineRank = .reader, now: Duration) -> Set<LineRank> {
        adjust(now)
        let isNews = now >= readerWaitsUntil
        let isHushed = commands.pause(now: now) != nil
        readerWaitsUntil = now + Self.memory
        adjust(now)
        if isNews, !isHushed, let rate = commands.rate { commands.took(Int64(Self.hush * rate), now: now) }
        var cleared: Set<LineRank> = []
        if isNews { cleared.insert(.command) }
        if rank == .beginner { cleared.insert(.filler) }
        return cleared
    }

    /// Bytes of any body came. - Parameter charged: of these, the bytes that the request has to pay for.
    package mutating func took(_ count: Int64, charged: Int64, by rank: LineRank = .reader, now: Duration) {
        pay(charged, by: rank, now: now)
        bytes += count
        let elapsed = now - countedFrom
        guard elapsed >= Self.epoch else { return }
        // A line that nothing used shows nothing.
        if elapsed < Self.epoch * 4 { line = max(Double(bytes) / elapsed.seconds, line * Self.fading) }
        (countedFrom, bytes) = (now, 0)
    }

    /// Bytes are paid for before they come; below zero: those that did not come are given back.
    package mutating func pay(_ count: Int64, by rank: LineRank = .reader, now: Duration) {
        adjust(now)
        if !rank.isFirst { fillers.took(count, now: now) }
        if rank == .reader || rank == .command { others.took(count, now: now) }
        if rank == .command { commands.took(count, now: now) }
    }

    // MARK: Answers

    /// The time for which a request has to wait, nil if it may take bytes.
    /// - Parameter limit: bytes a second of all together, nil if none.
    package mutating func pause(of rank: LineRank = .reader, now: Duration, limit: Double? = nil) -> Duration? {
        self.limit = limit
        adjust(now)
        switch rank {
        case .player, .beginner: return nil
        case .filler: return fillers.pause(now: now)
        // Fillers pay for themselves: they would take whatever is paid off, and leave a reader nothing.
        case .reader: return others.pause(now: now)
        case .command: return [others.pause(now: now), commands.pause(now: now)].compactMap { $0 }.max()
        }
    }

    /// Whether another file needs the line, so that this one fetches nothing that it could do without if no player
    /// reads it.
    package func isContended(besides file: ObjectIdentifier, now: Duration) -> Bool {
        needs.contains { $0 != file && $1.end > now }
    }

    /// Bytes a second for those of a rank and below, nil for all that come.
    private mutating func rate(of rank: LineRank, _ now: Duration) -> Double? {
        let isWaited = rank == .command && now < readerWaitsUntil
        guard let ahead = isWaited ? 0 : neediest(now, isSure: rank == .filler) else { return nil }
        let part = max(Self.least, (ahead - Self.poor) / (Self.well - Self.poor))
        let leastRate = rank == .command ? Self.leastRateOfCommands : Self.leastRate
        let each = min(leastRate, limit.map { $0 * Self.least } ?? .infinity)
        guard rank == .filler else { return max(part * line, each) }
        let all = each * Double(needs.values.count { !$0.isSure })
        return max(part * line, each, min(all, line * Self.mostOfFillers))
    }

    /// - Parameter isSure: of those alone that surely are players.
    private mutating func neediest(_ now: Duration, isSure: Bool) -> Double? {
        guard !needs.isEmpty else { return nil }
        // Asked several times for each batch of bytes.
        if needs.contains(where: { $1.end <= now }) { needs = needs.filter { $1.end > now } }
        return needs.values.filter { $0.isSure || !isSure }.map(\.ahead).min()
    }

    private mutating func adjust(_ now: Duration) {
        fillers.change(to: rate(of: .filler, now), now: now)
        others.change(to: rate(of: .reader, now), now: now)
        commands.change(to: rate(of: .command, now), now: now)
    }
}
