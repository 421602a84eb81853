import CCurl
import Glibc
import ReelCore
import ReelThreads

/// One request on its way, over all redirects. Belongs to the transport's thread.
///
/// Legal transitions: waiting ⇄ held (until a token has come), waiting → running (a slot is free), running ⇄ paused
/// (the receiver's word, `resume`), running → waiting (redirected, or the original URL asked again), any → gone (the
/// loop drops it once `ended` was called).
final class Transfer: GatedRequest {
    enum Stage { case waiting, held, running, paused }

    /// The next step after curl has given up the answer at hand.
    enum Verdict {
        case failed(OriginFailure)
        case redirected(ResourceURL)
        /// The place asks for a login that the transport can give.
        case logInAgain
        /// The place that a redirect named is of no use any more.
        case askOriginal
    }

    /// A request of the transport's own (`Circuit`): it looks for an origin that may be away.
    struct Probe {
        var isKnock: Bool
        /// On the clock of `now()`.
        var start: Duration
    }

    let id: RequestHandle
    private(set) var request: OriginRequest
    /// The name that queues have it: the URL, or the method of what reads none.
    let resource: String
    let receiver: any OriginReceiver
    /// nil: it is a receiver's request.
    let probe: Probe?
    /// The host of `request.url`, to whose circuit it belongs.
    let home: OriginHost
    /// The host of `route.place`, whose queue it stands in.
    private(set) var host: OriginHost
    /// The loop outlives its transfers: it drops them all before it returns.
    unowned let loop: TransferLoop

    private(set) var stage = Stage.waiting
    var route: Route
    var answer = AnswerProgress()
    /// nil: curl does not have it.
    var easy: EasyHandle?
    /// An idle connection was counted as its own (`IdleConnections.take`).
    var hasTakenIdle = false
    /// The connection that it was given brought nothing: it opens one of its own.
    var needsConnection = false
    var payment = LinePayment()
    /// When a byte last came, or began to be waited for.
    private(set) var lastByte = ContinuousClock.now
    /// Bytes that the receiver gets at the end of the round, nil if none came (`BufferPool`).
    var gathered: GatheredBytes?

    init(
        _ id: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver, of home: OriginHost,
        in loop: TransferLoop, probe: Probe? = nil
    ) {
        self.id = id
        self.request = request
        resource = request.isReading ? request.url.text : request.method
        self.receiver = receiver
        self.loop = loop
        self.home = home
        self.probe = probe
        host = home
        route = Route(
            request, region: home.region ?? loop.configuration.region, remembered: loop.redirects.place(for: request))
    }

    /// Valid as long as `easy` is the same.
    var handle: UnsafeMutableRawPointer? { easy?.pointer }

    /// Whether it asks the origin that the request names; secrets go to no other.
    var isAtHome: Bool { route.place.isSameOrigin(as: route.original) }

    /// A probe is one byte.
    var rank: LineRank { probe == nil ? request.rank(for: id.rank) : .player }
    var silence: Duration { ContinuousClock.now - lastByte }

    /// A reader waits for it now.
    func promote() { request.promote() }

    /// Asks another place: forgets the answer at hand, and frees the handle.
    func ask(_ move: (inout Route) -> Void) {
        move(&route)
        stage = .waiting
        answer = AnswerProgress()
        easy = nil
    }

    /// Asks the original URL again, in the region that its origin has named meanwhile.
    func askOriginal() {
        let region = home.region ?? loop.configuration.region
        ask { $0.askAgain(request, region: region) }
    }

    // MARK: Stages

    /// It is about to stand in the queue of a host.
    func queue(at host: OriginHost) {
        self.host = host
        // All redirects of a request together have the time of one.
        if route.isFirst { lastByte = .now }
    }

    /// It is kept back.
    func hold() { stage = .held }
    /// It is kept back no longer.
    func release() {
        stage = .waiting
        if request.silenceLimit != nil, route.isFirst { lastByte = .now }
    }

    /// It has a slot.
    func begin() {
        stage = .running
        if route.isFirst { lastByte = .now }
    }

    func pause() { stage = .paused }

    func resume() {
        stage = .running
        lastByte = .now
    }

    /// A byte came, or begins to be waited for.
    func progressed() { lastByte = .now }

    // MARK: Deadlines

