/// Which requests to one origin run, and which wait: demanded ones first, each kind in order of arrival.
///
/// Speculative requests may take all slots but a quarter, so that a demanded one rarely waits behind a long prefetch.
/// A class, because the loop looks at all queues while it changes one: as values they would be copied each time.
final class HostQueue<Element> {
    let slots: Int
    private(set) var running = 0
    private(set) var paused = 0
    /// More that pause than run: each holds a connection, and players go on within seconds. Others let go of theirs.
    var hasTooManyPaused: Bool { paused > slots }
    /// When a byte last came from there.
    var lastByte: ContinuousClock.Instant?
    /// Beside all slots: what looks for an origin that has all of them waiting.
    private var urgent = Line<Element>()
    private var demanded = Line<Element>()
    private var speculative = Line<Element>()

    init(slots: Int) {
        self.slots = slots
    }

    var isIdle: Bool { running == 0 && paused == 0 && urgent.isEmpty && demanded.isEmpty && speculative.isEmpty }

    /// Demanded requests wait although every slot is taken.
    var isCrowded: Bool { !demanded.isEmpty && running >= slots }

    func add(_ element: Element, isDemanded: Bool, isUrgent: Bool = false) {
        if isUrgent {
            urgent.append(element)
        } else if isDemanded {
            demanded.append(element)
        } else {
            speculative.append(element)
        }
    }

    func remove(where isGone: (Element) -> Bool) {
        urgent.remove(where: isGone)
        demanded.remove(where: isGone)
        speculative.remove(where: isGone)
    }

    /// The next one that may run, which takes a slot; nil: none waits, or no slot is free for it.
    func next() -> Element? {
        if let first = urgent.popFirst() {
            running += 1
            return first
        }
        let limit = demanded.isEmpty ? max(1, slots - slots / 4) : slots
        guard running < limit, let first = demanded.popFirst() ?? speculative.popFirst() else { return nil }
        running += 1
        return first
    }

    /// A running request takes no bytes for now: its slot is free, its connection is not.
    func pause() {
        release()
        paused += 1
    }

    /// A paused one goes on. It has its connection already, so it never waits: the slots may be over-full.
    func resume() {
        releasePaused()
        running += 1
    }

    /// A running request ended.
    func release() {
        precondition(running > 0, "a slot was given back twice")
        running -= 1
    }

    /// A paused request ended.
    func releasePaused() {
        precondition(paused > 0, "a request was resumed twice")
        paused -= 1
    }
}

/// First in, first out. What was taken is let go at once (a slice of an array would hold it, and its receiver with it).
private struct Line<Element> {
    private var elements: [Element?] = []
    private var first = 0

    var isEmpty: Bool { first == elements.count }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        defer {
            elements[first] = nil
            first += 1
            if first > 64, first * 2 > elements.count {
                elements.removeFirst(first)
                first = 0
            }
        }
        return elements[first]
    }

    mutating func remove(where isGone: (Element) -> Bool) {
        elements.removeFirst(first)
        first = 0
        elements.removeAll { $0.map(isGone) ?? true }
    }
}
