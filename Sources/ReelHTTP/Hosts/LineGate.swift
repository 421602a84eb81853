import ReelCore
import ReelThreads

/// The bytes of a request's body that were paid for before they came (`LineGate`).
struct LinePayment {
    /// The request waits for its share of the line, and has not begun.
    private(set) var isGated = false
    /// Bytes that were paid for and have not come.
    private(set) var ahead: Int64 = 0

    mutating func waits() { isGated = true }
    mutating func goesOn() { isGated = false }
    mutating func paid(_ count: Int64) { ahead += count }
    mutating func came(_ count: Int64) { ahead = max(0, ahead - count) }
}

/// Holds requests back: those of a lower rank while their share of the line is used up, and all of them while a rate
/// that the user has set is. Those that have not begun wait, and those that run take no bytes.
///
/// Belongs to the transport's thread.
struct LineGate {
    /// Paid for at the start of a request, as so much is on its way before anything can hold it back.
    private static let advance = BlockSize.block
    /// So often the request that has got nothing for longest goes before all others, if that is as long: where players
    /// take all that a limit lets through, nothing waits forever.
    private static let patience = Duration.seconds(5)

    private let line: Line
    private var waiting: [Transfer] = []
    private var throttled: [Transfer] = []
    private var nextFavour = Duration.zero

    init(_ line: Line) { self.line = line }

    /// The time after which one of those held back may go on, nil if none is.
    var wait: Duration? {
        guard !waiting.isEmpty || !throttled.isEmpty else { return nil }
        let moment = now()
        return (waiting + throttled).map { pause($0, moment) ?? .zero }.min()
    }

    /// A request is about to begin. - Returns: the ranks whose requests have to make way for it: what their sockets
    /// still take would be as much as a film begins with.
    func cleared(by transfer: Transfer) -> Set<LineRank> {
        transfer.isWaitedFor ? line.readerWaits(as: transfer.rank, now: now()) : []
    }

    /// Whether a request may begin; if not, `takeReady` has it later.
    mutating func admits(_ transfer: Transfer) -> Bool {
        // A redirect is the same request.
        guard transfer.probe == nil, transfer.route.isFirst else { return true }
        let moment = now()
        guard pause(transfer, moment) == nil else {
            transfer.payment.waits()
            waiting.append(transfer)
            return false
        }
        payAdvance(for: transfer, moment)
        return true
    }

    /// Bytes of a body came.
    func took(_ count: Int, by transfer: Transfer) {
        let moment = now()
        let owed = max(0, Int64(count) - transfer.payment.ahead)
        transfer.payment.came(Int64(count))
        if owed > 0 { payLimits(owed, for: transfer, moment) }
        if transfer.isWaitedFor { line.readerWaits(as: transfer.rank, now: moment) }
        line.took(Int64(count), charged: owed, by: transfer.rank, now: moment)
    }

    /// Whether a request that has got bytes takes no more for now; `takeReady` has it later.
    mutating func throttles(_ transfer: Transfer) -> Bool {
        guard transfer.canPause, pause(transfer, now()) != nil else { return false }
        throttled.append(transfer)
        return true
    }

    /// The same for a limit of the rate alone, also in the middle of a round: of each connection so much may stand in
    /// the socket that a slow limit would be broken for seconds.
    mutating func limits(_ transfer: Transfer) -> Bool {
        let moment = now()
        guard transfer.canPause else { return false }
        guard line.limit.pause(now: moment) ?? transfer.request.limit?.pause(now: moment) != nil else { return false }
        throttled.append(transfer)
        return true
    }

    /// Takes the transfers that may go on, as many as the line has room for: first those of players, then those that
    /// readers wait for.
    mutating func takeReady() -> [Transfer] {
        guard !waiting.isEmpty || !throttled.isEmpty else { return [] }
        let moment = now()
        var ready: [Transfer] = []
        if moment >= nextFavour,
            let oldest = (waiting + throttled).min(by: { $0.lastByte < $1.lastByte }),
            ContinuousClock.now - oldest.lastByte > Self.patience, pause(oldest, moment) == nil
        {
            nextFavour = moment + Self.patience
            take(moment, &ready) { $0 === oldest }
        }
        take(moment, &ready) { $0.rank.isFirst }
        take(moment, &ready) { $0.rank == .filler && $0.request.isDemanded }
        take(moment, &ready) { $0.request.isDemanded }
        take(moment, &ready) { _ in true }
        return ready
    }

    private mutating func take(_ moment: Duration, _ ready: inout [Transfer], where isMeant: (Transfer) -> Bool) {
        var held = throttled.filter(isMeant) + waiting.filter(isMeant)
        // All of them share the limit: one after another has its turn.
        if line.limit.rate(now: moment) != nil { held.sort { $0.lastByte < $1.lastByte } }
        var taken: Set<ObjectIdentifier> = []
        for transfer in held where pause(transfer, moment) == nil {
            payAdvance(for: transfer, moment)
            transfer.payment.goesOn()
            taken.insert(ObjectIdentifier(transfer))
            ready.append(transfer)
        }
        guard !taken.isEmpty else { return }
        throttled.removeAll { taken.contains(ObjectIdentifier($0)) }
        waiting.removeAll { taken.contains(ObjectIdentifier($0)) }
    }

    /// A request is over.
    mutating func forget(_ transfer: Transfer) {
        // Refund bytes that were charged and never arrived.
        if transfer.payment.ahead > 0 { pay(-transfer.payment.ahead, for: transfer, now()) }
        if transfer.payment.isGated { waiting.removeAll { $0 === transfer } }
        if transfer.stage == .paused { throttled.removeAll { $0 === transfer } }
    }

    /// The time for which a request is held back, nil if it is not.
    private func pause(_ transfer: Transfer, _ moment: Duration) -> Duration? {
        let rank = transfer.rank
        // No share is looked up for a player.
        let others = rank.isFirst ? nil : line.pause(of: rank, now: moment)
        let limits = [line.limit.pause(now: moment), transfer.request.limit?.pause(now: moment), others]
        return limits.compactMap { $0 }.max()
    }

    /// A request begins, or goes on.
    private func payAdvance(for transfer: Transfer, _ moment: Duration) {
        let advance = min(Self.advance, transfer.request.range?.count ?? Self.advance)
        pay(max(0, advance - transfer.payment.ahead), for: transfer, moment)
    }

    /// - Parameter count: bytes; below zero: what was paid is given back.
    private func pay(_ count: Int64, for transfer: Transfer, _ moment: Duration) {
        transfer.payment.paid(count)
        payLimits(count, for: transfer, moment)
        if !transfer.rank.isFirst { line.pay(count, by: transfer.rank, now: moment) }
    }

    private func payLimits(_ count: Int64, for transfer: Transfer, _ moment: Duration) {
        line.limit.took(count, now: moment)
        transfer.request.limit?.took(count, now: moment)
    }
}
