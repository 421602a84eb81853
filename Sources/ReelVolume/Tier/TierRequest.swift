import ReelCache
import ReelCore
import ReelThreads

/// A request for a range of a version, answered by the tier as far as it has the bytes, and by the origin for the rest:
/// one answer to its receiver, slice after slice.
///
/// `@unchecked Sendable`: all of it but `init` runs on the thread that calls the receivers of the origin.
final class TierRequest: ForwardingReceiver, @unchecked Sendable {
    private enum Source {
        case tier
        case origin(upTo: Int64)
    }

    private var request: OriginRequest
    let handle: RequestHandle
    let receiver: any OriginReceiver
    private let version: Version
    private let information: ContentInformation
    private let tier: Tier

    /// What is still to come.
    private var rest: ByteRange
    /// The request to the tier under way.
    private var read: SliceRead?
    /// It has ended, and blocks of it are still held.
    private var readEnd: SliceRead.End?
    /// What the origin is asked for, and the request for it; nil if it is not asked.
    private var part: (range: ByteRange, handle: RequestHandle)?
    /// Where the bytes come from next.
    private var source = Source.tier
    /// The origin sends the whole resource, which the receiver takes from here on as it comes.
    private var isWhole = false
    /// The origin has sent the whole resource behind bytes of the tier.
    private var isTooMuch = false
    private var isDemanded: Bool { request.isDemanded }
    private var hasHead = false
    private var isPaused = false
    /// Blocks that came while the receiver wanted none.
    private var held: [(record: [UInt8], place: ByteRange)] = []
    /// The receiver wants nothing, and no request is under way.
    private var isBetween = false
    private var isStopped = false
    private var isOver = false
    /// The claim of another mount whose slices it waits for.
    private var claim: String?
    private var isWaiting = false
    /// Claims that it has looked for.
    private var looks = 0
    /// The request to the tier under way has left its queue.
    private var hasLeft = false

    /// So often the tier is asked again.
    private static let pause = Duration.milliseconds(50)
    /// A reader waits no longer than for a silent tier; bytes ahead of it have more time.
    private var patience: Duration { tier.place.patience }
    private var patienceAhead: Duration { patience * 3 }
    /// Shorter requests are of programs that look about: the rest of their slices may never come.
    private static let leastClaimed = 2 * BlockSize.block

    init(
        _ request: OriginRequest, _ range: ByteRange, _ version: Version, _ information: ContentInformation,
        _ handle: RequestHandle, _ receiver: any OriginReceiver, _ tier: Tier
    ) {
        (self.request, self.version, self.information) = (request, version, information)
        (self.handle, self.receiver, self.tier) = (handle, receiver, tier)
        rest = range.clamped(to: ByteRange(0, version.length))
    }

    private var transport: any Transport { tier.upstream.transport }
    var url: ResourceURL { request.url }
    var reason: OriginRequest.Reason { request.reason }

    // MARK: What its handle asks

    func start() {
        if handle.isPromoted { request.promote() }
        next()
    }

    private func cancel() {
        (isStopped, held) = (true, [])
        if let read, let end = readEnd { return ended(read, end) }
        if let read { return read.handle.cancel() }
        if let part { return part.handle.cancel() }
        end(.cancelled)
    }

    private func promote() {
        request.promote()
        limitWait()
        (read?.handle ?? part?.handle)?.promote()
    }

    private func resume() {
        isPaused = false
        while !isPaused, !isOver, let read, !held.isEmpty {
            let block = held.removeFirst()
            give(block.record, at: block.place, read)
        }
        guard !isPaused, !isOver else { return }
        if let read, let end = readEnd {
            ended(read, end)
        } else if isBetween {
            next()
        } else {
            part?.handle.resume()
        }
    }

    // MARK: The way through the slices

    private func next() {
        if isStopped || handle.isCancelled { return end(.cancelled) }
        if rest.isEmpty { return end(nil) }
        isBetween = isPaused
        if isPaused { return }
        let slice = tier.slice(of: version, at: rest.lower)
        switch source {
        case .origin(let upper): askOrigin(upTo: upper)
        case .tier where tier.writer.distrusts(slice): askOrigin(upTo: slice.range.upper)
        case .tier where tier.mayAsk(): askTier(slice)
        case .tier: askOrigin(upTo: rest.upper)
        }
    }

    private func askTier(_ slice: TierSlice) {
        let read = SliceRead(slice, rest, as: RequestHandle(for: handle), for: self, tier)
        (self.read, hasLeft) = (read, false)
        tier.asks(handle, url, rest.clamped(to: slice.range))
        read.begin(request, isDemanded: isDemanded)
        limitWait()
    }

    /// A reader waits no longer than for a silent tier also where the tier is busy with others: a request that has not
    /// left its queue gets no second try, and no end as long as bytes of others come.
    private func limitWait() {
        guard isDemanded, let read, !hasLeft else { return }
        afterPatience { [self] in
            if read === self.read, !hasLeft { read.handle.cancel() }
        }
    }

    private func afterPatience(_ job: @escaping @Sendable () -> Void) {
        tier.upstream.ticker.after(patience) { [transport] in
            transport.perform(job)
        } atEnd: {
        }
    }

    private func askOrigin(upTo upper: Int64) {
        let part = (range: ByteRange(rest.lower, min(upper, rest.upper)), handle: RequestHandle(for: handle))
        (self.part, source) = (part, .tier)
        var request = request
        request.range = part.range
        tier.below.start(part.handle, request, self)
    }

    private func end(_ failure: OriginFailure?) {
        guard !isOver else { return }
        isOver = true
        // A request to the tier that has ended before does not end again, and holds this one.
        (read, held) = (nil, [])
        tier.asks(handle, url, nil)
        tier.left(handle)
        receiver.ended(failure)
    }

