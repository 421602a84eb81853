import ReelCore
import ReelThreads

/// The program's one `Transport`: HTTP/1.1 requests through a libcurl multi handle on a thread of its own, which calls
/// all receivers. It follows redirects and remembers them, and retries nothing but a redirect that has expired.
package final class CurlOrigin: Transport {
    private let mailbox: Mailbox
    private let news = TransportNews()
    package let line: Line
    private let thread: Thread
    /// The receivers of requests that came after the transport's thread had ended, for a thread of their own: no
    /// receiver may be called from inside of `start`.
    private let late = Monitor<(receivers: [any OriginReceiver], isOver: Bool)>(([], false))

    /// Starts the threads. The transport's ends with `shutdown` or with the last reference.
    /// - Throws: `TransportError` for a configuration that cannot be sent, or where the system has no handle or thread.
    package init(_ configuration: TransportConfiguration) throws(TransportError) {
        try configuration.check()
        line = configuration.line
        let multi = try MultiHandle()
        mailbox = Mailbox(multi)
        let (mailbox, news, late) = (mailbox, news, late)
        let ends = Thread("origin-end") {
            while true {
                let receivers = late.wait { late -> [any OriginReceiver]? in
                    defer { late.receivers = [] }
                    return late.receivers.isEmpty && !late.isOver ? nil : late.receivers
                }
                if receivers.isEmpty { return }
                for receiver in receivers { receiver.ended(.cancelled) }
            }
        }
        guard let ends else { throw .noResources }
        ends.detach()
        let thread = TransportThread.start(multi) { thread in
            TransferLoop(on: thread, mailbox: mailbox, configuration: configuration, news: news).run()
        }
        guard let thread else {
            late.withLock { $0.isOver = true }
            throw .noResources
        }
        self.thread = thread
    }

    deinit {
        shutdown()
        late.withLock { $0.isOver = true }
    }

    /// Bytes, requests and connections so far.
    package var counters: TransportCounters { news.facts.withLock { $0.counters } }

    package func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        handle.connect(to: mailbox)
        if !mailbox.put({ $0.start(handle, request, receiver) }) { late.withLock { $0.receivers.append(receiver) } }
    }

    package func perform(_ job: @escaping @Sendable () -> Void) { mailbox.put { _ in job() } }

    package func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void) {
        mailbox.put { $0.watchOutages(deadline: deadline, report) }
    }

    package var standings: [String: OriginStanding] { news.facts.withLock { $0.standings } }

    package func noteInterest(in url: ResourceURL) { mailbox.put { $0.noteInterest(in: url) } }

    package func trust(_ origins: Set<String>) { mailbox.put { $0.trust(origins) } }

    /// Ends every request with `.cancelled`, and the thread; a request that starts later ends the same way at once.
    /// Returns when the last receiver was called, unless a receiver itself called this.
    package func shutdown() {
        guard mailbox.shutDown() else { return }
        if thread.isCurrent { thread.detach() } else { thread.join() }
    }
}
