import ReelCore
import ReelThreads

/// Reports to the circuits of all origins how their requests fare, and publishes how the origins stand. The loop does
/// probes and cuts, as no transfer may end inside of another's callback.
///
/// Belongs to the transport's thread.
final class OutageWatch {
    /// Deadlines and pauses of a circuit are in tenths of a second and more.
    private static let interval = Duration.milliseconds(50)

    private let deadline: Duration
    private let news: TransportNews
    private let report: @Sendable (String, Outage?) -> Void
    private var due: [(host: OriginHost, action: Circuit.Action)] = []
    /// nil: no circuit waits for the clock.
    private(set) var nextTick: Duration?

    init(deadline: Duration, _ news: TransportNews, _ report: @escaping @Sendable (String, Outage?) -> Void) {
        self.deadline = deadline
        self.news = news
        self.report = report
    }

    // MARK: Events

    /// A request wants to go out. - Returns: nil where it may, and `ended` follows; else why it may not.
    func ask(_ request: OriginRequest, of host: OriginHost) -> Outage? {
        let outage = tell(host) { $0.ask($1) }
        if outage == nil { host.health.asked(request) }
        return outage
    }

    func noteInterest(in host: OriginHost) { _ = tell(host) { $0.isWorthAsking($1) } }

    /// An answer has come. - Parameter request: the request whose head came, nil for bytes behind a head.
    func answered(_ host: OriginHost, _ request: OriginRequest?) {
        if let request { host.health.answered(request) }
        act(on: host, tell(host) { $0.answered($1) })
    }

    func paused(_ host: OriginHost) { tell(host) { $0.paused($1) } }

    func resumed(_ host: OriginHost) { tell(host) { $0.resumed($1) } }

    /// A request that may go out is held back: nothing is owed until `resumed`.
    func held(_ host: OriginHost) { _ = tell(host) { $0.ended(.cancelled, now: $1) } }

    func probeConnects(_ host: OriginHost) { tell(host) { $0.probeConnects($1) } }

    /// A request has ended. - Returns: the failure that its receiver gets.
    func ended(_ transfer: Transfer, _ failure: OriginFailure?) -> OriginFailure? {
        let host = transfer.home
        var lesson = failure
        // The origin has answered; another place, to which it redirected, refused.
        if case .unreachable(let text) = failure, transfer.route.isRedirected { lesson = .interrupted(text) }
        act(on: host, tell(host) { $0.ended(lesson, isPaused: [.paused, .held].contains(transfer.stage), now: $1) })
        if case .unreachable = failure, let outage = host.health.outage { return .away(outage) }
        return failure
    }

    /// A probe has ended. It only finds out whether the origin answers anything.
    func ended(_ transfer: Transfer, _ probe: Transfer.Probe, _ failure: OriginFailure?) {
        var lesson = transfer.answer.collector.isComplete ? nil : failure
        // Another place refused; its silence counts as the origin's.
        if case .unreachable = failure, transfer.route.isRedirected { lesson = nil }
        let actions = tell(transfer.home) {
            probe.isKnock ? $0.knocked(lesson, now: $1) : $0.probed(lesson, took: $1 - probe.start, now: $1)
        }
        act(on: transfer.home, actions)
    }

    // MARK: Actions

    /// Lets the circuits look at the clock. - Returns: the actions that the loop has to do.
    func takeDue(of hosts: some Sequence<OriginHost>) -> [(host: OriginHost, action: Circuit.Action)] {
        let moment = now()
        if let tick = nextTick, moment >= tick {
            var isTicking = false
            for host in hosts where host.health.isWatched {
                act(on: host, tell(host) { $0.tick($1) })
                isTicking = isTicking || host.health.isTicking(moment)
            }
            nextTick = isTicking ? moment + Self.interval : nil
        }
        defer { due = [] }
        return due
    }

    private func tell<Result>(_ host: OriginHost, _ event: (inout Circuit, Duration) -> Result) -> Result {
        let moment = now()
        if nextTick == nil { nextTick = moment + Self.interval }
        let (result, isNews) = host.health.change(deadline: deadline) { event(&$0, moment) }
        if isNews { news.facts.withLock { $0.standings[host.name] = host.health.standing } }
        return result
    }

    private func act(on host: OriginHost, _ actions: [Circuit.Action]) {
        for action in actions {
            switch action {
            case .opened(let outage): report(host.name, outage)
            case .closed: report(host.name, nil)
            case .probe, .knock, .cut: due.append((host, action))
            }
        }
    }
}