    /// When it has stalled, if it runs and no byte comes.
    var stallEnd: ContinuousClock.Instant { answer.drainEnd ?? lastByte + request.longestSilence }

    /// When it ends if nothing happens, nil if never.
    var deadline: ContinuousClock.Instant? {
        switch stage {
        case .paused: nil
        case .held where !payment.isGated: lastByte + request.stallLimit
        case .running where easy != nil: stallEnd
        // While other requests of its queue get bytes, waiting is no stall.
        case .held: max(lastByte, host.queue.lastByte ?? lastByte) + request.stallLimit
        case .waiting, .running: max(stallEnd, (host.queue.lastByte ?? lastByte) + request.longestSilence)
        }
    }

    // MARK: Connecting

    /// It opens a connection.
    func connects() {
        easy?.opened = .now
        if let probe, !probe.isKnock { loop.watch?.probeConnects(home) }
        receiver.connecting()
    }

    /// Whether it waits for a connection for longer than TCP first waits for a lost packet (RFC 6298), while one that
    /// was opened later has come about: TCP then waits longer and longer before it tries again.
    func isOvertaken(by later: ContinuousClock.Instant) -> Bool {
        guard stage == .running, easy?.isAsked == false, let opened = easy?.opened else { return false }
        return opened < later && ContinuousClock.now - opened > .seconds(1)
    }

    // MARK: The head

