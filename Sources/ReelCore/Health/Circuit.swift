/// The way in which an origin is away.
package enum Outage: String, Hashable, Sendable {
    /// No name, no route, refused: every attempt says so at once.
    case unreachable
    /// Packets vanish, or the origin takes connections and answers nothing.
    case silent
    /// The user wants nothing to be asked for (`Line.isOffline`).
    case offline
}

/// Whether one origin (scheme, host and port) can be reached: events in, actions out, on a clock that only goes
/// forward.
///
///     closed ──silence──▶ doubtful ──silence for the whole deadline──▶ open(silent)
///       │ └────────── nothing but refusals for a while ──────────────▶ open(unreachable)
///       ◀───────────── anything at all that the origin answers ─────── from everywhere
///
/// Doubtful: requests go out as before, but an open of a remembered file does not wait for a confirmation. Open:
/// requests are refused. In both, probes look for the origin's return, one at a time, as long as requests come
/// (half-open: one is under way).
///
/// Where packets vanish, a probe waits for TCP to send its SYN again, after pauses that double. So knocks beside it try
/// a connection each half second, one at a time, and only behind a probe that knew the origin's address: they do not
/// ask a silent name server again.
///
/// Silence is counted from the moment at which the origin first owed an answer, and begins again with each sign of life
/// on any request: one slow resource opens nothing while others are answered, and a probe asks for another one.
package struct Circuit: Sendable {
    /// The state of the origin; `halfOpen` while a probe is under way.
    package enum State: Hashable, Sendable {
        case closed, doubtful, open(Outage), halfOpen(Outage)
    }

    /// A step that the caller has to take.
    package enum Action: Hashable, Sendable {
        /// Ask for a small piece on a connection of its own.
        /// - connect, answer: limits of the connection and of the whole.
        case probe(connect: Duration, answer: Duration)
        /// The same, beside a probe that may be waiting for TCP to try again.
        case knock(connect: Duration, answer: Duration)
        /// End the requests under way: their bytes will not come.
        case cut
        /// Report that the origin is away.
        case opened(Outage)
        /// Report that the origin is back.
        case closed
    }

    private enum Mode: Hashable, Sendable {
        case closed, doubtful, open(Outage)
    }

    /// The time that a request's own short retries take (`RetryPolicy`): one refusal may be that of a server that
    /// restarts.
    static let refusalsFor = Duration.milliseconds(400)
    /// Refusals further apart than this are no row.
    static let rowGap = Duration.seconds(5)
    /// Probing stops after so long without a request.
    static let rest = Duration.seconds(60)
    /// A new probe repeats a lost SYN sooner than TCP, whose pauses double.
    static let probeConnect = Duration.seconds(1)
    /// A long way, or a name server that is slow: as long as any request may take to connect.
    static let longestConnect = Duration.seconds(10)
    /// Between knocks, and for the connection of each: the origin's return is noticed within a second.
    static let knockPause = Duration.milliseconds(500)
    /// The least time for the answer, once connected.
    static let probeRest = Duration.milliseconds(500)
    /// Long enough for an origin that takes connections and is only slow (disks that spin up).
    static let longestProbe = Duration.seconds(12)

    private let openAfter: Duration
    private let doubtAfter: Duration
    private var mode = Mode.closed
    private var isProbing = false
    private var isKnocking = false
    /// nil until the last probe has tried a connection.
    private var nextKnock: Duration?
    private var failedProbes = 0
    private var connectLimit = Circuit.probeConnect
    private var answerLimit = Duration.zero
    private var nextProbe = Duration.zero
    private var lastAsked = Duration.zero
    /// Requests that wait for bytes.
    private var owed = 0
    private var silentSince: Duration?
    private var lastEnd = Duration.zero
    private var refusedSince: Duration?
    private var lastRefusal = Duration.zero

    /// A closed circuit. - Parameter deadline: of a read: silence for so long is an outage.
    package init(deadline: Duration) {
        // A little before the deadline: a reader whose time is over asks again, and has to hear of it at once.
        openAfter = deadline - min(.milliseconds(100), deadline / 10)
        // As long as an open waits for a confirmation.
        doubtAfter = min(.seconds(2), deadline / 2)
    }

    /// The state of the origin now.
    package var state: State {
        switch mode {
        case .closed: .closed
        case .doubtful: .doubtful
        case .open(let outage): isProbing ? .halfOpen(outage) : .open(outage)
        }
    }

    /// How the origin is away, nil if requests go out.
    package var outage: Outage? { if case .open(let outage) = mode { outage } else { nil } }

    /// Whether the clock may bring anything.
    package func isTicking(_ now: Duration) -> Bool {
        owed > 0 || silentSince != nil && mode == .closed || mode != .closed && now - lastAsked <= Self.rest
    }

    // MARK: Asking

    /// Before a question that could be answered from memory as well. - Returns: whether to ask the origin.
    package mutating func isWorthAsking(_ now: Duration) -> Bool {
        noteInterest(now)
        return mode == .closed
    }

    /// A request is about to be made. - Returns: nil where it goes out, and `ended` follows; else why not.
    package mutating func ask(_ now: Duration) -> Outage? {
        noteInterest(now)
        if let outage { return outage }
        if owed == 0, mode == .closed, now - lastEnd > Self.rowGap { silentSince = nil }
        owed += 1
        silentSince = silentSince ?? now
        return nil
    }

    /// After a rest so long that probes stopped, nothing is known: requests go out again, beside a probe.
    private mutating func noteInterest(_ now: Duration) {
        let hadRested = mode != .closed && now - lastAsked > Self.rest
        lastAsked = now
        guard hadRested else { return }
        nextProbe = now
        failedProbes = 0
        guard outage != nil else { return }
        mode = .doubtful
        silentSince = now
    }

    // MARK: Answers

    /// A head or bytes came, on any request.
    package mutating func answered(_ now: Duration) -> [Action] {
        silentSince = owed > 0 ? now : nil
        refusedSince = nil
        guard mode != .closed else { return [] }
        let wasOpen = outage != nil
        mode = .closed
        failedProbes = 0
        nextKnock = nil
        connectLimit = Self.probeConnect
        answerLimit = .zero
        return wasOpen ? [.closed] : []
    }

    /// The receiver takes no bytes for now: nothing is owed.
    package mutating func paused(_ now: Duration) {
        release(now)
        if owed == 0 { silentSince = nil }
    }

    /// The receiver takes bytes again.
    package mutating func resumed(_ now: Duration) {
        owed += 1
        silentSince = silentSince ?? now
    }

    /// A request is over. - Parameter isPaused: it paused, so that nothing was owed any more.
    package mutating func ended(_ failure: OriginFailure?, isPaused: Bool = false, now: Duration) -> [Action] {
        if !isPaused { release(now) }
        return judge(failure, now)
    }

    /// The probe under way tries a connection.
    package mutating func probeConnects(_ now: Duration) {
        if mode != .closed { nextKnock = now + Self.knockPause }
    }

    /// The knock under way is over. - Parameter failure: nil if it was answered.
    package mutating func knocked(_ failure: OriginFailure?, now: Duration) -> [Action] {
        isKnocking = false
        return judge(failure, now)
    }

    /// The probe under way is over.
    /// - Parameters:
    ///   - failure: nil if it was answered.
    ///   - took: from its start to its end.
    package mutating func probed(_ failure: OriginFailure?, took: Duration, now: Duration) -> [Action] {
        isProbing = false
        let actions = judge(failure, now)
        guard mode != .closed else { return actions }
        // The time it took shows which of its two limits ended it.
        if failure == .timedOut, took >= wholeLimit {
            answerLimit = min(wholeLimit * 2, Self.longestProbe)
        } else if failure == .timedOut {
            connectLimit = min(connectLimit * 2, Self.longestConnect)
        }
        failedProbes += 1
        nextProbe = now + min(.milliseconds(250 + 250 * failedProbes), .seconds(1))
        return actions
    }

    /// The limit of a probe, its connection included.
    private var wholeLimit: Duration { max(answerLimit, connectLimit + Self.probeRest) }

    private mutating func release(_ now: Duration) {
        owed -= 1
        lastEnd = now
    }

    private mutating func judge(_ failure: OriginFailure?, _ now: Duration) -> [Action] {
        switch failure?.meaning.sign ?? .answer {
        case .answer, .life: return answered(now)
        case .refusal: return refused(now)
        case .nothing:
            // Nothing is asked for from now on, for as long as the user wants.
            if failure == .away(.offline) {
                if mode == .doubtful { mode = .closed }
                silentSince = nil
            }
            // A request that ended early has learned nothing, nor has one that waited while others were answered.
            if owed == 0, mode == .closed, silence(now) < doubtAfter { silentSince = nil }
            return []
        }
    }

    private mutating func refused(_ now: Duration) -> [Action] {
        if now - lastRefusal > Self.rowGap { refusedSince = nil }
        lastRefusal = now
        // A refusal is no silence.
        if owed == 0 { silentSince = nil }
        let since = refusedSince ?? now
        refusedSince = since
        switch mode {
        case .open(.unreachable): return []
        // Only the way in which it is away is news.
        case .open(.silent), .open(.offline): break
        case .closed, .doubtful: guard now - since >= Self.refusalsFor else { return [] }
        }
        return open(.unreachable, now) + [.cut]
    }

    // MARK: The clock

    /// Does what is due.
    package mutating func tick(_ now: Duration) -> [Action] {
        var actions: [Action] = []
        if mode == .closed, silence(now) >= doubtAfter {
            if owed == 0, now - lastEnd > Self.rowGap {
                silentSince = nil
            } else {
                mode = .doubtful
                nextProbe = now
            }
        }
        if mode == .doubtful, silence(now) >= openAfter { actions += open(.silent, now) }
        if mode != .closed, !isProbing, now >= nextProbe, now - lastAsked <= Self.rest {
            isProbing = true
            nextKnock = nil
            actions.append(.probe(connect: connectLimit, answer: wholeLimit))
        }
        if mode == .doubtful || mode == .open(.silent), !isKnocking, let next = nextKnock, now >= next,
            now - lastAsked <= Self.rest
        {
            isKnocking = true
            nextKnock = now + Self.knockPause
            actions.append(.knock(connect: Self.knockPause, answer: wholeLimit))
        }
        return actions
    }

    private func silence(_ now: Duration) -> Duration { silentSince.map { now - $0 } ?? .zero }

    private mutating func open(_ outage: Outage, _ now: Duration) -> [Action] {
        if mode == .closed { nextProbe = now + .milliseconds(500) }
        mode = .open(outage)
        return [.opened(outage)]
    }
}
