import Glibc
import ReelThreads
import ReelVolume
import Synchronization

/// A request that takes a while: done on a thread of its own, for as long as its client is there.
final class ControlJob: Sendable {
    let descriptor: Int32
    private let isEnded = Atomic(false)
    private let isDone = Monitor(false)
    /// When the client last heard of it.
    private let lastTold = Mutex(now())

    /// Often enough for a bar that moves, seldom enough for a terminal.
    private static let pause = Duration.milliseconds(100)

    private init(_ descriptor: Int32) { self.descriptor = descriptor }

    /// - Parameters:
    ///   - descriptor: of the client; to be left open until `hasEnded`.
    ///   - whenDone: called by the job's thread as its last act.
    /// - Returns: nil where there is no thread to be had.
    static func start(
        on descriptor: Int32, _ work: @escaping @Sendable (ControlJob) -> ControlAnswer,
        whenDone: @escaping @Sendable () -> Void
    ) -> ControlJob? {
        let job = ControlJob(descriptor)
        let thread = Thread("maintenance") {
            job.send(work(job))
            job.isDone.withLock { $0 = true }
            whenDone()
        }
        guard let thread else { return nil }
        thread.detach()
        return job
    }

    /// The client has gone, or the mount is ending: to be noticed by the work soon.
    func end() { isEnded.store(true, ordering: .releasing) }

    /// Nobody wants it any more.
    var isOver: Bool { isEnded.load(ordering: .acquiring) }

    /// Nothing uses the descriptor any more.
    var hasEnded: Bool { isDone.withLock(notifying: false) { $0 } }

    func waitForEnd() { isDone.wait { $0 ? () : nil } }

    /// A line that others follow.
    func send(more answer: ControlAnswer) {
        var answer = answer
        answer.more = true
        send(answer)
    }

    /// What is told too soon after the last time is left out, but for the end.
    func tell(_ progress: MaintenanceProgress) {
        let isDue = lastTold.withLock { last in
            guard now() - last >= Self.pause || progress.done == progress.total else { return false }
            last = now()
            return true
        }
        if isDue { send(more: ControlAnswer(progress: progress)) }
    }

    private func send(_ answer: ControlAnswer) {
        // Ten seconds: the client may be stopped for a moment; its work is not worth more.
        if !isOver, !deliver(encodeLine(answer), to: descriptor, patience: 10_000) { end() }
    }
}

/// - Parameter patience: milliseconds in which the client must have taken it all, however slowly it reads.
/// - Returns: false where it is not taken.
func deliver(_ line: [UInt8], to descriptor: Int32, patience: Int32) -> Bool {
    let end = now() + .milliseconds(Int64(patience))
    var rest = line[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        if count > 0 {
            rest = rest.dropFirst(count)
            continue
        }
        var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard errno == EAGAIN || errno == EINTR, now() < end else { return false }
        _ = poll(&poller, 1, Int32((end - now()) / .milliseconds(1)) + 1)
    }
    return true
}