    /// Gives the receiver the head, once, as the origin would have sent it.
    private func tell() -> OriginFailure? {
        if hasHead { return nil }
        hasHead = true
        var headers = [
            ("content-range", "bytes \(rest.lower)-\(rest.upper - 1)/\(version.length)"),
            ("content-length", "\(rest.count)"),
        ]
        if let tag = information.validator.entityTag { headers.append(("etag", tag.header)) }
        if let date = information.validator.lastModified { headers.append(("last-modified", httpDateText(date))) }
        if let type = information.mediaType { headers.append(("content-type", type)) }
        return receiver.head(ResponseHead(status: 206, headers: headers, url: url))
    }

    // MARK: From the tier

    func sent(_ read: SliceRead) {
        guard read === self.read else { return }
        hasLeft = true
        if !hasHead { receiver.sent() }
    }

    /// A block that its seal has proven.
    func took(_ record: [UInt8], at place: ByteRange, _ read: SliceRead) {
        guard read === self.read, !isStopped else { return read.taken() }
        if isPaused { held.append((record, place)) } else { give(record, at: place, read) }
    }

    private func give(_ record: [UInt8], at place: ByteRange, _ read: SliceRead) {
        var record = record
        defer { read.taken() }
        let part = rest.clamped(to: place)
        guard !part.isEmpty, part.lower == rest.lower else { return }
        receiver.asked(.tier)
        if let failure = tell() { return stop(failure, read) }
        tier.took(part.count)
        rest.lower = part.upper
        let answer = TierSlice.withBlock(of: &record) { bytes in
            receiver.body(
                UnsafeRawBufferPointer(
                    rebasing: bytes[Int(part.lower - place.lower)..<Int(part.upper - place.lower)]))
        }
        switch answer {
        case .more: break
        case .pause: isPaused = true
        case .stop: stop(.cancelled, read)
        }
    }

    private func stop(_ failure: OriginFailure, _ read: SliceRead) {
        isStopped = true
        read.handle.cancel()
        end(failure)
    }

    /// The request for a slice has ended.
    func ended(_ read: SliceRead, _ end: SliceRead.End) {
        guard read === self.read else { return }
        // The blocks that came go first.
        readEnd = held.isEmpty ? nil : end
        if readEnd != nil { return }
        self.read = nil
        tier.asks(handle, url, nil)
        switch end {
        case .whole: if let claim { tier.claims.goesOn(claim) }
        case .missing:
            if !isStopped, findClaim() { return }
            source = .origin(upTo: read.slice.range.upper)
        case .damaged: source = .origin(upTo: read.slice.range.upper)
        case .failed: source = .origin(upTo: rest.upper)
        }
        next()
    }

    // MARK: Slices that the tier lacks

    /// Fetches the slices that follow, unless another mount is about to.
    /// - Returns: false where the request is too short to fetch slices for others.
    private func findClaim() -> Bool {
        let (name, range) = tier.place.seal.claim(of: version, at: rest.lower)
        let isLong = request.range.map { $0.count > Self.leastClaimed } == true
        // A reader that goes on makes short requests, too.
        guard isLong || tier.claims.knows(name) else { return false }
        isWaiting = true
        looks += 1
        let look = looks
        // The look may wait for its turn as well.
        if isDemanded {
            afterPatience { [self] in
                guard isWaiting, look == looks else { return }
                source = .origin(upTo: range.upper)
                goOn()
            }
        }
        tier.claims.find(name, for: handle, isDemanded: isDemanded) { [self] since in
            transport.perform { [self] in found(name, range, since, look) }
        }
        return true
    }

    /// - Parameter look: which one has found it; one that was given up says nothing of what is waited for now.
    private func found(_ name: String, _ range: ByteRange, _ since: Duration?, _ look: Int) {
        guard isWaiting, look == looks, !isOver else { return }
        claim = since == nil ? nil : name
        if let since {
            if now() < since + (isDemanded ? patience : patienceAhead) {
                tier.upstream.ticker.after(Self.pause) { [self] in
                    transport.perform { [self] in goOn() }
                } atEnd: { [self] in
                    transport.perform { [self] in end(.cancelled) }
                }
                return
            }
            tier.claims.giveUp(name)
        }
        source = .origin(upTo: range.upper)
        goOn()
    }

    private func goOn() {
        guard isWaiting, !isOver else { return }
        isWaiting = false
        next()
    }

    // MARK: From the origin

    func sent() { if !hasHead { receiver.sent() } }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: url, asked: part?.range, isConditional: false, known: information) {
        case .range: return tell()
        case .whole where !hasHead:
            (isWhole, hasHead) = (true, true)
            return receiver.head(head)
        case .whole:
            isTooMuch = true
            return .wrongAnswer("no range, where the tier's bytes end")
        case .unchanged: return .wrongAnswer("304 to a request without a condition")
        case .failure(let failure): return failure
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        rest.lower += Int64(bytes.count)
        let answer = receiver.body(bytes)
        switch answer {
        case .more: break
        case .pause: isPaused = true
        case .stop: isStopped = true
        }
        return answer
    }

    func ended(_ failure: OriginFailure?) {
        part = nil
        // A request for the rest alone can take the whole resource.
        if isTooMuch, case .wrongAnswer(let reason)? = failure { return end(.interrupted(reason)) }
        if failure != nil || isWhole { return end(failure) }
        next()
    }
}

extension TierRequest: RequestControl {
    func cancel(_: RequestHandle) { transport.perform { [self] in cancel() } }
    func promote(_: RequestHandle) { transport.perform { [self] in promote() } }
    func resume(_: RequestHandle) { transport.perform { [self] in resume() } }
}
