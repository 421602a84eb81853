import Logging
import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// The origin as the volume asks it: one circuit for each scheme, host and port between it and the transport.
///
/// Every request passes here, so every head, byte and failure is seen, and no caller has to tell. A request to an origin
/// that is away ends with `.away` and costs nothing; when an origin turns out to be unreachable, what runs to it ends the
/// same way.
final class CircuitOrigin: Origin {
    private struct Route {
        var circuit: Circuit
        /// Where the origin last answered: what a probe asks for.
        var answered: ResourceURL?
        var asked: ResourceURL
        var running: [ObjectIdentifier: WatchedReceiver] = [:]
        /// Seconds since 1970.
        var awaySince: Int64?
    }

    /// A playlist may name many hosts: beyond this, those of which nothing is to be kept in mind are forgotten.
    static let routeLimit = 1024
    /// Names no request of the transport, which counts from 1.
    private static let refused = OriginRequestID(0)

    private let inner: any Origin
    private let deadline: Duration
    private let ticker: Ticker
    private let logger: Logger
    private let routes = Mutex<[String: Route]>([:])
    /// What a request becomes before it leaves; nil before the mount.
    private let source = Mutex<(any Source)?>(nil)

    init(_ inner: any Origin, deadline: Duration, ticker: Ticker, logger: Logger) {
        self.inner = inner
        self.deadline = deadline
        self.ticker = ticker
        self.logger = logger
    }

    /// For what can be answered from memory as well: false while the origin is away, or in doubt.
    func isWorthAsking(_ url: ResourceURL) -> Bool {
        let moment = now()
        let isWorth = routes.withLock { $0[url.origin]?.circuit.isWorthAsking(moment) ?? true }
        if !isWorth { ticker.add(self) }
        return isWorth
    }

    func outage(of url: ResourceURL) -> Outage? { routes.withLock { $0[url.origin]?.circuit.outage } }

    /// Origins that are away, and since when (seconds since 1970).
    var outages: [(origin: String, outage: Outage, since: Int64)] {
        routes.withLock { routes in
            routes.compactMap { origin, route in
                route.circuit.outage.map { (origin, $0, route.awaySince ?? wallClock()) }
            }
        }.sorted { $0.origin < $1.origin }
    }

    // MARK: Origin

    func connect(_ source: any Source) { self.source.withLock { $0 = source } }

    private func located(_ request: OriginRequest) -> OriginRequest {
        source.withLock { $0 }?.request(request) ?? request
    }

    func start(_ request: OriginRequest, _ receiver: any OriginReceiver) -> OriginRequestID {
        let request = located(request)
        let moment = now()
        let watched = WatchedReceiver(receiver, request.url, self)
        let outage = routes.withLock { routes -> Outage? in
            let origin = request.url.origin
            if routes[origin] == nil {
                if routes.count >= Self.routeLimit {
                    routes = routes.filter { $1.circuit.state != .closed || !$1.running.isEmpty }
                    // All of them away: whoever asks one again finds that out again.
                    if routes.count >= Self.routeLimit { routes = routes.filter { !$1.running.isEmpty } }
                }
                routes[origin] = Route(circuit: Circuit(deadline: deadline), asked: request.url)
            }
            if let outage = routes[origin]!.circuit.ask(moment) { return outage }
            routes[origin]!.asked = request.url
            routes[origin]!.running[ObjectIdentifier(watched)] = watched
            return nil
        }
        ticker.add(self)
        if let outage {
            inner.perform { receiver.ended(.away(outage)) }
            return Self.refused
        }
        let id = inner.start(request, watched)
        if watched.started(id) { inner.cancel(id) }
        return id
    }

    func cancel(_ id: OriginRequestID) { inner.cancel(id) }

    func promote(_ id: OriginRequestID) { inner.promote(id) }

    func perform(_ job: @escaping @Sendable () -> Void) { inner.perform(job) }

    func resume(_ id: OriginRequestID) {
        // Not before whoever answered `.pause` has returned: only then it is paused.
        inner.perform { [self] in resumeNow(id) }
    }

    private func resumeNow(_ id: OriginRequestID) {
        let moment = now()
        routes.withLock { routes in
            for (origin, route) in routes {
                guard let watched = route.running.values.first(where: { $0.id == id }) else { continue }
                if watched.setPaused(false) { routes[origin]!.circuit.resumed(moment) }
                return
            }
        }
        inner.resume(id)
    }

