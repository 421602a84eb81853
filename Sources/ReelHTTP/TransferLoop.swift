import CCurl
import ReelCore

/// The transport's thread: takes commands, lets curl work, hands bytes on, ends what is finished or has stalled.
final class TransferLoop {
    let mailbox: Mailbox
    let configuration: TransportConfiguration
    let counters: RunningCounters
    var pool = BufferPool()
    /// Transfers that gathered bytes in this round.
    var gathering: [Transfer] = []
    /// Origins that answered on a new connection in this round, and when it was opened.
    var reached: [(origin: String, opened: ContinuousClock.Instant)] = []

    private var transfers: [OriginRequestID: Transfer] = [:]
    private var hosts: [String: HostQueue<Transfer>] = [:]
    private var memory = RedirectMemory()
    private var kept = KeptConnections()
    /// Connections in all from which an origin that has some gets no more; one that has none gets one, up to half as many
    /// again. A process may have 1024 files open, mostly.
    private static let connectionLimit = 256
    /// No deadline is before this.
    private var nextCheck = ContinuousClock.now

    init(mailbox: Mailbox, configuration: TransportConfiguration, counters: RunningCounters) {
        self.mailbox = mailbox
        self.configuration = configuration
        self.counters = counters
        // Idle connections kept; curl's own limit follows the number of transfers and forgets too early.
        reel_multi_set_long(mailbox.multi, CURLMOPT_MAXCONNECTS, 64)
        reel_multi_set_long(mailbox.multi, CURLMOPT_PIPELINING, Int(CURLPIPE_NOTHING))
    }

    func run() {
        while true {
            let (commands, isShutDown) = mailbox.takeAll()
            for command in commands { perform(command) }
            if isShutDown {
                hosts = [:]
                for transfer in transfers.values { finish(transfer, with: .failed(.cancelled)) }
                return
            }
            startWaiting()
            var running: Int32 = 0
            curl_multi_perform(mailbox.multi, &running)
            handOverGathered()
            readMessages()
            reconnectOvertaken()
            checkTimers()
            // Slots may be free again; a handle that was added makes the poll return at once.
            startWaiting()
            // curl shortens this to its own next timer.
            let timeout =
                transfers.isEmpty ? 60_000 : 1 + Int32(min(max((nextCheck - .now) / .milliseconds(1), 0), 60_000))
            curl_multi_poll(mailbox.multi, nil, 0, timeout, nil)
        }
    }

    private func perform(_ command: Mailbox.Command) {
        switch command {
        case .start(let id, let request, let receiver):
            if let failure = Transfer.refusal(of: request) {
                receiver.ended(failure)
                return
            }
            // "Has it changed?" is asked where the resource lives: the remembered place may be an older version's.
            var place: ResourceURL?
            if case .ifChanged = request.condition {
            } else if request.isReading {
                place = memory.place(for: request.url.text)
            }
            let transfer = Transfer(id, request, receiver, at: place, in: self)
            transfers[id] = transfer
            enqueue(transfer)
        case .perform(let job): job()
        case .cancel(let id):
            if let transfer = transfers[id] { finish(transfer, with: .failed(.cancelled)) }
        case .promote(let id):
            guard let transfer = transfers[id], !transfer.request.isDemanded else { return }
            transfer.promote()
            guard transfer.stage == .waiting else { return }
            let queue = host(transfer.origin)
            queue.remove(of: transfer.resource) { $0 === transfer }
            queue.add(transfer, of: transfer.resource, isDemanded: true)
        case .resume(let id):
            guard let transfer = transfers[id], transfer.stage == .paused else { return }
            transfer.stage = .running
            transfer.lastByte = .now
            host(transfer.origin).resume(transfer.resource)
            nextCheck = min(nextCheck, transfer.lastByte + transfer.request.stallLimit)
            // Bytes that curl holds come from inside this call, and a refusal of them ends nothing by itself.
            let result = curl_easy_pause(transfer.handle, CURLPAUSE_CONT)
            if result != CURLE_OK {
                _ = transfer.handOver()
                finish(transfer, with: transfer.verdict ?? verdict(transfer, result))
            }
        }
    }

