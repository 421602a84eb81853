import ReelCore

/// Every origin that the transport knows, and the choice of the request that leaves next.
///
/// Belongs to the transport's thread.
final class HostTable {
    /// A playlist may name many hosts: beyond this number the table forgets those with nothing under way, those that
    /// are away last.
    static let limit = 1024
    /// Cookies of all hosts together. RFC 6265, section 6.1, asks for as many.
    private static let cookieLimit = 3000

    private let slots: Int
    private let news: TransportNews
    private var hosts: [String: OriginHost] = [:]
    /// Hosts at which requests run, pause or wait.
    private(set) var busy: [OriginHost] = []
    let cookies = CookieSum()

    /// - Parameter slots: requests that run at once to one origin.
    init(slots: Int, _ news: TransportNews) {
        self.slots = slots
        self.news = news
    }

    var all: some Collection<OriginHost> { hosts.values }

    /// - Parameter origin: `ResourceURL.origin`.
    func known(_ origin: String) -> OriginHost? { hosts[origin] }

    /// The host of that origin, made where the table has none.
    func host(_ origin: String) -> OriginHost {
        if let known = hosts[origin] { return known }
        forget()
        let host = OriginHost(origin, slots: min(slots, Self.slots(of: origin)))
        hosts[origin] = host
        return host
    }

    /// FTP servers for the public allow few connections, and OpenSSH few logins at a time (`MaxStartups`).
    private static func slots(of origin: String) -> Int {
        if origin.hasPrefix("ftp") { KeptBody.mostOfHost } else { origin.hasPrefix("sftp") ? 4 : .max }
    }

    /// Makes room for a host. The next request to a forgotten one learns everything again. Hosts that have asked
    /// for a Digest login stay, up to twice the limit, as the next request would show the password.
    private func forget() {
        guard hosts.count >= Self.limit else { return }
        hosts = hosts.filter { !($1.isIdle && $1.health.standing == nil && !$1.login.asksForDigest) }
        guard hosts.count >= Self.limit else { return }
        for host in hosts.values where host.isIdle && (!host.login.asksForDigest || hosts.count > 2 * Self.limit) {
            hosts[host.name] = nil
            news.facts.withLock { $0.standings[host.name] = nil }
        }
    }

    /// A host has set cookies: those of the hosts that were asked longest ago go where there are too many.
    func limitCookies(after host: OriginHost) {
        // Most answers end here, whatever number of jars there is.
        guard cookies.count > Self.cookieLimit else { return }
        var jars = hosts.values.compactMap { other in other.login.cookies.map { (other, $0) } }
        for (_, jar) in jars { jar.recount() }
        var count = jars.reduce(0) { $0 + $1.1.count }
        jars.sort { $0.1.lastUse < $1.1.lastUse }
        for (other, jar) in jars where other !== host && count > Self.cookieLimit {
            count -= jar.count
            other.login.dropCookies()
        }
    }

    // MARK: Queues

    /// Puts a request into the queue of its host.
    func enqueue(_ transfer: Transfer) {
        let host = transfer.host
        host.queue.add(
            transfer, of: transfer.resource, isDemanded: transfer.request.isDemanded,
            isUrgent: transfer.request.connectLimit != nil)
        if !host.isListed {
            host.isListed = true
            busy.append(host)
        }
    }

    /// Gives free slots to the requests that wait.
    /// - Parameters:
    ///   - start: sends a request; true for one that should open a connection of its own.
    ///   - cancel: ends a request that makes room for another.
    func startWaiting(_ start: (Transfer, _ avoidsIdle: Bool) -> Void, cancel: (Transfer) -> Void) {
        var connections = busy.reduce(0) { $0 + $1.queue.connections }
        for host in busy {
            let queue = host.queue
            let isSilent = queue.isSilent
            while hasRoom(for: queue, beside: connections), let transfer = next(of: host, cancel) {
                connections += 1
                host.admitted(transfer)
                let isCrowded = !transfer.request.isDemanded && host.idle.areScarce(running: queue.running)
                let avoidsIdle = !transfer.isOfFileServer && (isSilent || isCrowded)
                transfer.hasTakenIdle = !avoidsIdle && host.idle.take()
                start(transfer, avoidsIdle)
            }
            while queue.hasTooManyPaused, let paused = host.longestPaused() { cancel(paused) }
            host.isListed = !queue.isIdle
        }
        busy.removeAll { !$0.isListed }
    }

    /// The request that may run now; one that a reader waits for gets the slot of one that no reader needs.
    private func next(of host: OriginHost, _ cancel: (Transfer) -> Void) -> Transfer? {
        if let next = host.queue.next() { return next }
        guard let dispensable = host.dispensable() else { return nil }
        cancel(dispensable)
        return host.queue.next()
    }

    /// A list may name hundreds of hosts that never answer; each socket is one of the process's descriptors.
    private func hasRoom(for queue: HostQueue<Transfer>, beside connections: Int) -> Bool {
        connections < ConnectionLimit.usual || queue.hasUrgent
            || queue.connections == 0 && connections < ConnectionLimit.most
    }
}
