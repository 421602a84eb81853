import Glibc
import ReelThreads

/// Waits until `condition` holds, at most `limit`. - Returns: whether it held.
///
/// For what other threads bring about and no signal reports; looks again every millisecond.
@discardableResult
package func eventually(within limit: Duration = .seconds(10), _ condition: () -> Bool) -> Bool {
    let end = ContinuousClock.now + limit
    while !condition() {
        if ContinuousClock.now > end { return condition() }
        usleep(1000)
    }
    return true
}

/// A door that a test opens once: whoever waits at it, then or later, passes.
package final class Gate: Sendable {
    /// A pipe that becomes readable for good, so that a waiter can watch its connection beside it.
    let readEnd: Int32
    private let writeEnd: Int32

    package init() {
        var ends: [Int32] = [-1, -1]
        precondition(pipe(&ends) == 0, "no descriptors left")
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    package func open() {
        var byte: UInt8 = 1
        _ = write(writeEnd, &byte, 1)
    }

    /// - Returns: whether it was opened within `limit`.
    @discardableResult
    package func wait(within limit: Duration = .seconds(10)) -> Bool {
        var watched = pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)
        return poll(&watched, 1, Int32(limit / .milliseconds(1))) == 1
    }
}

/// Runs `body` on a thread of its own, which the caller joins where it ends before the process.
@discardableResult
package func startThread(_ body: @escaping @Sendable () -> Void) -> Thread {
    guard let thread = Thread("test", body) else { preconditionFailure("no threads left") }
    return thread
}
