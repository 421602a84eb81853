import Glibc
import ReelThreads
import Synchronization

/// Does something when a test has not called it off in time: what makes a hanging test fail instead.
package final class Watchdog: Sendable {
    private let calledOff = Gate()
    private let thread: Thread
    private let bitten: BittenFlag

    private final class BittenFlag: Sendable {
        let value = Atomic(false)
    }

    package init(after limit: Duration, _ bite: @escaping @Sendable () -> Void) {
        let flag = BittenFlag()
        bitten = flag
        let gate = calledOff
        thread = startThread {
            if gate.wait(within: limit) { return }
            flag.value.store(true, ordering: .releasing)
            bite()
        }
    }

    /// Once. - Returns: whether it was too late.
    package func callOff() -> Bool {
        calledOff.open()
        thread.join()
        return bitten.value.load(ordering: .acquiring)
    }
}
