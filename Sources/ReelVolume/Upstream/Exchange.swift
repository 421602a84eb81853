import ReelCore
import ReelThreads

/// One request of the mount and its answer, between the transport and the receiver: finds out where to ask, asks
/// another place where that one refuses or fails, and reports what came of it.
///
/// The receiver sees one answer, also where its body comes from several places, one after another.
///
/// `@unchecked Sendable`: one thread at a time uses it. The one that begins it hands it to the resolver or to the
/// transport, and each of them hands it on under a lock of its own.
final class Exchange: ForwardingReceiver, @unchecked Sendable {
    /// One attempt at one place.
    private struct Attempt {
        var place: Mirrors.Place
        /// The origin that is asked.
        var origin: String
        /// The number of the resolver's answer that the request was sent to, nil if of none.
        var resolved: UInt64?
        var range: ByteRange?
        /// The transport has it.
        var isSent = false
        var isConditional = false
        /// `Validator.mirror` of the version that its answer is of.
        var mark: Int64 = 0
        var condition: OriginRequest.Condition?
        var status: Int?
        var bytes: Int64 = 0
        let start = now()
        /// It has left the queue, nil if not yet, or if its answer has begun.
        var sentAt: Duration?
        /// Seconds since 1970.
        let startedAt = wallClock()
    }

    /// Where many readers share links that serve few requests, others may use up a link before this request gets
    /// there.
    private static let mostMoves = 16

    private let request: OriginRequest
    private let handle: RequestHandle
    let receiver: any OriginReceiver
    private let upstream: Upstream
    private let resolver: Resolver?
    private let mirrors: Mirrors?
    /// Compares a place with what is there, so that it asks nothing about the place before.
    private let isProof: Bool
    /// For a segment of a joined file, which no cached bytes can be compared with.
    private let isOfPiece: Bool
    private var attempt: Attempt
    /// The places left to ask, the next one first.
    private var places: [Mirrors.Place]
    private var moves = 0
    /// The version that answers have to be of, nil if it is not known yet.
    private var version: ContentInformation?
    /// The receiver has got a head, with this status.
    private var toldStatus: Int?
    /// The head of an answer that has no byte yet, of a file that is not open: another place may still decide the
    /// version.
    private var heldHead: ResponseHead?
    /// The receiver wants none of the body behind that head.
    private var refused: OriginFailure?
    /// The first place was asked, or the resolver for it, on the clock of `now()`.
    private var began: Duration?
    /// Bytes that the receiver has got.
    private var delivered: Int64 = 0
    /// The failure of the first place that failed.
    private var firstFailure: OriginFailure?
    /// The place beside which a second try was made, until that try has brought bytes.
    private var slow: Mirrors.Place?

    /// - Parameters:
    ///   - request: as the source sends it.
    ///   - place: the only one to ask, nil for all that there are.
    init(
        _ request: OriginRequest, as handle: RequestHandle,
        to receiver: any OriginReceiver, _ upstream: Upstream, at place: Mirrors.Place? = nil
    ) {
        self.request = request
        self.handle = handle
        self.receiver = receiver
        self.upstream = upstream
        resolver = request.reason == .listing ? nil : upstream.resolver
        mirrors = upstream.mirrors
        isProof = place != nil
        isOfPiece = request.subject.map { upstream.joined($0) != nil } ?? false
        attempt = Attempt(place: 0, origin: request.url.origin, range: request.range)
        places = place.map { [$0] } ?? [0]
        defer { if request.reason == .hedge { slow = places.last } }
        guard let mirrors, !request.isGrowing else { return }
        let version = request.version?.length == nil ? upstream.known(request) : request.version
        self.version = version
        let mayMirror = upstream.mayMirror(request, version)
        guard place == nil, mayMirror || mirrors.shared != nil else { return }
        places = mirrors.places(
            for: request, version, isWide: upstream.concurrency[request.url].share > 1, mayMirror: mayMirror,
            isAway: { upstream.transport.standings[$0]?.isAway ?? false })
        if !takesAnyVersion, let version, upstream.cachedBlock(of: request.resource, version) == nil {
            // Nothing is there to compare the others with.
            places.removeAll {
                !isOwn($0, version) && mirrors.standing(of: request.resource, version, at: $0).isUnknown
            }
        }
        // Its return is looked for, also where no request goes there.
        let first = places.first ?? 0
        if first != 0 { upstream.transport.noteInterest(in: request.url) }
        if let shared = mirrors.shared, !mirrors.isShared(first) { _ = upstream.transport.isWorthAsking(shared.base) }
    }