    private func enqueue(_ transfer: Transfer) {
        // Ten redirects have no ten times as long.
        if transfer.visited.isEmpty { transfer.lastByte = .now }
        nextCheck = min(nextCheck, transfer.lastByte + transfer.request.stallLimit)
        host(transfer.origin).add(
            transfer, of: transfer.resource, isDemanded: transfer.request.isDemanded,
            isUrgent: transfer.request.connectLimit != nil)
    }

    private func host(_ origin: String) -> HostQueue<Transfer> {
        if let known = hosts[origin] { return known }
        let queue = HostQueue<Transfer>(slots: configuration.connectionsPerOrigin)
        hosts[origin] = queue
        return queue
    }

    private func startWaiting() {
        var connections = hosts.values.reduce(0) { $0 + $1.connections }
        for (origin, queue) in hosts {
            let isSilent = queue.isSilent
            while hasRoom(for: queue, beside: connections), let transfer = queue.next() ?? makeRoom(in: queue) {
                connections += 1
                transfer.stage = .running
                if transfer.visited.isEmpty { transfer.lastByte = .now }
                transfer.receiver.sent()
                let avoidsKept =
                    isSilent || !transfer.request.isDemanded && kept.areScarce(at: origin, running: queue.running)
                transfer.hasTakenKept = !avoidsKept && kept.take(at: origin)
                guard transfer.prepare(configuration, avoidsKept: avoidsKept),
                    curl_multi_add_handle(mailbox.multi, transfer.handle) == CURLM_OK
                else {
                    finish(transfer, with: .failed(.unreachable("no memory for a request")))
                    continue
                }
                counters.requests.add(1, ordering: .relaxed)
            }
            while queue.hasTooManyPaused, endLongestPaused(in: queue) {}
            if queue.isIdle { hosts[origin] = nil }
        }
    }

    /// A list may name hundreds of hosts that never answer; each socket is one of the process's descriptors.
    private func hasRoom(for queue: HostQueue<Transfer>, beside connections: Int) -> Bool {
        connections < Self.connectionLimit || queue.hasUrgent
            || queue.connections == 0 && connections < Self.connectionLimit * 3 / 2
    }

    /// A demanded request that finds all slots taken gets that of one of which nobody needs the rest.
    /// - Returns: the request that may run now.
    private func makeRoom(in queue: HostQueue<Transfer>) -> Transfer? {
        guard queue.hasDemanded else { return nil }
        for isDemanded in [false, true] {
            for transfer in transfers.values
            where transfer.stage == .running && transfer.request.isDemanded == isDemanded
                && hosts[transfer.origin] === queue && queue.wouldMakeRoom(transfer.resource)
                && transfer.receiver.yields()
            {
                finish(transfer, with: .failed(.cancelled))
                return queue.next()
            }
        }
        return nil
    }

    /// - Returns: whether a paused request has let go of its connection.
    private func endLongestPaused(in queue: HostQueue<Transfer>) -> Bool {
        let paused = transfers.values.filter { $0.stage == .paused && hosts[$0.origin] === queue }
        for transfer in paused.sorted(by: { $0.lastByte < $1.lastByte }) where transfer.receiver.yields() {
            finish(transfer, with: .failed(.cancelled))
            return true
        }
        return false
    }

    /// Called when the receiver asked for it: the slot goes to another while nothing is read.
    func pause(_ transfer: Transfer) {
        transfer.stage = .paused
        hosts[transfer.origin]?.pause(transfer.resource)
    }

