import CCurl
import ReelCore
import ReelThreads

/// The transport's thread: runs commands, lets curl work, hands bytes on, ends what is finished or has stalled.
///
/// It is made on that thread, from the proof of being there, and can be sent to no other: nor can hosts and transfers.
final class TransferLoop {
    let configuration: TransportConfiguration
    let news: TransportNews
    var pool = BufferPool()
    /// Transfers that gathered bytes in this round.
    var gathering: [Transfer] = []
    /// Origins that answered on a new connection in this round, and when it was opened.
    var reached: [(host: OriginHost, opened: ContinuousClock.Instant)] = []
    /// nil: outages are not watched.
    private(set) var watch: OutageWatch?

    private let thread: TransportThread
    private let mailbox: Mailbox
    private var transfers: [RequestHandle: Transfer] = [:]
    private var hosts: [String: OriginHost] = [:]
    /// Hosts at which requests run, pause or wait.
    private var busy: [OriginHost] = []
    /// A playlist may name many hosts: beyond this, those are forgotten that have nothing under way and are not away.
    static let hostLimit = 1024
    /// Redirects remembered of all hosts together, but for a few that each host may have.
    private static let redirectLimit = 1024
    /// Connections in all from which an origin that has some gets no more; one that has none gets one, up to half as
    /// many again. A process may have 1024 files open, mostly.
    private static let connectionLimit = 256
    /// No deadline is before this.
    private var nextCheck = ContinuousClock.now

    init(
        on thread: consuming TransportThread, mailbox: Mailbox, configuration: TransportConfiguration,
        news: TransportNews
    ) {
        self.thread = thread
        self.mailbox = mailbox
        self.configuration = configuration
        self.news = news
    }

    func run() {
        while true {
            let (commands, isShutDown) = mailbox.takeAll()
            for command in commands { command(self) }
            if isShutDown {
                for transfer in transfers.values { finish(transfer, with: .failed(.cancelled)) }
                return
            }
            startWaiting()
            thread.perform()
            handOverGathered()
            while let (transfer, result) = thread.nextEnd() {
                finish(transfer, with: transfer.verdict(of: result), isKept: result == CURLE_OK)
            }
            reconnectOvertaken()
            checkTimers()
            actOnOutages()
            // Slots may be free again; a handle that was added makes the wait return at once.
            startWaiting()
            var time = transfers.isEmpty ? .seconds(60) : nextCheck - .now
            if let tick = watch?.nextTick { time = min(time, tick - now()) }
            thread.wait(atMost: time)
        }
    }