    /// Sends it to the first of its places.
    func begin() { next() }

    private func next() {
        guard !places.isEmpty else { return end(firstFailure ?? noPlace) }
        // What the other places said is no failure of the body that goes on.
        if request.isBesideSlow, places.first == slow { return end(.cancelled) }
        attempt = Attempt(place: places.removeFirst(), origin: request.url.origin, range: rest)
        guard let mirrors else { return ask(request.condition) }
        let place = attempt.place
        if mirrors.isShared(place) { return askShared(mirrors.shared!) }
        attempt.mark = isOfPiece ? 0 : mirrors.mark(of: place)
        guard let version, place > 0 || !isOwn(place, version) && !takesAnyVersion else {
            return ask(place == 0 ? request.condition : nil)
        }
        if isContradicted { return end(.changed) }
        switch mirrors.standing(of: request.resource, version, at: place) {
        case .differs: skip()
        case .agrees(let validator): askAgreed(validator)
        case .unknown where isProof: askAgreed(nil)
        case .unknown where isOwn(place, version): ask(nil)
        case .unknown:
            guard let block = upstream.cachedBlock(of: request.resource, version) else {
                return takesAnyVersion ? ask(nil) : skip()
            }
            let prove = { [self] in MirrorProof.start(request, as: handle, version, at: place, block, upstream) }
            let proven = inTime(elseOnly: MirrorClaims.Standing.unknown) { [self] standing in
                if case .agrees(let validator) = standing { return askAgreed(validator) }
                if isContradicted { end(.changed) } else { skip() }
            }
            mirrors.find(request.resource, version, at: place, ask: prove, proven)
        }
    }

    /// The answer decides the version: no bytes of another one are mixed with it. Segments are believed by length and
    /// validator.
    private var takesAnyVersion: Bool {
        if isOfPiece { return true }
        return !isProof && toldStatus == nil && [.head, .probe, .listing].contains(request.reason)
    }

    /// Whether it is the place whose version it is.
    private func isOwn(_ place: Mirrors.Place, _ version: ContentInformation) -> Bool {
        mirrors?.mark(of: place) == version.validator.mirror
    }

    /// The source has other bytes than the mirror whose version is asked for.
    private var isContradicted: Bool {
        guard !takesAnyVersion, let version, version.validator.mirror != 0 else { return false }
        return mirrors?.standing(of: request.resource, version, at: 0).isOther == true
    }

    /// The mirror whose version is asked for has another one now.
    private var isReplaced: Bool {
        guard let mirrors, let version, let place = mirrors.place(of: version) else { return false }
        return mirrors.standing(of: request.resource, version, at: place).isOther
    }

    /// A place that has the bytes of the version, under a validator of its own.
    private func askAgreed(_ validator: Validator?) {
        attempt.mark = version!.validator.mirror
        ask(validator.flatMap { request.condition?.comparing($0) })
    }

    private func ask(_ condition: OriginRequest.Condition?) {
        attempt.condition = condition
        if attempt.place > 0 {
            guard let url = mirrors?.url(of: request.url, at: attempt.place) else { return skip() }
            send(url, [], condition)
        } else if resolver != nil {
            resolve()
        } else {
            send(request.url, nil, condition)
        }
    }