    // MARK: What the transport tells

    func answered(_ url: ResourceURL) {
        let moment = now()
        let actions = routes.withLock { routes in
            routes[url.origin]?.answered = url
            return routes[url.origin]?.circuit.answered(moment) ?? []
        }
        perform(actions, url.origin)
    }

    func paused(_ watched: WatchedReceiver) {
        let moment = now()
        routes.withLock { routes in
            if watched.setPaused(true) { routes[watched.url.origin]?.circuit.paused(moment) }
        }
    }

    /// - Returns: what the receiver is told.
    func ended(_ watched: WatchedReceiver, _ failure: OriginFailure?) -> OriginFailure? {
        let (moment, origin) = (now(), watched.url.origin)
        let (actions, outage) = routes.withLock { routes -> ([Circuit.Action], Outage?) in
            guard routes[origin]?.running.removeValue(forKey: ObjectIdentifier(watched)) != nil else {
                return ([], nil)
            }
            var lesson = failure
            if case .unreachable(let text) = failure, watched.isRedirected { lesson = .interrupted(text) }
            let actions = routes[origin]!.circuit.ended(lesson, isPaused: watched.isPaused, now: moment)
            return (actions, routes[origin]!.circuit.outage)
        }
        perform(actions, origin)
        switch failure {
        case .unreachable: return outage.map { .away($0) } ?? failure
        case .cancelled where watched.isCut: return .away(outage ?? .unreachable)
        default: return failure
        }
    }

    private func perform(_ actions: [Circuit.Action], _ origin: String) {
        for action in actions {
            switch action {
            case .probe(let connect, let answer):
                probe(origin, connect, answer) {
                    $0.probeConnects($1)
                } ended: {
                    $0.probed($1, took: $2, now: $3)
                }
            case .knock(let connect, let answer):
                probe(origin, connect, answer) { _, _ in
                } ended: {
                    $0.knocked($1, now: $3)
                }
            case .cut:
                let running = routes.withLock { routes in routes[origin].map { Array($0.running.values) } ?? [] }
                for watched in running where !watched.isPaused {
                    if let id = watched.cut() { inner.cancel(id) }
                }
            case .opened(let outage):
                routes.withLock { routes in
                    if routes[origin]?.awaySince == nil { routes[origin]?.awaySince = wallClock() }
                }
                logger.notice("\(origin) is away (\(outage.rawValue)): only what is cached can be read")
            case .closed:
                routes.withLock { $0[origin]?.awaySince = nil }
                logger.notice("\(origin) is back")
            }
        }
    }

    /// nil where the origin is forgotten.
    private func tell<Result>(_ origin: String, _ event: (inout Circuit, Duration) -> Result) -> Result? {
        let moment = now()
        return routes.withLock { routes in
            routes[origin] == nil ? nil : event(&routes[origin]!.circuit, moment)
        }
    }

    /// - Parameters:
    ///   - connecting: told the moment at which a connection is tried.
    ///   - ended: told the failure, the time it took, and the moment.
    private func probe(
        _ origin: String, _ connect: Duration, _ answer: Duration,
        connecting: @escaping @Sendable (inout Circuit, Duration) -> Void,
        ended: @escaping @Sendable (inout Circuit, OriginFailure?, Duration, Duration) -> [Circuit.Action]
    ) {
        guard let url = routes.withLock({ routes in routes[origin].map { $0.answered ?? $0.asked } }) else { return }
        let start = now()
        let receiver = ProbeReceiver { [self] in
            _ = tell(origin) { connecting(&$0, $1) }
        } completion: { [self] failure in
            perform(tell(origin) { ended(&$0, failure, $1 - start, $1) } ?? [], origin)
        }
        let request = located(
            OriginRequest(url: url, range: ByteRange(0, 1), stallLimit: answer, connectLimit: connect))
        _ = inner.start(request, receiver)
    }
}

extension CircuitOrigin: Ticking {
    func tick(_ now: Duration) -> Bool {
        let (due, isTicking) = routes.withLock { routes in
            var due: [(String, [Circuit.Action])] = []
            for origin in routes.keys {
                let actions = routes[origin]!.circuit.tick(now)
                if !actions.isEmpty { due.append((origin, actions)) }
            }
            return (due, routes.values.contains { $0.circuit.isTicking(now) })
        }
        for (origin, actions) in due { perform(actions, origin) }
        return isTicking
    }
}
