import CCurl
import Glibc
import ReelCore

/// One request on its way, over all redirects. Belongs to the transport's thread.
///
/// Legal transitions: waiting → running (a slot is free), running ⇄ paused (the receiver's word, `resume`), running →
/// waiting (redirected, or the original URL asked again), any → gone (the loop drops it once `ended` was called).
final class Transfer {
    enum Stage { case waiting, running, paused }

    /// The next step once curl has let go of the answer at hand.
    enum Verdict {
        case failed(OriginFailure)
        case redirected(ResourceURL)
        /// The place that a redirect once named no longer answers.
        case askOriginal
    }

    /// A request of the transport's own (`Circuit`): it looks for an origin that may be away.
    struct Probe {
        var isKnock: Bool
        var start: Duration
    }

    let id: RequestHandle
    private(set) var request: OriginRequest
    /// `request.url.text`.
    let resource: String
    let receiver: any OriginReceiver
    /// The loop outlives its transfers: it drops them all before it returns.
    unowned let loop: TransferLoop
    var easy: EasyHandle?

    var stage = Stage.waiting
    /// An idle connection was counted as its own (`IdleConnections.take`).
    var hasTakenIdle = false
    /// The URL that is asked at this moment.
    private(set) var place: ResourceURL
    /// In which it is signed, and where AWS is asked; nil: none is known.
    private(set) var region: String?
    /// The host of `place`, whose queue it stands in.
    var host: OriginHost
    /// The host of `request.url`, to whose circuit it belongs.
    let home: OriginHost
    /// nil: a receiver waits for it.
    var probe: Probe?
    /// `home` has answered, by sending it to another place: a refusal there is not its own.
    var isRedirected = false
    /// `place` comes from the memory, not from a redirect seen just now.
    var isRemembered: Bool
    /// How often the original URL was asked again.
    var asks = 0
    /// Places that redirected to here.
    var visited: [String] = []
    /// When it began to open a connection; nil: it has not, or uses a kept one.
    private var opened: ContinuousClock.Instant?
    /// The request has left.
    private var isAsked = false
    /// When a byte last came, or began to be waited for.
    var lastByte = ContinuousClock.now

    // The answer at hand.
    var collector = HeaderCollector()
    var isAccepted = false
    var verdict: Verdict?
    var received: Int64 = 0
    /// Bytes behind the head, as they came: the body, and what frames it.
    private var raw: Int64 = 0
    /// Bytes that a 206 may hold, and bytes that its Content-Range announces.
    var limit = Int64.max
    var announced: Int64?
    /// The start of the body of a refusal: an S3 service may name the bucket's region there.
    private var refusal: [UInt8] = []
    /// When a body that is of no use, of an error or a redirect, has taken long enough.
    var drainEnd: ContinuousClock.Instant?

    var buffer: UnsafeMutableRawBufferPointer?
    var buffered = 0

    /// The body of an error or a redirect is read so far, that its connection can be used again.
    static let drainLimit: Int64 = 64 << 10
    static let drainTime = Duration.milliseconds(300)
    /// Bytes of an error that are looked at: those of S3 services have some hundred.
    private static let refusalLimit = 4 << 10
    /// Bytes that may come behind a head and be no body (chunk sizes and their extensions, trailers): as much as a
    /// head, and what chunks of one byte need. More than the 100 KiB that curl reads before it hands any of them on.
    private static let framingLimit: Int64 = 256 << 10
    private static let framingShare: Int64 = 8
    /// As browsers and servers have it; longer ones serve to keep the transport's thread busy.
    static let locationLimit = 8 << 10
    /// RFC 9110, section 15.4, leaves the number open; browsers stop at 20, curl at 50.
    static let redirectLimit = 10
    /// A place that is refused this often is refused.
    static let askLimit = 2

    init(
        _ id: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver, of home: OriginHost,
        in loop: TransferLoop
    ) {
        let remembered = home.redirects.place(for: request)
        self.id = id
        self.request = request
        resource = request.url.text
        self.receiver = receiver
        self.loop = loop
        self.home = home
        host = home
        region = home.region ?? loop.configuration.region
        place = remembered ?? request.signed?.place(of: request.url, in: region) ?? request.url
        isRemembered = remembered != nil
    }

    /// Valid as long as `easy` is the same.
    var handle: UnsafeMutableRawPointer? { easy?.pointer }