    /// Its validators are the source's own, and so are its bytes.
    private func askShared(_ shared: SharedCache) {
        guard let url = mirrors?.url(of: request.url, at: attempt.place) else { return skip() }
        send(url, shared.headers(for: request), shared.condition(of: request))
    }

    private func resolve(after refusal: Resolver.Refusal? = nil) {
        // The user's command would ask somebody, too.
        if upstream.transport.line.isOffline {
            return upstream.transport.perform { [self] in ended(.away(.offline)) }
        }
        // The command may take longer than the request may wait.
        let answer = inTime(elseOnly: Resolver.Place?.none) { [self] place in
            guard let place else {
                // Receivers are called on the transport's thread alone.
                return upstream.transport.perform { [self] in ended(.unresolved) }
            }
            attempt.resolved = place.number
            upstream.origins.resolved(request.url.origin)
            send(place.answer.url, place.answer.headers, attempt.condition)
        }
        let asker = Resolver.Asker(handle: handle, isDemanded: request.isDemanded, reason: request.reason)
        resolver?.place(of: request.url, after: refusal, for: asker, answer)
    }

    /// What is asked before a place gets the request counts as silence, too.
    private func inTime<Answer: Sendable>(
        elseOnly late: Answer, _ body: @escaping @Sendable (Answer) -> Void
    ) -> @Sendable (Answer) -> Void {
        began = began ?? now()
        return upstream.ticker.once(within: silenceLeft, elseOnly: late, body)
    }

    /// - Parameter headers: of the place itself, nil if it is the request's own.
    private func send(
        _ url: ResourceURL, _ headers: [(name: String, value: String)]?, _ condition: OriginRequest.Condition?
    ) {
        var request = headers.map { self.request.moved(to: url, $0) } ?? self.request
        attempt.origin = url.origin
        request.range = attempt.range
        request.condition = condition
        request.stallLimit = silenceLeft
        guard request.stallLimit > .zero else { return end(firstFailure ?? .timedOut) }
        if !places.isEmpty { request.silenceLimit = Mirrors.longestSilence }
        (attempt.isSent, attempt.isConditional) = (true, condition != nil)
        mirrors?.began(at: attempt.place)
        upstream.transport.start(handle, request, self)
    }

    /// Until an answer begins, the silence of all places counts together.
    private var silenceLeft: Duration {
        guard toldStatus == nil, let began else { return request.stallLimit }
        return request.stallLimit - (now() - began)
    }

    /// The bytes that the receiver still wants.
    private var rest: ByteRange? { request.range.map { ByteRange($0.lower + delivered, $0.upper) } }

    // MARK: Mirrors

    /// The place is of no use.
    private func skip() { next() }

    /// The failure where no place can be asked.
    private var noPlace: OriginFailure {
        if isContradicted || isReplaced { return .changed }
        if let outage = upstream.transport.outage(of: request.url) { return .away(outage) }
        return .interrupted("no place agrees with what is known")
    }

    /// Ends it without a request: receivers are called on the transport's thread alone.
    private func end(_ failure: OriginFailure) { upstream.transport.perform { [self] in finish(failure) } }

    /// Whether an answer that needs it is of the version that is known. - Returns: the failure where it is not.
    private func disagreement(_ head: ResponseHead) -> OriginFailure? {
        // Its own validator says that it has not changed, if that was asked.
        if head.status == 304 { return attempt.isConditional ? nil : .wrongAnswer("304 from a mirror unasked") }
        guard let mirrors, request.reason != .listing else { return nil }
        let isShared = mirrors.isShared(attempt.place)
        let length = head.status == 206 ? head.contentRange?.total : head.contentLength
        let told = ContentInformation(length: length, validator: head.validator)
        if isShared, head.status == 200, attempt.range != nil, version.map({ told.isSameVersion(as: $0) }) ?? true {
            // The source may do better, and no range that is asked for next will fare better here.
            mirrors.avoid(attempt.place)
            return .wrongAnswer("the whole file, where a shared cache was asked for a range")
        }
        guard let version else { return nil }
        // The version of a mirror may have the tag that the source gave the same file.
        let isSame =
            (isShared || isOwn(attempt.place, version)) && told.looksLike(version)
            || !isShared && told.isProven(by: version)
        guard isSame else {
            let reason = length == version.length ? "its tag and date are others" : "its length is another"
            mirrors.leaveOut(request.resource, version, at: attempt.place, reason)
            if attempt.place == 0 { return .changed }
            return .wrongAnswer("a \(isShared ? "shared cache" : "mirror") with another version")
        }
        return nil
    }

