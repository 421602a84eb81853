import Glibc
import ReelThreads
import ReelVolume

/// A client of the control socket, as the thread that serves it sees it.
final class ControlConnection: RequestClient {
    let descriptor: Int32
    /// When progress was last sent.
    private let lastProgress = Lock(now())
    /// What the client has sent with its lines, and no request has taken.
    private let descriptors = Lock<[Int32]>([])

    /// Often enough for a bar that moves, seldom enough for a terminal.
    private static let pause = Duration.milliseconds(100)
    /// The time for one answer, however slowly it is read: a client may be stopped for a moment.
    private static let patience = Duration.seconds(10)

    /// - Parameter descriptor: stays the caller's to close.
    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { for descriptor in takeDescriptors() { close(descriptor) } }

    var user: uid_t { peer(of: descriptor).user }
    var process: pid_t { peer(of: descriptor).process }

    /// Like read(2); keeps the descriptors that come along for the request that they come with, at most two.
    func receive(_ buffer: inout [UInt8]) -> Int {
        let (count, files) = DescriptorMessage.receive(&buffer, from: descriptor)
        guard !files.isEmpty else { return count }
        for descriptor in takeDescriptors() { close(descriptor) }
        descriptors.withLock { $0 = files }
        return count
    }

    func takeDescriptors() -> [Int32] {
        descriptors.withLock { descriptors in
            defer { descriptors = [] }
            return descriptors
        }
    }

    /// Costs a poll(2).
    var isOver: Bool {
        // A closed connection is reported without being asked for (POLLHUP); a request that waits is not.
        var poller = pollfd(fd: descriptor, events: 0, revents: 0)
        return poll(&poller, 1, 0) > 0
    }

    func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Whether progress does not come too soon after the last; the end is always sent.
    private func isDue(_ progress: MaintenanceProgress) -> Bool {
        lastProgress.withLock { last in
            guard now() - last >= Self.pause || progress.done == progress.total else { return false }
            last = now()
            return true
        }
    }

    /// - Parameter descriptors: go with it, at most two.
    /// - Returns: false where the client does not take it; the connection is over then.
    @discardableResult func send(_ answer: ControlAnswer, _ descriptors: [Int32] = []) -> Bool {
        if case .progress(let progress) = answer, !isDue(progress) { return true }
        let deadline = now() + Self.patience
        var rest = encodeLine(answer)[...]
        var descriptors = descriptors
        while !rest.isEmpty {
            let count = DescriptorMessage.send(rest, descriptors, to: descriptor, flags: Int32(MSG_DONTWAIT))
            if count > 0 {
                (rest, descriptors) = (rest.dropFirst(count), [])
                continue
            }
            guard errno == EAGAIN || errno == EINTR, now() < deadline else {
                end()
                return false
            }
            var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            _ = poll(&poller, 1, Int32((deadline - now()) / .milliseconds(1)) + 1)
        }
        return true
    }
}

/// The process at the other end of a connection, as it was when it called connect(2) or listen(2) (SO_PEERCRED).
func peer(of connection: Int32) -> (process: pid_t, user: uid_t, group: gid_t) {
    // struct ucred, which Glibc's module hides behind _GNU_SOURCE.
    var peer: (process: pid_t, user: uid_t, group: gid_t) = (0, .max, 0)
    var length = socklen_t(MemoryLayout.size(ofValue: peer))
    getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length)
    return peer
}
