import ReelCore

/// All that the transport knows of one origin (scheme, host and port): a request belongs to the queue and the
/// connections of the place that it asks, and to the circuit and the redirects of the origin that it names.
///
/// How many requests at a time an origin is worth is no part of it: the readers of a file measure and ask that
/// (`ConcurrencyLimits` in ReelVolume), and the transport never does.
///
/// Belongs to the transport's thread.
final class OriginHost {
    /// `ResourceURL.origin`.
    let name: String
    let queue: HostQueue<Transfer>
    /// The requests that have a slot or pause.
    private(set) var active: [RequestHandle: Transfer] = [:]
    var idle = IdleConnections()
    var login = HostLogin()
    var fileServer = FileServerState()
    var health = HostHealth()
    /// The region that it names as its bucket's (`SignedTarget`), nil if it has named none.
    private(set) var region: String?
    /// The reach of the address that last answered for it, nil if not known, or hidden by a proxy.
    private(set) var reach: AddressReach?
    /// When the newest connection that has answered since the loop last looked was opened.
    private var reached: ContinuousClock.Instant?
    /// Requests under way that name it, probes among them.
    private var requests = 0
    /// Whether it stands in `HostTable.busy`, whose mark it is.
    var isListed = false

    init(_ name: String, slots: Int) {
        self.name = name
        queue = HostQueue(slots: slots)
    }

    /// Nothing runs or waits.
    var isIdle: Bool { requests == 0 && queue.isIdle }

    // MARK: Events

    /// A request that names it is under way.
    func began() { requests += 1 }
    /// A request that names it is over.
    func ended() { requests -= 1 }

    /// A request has a slot.
    func admitted(_ transfer: Transfer) { active[transfer.id] = transfer }
    /// A request has no slot any more, and does not pause.
    func left(_ transfer: Transfer) { active[transfer.id] = nil }

    /// It has named the region of its bucket.
    func named(region: String) { self.region = region }

    /// An address of this reach answers for it.
    func reached(at reach: AddressReach?) { self.reach = reach }

    /// A connection has answered. - Parameter opened: when it was opened.
    func answered(on opened: ContinuousClock.Instant) { reached = max(opened, reached ?? opened) }
    /// When the newest connection that has answered since the last call was opened, nil if none has.
    func takeReached() -> ContinuousClock.Instant? { reached.take() }

    // MARK: Requests that can go

    /// A running request whose rest no reader needs, and whose slot lets a demanded one run, nil if there is none.
    func dispensable() -> Transfer? {
        guard queue.hasDemanded else { return nil }
        let running = active.values.filter { $0.stage == .running && queue.wouldMakeRoom($0.resource) }
        // What is on its way of an answer is lost with it.
        let ranked = running.sorted { rank($0) < rank($1) }
        return ranked.first { $0.receiver.yields() }
    }

    private func rank(_ transfer: Transfer) -> Int {
        (transfer.request.isDemanded ? 2 : 0) + (transfer.answer.isAccepted ? 1 : 0)
    }

    /// The request that has paused longest of those that can do without their connection.
    func longestPaused() -> Transfer? {
        let paused = active.values.filter { $0.stage == .paused }
        return paused.sorted { $0.lastByte < $1.lastByte }.first { $0.receiver.yields() }
    }
}