    /// Reads one header line. - Returns: whether curl shall go on.
    func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        if isOfFileServer { return takeReply(line) }
        switch answer.collector.take(line) {
        // A line is no progress: a head that comes line by line must be whole in time.
        case .more, .trailer: return true
        case .refused(let reason):
            fail(.wrongAnswer("\(host.name): \(reason)"))
            return false
        case .complete:
            if !(300...399).contains(answer.collector.status) { lastByte = .now }
            if let opened = easy?.opened { host.answered(on: opened) }
            // Another address of the same name was refused (`mayReach`).
            if answer.verdict != nil { return false }
            return judgeHead()
        }
    }

    func fail(_ failure: OriginFailure) { answer.verdict = .failed(failure) }

    private func judgeHead() -> Bool {
        let collector = answer.collector
        let head = ResponseHead(status: collector.status, headers: collector.headers, url: route.place)
        guard head.isPlainlyTransferred else {
            fail(.wrongAnswer("\(host.name): a transfer coding that was not asked for"))
            return false
        }
        noteLogin(head)
        var verdict: Verdict?
        let failure = OriginFailure.status(head.status, retryAfter: head.retryAfter(now: Int64(time(nil))))
        let isTaken = request.accepted.contains(head.status)
        switch head.status {
        case 300..<500 where !isTaken && isElsewhere(head["x-amz-bucket-region"]): verdict = .askOriginal
        // Before a receiver gets it that takes refusals, too.
        case 401 where mayLogInAgain(head): verdict = .logInAgain
        case _ where failure.meaning.mayBeExpired && route.mayBeUsedUp(head.status): verdict = .askOriginal
        case _ where isTaken:
            if probe == nil { loop.watch?.answered(home, request) }
            if let failure = receiver.head(head) {
                fail(failure)
                return false
            }
            answer.accept(head, asked: request.range)
            if head.status < 400 { loop.accepted(self) }
            return true
        case 300..<400 where !loop.configuration.followsRedirects: break
        // It took a request before. A link that has ended may lead to a page that says so.
        case 300..<400 where route.isRemembered: verdict = .askOriginal
        // 303 names another resource, to be read with GET, and so answers no other request.
        case 301, 302, 307, 308,
            303 where request.isReading:
            verdict = head["location"].map {
                route.redirect(request, to: $0, from: host.name, isTooNarrow: isTooNarrow)
            }
        default: break
        }
        answer.drain(verdict ?? .failed(failure))
        loop.expect(self)
        return true
    }

    /// Whether the answer names another region of S3 than the one that was asked. From now on that is asked.
    private func isElsewhere(_ region: String?) -> Bool {
        guard let signed = request.signed, signed.isRegional || loop.configuration.signs(request),
            isAtHome, route.mayRepeat, let region, SignedTarget.isRegion(region),
            region != route.region ?? TransportConfiguration.firstRegion
        else { return false }
        home.named(region: region)
        return true
    }

    /// The verdict on curl's result, unless there is one already, nil if the body came whole.
    func verdict(of result: CURLcode) -> Verdict? {
        if case .failed(.status) = answer.verdict {
            if isElsewhere(answer.refused("Region")) { return .askOriginal }
            if mayLogInAgain() { return .logInAgain }
        }
        if let verdict = answer.verdict { return verdict }
        if isOfFileServer, !answer.isAccepted { return verdictOnFile(result) }
        if hasWholeBody { return nil }
        if result == CURLE_OK {
            guard answer.isAccepted else { return .failed(.wrongAnswer("\(host.name): no answer")) }
            return answer.isShort
                ? .failed(.interrupted("\(host.name): the body is shorter than announced")) : nil
        }
        let errno = reel_get_long(handle, CURLINFO_OS_ERRNO)
        let failure = OriginFailure(result, hasHead: answer.isAccepted, errno: errno, at: route.place)
        if route.isRemembered, !answer.isAccepted, case .unreachable = failure { return .askOriginal }
        return .failed(failure)
    }

    // MARK: The body

    /// Gives curl the next bytes of the request's body. - Returns: as CURLOPT_READFUNCTION(3) has it.
    func giveBody(to buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let upload = request.upload, let context = easy?.context else { return Int(CURL_READFUNC_ABORT) }
        lastByte = .now
        if context.sent >= upload.length { return 0 }
        guard let count = upload.read(into: buffer, at: context.sent), count > 0 else {
            fail(.cancelled)
            return Int(CURL_READFUNC_ABORT)
        }
        context.sent += Int64(count)
        return count
    }

    /// Counts the bytes behind the head, before curl takes the body out of them. A file server sends nothing else.
    func takeRaw(_ count: Int) {
        if route.place.fileProtocol != nil { return }
        if answer.takeRaw(count) || answer.verdict != nil { return }
        answer.cut(.wrongAnswer("\(host.name): chunks and trailers without end"))
        loop.expect(self)
    }

    /// Takes a piece of the body. - Returns: the result of curl's write callback (CURLOPT_WRITEFUNCTION(3)).
    func takeBody(_ piece: UnsafeRawBufferPointer) -> Int {
        if isOfFileServer, !answer.isAccepted {
            // libcurl writes the lines of a head as a body, too.
            if answer.file.asksHead { return piece.count }
            if !beginFile() { return 0 }
        }
        lastByte = .now
        guard answer.isAccepted else { return answer.drain(piece) ? piece.count : 0 }
        if stage == .paused { return Int(CURL_WRITEFUNC_PAUSE) }
        let bytes = untaken(of: piece)
        if gathered?.hasRoom(for: bytes.count) == false {
            switch handOver() {
            case .more where loop.gate.limits(self, now: now()):
                loop.pause(self)
                return Int(CURL_WRITEFUNC_PAUSE)
            case .more: break
            case .pause: return Int(CURL_WRITEFUNC_PAUSE)
            case .stop: return takesPart ? Int(CURL_WRITEFUNC_PAUSE) : 0
            }
        }
        let count = answer.wanted(of: bytes.count)
        if count > 0 {
            if gathered == nil { loop.pool.lend(to: self) }
            gathered?.append(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
            answer.take(count)
        }
        if count < bytes.count, !goesOn {
            fail(.wrongAnswer("\(host.name): more bytes than the range that was asked for"))
            return 0
        }
        return take(piece, exceptFor: bytes.count - count)
    }

    /// Gives the gathered bytes to the receiver, and pauses or fails as the receiver answers.
    func handOver() -> BodyAnswer {
        guard let bytes = gathered?.takeAll(), !bytes.isEmpty else { return .more }
        loop.news.facts.withLock { $0.counters.bodyBytes += Int64(bytes.count) }
        loop.gate.took(bytes.count, by: self, now: now())
        if probe == nil { loop.watch?.answered(home, nil) }
        let word = receiver.body(bytes)
        switch word {
        case .more: break
        case .pause: loop.pause(self)
        case .stop: fail(.cancelled)
        }
        return word
    }
}

/// Finds out only whether the origin answers, and takes no more than a byte.
final class ProbeReceiver: OriginReceiver {
    func head(_ head: ResponseHead) -> OriginFailure? { head.status == 206 ? nil : .cancelled }
    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer { .more }
    func ended(_ failure: OriginFailure?) {}
}