    /// Remembers that a place has the version of its answer.
    /// - Parameters:
    ///   - head: as the receiver gets it.
    ///   - own: as the answer had it.
    /// - Returns: the failure where the source has other bytes under that version.
    private func agreement(_ head: ResponseHead, _ own: Validator) -> OriginFailure? {
        guard let mirrors, !mirrors.isShared(attempt.place), request.reason != .listing, head.status != 304 else {
            return nil
        }
        let told = ContentInformation(length: head.contentRange?.total, validator: head.validator)
        var version = version ?? told
        guard version.length != nil else { return nil }
        version.validator.mirror = attempt.mark
        if attempt.mark != 0, mirrors.standing(of: request.resource, version, at: 0).isOther {
            return .wrongAnswer("a mirror with other bytes")
        }
        mirrors.agreed(request.resource, version, at: attempt.place, own)
        return nil
    }

    /// A mirror's head as the source would have sent it.
    private func translated(_ head: ResponseHead) -> ResponseHead {
        var head = head
        head.mirror = attempt.mark
        if attempt.place > 0 { head.url = mirrors?.original(of: head.url, at: attempt.place) ?? request.url }
        let isShared = mirrors?.isShared(attempt.place) ?? false
        if !isShared, request.reason == .listing {
            // The source would be asked whether its own listing has changed since.
            head.headers.removeAll { $0.name == "etag" || $0.name == "last-modified" }
            return head
        }
        guard let version else {
            // The source may have another tag for the same bytes.
            if !isShared, head.validator.lastModified != nil { head.headers.removeAll { $0.name == "etag" } }
            return head
        }
        head.headers.removeAll { $0.name == "etag" || $0.name == "last-modified" }
        if let tag = version.validator.entityTag { head.headers.append(("etag", tag.header)) }
        if let date = version.validator.lastModified { head.headers.append(("last-modified", httpDateText(date))) }
        return head
    }

    // MARK: The answer

    func sent() {
        attempt.sentAt = now()
        began = began ?? attempt.sentAt
        receiver.sent()
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        attempt.status = head.status
        if let sentAt = attempt.sentAt.take() { upstream.origins.answered(attempt.origin, after: now() - sentAt) }
        let isShared = mirrors?.isShared(attempt.place) ?? false
        receiver.asked(attempt.place > 0 && !isShared ? .mirror : .origin)
        guard mirrors != nil else { return receiver.head(head) }
        var head = head
        let own = head.validator
        if attempt.place > 0 || attempt.mark != 0 {
            if let failure = disagreement(head) { return failure }
            mirrors?.tally(head, at: attempt.place)
            head = translated(head)
            if let failure = agreement(head, own) { return failure }
        }
        guard toldStatus == nil else { return goOn(head) }
        if request.reason == .head, !places.isEmpty {
            heldHead = head
            return nil
        }
        return tell(head)
    }

    /// Gives the receiver the head.
    private func tell(_ head: ResponseHead) -> OriginFailure? {
        let failure = receiver.head(head)
        if failure == nil {
            toldStatus = head.status
            if head.status == 206, let total = head.contentRange?.total {
                version = ContentInformation(length: total, validator: head.validator, mediaType: head.mediaType)
            }
        }
        return failure
    }

