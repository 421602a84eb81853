/// Slots that one resource may hold, where there is a limit of its own: a server reads the attributes of a whole folder
/// for each PROPFIND, and players wait behind that.
private let limits = ["PROPFIND": 2]

/// Which requests to one origin run, and which wait: demanded ones first, each kind in order of arrival, but one
/// resource after the other where several wait.
///
/// Speculative requests may take all slots but a quarter, so that a demanded one rarely waits behind a long prefetch.
/// One resource may hold at most one slot more than it leaves free: nine of sixteen, so that hundreds of reads of a
/// file that never answers do not keep out the reads of other files. It is a class because the loop looks at all queues
/// while it changes one, and values would be copied each time.
final class HostQueue<Element> {
    let slots: Int
    private(set) var running = 0
    private(set) var paused = 0
    /// More requests pause than may run. Each holds a connection; players resume theirs within seconds.
    var hasTooManyPaused: Bool { paused > slots }
    /// When a byte last came from the origin.
    var lastByte: ContinuousClock.Instant? {
        didSet { owedSince = .now }
    }
    /// Since when a request runs and no byte has come.
    private var owedSince = ContinuousClock.now
    /// Requests run and no byte comes. Idle connections may be as dead as those in use: a new one shows it at once.
    var isSilent: Bool { running > 0 && ContinuousClock.now - owedSince > .seconds(1) }
    /// Requests that need no slot: they find out whether an origin whose slots all wait still answers.
    private var urgent = Turns<Element>()
    private var demanded = Turns<Element>()
    private var speculative = Turns<Element>()
    /// The number of slots that each resource has.
    private var taken: [String: Int] = [:]

    init(slots: Int) {
        self.slots = slots
    }

    /// Connections of the requests that run and of those that pause.
    var connections: Int { running + paused }

    var isIdle: Bool { connections == 0 && urgent.isEmpty && demanded.isEmpty && speculative.isEmpty }

    var hasUrgent: Bool { !urgent.isEmpty }
    var hasDemanded: Bool { !demanded.isEmpty }

    func add(_ element: Element, of resource: String, isDemanded: Bool, isUrgent: Bool = false) {
        if isUrgent {
            urgent.append(element, of: resource)
        } else if isDemanded {
            demanded.append(element, of: resource)
        } else {
            speculative.append(element, of: resource)
        }
    }

    func remove(of resource: String, where isGone: (Element) -> Bool) {
        urgent.remove(of: resource, where: isGone)
        demanded.remove(of: resource, where: isGone)
        speculative.remove(of: resource, where: isGone)
    }

    /// Gives a slot to the next request that may run, and returns it, nil if none waits, or none may run.
    func next() -> Element? {
        guard let (resource, element) = urgent.popFirst(where: { _ in true }) ?? nextInLine() else { return nil }
        take(resource)
        return element
    }

    private func nextInLine() -> (String, Element)? {
        guard running < slots else { return nil }
        if let next = demanded.popFirst(where: hasRoom) { return next }
        guard running < max(1, slots - slots / 4) else { return nil }
        return speculative.popFirst(where: hasRoom)
    }

    private func hasRoom(for resource: String) -> Bool {
        let taken = taken[resource, default: 0]
        return taken <= slots - running && taken < limits[resource] ?? .max
    }

    /// Whether a demanded request waits that could run if a request of that resource ended.
    func wouldMakeRoom(_ resource: String) -> Bool {
        demanded.hasTurn { waiting in
            let taken = taken[waiting, default: 0] - (waiting == resource ? 1 : 0)
            return running <= slots && taken <= slots - (running - 1) && taken < limits[waiting] ?? .max
        }
    }

    /// A running request takes no bytes for now: it gives its slot back and keeps its connection.
    func pause(_ resource: String) {
        release(resource)
        paused += 1
    }

    /// A paused request goes on. It has its connection and never waits, so more requests than `slots` may run.
    func resume(_ resource: String) {
        releasePaused()
        take(resource)
    }

    private func take(_ resource: String) {
        if running == 0 { owedSince = .now }
        running += 1
        taken[resource, default: 0] += 1
    }

    /// A running request ended.
    func release(_ resource: String) {
        precondition(running > 0, "a slot was given back twice")
        running -= 1
        let left = taken[resource, default: 1] - 1
        taken[resource] = left > 0 ? left : nil
    }

    /// A paused request ended.
    func releasePaused() {
        precondition(paused > 0, "a request was resumed twice")
        paused -= 1
    }
}

/// Waiting requests, in order of arrival for each resource; the resources have their turns one after the other.
private struct Turns<Element> {
    private var waiting: [String: [Element]] = [:]
    /// The resources that have requests waiting, the next one first.
    private var order: [String] = []

    var isEmpty: Bool { order.isEmpty }

    mutating func append(_ element: Element, of resource: String) {
        if waiting[resource] == nil { order.append(resource) }
        waiting[resource, default: []].append(element)
    }

    func hasTurn(where mayRun: (String) -> Bool) -> Bool { order.contains(where: mayRun) }

    /// Resources that may not run have running requests already, so there are few of them to pass by.
    mutating func popFirst(where mayRun: (String) -> Bool) -> (resource: String, element: Element)? {
        guard let place = order.firstIndex(where: mayRun) else { return nil }
        let resource = order.remove(at: place)
        guard let element = waiting[resource]?.removeFirst() else { return nil }
        if waiting[resource]!.isEmpty { waiting[resource] = nil } else { order.append(resource) }
        return (resource, element)
    }

    mutating func remove(of resource: String, where isGone: (Element) -> Bool) {
        waiting[resource]?.removeAll(where: isGone)
        guard waiting[resource]?.isEmpty == true else { return }
        waiting[resource] = nil
        order.removeAll { $0 == resource }
    }
}
