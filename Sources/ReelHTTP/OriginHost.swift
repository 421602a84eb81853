import ReelCore

/// All that the transport knows of one origin (scheme, host and port): a request belongs to the queue and the
/// connections of the place that it asks, and to the circuit and the redirects of the origin that it names.
///
/// Belongs to the transport's thread.
final class OriginHost {
    /// `ResourceURL.origin`.
    let name: String
    let queue: HostQueue<Transfer>
    var idle = IdleConnections()
    /// Where its URLs were last redirected to.
    var redirects = RedirectMemory()
    /// Where it says that its bucket is (`SignedTarget`); nil: it has not.
    var region: String?

    /// nil: nothing was asked of it yet, or outages are not watched (`OutageWatch`).
    var circuit: Circuit?
    /// A probe asks for the same: the last request that was answered, else the last one that was let through.
    var example: (url: ResourceURL, headers: [(name: String, value: String)])?
    var isExampleAnswered = false
    /// Since when it is away, in seconds since 1970; nil: it is not.
    var awaySince: Int64?
    /// As other threads know it (`TransportNews`).
    var standing: OriginStanding?

    /// Requests under way that name it, probes among them.
    var requests = 0
    /// It stands in the loop's list of those to look at.
    var isListed = false

    init(_ name: String, slots: Int) {
        self.name = name
        queue = HostQueue(slots: slots)
    }

    /// Nothing runs or waits.
    var isIdle: Bool { requests == 0 && queue.isIdle }
}