    /// Where the request's URL is asked, before any redirect.
    var homePlace: ResourceURL { request.signed?.place(of: request.url, in: region) ?? request.url }

    /// Secrets go to the origin that the request names, and no further.
    var isAtHome: Bool { place.isSameOrigin(as: homePlace) }

    /// Whether its answer may say in which region it is to be asked.
    private var hasRegion: Bool {
        guard let signed = request.signed, isAtHome, asks < Self.askLimit else { return false }
        return signed.isRegional || loop.configuration.signs(request)
    }

    /// Goes back to the URL that the request names.
    func moveHome() {
        region = home.region ?? loop.configuration.region
        asks += 1
        move(to: homePlace, visited: [])
    }

    func promote() { request.isDemanded = true }

    /// Forgets the answer at hand, before another place is asked.
    func move(to place: ResourceURL, visited: [String]) {
        self.place = place
        self.visited = visited
        isRemembered = false
        stage = .waiting
        collector = HeaderCollector()
        verdict = nil
        received = 0
        raw = 0
        refusal = []
        drainEnd = nil
        dropHandle()
    }

    /// With the connection that it may be opening.
    func dropHandle() {
        easy = nil
        opened = nil
        isAsked = false
    }

    // MARK: Connecting

    func connects() {
        opened = .now
        if let probe, !probe.isKnock { loop.watch?.probeConnects(home) }
        receiver.connecting()
    }

    func asked() { isAsked = true }

    /// Whether it waits for a connection for longer than TCP waits for a lost packet at first (RFC 6298), while one
    /// that was opened later has come about: TCP then waits longer and longer before it tries again.
    func isOvertaken(by later: ContinuousClock.Instant) -> Bool {
        guard stage == .running, !isAsked, let opened else { return false }
        return opened < later && ContinuousClock.now - opened > .seconds(1)
    }

