import Synchronization

/// Bounds how much of something is done at once.
package final class Slots: Sendable {
    private let free: Atomic<Int>

    package init(_ count: Int) { free = Atomic(count) }

    /// Takes a slot, to be given back with `give`. - Returns: false if none is free.
    package func take() -> Bool {
        if free.subtract(1, ordering: .relaxed).newValue >= 0 { return true }
        give()
        return false
    }

    package func give() { free.add(1, ordering: .relaxed) }
}
