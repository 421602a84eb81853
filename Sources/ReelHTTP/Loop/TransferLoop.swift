import CCurl
import ReelCore
import ReelThreads

/// The transport's thread: runs commands, lets curl work, hands bytes on, and ends requests that are done or stalled.
///
/// It is made on that thread, from the proof of being there, and cannot leave it; neither can hosts and transfers.
final class TransferLoop {
    let news: TransportNews
    var pool = BufferPool()
    /// nil: outages are not watched.
    private(set) var watch: OutageWatch?

    private let thread: TransportThread
    private let mailbox: Mailbox
    private(set) var configuration: TransportConfiguration
    private let hosts: HostTable
    var redirects = RedirectMemory()
    var netrc: Netrc
    let tokens: TokenKeeper<String>
    let keys: TokenKeeper<SigningKey>
    private var transfers: [RequestHandle: Transfer] = [:]
    /// The bodies that wait for a request, the longest kept first.
    private var bodies: [KeptBody] = []
    /// Requests that go on with the body of another one, which is on its way.
    private var awaiting: [Transfer] = []
    var gate: LineGate<Transfer>
    /// Between two looks at control connections that libcurl does not wait for: little beside a round trip.
    private static let replyLook = Duration.milliseconds(5)
    /// No deadline is before this moment.
    private var nextCheck = ContinuousClock.now

    init(
        on thread: consuming TransportThread, mailbox: Mailbox, configuration: TransportConfiguration,
        news: TransportNews
    ) {
        self.thread = thread
        self.mailbox = mailbox
        self.configuration = configuration
        self.news = news
        tokens = TokenKeeper(configuration.tokenSource) { [mailbox] token in
            mailbox.put { $0.take(token: token) }
        }
        keys = TokenKeeper(first: configuration.signingKey, configuration.keySource) { [mailbox] key in
            mailbox.put { $0.take(key: key) }
        }
        gate = LineGate(configuration.line)
        netrc = Netrc(configuration.netrcFile)
        hosts = HostTable(slots: configuration.connectionsPerOrigin, news)
    }

    /// Works until `Mailbox.shutDown`; returns when every receiver has been notified of its end.
    func run() {
        while true {
            let (commands, isShutDown) = mailbox.takeAll()
            for command in commands { command(self) }
            if isShutDown {
                for transfer in transfers.values { finish(transfer, with: .failed(.cancelled)) }
                drop(bodies)
                return
            }
            startWaiting()
            thread.perform()
            handOverGathered()
            while let (context, result) = thread.nextEnd() {
                guard let transfer = context.transfer else {
                    // Its rest will not come, or there is none.
                    drop(bodies.filter { $0.isOf(context) })
                    continue
                }
                finish(transfer, with: transfer.verdict(of: result), isKept: result == CURLE_OK)
            }
            drop(bodies.filter { $0.end <= .now })
            reconnectOvertaken()
            // What goes on in this moment has not waited too long.
            goOnWithinLine()
            startWaiting()
            endStalled()
            actOnOutages()
            // Slots may be free again; a handle that was added makes the wait return at once.
            startWaiting()
            var time = transfers.isEmpty ? .seconds(60) : nextCheck - .now
            if let body = bodies.first { time = min(time, body.end - .now) }
            if !configuration.line.isOffline, let tick = watch?.nextTick { time = min(time, tick - now()) }
            if let pause = gate.wait(now: now()) { time = min(time, pause) }
            // What curl held of a body may have been all that a request wanted.
            if pool.isInUse { time = .zero }
            if transfers.values.contains(where: \.mayMissReply) { time = min(time, Self.replyLook) }
            thread.wait(atMost: time)
        }
    }

    // MARK: Commands