    /// A transfer's place took the request: it is where to ask next time.
    func accepted(_ transfer: Transfer) {
        guard transfer.request.isReading else { return }
        let text = transfer.request.url.text
        if transfer.place.text == text { memory.forget(text) } else { memory.remember(transfer.place, for: text) }
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
            hosts[transfer.origin]?.lastByte = transfer.lastByte
            switch answer {
            case .more: break
            case .pause: curl_easy_pause(transfer.handle, CURLPAUSE_RECV)
            case .stop:
                // Of a body that came whole nobody wants more: curl has its connection back already.
                let isWhole = transfer.announced.map { transfer.received >= $0 } ?? false
                finish(transfer, with: .failed(.cancelled), isKept: isWhole)
            }
        }
    }

    /// An origin that is back: what waits for TCP to repeat a lost packet tries again at once.
    private func reconnectOvertaken() {
        for (origin, opened) in reached {
            for transfer in transfers.values where transfer.origin == origin && transfer.isOvertaken(by: opened) {
                curl_multi_remove_handle(mailbox.multi, transfer.handle)
                transfer.dropHandle()
                guard transfer.prepare(configuration, avoidsKept: true),
                    curl_multi_add_handle(mailbox.multi, transfer.handle) == CURLM_OK
                else {
                    finish(transfer, with: .failed(.unreachable("no memory for a request")))
                    continue
                }
            }
        }
        reached = []
    }

    private func readMessages() {
        var left: Int32 = 0
        while let message = curl_multi_info_read(mailbox.multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle,
                let context = reel_private(easy)
            else { continue }
            let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
            let result = reel_message_result(message)
            finish(transfer, with: transfer.verdict ?? verdict(transfer, result), isKept: result == CURLE_OK)
        }
    }

    /// What curl's result means where nothing was decided before it; nil: the body came whole.
    private func verdict(_ transfer: Transfer, _ result: CURLcode) -> Transfer.Verdict? {
        if result == CURLE_OK {
            guard transfer.isAccepted else { return .failed(.wrongAnswer("\(transfer.origin): no answer")) }
            if let announced = transfer.announced, transfer.received < announced {
                return .failed(.interrupted("\(transfer.origin): the body is shorter than announced"))
            }
            return nil
        }
        let errno = reel_get_long(transfer.handle, CURLINFO_OS_ERRNO)
        let failure = OriginFailure(result, hasHead: transfer.isAccepted, errno: errno, at: transfer.place)
        if transfer.isRemembered, !transfer.isAccepted, case .unreachable = failure { return .askOriginal }
        return .failed(failure)
    }

    /// Takes the handle from curl and the slot from the transfer, then goes on to another place or ends it.
    /// - Parameter isKept: its connection can be used again.
    private func finish(_ transfer: Transfer, with verdict: Transfer.Verdict?, isKept: Bool = false) {
        let queue = hosts[transfer.origin]
        if transfer.buffer != nil {
            gathering.removeAll { $0 === transfer }
            giveBack(transfer)
        }
        if transfer.collector.status != 0 { queue?.lastByte = transfer.lastByte }
        if let easy = transfer.handle, transfer.stage != .waiting {
            let opened = Int64(reel_get_long(easy, CURLINFO_NUM_CONNECTS))
            counters.connections.add(opened, ordering: .relaxed)
            kept.ended(at: transfer.origin, hasTaken: transfer.hasTakenKept, isNew: opened > 0, isKept: isKept)
            curl_multi_remove_handle(mailbox.multi, easy)
        }
        switch transfer.stage {
        case .waiting: queue?.remove(of: transfer.resource) { $0 === transfer }
        case .running: queue?.release(transfer.resource)
        case .paused: queue?.releasePaused()
        }
        switch verdict {
        case .redirected(let target):
            transfer.receiver.redirected()
            transfer.move(to: target, visited: transfer.visited + [transfer.place.text])
            enqueue(transfer)
        case .askOriginal:
            memory.forget(transfer.request.url.text)
            transfer.asks += 1
            transfer.move(to: transfer.request.url, visited: [])
            enqueue(transfer)
        case .failed(let failure): end(transfer, failure)
        case nil: end(transfer, nil)
        }
    }

    private func end(_ transfer: Transfer, _ failure: OriginFailure?) {
        switch failure {
        case nil, .cancelled, .interrupted: break
        default: if transfer.isRemembered { memory.forget(transfer.request.url.text) }
        }
        transfers[transfer.id] = nil
        transfer.receiver.ended(failure)
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
            max(transfer.lastByte, hosts[transfer.origin]?.lastByte ?? transfer.lastByte) + transfer.request.stallLimit
        }
    }
}