    /// The head of an answer that goes on where another broke off.
    private func goOn(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: request.url, asked: attempt.range, isConditional: false, known: version) {
        case .range: nil
        case .failure(let failure): failure
        case .whole, .unchanged: .wrongAnswer("no range, where another answer broke off")
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        if let head = heldHead.take() {
            refused = tell(head)
            if refused != nil { return .stop }
        }
        attempt.bytes += Int64(bytes.count)
        delivered += Int64(bytes.count)
        upstream.origins.took(Int64(bytes.count), from: attempt.origin)
        mirrors?.took(Int64(bytes.count), from: attempt.place)
        if let place = slow {
            slow = nil
            if place != attempt.place { mirrors?.avoid(place) }
        }
        return receiver.body(bytes)
    }

    func ended(_ failure: OriginFailure?) {
        var failure = refused.take() ?? failure
        // An empty body is whole, too.
        if let head = heldHead.take(), failure == nil { failure = tell(head) }
        if attempt.isSent {
            // One that was kept back to its end says nothing of the place.
            let isAsked = attempt.sentAt != nil || attempt.status != nil
            let isUnwell = failure?.meaning.isUnwell == true && (isAsked || failure != .timedOut)
            mirrors?.ended(at: attempt.place, isUnwell: isUnwell)
            upstream.origins.ended(attempt.origin, isUnwell: isUnwell)
        }
        if let refusal = refusal(failure) {
            // The resolver may give none, and then nothing else was sent.
            (attempt.isSent, attempt.sentAt, attempt.origin) = (false, nil, request.url.origin)
            receiver.redirected()
            return resolve(after: refusal)
        }
        upstream.origins.judge(attempt.origin, by: failure)
        let record = record(failure)
        upstream.requests.add(record, of: request.subject ?? request.url)
        upstream.failures.add(record)
        guard let failure, mayMove(after: failure) else { return finish(failure.map { reported($0) }) }
        firstFailure = firstFailure ?? failure
        receiver.redirected()
        next()
    }

    private func finish(_ failure: OriginFailure?) { receiver.ended(failure) }

    /// Returns the failure of the first place, unless another one has served a part.
    private func reported(_ failure: OriginFailure) -> OriginFailure {
        delivered > 0 || failure == .cancelled ? failure : firstFailure ?? failure
    }

    private func record(_ failure: OriginFailure?) -> RequestRecord {
        var status = attempt.status
        if status == nil, case .status(let number, _)? = failure { status = number }
        return RequestRecord(
            when: dateText(attempt.startedAt), file: request.url.description,
            range: attempt.range.map { [$0.lower, $0.upper - 1] }, why: request.reason.rawValue,
            program: receiver.program, from: placeName, host: attempt.origin,
            status: status, bytes: attempt.bytes, milliseconds: Int64((now() - attempt.start) / .milliseconds(1)),
            failure: failure == .cancelled ? nil : failure?.reason)
    }

    private var placeName: String {
        if attempt.place == 0 { return "origin" }
        return mirrors?.isShared(attempt.place) ?? false ? "via" : "mirror"
    }

    /// The place that refuses, if another one may be asked for.
    private func refusal(_ failure: OriginFailure?) -> Resolver.Refusal? {
        guard case .status(let status, _)? = failure, failure?.meaning.mayBeExpired == true,
            let place = attempt.resolved, moves < Self.mostMoves
        else { return nil }
        moves += 1
        return Resolver.Refusal(number: place, status: status)
    }

    /// Whether another place may serve what is left.
    private func mayMove(after failure: OriginFailure) -> Bool {
        guard !places.isEmpty, !handle.isCancelled else { return false }
        // Only a range goes on in its middle.
        guard toldStatus == nil || toldStatus == 206 && rest?.isEmpty == false else { return false }
        if attempt.place > 0 { return failure != .cancelled }
        switch failure.meaning.elsewhere {
        case .nowhere: return false
        case .anywhere: return true
        case .mirrors:
            places.removeAll { mirrors?.isShared($0) ?? false }
            return !places.isEmpty
        }
    }
}
