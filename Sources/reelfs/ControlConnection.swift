import Glibc
import ReelThreads
import ReelVolume

/// A client of the control socket, as the thread that serves it sees it.
final class ControlConnection: Sendable {
    let descriptor: Int32
    /// When the client was last told of progress.
    private let lastTold = Lock(now())

    /// Often enough for a bar that moves, seldom enough for a terminal.
    private static let pause = Duration.milliseconds(100)
    /// The time for one answer, however slowly it is read: a client may be stopped for a moment.
    private static let patience = Duration.seconds(10)

    /// - Parameter descriptor: stays the caller's to close.
    init(_ descriptor: Int32) { self.descriptor = descriptor }

    /// Whether the client has closed the connection, or the mount is ending. Costs a poll(2).
    var isOver: Bool {
        // A closed connection is reported without being asked for (POLLHUP); a request that waits is not.
        var poller = pollfd(fd: descriptor, events: 0, revents: 0)
        return poll(&poller, 1, 0) > 0
    }

    /// Sends a line that others follow.
    func send(more answer: ControlAnswer) {
        var answer = answer
        answer.more = true
        send(answer)
    }

    /// Sends progress, unless it comes too soon after the last; the end is always sent.
    func tell(_ progress: MaintenanceProgress) {
        let isDue = lastTold.withLock { last in
            guard now() - last >= Self.pause || progress.done == progress.total else { return false }
            last = now()
            return true
        }
        if isDue { send(more: ControlAnswer(progress: progress)) }
    }

    /// - Returns: false where the client does not take it; the connection is over then.
    @discardableResult func send(_ answer: ControlAnswer) -> Bool {
        let end = now() + Self.patience
        var rest = encodeLine(answer)[...]
        while !rest.isEmpty {
            let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, flags) }
            if count > 0 {
                rest = rest.dropFirst(count)
                continue
            }
            guard errno == EAGAIN || errno == EINTR, now() < end else {
                shutdown(descriptor, Int32(SHUT_RDWR))
                return false
            }
            var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            _ = poll(&poller, 1, Int32((end - now()) / .milliseconds(1)) + 1)
        }
        return true
    }
}