    // MARK: Commands

    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        if handle.isCancelled.load(ordering: .relaxed) { return receiver.ended(.cancelled) }
        if let failure = Transfer.refusal(of: request) { return receiver.ended(failure) }
        var request = request
        if handle.isPromoted.load(ordering: .relaxed) { request.isDemanded = true }
        let home = host(request.url.origin)
        if let outage = watch?.ask(request, of: home) { return receiver.ended(.away(outage)) }
        start(Transfer(handle, request, receiver, of: home, in: self))
    }

    func cancel(_ handle: RequestHandle) {
        if let transfer = transfers[handle] { finish(transfer, with: .failed(.cancelled)) }
    }

    func promote(_ handle: RequestHandle) {
        guard let transfer = transfers[handle], !transfer.request.isDemanded else { return }
        transfer.promote()
        guard transfer.stage == .waiting else { return }
        transfer.host.queue.remove(of: transfer.resource) { $0 === transfer }
        transfer.host.queue.add(transfer, of: transfer.resource, isDemanded: true)
    }

    func resume(_ handle: RequestHandle) {
        guard let transfer = transfers[handle], transfer.stage == .paused else { return }
        transfer.stage = .running
        transfer.lastByte = .now
        transfer.host.queue.resume(transfer.resource)
        watch?.resumed(transfer.home)
        nextCheck = min(nextCheck, transfer.lastByte + transfer.request.stallLimit)
        // Bytes that curl holds come from inside this call, and a refusal of them ends nothing by itself.
        let result = curl_easy_pause(transfer.handle, CURLPAUSE_CONT)
        if result != CURLE_OK {
            _ = transfer.handOver()
            finish(transfer, with: transfer.verdict(of: result))
        }
    }

    func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void) {
        watch = OutageWatch(deadline: deadline, news, report)
    }

    func noteInterest(in url: ResourceURL) {
        if let host = hosts[url.origin] { watch?.noteInterest(in: host) }
    }

    // MARK: Outages

    private func actOnOutages() {
        for (host, action) in watch?.takeDue(of: hosts.values) ?? [] {
            switch action {
            case .probe(let connect, let answer): probe(host, connect, answer, isKnock: false)
            case .knock(let connect, let answer): probe(host, connect, answer, isKnock: true)
            case .cut:
                let outage = host.circuit?.outage ?? .unreachable
                for transfer in transfers.values
                where transfer.home === host && transfer.stage != .paused && transfer.probe == nil {
                    finish(transfer, with: .failed(.away(outage)))
                }
            case .opened, .closed: break
            }
        }
    }

    private func probe(_ host: OriginHost, _ connect: Duration, _ answer: Duration, isKnock: Bool) {
        guard let example = host.example else { return }
        var request = OriginRequest(
            url: example.url, range: ByteRange(0, 1), stallLimit: answer, connectLimit: connect)
        request.headers = example.headers
        let transfer = Transfer(RequestHandle(), request, ProbeReceiver(), of: host, in: self)
        transfer.probe = Transfer.Probe(isKnock: isKnock, start: now())
        start(transfer)
    }

    // MARK: Queues

    private func host(_ origin: String) -> OriginHost {
        if let known = hosts[origin] { return known }
        forgetHosts()
        let host = OriginHost(origin, slots: configuration.connectionsPerOrigin)
        hosts[origin] = host
        return host
    }

    /// The knowledge of a forgotten host is found out again with its next request. Hosts that are away go last.
    private func forgetHosts() {
        guard hosts.count >= Self.hostLimit else { return }
        hosts = hosts.filter { !($1.isIdle && $1.standing == nil) }
        guard hosts.count >= Self.hostLimit else { return }
        for host in hosts.values where host.isIdle {
            hosts[host.name] = nil
            news.standings.withLock { $0[host.name] = nil }
        }
    }

    private func start(_ transfer: Transfer) {
        transfers[transfer.id] = transfer
        transfer.home.requests += 1
        enqueue(transfer)
    }

    private func enqueue(_ transfer: Transfer) {
        let host = host(transfer.place.origin)
        transfer.host = host
        // Ten redirects have no ten times as long.
        if transfer.visited.isEmpty { transfer.lastByte = .now }
        nextCheck = min(nextCheck, transfer.lastByte + transfer.request.stallLimit)
        host.queue.add(
            transfer, of: transfer.resource, isDemanded: transfer.request.isDemanded,
            isUrgent: transfer.request.connectLimit != nil)
        if !host.isListed {
            host.isListed = true
            busy.append(host)
        }
    }

    private func startWaiting() {
        var connections = busy.reduce(0) { $0 + $1.queue.connections }
        for host in busy {
            let queue = host.queue
            let isSilent = queue.isSilent
            while hasRoom(for: queue, beside: connections), let transfer = queue.next() ?? makeRoom(in: host) {
                connections += 1
                transfer.stage = .running
                if transfer.visited.isEmpty { transfer.lastByte = .now }
                transfer.receiver.sent()
                let avoidsIdle =
                    isSilent || !transfer.request.isDemanded && host.idle.areScarce(running: queue.running)
                transfer.hasTakenIdle = !avoidsIdle && host.idle.take()
                if send(transfer, avoidsIdle: avoidsIdle) { news.counters.withLock { $0.requests += 1 } }
            }
            while queue.hasTooManyPaused, endLongestPaused(at: host) {}
            host.isListed = !queue.isIdle
        }
        busy.removeAll { !$0.isListed }
    }

    /// Gives a request to curl. - Returns: false where it has ended instead.
    private func send(_ transfer: Transfer, avoidsIdle: Bool) -> Bool {
        if transfer.prepare(configuration, avoidsIdle: avoidsIdle), thread.add(transfer.handle) { return true }
        finish(transfer, with: .failed(.unreachable("no memory for a request")))
        return false
    }

    /// A list may name hundreds of hosts that never answer; each socket is one of the process's descriptors.
    private func hasRoom(for queue: HostQueue<Transfer>, beside connections: Int) -> Bool {
        connections < Self.connectionLimit || queue.hasUrgent
            || queue.connections == 0 && connections < Self.connectionLimit * 3 / 2
    }

    /// A demanded request that finds all slots taken gets the slot of one whose rest no reader needs.
    /// - Returns: the request that may run now.
    private func makeRoom(in host: OriginHost) -> Transfer? {
        let queue = host.queue
        guard queue.hasDemanded else { return nil }
        for isDemanded in [false, true] {
            for transfer in transfers.values
            where transfer.stage == .running && transfer.request.isDemanded == isDemanded
                && transfer.host === host && queue.wouldMakeRoom(transfer.resource)
                && transfer.receiver.yields()
            {
                finish(transfer, with: .failed(.cancelled))
                return queue.next()
            }
        }
        return nil
    }

    /// - Returns: whether a paused request has let go of its connection.
    private func endLongestPaused(at host: OriginHost) -> Bool {
        let paused = transfers.values.filter { $0.stage == .paused && $0.host === host }
        for transfer in paused.sorted(by: { $0.lastByte < $1.lastByte }) where transfer.receiver.yields() {
            finish(transfer, with: .failed(.cancelled))
            return true
        }
        return false
    }

    /// Called when the receiver asked for it: the slot goes to another while nothing is read.
    func pause(_ transfer: Transfer) {
        transfer.stage = .paused
        transfer.host.queue.pause(transfer.resource)
        watch?.paused(transfer.home)
    }

    /// A transfer's place took the request: it is where to ask next time.
    func accepted(_ transfer: Transfer) {
        let limit = max(16, Self.redirectLimit / hosts.count)
        let isRedirected = transfer.place.text != transfer.homePlace.text
        transfer.home.redirects.remember(
            isRedirected ? transfer.place : transfer.request.url, for: transfer.request, atMost: limit)
    }

    /// The rest of an answer is of no use: its transfer ends with its verdict, after `time` at the latest.
    func end(_ transfer: Transfer, after time: Duration) {
        let end = ContinuousClock.now + time
        transfer.drainEnd = end
        nextCheck = min(nextCheck, end)
    }

    private func handOverGathered() {
        let round = gathering
        gathering = []
        for transfer in round {
            let answer = transfer.handOver()
            giveBack(transfer)
            transfer.host.queue.lastByte = transfer.lastByte
            switch answer {
            case .more: break
            case .pause: curl_easy_pause(transfer.handle, CURLPAUSE_RECV)
            case .stop:
                // A body that came whole has nothing left to stop: curl has its connection back already.
                let isWhole = transfer.announced.map { transfer.received >= $0 } ?? false
                finish(transfer, with: .failed(.cancelled), isKept: isWhole)
            }
        }
    }

    /// An origin that is back: what waits for TCP to repeat a lost packet tries again at once.
    private func reconnectOvertaken() {
        for (host, opened) in reached {
            for transfer in transfers.values where transfer.host === host && transfer.isOvertaken(by: opened) {
                thread.remove(transfer.handle)
                transfer.dropHandle()
                _ = send(transfer, avoidsIdle: true)
            }
        }
        reached = []
    }

    /// Takes the handle from curl and the slot from the transfer, then goes on to another place or ends it.
    /// - Parameter isKept: its connection can be used again.
    private func finish(_ transfer: Transfer, with verdict: Transfer.Verdict?, isKept: Bool = false) {
        let (host, queue) = (transfer.host, transfer.host.queue)
        if transfer.buffer != nil {
            gathering.removeAll { $0 === transfer }
            giveBack(transfer)
        }
        if transfer.collector.status != 0 { queue.lastByte = transfer.lastByte }
        if let easy = transfer.handle, transfer.stage != .waiting {
            let opened = Int64(reel_get_long(easy, CURLINFO_NUM_CONNECTS))
            news.counters.withLock { $0.connections += opened }
            host.idle.ended(hasTaken: transfer.hasTakenIdle, isNew: opened > 0, isKept: isKept)
            thread.remove(easy)
        }
        switch transfer.stage {
        case .waiting: queue.remove(of: transfer.resource) { $0 === transfer }
        case .running: queue.release(transfer.resource)
        case .paused: queue.releasePaused()
        }
        switch verdict {
        case .redirected(let target):
            transfer.isRedirected = true
            transfer.receiver.redirected()
            transfer.move(to: target, visited: transfer.visited + [transfer.place.text])
            enqueue(transfer)
        case .askOriginal:
            transfer.home.redirects.forget(transfer.request.url.text)
            transfer.moveHome()
            enqueue(transfer)
        case .failed(let failure): end(transfer, failure)
        case nil: end(transfer, nil)
        }
    }

    private func end(_ transfer: Transfer, _ failure: OriginFailure?) {
        switch failure {
        case nil, .cancelled, .interrupted: break
        default: if transfer.isRemembered { transfer.home.redirects.forget(transfer.request.url.text) }
        }
        transfers[transfer.id] = nil
        transfer.home.requests -= 1
        if let probe = transfer.probe {
            watch?.ended(transfer, probe, failure)
        } else {
            transfer.receiver.ended(watch?.ended(transfer, failure) ?? failure)
        }
    }

    private func giveBack(_ transfer: Transfer) {
        pool.give(transfer.buffer!)
        transfer.buffer = nil
        transfer.buffered = 0
    }

    /// Ends what has stalled, and bodies of errors that take too long.
    private func checkTimers() {
        let now = ContinuousClock.now
        guard now >= nextCheck else { return }
        nextCheck = now + .seconds(60)
        for transfer in transfers.values {
            guard let deadline = deadline(of: transfer) else { continue }
            if deadline > now {
                nextCheck = min(nextCheck, deadline)
            } else {
                finish(transfer, with: transfer.verdict ?? .failed(.timedOut))
            }
        }
    }

    private func deadline(of transfer: Transfer) -> ContinuousClock.Instant? {
        switch transfer.stage {
        case .paused: nil
        case .running: transfer.drainEnd ?? (transfer.lastByte + transfer.request.stallLimit)
        // While others get bytes from there, standing in line is no stall.
        case .waiting:
            max(transfer.lastByte, transfer.host.queue.lastByte ?? transfer.lastByte) + transfer.request.stallLimit
        }
    }
}
