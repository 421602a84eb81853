import ReelCore

/// All that the transport knows of one origin (scheme, host and port): a request belongs to the queue and the
/// connections of the place that it asks, and to the circuit and the redirects of the origin that it names.
///
/// How many requests at a time an origin is worth is no part of it: the readers of a file measure and ask that
/// (`ConcurrencyLimits` in ReelVolume), and the transport never does.
///
/// Belongs to the transport's thread.
final class OriginHost {
    /// `ResourceURL.origin`.
    let name: String
    let queue: HostQueue<Transfer>
    /// The requests that have a slot or pause.
    var active: [RequestHandle: Transfer] = [:]
    var idle = IdleConnections()
    /// When the newest connection that has answered since the loop last looked was opened.
    var reached: ContinuousClock.Instant?
    /// The region that it names as its bucket's (`SignedTarget`); nil: it has named none.
    var region: String?

    /// nil: it has got and set no cookies yet.
    var cookies: CookieJar?
    /// nil: it has asked for none, or for one of another form (`asksForDigest`).
    var digest: DigestLogin?
    /// It has asked for a Digest login: passwords do not go there in the clear again.
    var asksForDigest = false
    /// The reach of the address that last answered for it; nil: not known, or hidden by a proxy.
    var reach: AddressReach?

    /// Of an FTP server, the newest last.
    var lanes: [SessionLane] = []
    /// The files of an SFTP server, by URL: it tells a file's length only to a request of its own.
    var files: [String: FileFacts] = [:]

    /// nil: nothing was asked of it yet, or outages are not watched (`OutageWatch`).
    var circuit: Circuit?
    /// The request that a probe repeats: the last one that was answered, else the last one that went out.
    var example: OriginRequest?
    var isExampleAnswered = false
    /// When it went away, in seconds since 1970; nil: it has not.
    var awaySince: Int64?
    /// The standing that other threads know (`TransportNews`).
    var standing: OriginStanding?

    /// Requests under way that name it, probes among them.
    var requests = 0
    /// Whether it stands in `HostTable.busy`.
    var isListed = false

    init(_ name: String, slots: Int) {
        self.name = name
        queue = HostQueue(slots: slots)
    }

    /// Nothing runs or waits.
    var isIdle: Bool { requests == 0 && queue.isIdle }

    /// A running request whose rest no reader needs, and whose slot lets a demanded one run; nil: there is none.
    func dispensable() -> Transfer? {
        guard queue.hasDemanded else { return nil }
        let running = active.values.filter { $0.stage == .running && queue.wouldMakeRoom($0.resource) }
        return running.first { !$0.request.isDemanded && $0.receiver.yields() }
            ?? running.first { $0.request.isDemanded && $0.receiver.yields() }
    }

    /// The request that has paused longest of those that can do without their connection.
    func longestPaused() -> Transfer? {
        let paused = active.values.filter { $0.stage == .paused }
        return paused.sorted { $0.lastByte < $1.lastByte }.first { $0.receiver.yields() }
    }
}
