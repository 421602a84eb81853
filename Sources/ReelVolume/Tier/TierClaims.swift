import ReelCore
import ReelThreads

/// Says which mount of a fleet fetches what the tier lacks: the first one that writes a claim. The others wait a moment
/// for its slices, so that mounts that play a film at once fetch it once.
///
/// A claim is an object of a few bytes whose age counts, by the service's own clock; an old one is taken over.
final class TierClaims: Sendable {
    /// - Parameter since: when this mount began to wait for another one's slices, or last got one, nil if it has the
    ///   claim.
    typealias Answer = @Sendable (_ since: Duration?) -> Void

    /// What the service makes of `If-None-Match: *` with a PUT.
    enum Condition {
        case unknown
        /// The claim is this mount's: of those that write at once, one gets this answer.
        case kept
        /// The service ignores the condition: the last writer wins, and finds its own words when it reads them back.
        case useless
    }

    /// Times on the clock of `now()`.
    private struct Known {
        /// The same as in `Answer`.
        var since: Duration?
        var end: Duration
    }

    private struct State {
        var known: [String: Known] = [:]
        var asking: [String: [Answer]] = [:]
        var condition = Condition.unknown
    }

    /// The life of a claim: what a mount has not written after so long it may never write. A bucket may take slices far
    /// more slowly than their mount fetches them.
    static let life = Duration.seconds(60)
    /// Until a look at what another mount claims, which may have ended meanwhile.
    private static let trust = Duration.milliseconds(500)
    /// A hundred bytes each.
    private static let mostKnown = 1000

    let place: TierPlace
    private let origin: any Transport
    private let ticker: Ticker
    private let state = Lock(State())
    /// What this mount writes.
    let words: [UInt8]

    init(_ place: TierPlace, _ origin: any Transport, _ ticker: Ticker) {
        (self.place, self.origin, self.ticker) = (place, origin, ticker)
        // Some bytes, as not each service keeps an object without any.
        var numbers = RandomNumbers()
        let bytes = (0..<8).map { _ in UInt8.random(in: .min ... .max, using: &numbers) }
        words = Array("claimed \(hexadecimal(bytes))\n".utf8)
    }

    /// Finds out whether another mount is about to fetch the slices of a claim, and claims them if not. Calls back at
    /// once, or on the thread of the tier's transport. - Parameter owner: the request that asks.
    func find(_ name: String, for owner: RequestHandle, isDemanded: Bool, _ answer: @escaping Answer) {
        let moment = now()
        let (known, isFirst) = state.withLock { state -> (Known?, Bool) in
            if let known = state.known[name], moment < known.end { return (known, false) }
            state.asking[name, default: []].append(answer)
            return (nil, state.asking[name]!.count == 1)
        }
        if let known { return answer(known.since) }
        guard isFirst else { return }
        guard let url = place.root.child(Array(name.utf8), query: nil) else { return settle(name, isOthers: false) }
        ClaimRequest(url, name, for: owner, isDemanded: isDemanded, self).start()
    }

    /// Whether it was asked for a moment ago.
    func knows(_ name: String) -> Bool {
        let moment = now()
        return state.withLock { $0.known[name].map { moment < $0.end + Self.life } ?? false }
    }

    /// The other mount goes on: a slice of it came.
    func goesOn(_ name: String) {
        let moment = now()
        state.withLock { if $0.known[name]?.since != nil { $0.known[name]!.since = moment } }
    }

    /// Waiting for the other mount brought nothing.
    func giveUp(_ name: String) { settle(name, isOthers: false) }

    // MARK: Of the requests for claims

    var condition: Condition {
        get { state.withLock { $0.condition } }
        set { state.withLock { $0.condition = newValue } }
    }

    func settle(_ name: String, isOthers: Bool) {
        let moment = now()
        let (waiting, since) = state.withLock { state in
            if state.known.count >= Self.mostKnown { state.known = [:] }
            // One that was looked at long ago is waited for again.
            let last = state.known[name].flatMap { moment < $0.end + Self.life / 10 ? $0.since : nil }
            let since = isOthers ? last ?? moment : nil
            state.known[name] = Known(since: since, end: moment + (isOthers ? Self.trust : Self.life))
            return (state.asking.removeValue(forKey: name) ?? [], since)
        }
        for answer in waiting { answer(since) }
    }

    func send(_ request: OriginRequest, as handle: RequestHandle, to receiver: ClaimRequest) {
        origin.start(handle, place.source.request(request), receiver)
    }

    /// Like `Ticker.after`.
    func after(
        _ pause: Duration, _ job: @escaping @Sendable () -> Void, atEnd: @escaping @Sendable () -> Void
    ) {
        ticker.after(pause, job, atEnd: atEnd)
    }
}