    /// Reads one header line. - Returns: whether curl shall go on.
    func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        switch collector.take(line) {
        // A line is no progress: a head that comes one by one must be whole in time.
        case .more, .trailer: return true
        case .refused(let reason):
            verdict = .failed(.wrongAnswer("\(host.name): \(reason)"))
            return false
        case .complete:
            if !(300...399).contains(collector.status) { lastByte = .now }
            if let opened { loop.reached.append((host, opened)) }
            return judgeHead()
        }
    }

    private func judgeHead() -> Bool {
        let head = ResponseHead(status: collector.status, headers: collector.headers, url: place)
        guard head.isPlainlyTransferred else {
            verdict = .failed(.wrongAnswer("\(host.name): a transfer coding that was not asked for"))
            return false
        }
        switch head.status {
        case _ where request.accepted.contains(head.status):
            if probe == nil { loop.watch?.answered(home, request) }
            if let failure = receiver.head(head) {
                verdict = .failed(failure)
                return false
            }
            isAccepted = true
            loop.accepted(self)
            if head.status == 206, let range = request.range {
                limit = range.count
                announced = head.contentRange?.range?.count
            }
            return true
        case 300..<500 where isElsewhere(head["x-amz-bucket-region"]): verdict = .askOriginal
        // 303 names another resource, to be read with GET: no answer to any other request.
        case 301, 302, 307, 308,
            303 where request.isReading:
            verdict = redirect(head["location"])
        case 401, 403, 404, 410:
            // A place that was new a moment ago may be used up by now: others ask for the same resource.
            let mayBeUsedUp = !visited.isEmpty && head.status < 404 && asks < Self.askLimit
            verdict = isRemembered || mayBeUsedUp ? .askOriginal : nil
        default: break
        }
        if verdict == nil {
            verdict = .failed(.status(head.status, retryAfter: head.retryAfter(now: Int64(time(nil)))))
        }
        loop.end(self, after: Self.drainTime)
        return true
    }

    /// Whether an answer names another region than the one that was asked, which is asked from now on.
    private func isElsewhere(_ named: String?) -> Bool {
        guard hasRegion, let named, SignedTarget.isRegion(named),
            named != region ?? TransportConfiguration.firstRegion
        else { return false }
        home.region = named
        return true
    }

    /// The region that the body of a refusal names (`<Region>eu-west-1</Region>`); nil: none.
    private var refusedRegion: String? {
        guard [301, 400].contains(collector.status) else { return nil }
        let tag = Array("<Region>".utf8)
        let start = refusal.indices.first { refusal[$0...].starts(with: tag) }
        return start.map { String(decoding: refusal[($0 + tag.count)...].prefix { $0 != 0x3C }, as: UTF8.self) }
    }

    private func redirect(_ location: String?) -> Verdict? {
        guard let location else { return nil }
        guard location.utf8.count <= Self.locationLimit else {
            return .failed(.wrongAnswer("\(host.name): a redirect to a URL that is too long"))
        }
        guard let target = place.resolve(location) else {
            return .failed(.wrongAnswer("\(host.name): a redirect to no http(s) URL"))
        }
        guard request.isReading || target.isSameOrigin(as: request.url) else {
            return .failed(.wrongAnswer("\(host.name): a redirect of \(request.method) to another origin"))
        }
        guard visited.count < Self.redirectLimit, target.text != place.text, !visited.contains(target.text) else {
            return .failed(.wrongAnswer("too many redirects"))
        }
        return .redirected(target.with(credentials: nil))
    }

    /// The meaning of curl's result, unless it was decided before; nil: the body came whole.
    func verdict(of result: CURLcode) -> Verdict? {
        if case .failed(.status) = verdict, isElsewhere(refusedRegion) { return .askOriginal }
        if let verdict { return verdict }
        if result == CURLE_OK {
            guard isAccepted else { return .failed(.wrongAnswer("\(host.name): no answer")) }
            if let announced, received < announced {
                return .failed(.interrupted("\(host.name): the body is shorter than announced"))
            }
            return nil
        }
        let errno = reel_get_long(handle, CURLINFO_OS_ERRNO)
        let failure = OriginFailure(result, hasHead: isAccepted, errno: errno, at: place)
        if isRemembered, !isAccepted, case .unreachable = failure { return .askOriginal }
        return .failed(failure)
    }

    /// Counts what comes behind the head, before curl takes the body out of it.
    func takeRaw(_ count: Int) {
        raw += Int64(count)
        guard verdict == nil, raw - received > Self.framingLimit + Self.framingShare * received else { return }
        verdict = .failed(.wrongAnswer("\(host.name): chunks and trailers without end"))
        loop.end(self, after: .zero)
    }

    /// Takes a piece of the body. - Returns: what curl's write callback shall return.
    func takeBody(_ bytes: UnsafeRawBufferPointer) -> Int {
        lastByte = .now
        guard isAccepted else {
            received += Int64(bytes.count)
            if hasRegion { refusal += bytes.prefix(Self.refusalLimit - refusal.count) }
            return received <= Self.drainLimit ? bytes.count : 0
        }
        if stage == .paused { return Int(CURL_WRITEFUNC_PAUSE) }
        if buffered + bytes.count > BufferPool.bufferSize {
            switch handOver() {
            case .more: break
            case .pause: return Int(CURL_WRITEFUNC_PAUSE)
            case .stop: return 0
            }
        }
        let count = Int(min(Int64(bytes.count), limit - received))
        gather(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        if count < bytes.count {
            verdict = .failed(.wrongAnswer("\(host.name): more bytes than the range that was asked for"))
            return 0
        }
        return count
    }

    private func gather(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return }
        if buffer == nil {
            buffer = loop.pool.take()
            loop.gathering.append(self)
        }
        UnsafeMutableRawBufferPointer(rebasing: buffer![buffered...]).copyMemory(from: bytes)
        buffered += bytes.count
        received += Int64(bytes.count)
    }

    /// Gives the gathered bytes to the receiver, and does with the stage what it answers.
    func handOver() -> BodyAnswer {
        guard let buffer, buffered > 0 else { return .more }
        let count = buffered
        buffered = 0
        loop.news.counters.withLock { $0.bodyBytes += Int64(count) }
        if probe == nil { loop.watch?.answered(home, nil) }
        let answer = receiver.body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        switch answer {
        case .more: break
        case .pause: loop.pause(self)
        case .stop: verdict = .failed(.cancelled)
        }
        return answer
    }
}

/// Wants to know only whether anything is answered, and no more than a byte.
final class ProbeReceiver: OriginReceiver {
    func head(_ head: ResponseHead) -> OriginFailure? { head.status == 206 ? nil : .cancelled }
    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer { .more }
    func ended(_ failure: OriginFailure?) {}
}
