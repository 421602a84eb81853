import ReelCore
import ReelSources
import ReelThreads

/// A request for a range of a joined file: one answer to its receiver, made of the answers to requests for the pieces,
/// one after another.
///
/// All of it but `init` runs on the origin's thread, so that its receiver is called as by the origin itself.
final class JoinedRequest: ForwardingReceiver {
    private struct State {
        var version: JoinedVersion?
        /// The next byte, and the end.
        var range = ByteRange(0, 0)
        /// The piece under way.
        var current: RequestHandle?
        var piece: ResourceURL?
        var hasHead = false
        /// What the receiver has said to the head, if it did not take it.
        var refusal: OriginFailure?
        var isPaused = false
        /// Paused between two pieces.
        var isBetween = false
        var isStopped = false
        /// The playlist was asked for again, as a piece or a key could not be had: its links may have expired. False
        /// again once a piece has an answer: a film may take longer than several links last.
        var isRenewed = false
        var isOver = false
        var isDemanded: Bool
    }

    private let handle: RequestHandle
    private let request: OriginRequest
    private let file: JoinedFile
    let receiver: any OriginReceiver
    private let segments: Segments
    private let lengths: PieceLengths
    private let state: Lock<State>

    init(
        _ handle: RequestHandle, _ request: OriginRequest, _ file: JoinedFile, _ receiver: any OriginReceiver,
        _ segments: Segments, _ lengths: PieceLengths
    ) {
        self.handle = handle
        self.request = request
        self.file = file
        self.receiver = receiver
        self.segments = segments
        self.lengths = lengths
        state = Lock(State(isDemanded: request.isDemanded))
    }

    private var transport: any Transport { segments.below.transport }

    /// Whether it asks if the file has changed, which only its playlist can show.
    private var asksForChange: Bool { if case .ifChanged? = request.condition { true } else { false } }

    // MARK: What its handle asks

    func start() {
        if handle.isCancelled { return end(.cancelled) }
        if handle.isPromoted { promote() }
        if !asksForChange, let version = segments.version(of: request.url) { return begin(.success(version)) }
        segments.below.ticker.after(request.stallLimit) { [weak self] in
            self?.transport.perform { [weak self] in self?.giveUp() }
        } atEnd: { [weak self] in
            self?.transport.perform { [weak self] in self?.cancel() }
        }
        find()
    }

    private func find() {
        segments.find(file, as: request.url, limit: request.stallLimit, lengths) { [self] result in
            transport.perform { [self] in begin(result) }
        }
    }

    /// The playlist, or the lengths of its pieces, take too long; what comes of it is remembered all the same.
    private func giveUp() {
        if state.withLock({ $0.version == nil }) { end(.timedOut) }
    }

    func cancel() {
        state.withLock { $0.isStopped = true }
        guard let current = state.withLock({ $0.current }) else { return end(.cancelled) }
        current.cancel()
    }

    private func promote() {
        let current = state.withLock { state in
            state.isDemanded = true
            return state.current
        }
        current?.promote()
    }

    private func resume() {
        let (current, isBetween) = state.withLock { state in
            defer { (state.isPaused, state.isBetween) = (false, false) }
            return (state.current, state.isBetween)
        }
        if isBetween { next() } else { current?.resume() }
    }

    // MARK: The way through the pieces

    private func begin(_ result: Result<JoinedVersion, OriginFailure>) {
        guard !state.withLock({ $0.isOver }) else { return }
        let version: JoinedVersion
        switch result {
        case .failure(let failure): return end(failure)
        case .success(let found): version = found
        }
        if let before = state.withLock({ $0.version }) {
            // The same bytes behind other links.
            guard before.information == version.information || version.continues(before.information) else {
                return end(.changed)
            }
            state.withLock { $0.version = version }
            return next()
        }
        let (length, tag) = (version.information.length ?? 0, version.information.validator.entityTag)
        if case .ifChanged(let known?, _)? = request.condition, known == tag?.header {
            state.withLock { $0.version = version }
            return end(receiver.head(head(304, [])))
        }
        if let asked = request.range, asked.lower >= length { return end(.status(416, retryAfter: nil)) }
        let range = request.range.map { $0.clamped(to: ByteRange(0, length)) } ?? ByteRange(0, length)
        state.withLock { ($0.version, $0.range) = (version, range) }
        // The playlist and what is known of its pieces say all of the head.
        if range.isEmpty || request.isHeadEnough { return end(tell()) }
        next()
    }

    /// Asks for the next piece.
    private func next() {
        let (version, range, isDemanded) = state.withLock { state in
            (state.isOver || state.isStopped ? nil : state.version, state.range, state.isDemanded)
        }
        guard let version else { return end(.cancelled) }
        if range.isEmpty { return end(nil) }
        let (part, start) = version.part(at: range.lower)
        let wanted = ByteRange(range.lower - start, min(range.upper - start, part.length))
        guard let cipher = part.piece.cipher else { return ask(part, wanted, key: nil, isDemanded) }
        segments.key(at: cipher.key, of: request.url, limit: request.stallLimit, lengths.services) { [self] result in
            transport.perform { [self] in
                switch result {
                case .success(let key): ask(part, wanted, key: key, isDemanded)
                case .failure(let failure) where failure.meaning.mayBeExpired && renew(): break
                case .failure(let failure): end(failure)
                }
            }
        }
    }

