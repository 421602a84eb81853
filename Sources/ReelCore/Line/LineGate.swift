/// A request as the gate of its transport sees it.
package protocol GatedRequest: AnyObject {
    /// What was asked for.
    var request: OriginRequest { get }
    /// Whose bytes it brings now.
    var rank: LineRank { get }
    /// Whether it can be held back in the middle of its body.
    var canPause: Bool { get }
    /// How long no byte has come, or it has waited for the first one.
    var silence: Duration { get }
    /// Changed by the gate alone.
    var payment: LinePayment { get set }
}

extension GatedRequest {
    /// A program waits for the bytes of a file, or for its open. A command's request of which a read waits for some
    /// bytes goes on to the end of the file.
    package var isWaitedFor: Bool {
        (rank == .reader || rank == .beginner) && request.isDemanded && request.reason != .prefetch
            && request.reason != .listing
    }
}

extension OriginRequest {
    /// Whose bytes it brings. - Parameter reader: of the file.
    package func rank(for reader: LineRank) -> LineRank {
        // Where a program looks into many files, the ends of those that it begins would take as much as a film.
        if reader == .beginner, reason == .tail, !isDemanded { return .reader }
        if reader != .reader { return reader }
        // What is written into a tier is for other machines, whose readers wait for it.
        guard !isDemanded, isReading else { return .reader }
        return reason == .prefetch || reason == .head ? .command : .reader
    }
}

/// The bytes of a request's body that were paid for before they came (`LineGate`).
package struct LinePayment: Sendable {
    /// The request waits for its share of the line, and has not begun.
    package fileprivate(set) var isGated = false
    /// Bytes that were paid for and have not come.
    fileprivate var ahead: Int64 = 0

    /// Nothing is paid.
    package init() {}

    fileprivate mutating func came(_ count: Int64) { ahead = max(0, ahead - count) }
}

/// Paid for at the start of a request, as so much is on its way before anything can hold it back.
private let advance = BlockSize.block
/// So often the request that has got nothing for longest goes before all others, if that is as long: where players
/// take all that a limit lets through, nothing waits forever.
private let patience = Duration.seconds(5)

/// Holds requests back: those of a lower rank while their share of the line is used up, and all of them while a rate
/// that the user has set is. Those that have not begun wait, and those that run take no bytes.
///
/// Belongs to the transport's thread.
package struct LineGate<Request: GatedRequest> {
    private let line: Line
    private var waiting: [Request] = []
    private var throttled: [Request] = []
    private var nextFavour = Duration.zero

    /// Holds nothing back.
    package init(_ line: Line) { self.line = line }

    /// The time after which one of those held back may go on, nil if none is.
    package func wait(now: Duration) -> Duration? {
        (waiting + throttled).map { pause($0, now) ?? .zero }.min()
    }

    /// A request is about to begin. - Returns: the ranks whose requests have to make way for it: what their sockets
    /// still take would be as much as a film begins with.
    package func cleared(by request: Request, now: Duration) -> Set<LineRank> {
        request.isWaitedFor ? line.readerWaits(as: request.rank, now: now) : []
    }

    /// Whether a request may begin; if not, `takeReady` has it later.
    package mutating func admits(_ request: Request, now: Duration) -> Bool {
        guard pause(request, now) == nil else {
            request.payment.isGated = true
            waiting.append(request)
            return false
        }
        payAdvance(for: request, now)
        return true
    }

    /// Bytes of a body came.
    package func took(_ count: Int, by request: Request, now: Duration) {
        let owed = max(0, Int64(count) - request.payment.ahead)
        request.payment.came(Int64(count))
        if owed > 0 { payLimits(owed, for: request, now) }
        if request.isWaitedFor { line.readerWaits(as: request.rank, now: now) }
        line.took(Int64(count), charged: owed, by: request.rank, now: now)
    }

    /// Whether a request that has got bytes takes no more for now; `takeReady` has it later.
    package mutating func throttles(_ request: Request, now: Duration) -> Bool {
        guard request.canPause, pause(request, now) != nil else { return false }
        throttled.append(request)
        return true
    }

    /// The same for a limit of the rate alone, also in the middle of a round: of each connection so much may stand in
    /// the socket that a slow limit would be broken for seconds.
    package mutating func limits(_ request: Request, now: Duration) -> Bool {
        guard request.canPause else { return false }
        guard line.limit.pause(now: now) ?? request.request.limit?.pause(now: now) != nil else { return false }
        throttled.append(request)
        return true
    }

    /// Takes the requests that may go on, as many as the line has room for: first those of players, then those that
    /// readers wait for.
    package mutating func takeReady(now: Duration) -> [Request] {
        guard !waiting.isEmpty || !throttled.isEmpty else { return [] }
        var ready: [Request] = []
        if now >= nextFavour, let oldest = (waiting + throttled).max(by: { $0.silence < $1.silence }),
            oldest.silence > patience, pause(oldest, now) == nil
        {
            nextFavour = now + patience
            take(now, &ready) { $0 === oldest }
        }
        take(now, &ready) { $0.rank.isFirst }
        take(now, &ready) { $0.rank == .filler && $0.request.isDemanded }
        take(now, &ready) { $0.request.isDemanded }
        take(now, &ready) { _ in true }
        return ready
    }

    private mutating func take(_ now: Duration, _ ready: inout [Request], where isMeant: (Request) -> Bool) {
        var held = throttled.filter(isMeant) + waiting.filter(isMeant)
        // All of them share the limit: one after another has its turn.
        if line.limit.rate(now: now) != nil { held.sort { $0.silence > $1.silence } }
        var taken: Set<ObjectIdentifier> = []
        for request in held where pause(request, now) == nil {
            payAdvance(for: request, now)
            request.payment.isGated = false
            taken.insert(ObjectIdentifier(request))
            ready.append(request)
        }
        guard !taken.isEmpty else { return }
        throttled.removeAll { taken.contains(ObjectIdentifier($0)) }
        waiting.removeAll { taken.contains(ObjectIdentifier($0)) }
    }

    /// A request is over.
    package mutating func forget(_ request: Request, now: Duration) {
        // Refund bytes that were charged and never arrived.
        if request.payment.ahead > 0 { pay(-request.payment.ahead, for: request, now) }
        waiting.removeAll { $0 === request }
        throttled.removeAll { $0 === request }
    }

    /// The time for which a request is held back, nil if it is not.
    private func pause(_ request: Request, _ now: Duration) -> Duration? {
        let rank = request.rank
        // No share is looked up for a player.
        let others = rank.isFirst ? nil : line.pause(of: rank, now: now)
        let limits = [line.limit.pause(now: now), request.request.limit?.pause(now: now), others]
        return limits.compactMap { $0 }.max()
    }

    /// A request begins, or goes on.
    private func payAdvance(for request: Request, _ now: Duration) {
        let advance = min(advance, request.request.range?.count ?? advance)
        pay(max(0, advance - request.payment.ahead), for: request, now)
    }

    /// - Parameter count: bytes; below zero: what was paid is given back.
    private func pay(_ count: Int64, for request: Request, _ now: Duration) {
        request.payment.ahead += count
        payLimits(count, for: request, now)
        if !request.rank.isFirst { line.pay(count, by: request.rank, now: now) }
    }

    private func payLimits(_ count: Int64, for request: Request, _ now: Duration) {
        line.limit.took(count, now: now)
        request.request.limit?.took(count, now: now)
    }
}