    /// Like `Origin.start`.
    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        if handle.isCancelled { return receiver.ended(.cancelled) }
        if let failure = Transfer.refusal(of: request) { return receiver.ended(failure) }
        if configuration.line.isOffline { return receiver.ended(.away(.offline)) }
        var request = request
        if handle.isPromoted { request.promote() }
        let home = hosts.host(request.url.origin)
        if let outage = watch?.ask(request, of: home) { return receiver.ended(.away(outage)) }
        start(Transfer(handle, request, receiver, of: home, in: self))
    }

    /// Like `RequestHandle.cancel`.
    func cancel(_ handle: RequestHandle) {
        if let transfer = transfers[handle] { cancel(transfer) }
    }

    /// Like `RequestHandle.promote`.
    func promote(_ handle: RequestHandle) {
        guard let transfer = transfers[handle], !transfer.request.isDemanded else { return }
        transfer.promote()
        guard transfer.stage == .waiting else { return }
        transfer.host.queue.remove(of: transfer.resource) { $0 === transfer }
        hosts.enqueue(transfer)
    }

    /// Like `RequestHandle.resume`.
    func resume(_ handle: RequestHandle) {
        guard let transfer = transfers[handle], transfer.stage == .paused else { return }
        transfer.resume()
        transfer.host.queue.resume(transfer.resource)
        watch?.resumed(transfer.home)
        expect(transfer)
        unpause(transfer)
    }

    private func unpause(_ transfer: Transfer) {
        // curl hands over the bytes that it holds inside of this call. If they are refused, it does not end the
        // transfer: this does.
        let result = curl_easy_pause(transfer.handle, CURLPAUSE_CONT)
        if result != CURLE_OK {
            _ = transfer.handOver()
            finish(transfer, with: transfer.verdict(of: result))
        }
    }

    /// Like `Transport.watchOutages`.
    func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void) {
        watch = OutageWatch(deadline: deadline, news, report)
    }

    /// Like `Transport.noteInterest`.
    func noteInterest(in url: ResourceURL) {
        if let host = hosts.known(url.origin) { watch?.noteInterest(in: host) }
    }

    /// Like `Transport.trust`.
    func trust(_ origins: Set<String>) {
        guard let known = configuration.trustedOrigins else { return }
        configuration.trustedOrigins = known.union(origins)
        guard !configuration.cookies.isEmpty else { return }
        // A jar that was made before lacks the cookies of the user's file.
        for origin in origins.subtracting(known) { hosts.known(origin)?.login.dropCookies() }
    }

    // MARK: Outages

    private func actOnOutages() {
        if configuration.line.isOffline {
            for transfer in transfers.values { finish(transfer, with: .failed(.away(.offline))) }
            // Circuits stand still: their probes would ask.
            return
        }
        for (host, action) in watch?.takeDue(of: hosts.all) ?? [] {
            switch action {
            case .probe(let connect, let answer): probe(host, connect, answer, isKnock: false)
            case .knock(let connect, let answer): probe(host, connect, answer, isKnock: true)
            case .cut:
                let outage = host.health.outage ?? .unreachable
                for transfer in transfers.values
                where transfer.home === host && transfer.stage != .paused && transfer.probe == nil {
                    finish(transfer, with: .failed(.away(outage)))
                }
            case .opened, .closed: break
            }
        }
    }

    private func probe(_ host: OriginHost, _ connect: Duration, _ answer: Duration, isKnock: Bool) {
        guard let example = host.health.example else { return }
        var request = OriginRequest(
            url: example.url, range: ByteRange(0, 1), stallLimit: answer, connectLimit: connect)
        (request.headers, request.signed) = (example.headers, example.signed)
        let probe = Transfer.Probe(isKnock: isKnock, start: now())
        start(Transfer(RequestHandle(), request, ProbeReceiver(), of: host, in: self, probe: probe))
    }

    // MARK: Starting

    private func start(_ transfer: Transfer) {
        transfers[transfer.id] = transfer
        transfer.home.began()
        enqueue(transfer)
    }

    private func enqueue(_ transfer: Transfer) {
        transfer.queue(at: hosts.host(transfer.route.place.origin))
        expect(transfer)
        let keeper = transfer.keeper
        switch (keeper?.state(for: transfer) ?? .unneeded, keeper) {
        case (.awaited, let keeper?):
            hold(transfer)
            keeper.hold(transfer.id)
        case (.failed, _): finish(transfer, with: .failed(.noLogin))
        default:
            endTransfers(of: gate.cleared(by: transfer, now: now()))
            // A redirect is the same request.
            let mayBegin = transfer.probe != nil || !transfer.route.isFirst || gate.admits(transfer, now: now())
            if mayBegin { hosts.enqueue(transfer) } else { hold(transfer) }
        }
    }

    /// Keeps a request back. Its origin owes no answer to what it was not asked.
    private func hold(_ transfer: Transfer) {
        transfer.hold()
        watch?.held(transfer.home)
    }

    /// A request that was kept back goes on.
    private func release(_ transfer: Transfer) {
        transfer.release()
        // It may be silent for less long than it was kept back.
        expect(transfer)
        watch?.resumed(transfer.home)
    }

    /// The command that prints a token has ended. - Parameter token: nil: without one.
    func take(token: String?) {
        letGo(tokens.take(token.flatMap { isHeaderValue($0) ? $0 : nil }))
    }

    /// The keys were read again. - Parameter key: nil: there are none.
    func take(key: SigningKey?) { letGo(keys.take(key.flatMap { $0.isSendable ? $0 : nil })) }

    private func letGo(_ held: [RequestHandle]) {
        for id in held {
            guard let transfer = transfers[id], transfer.stage == .held else { continue }
            release(transfer)
            enqueue(transfer)
        }
    }

    /// Ends what can be asked for again, and that no read waits for. A new connection to a file server costs more.
    private func endTransfers(of ranks: Set<LineRank>) {
        if ranks.isEmpty { return }
        for transfer in transfers.values
        where ranks.contains(transfer.rank) && [.running, .paused].contains(transfer.stage) && !transfer.isOfFileServer
            && transfer.receiver.yields()
        {
            cancel(transfer)
        }
    }

    /// Lets requests go on that were held back for a player.
    private func goOnWithinLine() {
        for transfer in gate.takeReady(now: now()) {
            if transfer.stage == .held {
                release(transfer)
                hosts.enqueue(transfer)
            } else {
                resume(transfer.id)
            }
        }
    }

    private func startWaiting() {
        hosts.startWaiting { transfer, avoidsIdle in
            transfer.begin()
            transfer.receiver.sent()
            go(transfer, avoidsIdle: avoidsIdle)
        } cancel: {
            cancel($0)
        }
        let waiting = awaiting
        awaiting = []
        for transfer in waiting where transfers[transfer.id] === transfer {
            go(transfer, avoidsIdle: false)
            if transfer.easy != nil { transfer.progressed() }
        }
    }

    /// Gives a request the body that stands where it begins, lets it wait for one on its way there, or sends it.
    private func go(_ transfer: Transfer, avoidsIdle: Bool) {
        let active = transfer.host.active.values
        if transfer.takesPart {
            if let index = bodies.lastIndex(where: { $0.fits(transfer.request) }) {
                bodies.remove(at: index).move(to: transfer)
                return unpause(transfer)
            }
            if active.contains(where: { $0.leads(to: transfer) }) { return awaiting.append(transfer) }
        }
        if transfer.isOfFileServer {
            let kept = bodies.filter { $0.url.origin == transfer.host.name }
            let running = active.count { $0.easy != nil }
            drop(kept.dropLast(max(0, KeptBody.mostOfHost - 1 - running)))
        }
        if send(transfer, avoidsIdle: avoidsIdle) { news.facts.withLock { $0.counters.requests += 1 } }
    }

    /// Takes bodies out that are kept no longer.
    private func drop(_ gone: some Collection<KeptBody>) {
        for body in gone { thread.remove(body.handle) }
        bodies.removeAll { body in gone.contains { $0 === body } }
    }

    /// Gives a request to curl. - Returns: false where it has ended instead.
    private func send(_ transfer: Transfer, avoidsIdle: Bool) -> Bool {
        if transfer.prepare(configuration, avoidsIdle: avoidsIdle), thread.add(transfer.handle) { return true }
        finish(transfer, with: .failed(.unreachable("no memory for a request")))
        return false
    }

    /// Reconnects to origins that are back: a request that waits for TCP to repeat a lost packet tries again at once.
    private func reconnectOvertaken() {
        for host in hosts.busy {
            guard let opened = host.takeReached() else { continue }
            for transfer in host.active.values where transfer.isOvertaken(by: opened) {
                thread.remove(transfer.handle)
                transfer.easy = nil
                _ = send(transfer, avoidsIdle: true)
            }
        }
    }

    // MARK: Bytes

    private func handOverGathered() {
        for transfer in pool.takeRound() {
            let answer = transfer.handOver()
            pool.giveBack(from: transfer)
            transfer.host.queue.lastByte = transfer.lastByte
            switch answer {
            // A body that came whole has nothing left to stop: its connection is idle already.
            case .stop: finish(transfer, with: .failed(.cancelled), isKept: transfer.answer.isWhole)
            case _ where transfer.leavesBody: finish(transfer, with: transfer.answer.verdict)
            // It may have been paused in the middle of the round.
            case .more where transfer.stage == .running && gate.throttles(transfer, now: now()):
                pause(transfer)
                curl_easy_pause(transfer.handle, CURLPAUSE_RECV)
            case .more: break
            case .pause: curl_easy_pause(transfer.handle, CURLPAUSE_RECV)
            }
        }
    }

    /// Gives a transfer's slot to another one while its receiver takes nothing.
    func pause(_ transfer: Transfer) {
        transfer.pause()
        transfer.host.queue.pause(transfer.resource)
        watch?.paused(transfer.home)
    }

    var cookies: CookieSum { hosts.cookies }

    /// The host of a request has set cookies.
    func limitCookies(after host: OriginHost) { hosts.limitCookies(after: host) }

    /// Remembers the place that took the request: the next request goes there directly.
    func accepted(_ transfer: Transfer) {
        let route = transfer.route
        let place = route.place == route.original ? transfer.request.url : route.place
        redirects.remember(place, for: transfer.request)
    }

    // MARK: Ending

    private func cancel(_ transfer: Transfer) { finish(transfer, with: .failed(.cancelled)) }

    /// Takes the handle from curl and the slot from the transfer, then asks another place or ends it.
    /// - Parameter isKept: its connection can be used again.
    private func finish(_ transfer: Transfer, with verdict: Transfer.Verdict?, isKept: Bool = false) {
        let (host, queue) = (transfer.host, transfer.host.queue)
        if let body = transfer.takeKeptBody(after: verdict) { bodies.append(body) }
        gate.forget(transfer, now: now())
        pool.giveBack(from: transfer)
        if transfer.answer.collector.status != 0 {
            queue.lastByte = max(queue.lastByte ?? transfer.lastByte, transfer.lastByte)
        }
        if let easy = transfer.handle, transfer.stage != .waiting {
            let opened = Int64(reel_get_long(easy, CURLINFO_NUM_CONNECTS))
            news.facts.withLock { $0.counters.connections += opened }
            if !transfer.isOfFileServer {
                host.idle.ended(hasTaken: transfer.hasTakenIdle, isNew: opened > 0, isKept: isKept)
            }
            thread.remove(easy)
        }
        switch transfer.stage {
        case .waiting: queue.remove(of: transfer.resource) { $0 === transfer }
        case .held: break
        case .running: queue.release(transfer.resource)
        case .paused: queue.releasePaused()
        }
        host.left(transfer)
        switch verdict {
        case .redirected(let target):
            transfer.receiver.redirected()
            transfer.ask { $0.follow(target) }
            enqueue(transfer)
        case .logInAgain:
            transfer.ask { _ in }
            enqueue(transfer)
        case .askOriginal:
            redirects.forget(transfer.resource)
            transfer.askOriginal()
            enqueue(transfer)
        case .failed(let failure): end(transfer, failure)
        case nil: end(transfer, nil)
        }
    }

    private func end(_ transfer: Transfer, _ failure: OriginFailure?) {
        switch failure {
        case nil, .cancelled: break
        // The place has begun to serve it.
        case .interrupted where transfer.answer.isAccepted: break
        default: if transfer.route.isRemembered { redirects.forget(transfer.resource) }
        }
        transfers[transfer.id] = nil
        transfer.home.ended()
        if let probe = transfer.probe {
            watch?.ended(transfer, probe, failure)
        } else {
            transfer.receiver.ended(watch?.ended(transfer, failure) ?? failure)
        }
    }

    // MARK: Deadlines

    /// A transfer may stall from another moment on.
    func expect(_ transfer: Transfer) { nextCheck = min(nextCheck, transfer.stallEnd) }

    /// Ends requests that have stalled, and bodies of errors that take too long.
    private func endStalled() {
        let now = ContinuousClock.now
        guard now >= nextCheck else { return }
        nextCheck = now + .seconds(60)
        // The end of one may end others, and what has ended is not to end twice.
        for transfer in transfers.values where transfers[transfer.id] === transfer {
            guard let deadline = transfer.deadline else { continue }
            if deadline > now {
                nextCheck = min(nextCheck, deadline)
            } else {
                finish(transfer, with: transfer.answer.verdict ?? .failed(.timedOut))
            }
        }
    }
}
