/// Which requests to one origin run, and which wait: demanded ones first, each kind in order of arrival.
///
/// Speculative requests may take all slots but a quarter, so that a demanded one rarely waits behind a long prefetch.
struct HostQueue<Element> {
    let slots: Int
    private(set) var running = 0
    private var demanded: ArraySlice<Element> = []
    private var speculative: ArraySlice<Element> = []

    init(slots: Int) {
        self.slots = slots
    }

    var isIdle: Bool { running == 0 && demanded.isEmpty && speculative.isEmpty }
    var waiting: [Element] { Array(demanded) + Array(speculative) }

    mutating func add(_ element: Element, isDemanded: Bool) {
        if isDemanded { demanded.append(element) } else { speculative.append(element) }
    }

    mutating func remove(where isGone: (Element) -> Bool) {
        demanded.removeAll(where: isGone)
        speculative.removeAll(where: isGone)
    }

    /// The next one that may run, which takes a slot; nil: none waits, or no slot is free for it.
    mutating func next() -> Element? {
        if running < slots, let first = demanded.popFirst() {
            running += 1
            return first
        }
        if running < max(1, slots - slots / 4), let first = speculative.popFirst() {
            running += 1
            return first
        }
        return nil
    }

    /// A slot is free again: its request ended, or is paused and takes no bytes.
    mutating func release() {
        precondition(running > 0, "a slot was given back twice")
        running -= 1
    }

    /// A paused request goes on. It has its connection already, so it never waits: the slots may be over-full.
    mutating func take() { running += 1 }
}