    private func ask(_ part: JoinedVersion.Part, _ range: ByteRange, key: [UInt8]?, _ isDemanded: Bool) {
        guard !state.withLock({ $0.isOver || $0.isStopped }) else { return end(.cancelled) }
        let piece = PieceRequest(
            part.piece, of: part.resource, range, key: key, isDemanded: isDemanded, reason: request.reason,
            of: request.url, stallLimit: request.stallLimit, limit: isDemanded ? nil : request.limit, to: self)
        guard let piece else { return end(.wrongAnswer("a key that is none")) }
        let current = RequestHandle(for: handle)
        state.withLock { ($0.current, $0.piece) = (current, part.piece.url) }
        segments.below.start(current, piece.request, piece)
    }

    /// Goes on with the links that the playlist has now.
    /// - Returns: false, and nothing done, where those that failed were from there.
    private func renew() -> Bool {
        let isNew = state.withLock { state in
            defer { state.isRenewed = true }
            return !state.isRenewed && !state.isOver
        }
        guard isNew else { return false }
        segments.forget(request.url)
        find()
        return true
    }

    /// Ends it, once.
    private func end(_ failure: OriginFailure?) {
        let isFirst = state.withLock { state in
            defer { state.isOver = true }
            return !state.isOver
        }
        guard isFirst else { return }
        segments.left(handle)
        receiver.ended(failure)
    }

    // MARK: The answer

    private func head(_ status: Int, _ more: [(String, String)]) -> ResponseHead {
        var headers = more
        if let information = state.withLock({ $0.version?.information }) {
            let validator = information.validator
            if let tag = validator.entityTag { headers.append(("etag", tag.header)) }
            if let date = validator.lastModified { headers.append(("last-modified", httpDateText(date))) }
            if let type = information.mediaType { headers.append(("content-type", type)) }
        }
        return ResponseHead(status: status, headers: headers, url: request.url)
    }

    /// Gives the receiver the head, once. A head that it has refused stays so, whichever place a piece comes from next.
    private func tell() -> OriginFailure? {
        let (isFirst, refusal, range, length) = state.withLock { state in
            defer { state.hasHead = true }
            return (!state.hasHead, state.refusal, state.range, state.version?.information.length ?? 0)
        }
        guard isFirst else { return refusal }
        var (status, headers) = (200, [("content-length", "\(length)")])
        if request.range != nil {
            let place = "bytes \(range.lower)-\(range.upper - 1)/\(length)"
            (status, headers) = (206, [("content-range", place), ("content-length", "\(range.count)")])
        }
        let failure = receiver.head(head(status, headers))
        state.withLock { $0.refusal = failure }
        return failure
    }

    func sent() { if !state.withLock({ $0.hasHead }) { receiver.sent() } }
    func connecting() { if !state.withLock({ $0.hasHead }) { receiver.connecting() } }
    func redirected() { if !state.withLock({ $0.hasHead }) { receiver.redirected() } }

    /// The head of a piece, which agrees with what is known of it.
    func head(_: ResponseHead) -> OriginFailure? {
        let failure = tell()
        state.withLock { state in
            state.isRenewed = false
            if failure != nil { state.isStopped = true }
        }
        return failure
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        state.withLock { $0.range = ByteRange($0.range.lower + Int64(bytes.count), $0.range.upper) }
        let answer = receiver.body(bytes)
        switch answer {
        case .more: break
        case .pause: state.withLock { $0.isPaused = true }
        case .stop: state.withLock { $0.isStopped = true }
        }
        return answer
    }

    /// A piece has ended.
    func ended(_ failure: OriginFailure?) {
        let (isStopped, isPaused, piece) = state.withLock { state in
            state.current = nil
            if failure == nil, state.isPaused, !state.isStopped { state.isBetween = true }
            return (state.isStopped, state.isPaused, state.piece)
        }
        if isStopped { return end(failure ?? .cancelled) }
        guard let failure else {
            if !isPaused { next() }
            return
        }
        if failure.meaning.isContradiction {
            segments.forget(request.url)
            if failure.meaning.mayBeExpired {
                if renew() { return }
            } else if failure == .changed {
                // A film that is encoded again has other pieces everywhere: doubts one by one would cost an open each.
                for part in state.withLock({ $0.version?.parts }) ?? [] { lengths.services.doubt(part.piece.url) }
            } else if let piece {
                lengths.services.doubt(piece)
            }
        }
        end(failure)
    }
}

extension JoinedRequest: RequestControl {
    func cancel(_: RequestHandle) { transport.perform { [self] in cancel() } }
    func promote(_: RequestHandle) { transport.perform { [self] in promote() } }
    func resume(_: RequestHandle) { transport.perform { [self] in resume() } }
}
