import ReelCore
import ReelThreads

/// The lowest layer in a simulated world: servers are functions that answer a request with steps, and a line takes time
/// for each.
///
/// What libcurl and the program's use of it would do with an answer is done here in short: redirects, the end of a
/// body, silence, cut connections. Who goes first on the line is decided as there (`LineGate`); queues of hosts, logins
/// and circuits are not simulated.
package final class SimulatedTransport: Transport {
    /// - Returns: nil where it refuses the connection.
    package typealias Server = @Sendable (ServerRequest) -> [ServerStep]?
    package typealias Pace = (latency: Duration, bytesPerSecond: Int64)
    /// What a request carries to a place, besides what its condition and its range make.
    package typealias Headers = @Sendable (OriginRequest, _ place: ResourceURL) -> [(name: String, value: String)]

    private struct Event: Sendable {
        var time: Duration
        var number: Int
        var job: @Sendable () -> Void

        static func isBefore(_ one: Event, _ other: Event) -> Bool {
            (one.time, one.number) < (other.time, other.number)
        }
    }

    private struct State: Sendable {
        var events: [Event] = []
        var count = 0
        var requests = 0
        var isOver = false
        var running: [SimulatedExchange] = []
        var bytesSent: Int64 = 0
        var random: SeededGenerator
    }

    package let line: Line
    private let servers: [String: Server]
    private let steady: Pace?
    let headers: Headers
    private let watch: @Sendable (ServerRequest, String) -> Void
    private let state: Monitor<State>
    private let thread = Lock<Thread?>(nil)
    let wire: SimulatedWire

    /// - Parameters:
    ///   - servers: by `ResourceURL.origin`.
    ///   - pace: of each answer, nil for one that differs from request to request.
    ///   - capacity: bytes a second of all answers together, nil if each has its own pace alone.
    ///   - headers: by default the request's own, at the origin that it names.
    ///   - watch: gets each request that is sent, with the `ResourceURL.origin` that it goes to.
    package init(
        _ servers: [String: Server], _ line: Line = Line(), pace: Pace? = nil, headers: Headers? = nil,
        capacity: Int64? = nil, watch: @escaping @Sendable (ServerRequest, String) -> Void = { _, _ in }, seed: UInt64
    ) {
        (self.servers, self.line, steady, self.watch) = (servers, line, pace, watch)
        self.headers = headers ?? { request, place in place.isSameOrigin(as: request.url) ? request.headers : [] }
        wire = SimulatedWire(line, capacity: capacity)
        state = Monitor(State(random: SeededGenerator(seed: seed)))
        wire.transport = self
        let thread = Thread("origin") { [self] in serve() }
        self.thread.withLock { $0 = thread }
    }

    package func shutdown() {
        state.withLock { $0.isOver = true }
        thread.withLock { $0.take() }?.join()
        // They hold receivers. Released outside of the lock.
        let left = state.withLock { state in
            defer { state.events = [] }
            return state.events
        }
        withExtendedLifetime(left) {}
    }

    private func serve() {
        while let job = next() { job() }
        // What was handed over before the end is done.
        let moment = now()
        let left = state.withLock { $0.events.filter { $0.time <= moment } }
        for event in left.sorted(by: Event.isBefore) { event.job() }
        for exchange in state.withLock({ $0.running }) { exchange.finish(.cancelled) }
    }

    private func next() -> (@Sendable () -> Void)? {
        while true {
            let (isOver, soonest) = state.withLock(notifying: false) { ($0.isOver, $0.events.map(\.time).min()) }
            if isOver { return nil }
            let pause = soonest.map { max(.zero, $0 - now()) } ?? .seconds(3600)
            let job = state.wait(atMost: pause) { state -> (@Sendable () -> Void)?? in
                if state.isOver { return .some(nil) }
                let moment = now()
                let due = state.events.indices.filter { state.events[$0].time <= moment }
                guard let first = due.min(by: { Event.isBefore(state.events[$0], state.events[$1]) }) else {
                    // Another event may be the next one by now.
                    return state.events.contains { $0.time < soonest ?? .seconds(1 << 40) } ? .some({}) : nil
                }
                return .some(state.events.remove(at: first).job)
            }
            if let job { return job }
        }
    }

    func after(_ pause: Duration, _ job: @escaping @Sendable () -> Void) {
        let time = now() + pause
        state.withLock { state in
            if state.isOver { return }
            state.count += 1
            state.events.append(Event(time: time, number: state.count, job: job))
        }
    }

    /// The pace of the next answer.
    func pace() -> Pace {
        steady
            ?? state.withLock(notifying: false) { state in
                (
                    .milliseconds([1, 10, 40, 200].randomElement(using: &state.random)!),
                    [1_000_000, 20_000_000, 200_000_000].randomElement(using: &state.random)!
                )
            }
    }

    func answer(_ request: ServerRequest, from origin: String) -> [ServerStep]? {
        var request = request
        state.withLock(notifying: false) { state in
            request.number = state.requests
            state.requests += 1
        }
        watch(request, origin)
        return servers[origin].flatMap { $0(request) }
    }

    /// Whether a redirect may lead there.
    func knows(_ origin: String) -> Bool { servers[origin] != nil }

    func sent(_ count: Int) { state.withLock(notifying: false) { $0.bytesSent += Int64(count) } }

    /// Bytes of bodies so far.
    package var bytesSent: Int64 { state.withLock(notifying: false) { $0.bytesSent } }
    package var requestsUnderWay: Int { state.withLock(notifying: false) { $0.running.count } }

    var running: [SimulatedExchange] { state.withLock(notifying: false) { $0.running } }

    func ended(_ exchange: SimulatedExchange) {
        state.withLock(notifying: false) { $0.running.removeAll { $0 === exchange } }
    }

    // MARK: Transport

    package func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        let exchange = SimulatedExchange(handle, request, receiver, self)
        let isOver = state.withLock(notifying: false) { state in
            state.running.append(exchange)
            return state.isOver
        }
        handle.connect(to: exchange)
        // No receiver is called inside of `start`.
        if isOver { return Thread("origin-end") { exchange.finish(.cancelled) }?.detach() ?? () }
        after(.zero) { exchange.begin() }
    }

    package func perform(_ job: @escaping @Sendable () -> Void) { after(.zero, job) }
    package func trust(_ origins: Set<String>) {}
    package func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void) {}
    package var standings: [String: OriginStanding] { [:] }
    package func noteInterest(in url: ResourceURL) {}
}
