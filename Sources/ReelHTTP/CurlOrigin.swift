import ReelCore
import ReelThreads
import Synchronization

/// The program's one `Origin`: HTTP/1.1 requests through a libcurl multi handle on a thread of its own, which calls all
/// receivers. Redirects are followed here and remembered; nothing is retried but a redirect that has expired.
package final class CurlOrigin: Origin {
    private let mailbox: Mailbox
    private let running = RunningCounters()
    private let lastID = Atomic<UInt64>(0)
    private let thread: Thread

    /// Starts the thread. `shutdown` or the last reference going ends it.
    package init(_ configuration: TransportConfiguration) throws(TransportError) {
        try configuration.check()
        mailbox = try Mailbox()
        let (mailbox, counters) = (mailbox, running)
        guard
            let thread = Thread(
                "origin",
                {
                    TransferLoop(mailbox: mailbox, configuration: configuration, counters: counters).run()
                })
        else { throw .noResources }
        self.thread = thread
    }

    deinit { shutdown() }

    /// What was received, asked and opened so far.
    package var counters: TransportCounters { running.snapshot }

    package func start(_ request: OriginRequest, _ receiver: any OriginReceiver) -> OriginRequestID {
        let id = OriginRequestID(lastID.add(1, ordering: .relaxed).newValue)
        if !mailbox.put(.start(id, request, receiver)) {
            // The transport's thread is gone, and the receiver must not be called from inside `start`.
            Thread("origin-end") { receiver.ended(.cancelled) }?.detach()
        }
        return id
    }

    package func cancel(_ id: OriginRequestID) { _ = mailbox.put(.cancel(id)) }

    package func resume(_ id: OriginRequestID) { _ = mailbox.put(.resume(id)) }

    package func promote(_ id: OriginRequestID) { _ = mailbox.put(.promote(id)) }

    package func perform(_ job: @escaping @Sendable () -> Void) { _ = mailbox.put(.perform(job)) }

    /// Ends every request with `.cancelled`, and the thread; requests started later end so at once. Returns when the
    /// last receiver was called, unless a receiver itself called this.
    package func shutdown() {
        guard mailbox.shutDown() else { return }
        if thread.isCurrent { thread.detach() } else { thread.join() }
    }
}
