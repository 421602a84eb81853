import ReelCore
import ReelSources
import ReelThreads

/// Lists one folder: sends the requests of its reader, one after another, and hands it the answers.
///
/// The `chores` queue does all that may take a while, such as the reading of an answer, and calls the completion.
final class FolderFetch: Sendable {
    enum Outcome: Sendable {
        /// - Parameter mark: asks whether the folder has changed; nil: nothing does.
        case entries(EntryList, FolderMark?, remark: String?)
        case unchanged
        case refused(SourceRefusal)
        case failure(OriginFailure)
    }

    fileprivate struct State {
        var reader: any FolderReader
        /// The mark that the only request's answer told.
        var mark: FolderMark?
        /// For the request at hand, its retries, and the reading of its answer; on the clock of `now()`.
        var deadline: Duration
        var requests = 0
        /// Bytes of all answers.
        var size = 0
    }

    /// An answer that is there already.
    struct First: Sendable {
        let answer: SourceAnswer
        let mark: FolderMark?
    }

    /// More pages than a folder of `Listing.mostEntries` has: a folder with more has no end.
    private static let mostRequests = 10_000
    /// The time for all pages of a folder: as many as `Listing.mostEntries` fill, 1,000 a page, at 0.6 s a page.
    static let longest = Duration.seconds(600)

    /// Only the queue's thread takes it.
    private let state: Lock<State>
    private let known: FolderMark?
    private let first: First?
    /// The time for one request.
    private let limit: Duration
    /// No request goes on after this moment, on the clock of `now()`.
    private let end: Duration
    private let services: Services
    private let completion: @Sendable (Outcome) -> Void

    private init(
        _ reader: any FolderReader, known: FolderMark?, first: First?, limit: Duration, inAll: Duration,
        _ services: Services, _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        let start = now()
        state = Lock(State(reader: reader, mark: first?.mark, deadline: start + limit), .folder)
        self.known = known
        self.first = first
        self.limit = limit
        end = start + max(limit, inAll)
        self.services = services
        self.completion = completion
    }

    /// - Parameters:
    ///   - known: the mark of the present listing: a document that has not changed need not come again.
    ///   - first: a document that need not be asked for.
    ///   - limit: for each request, with its retries and the reading of its answer.
    ///   - inAll: for all requests together, where that is longer.
    static func start(
        _ reader: any FolderReader, known: FolderMark? = nil, first: First? = nil, limit: Duration,
        inAll: Duration = longest, _ services: Services, _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        let fetch = FolderFetch(reader, known: known, first: first, limit: limit, inAll: inAll, services, completion)
        services.later { fetch.perform { reader, _ throws(SourceRefusal) in try reader.start() } }
    }

    // MARK: On the queue

    private typealias Step = (inout any FolderReader, @escaping StopQuestion) throws(SourceRefusal) -> FolderStep

    private func perform(_ step: Step) {
        do throws(SourceRefusal) {
            let next = try withReader { state throws(SourceRefusal) in
                try step(&state.reader, services.isOver(at: state.deadline))
            }
            switch next {
            case .ask(let request): ask(request)
            case .entries(let entries, let remark):
                let mark = state.withLock { $0.requests == 1 ? $0.mark : nil }
                finish(.entries(entries, mark, remark: remark))
            }
        } catch {
            finish(.refused(error))
        }
    }

    fileprivate func withReader<Value: Sendable>(
        _ body: (inout State) throws(SourceRefusal) -> Value
    ) throws(SourceRefusal) -> Value {
        try state.withLock { state in Result { () throws(SourceRefusal) in try body(&state) } }.get()
    }

    /// Gives the reader all of a document.
    private func take(_ head: ResponseHead?, _ bytes: [UInt8]) {
        perform { reader, isOver throws(SourceRefusal) in
            try reader.head(head)
            try reader.take(bytes)
            return try reader.end(isOver)
        }
    }

    private func ended(_ end: AnswerEnd) {
        switch end {
        case .whole: perform { reader, isOver throws(SourceRefusal) in try reader.end(isOver) }
        case .over(let outcome): finish(outcome)
        case .cancelled: finish(.failure(.timedOut))
        }
    }

    private func finish(_ outcome: Outcome) {
        services.giveBackMemory(after: state.withLock { $0.size })
        completion(outcome)
    }

    // MARK: Asking

    private func ask(_ request: SourceRequest) {
        let (number, deadline) = state.withLock { state in
            state.requests += 1
            if state.requests > 1 { state.deadline = min(now() + limit, end) }
            return (state.requests, state.deadline)
        }
        guard number <= Self.mostRequests else { return finish(.refused(.useless("a folder without end"))) }
        if number > 1, services.isOver(at: end)() { return finish(.refused(.stopped)) }
        if number == 1, let answer = first?.answer, answer.answers(request) { return take(answer.head, answer.bytes) }
        if case .document(.path(let path)) = request { return read(path) }
        guard var sent = request.sent else { return }
        if number == 1, case .document = request, case .condition(let condition)? = known { sent.condition = condition }
        send(sent, until: deadline)
    }

    private func send(_ request: OriginRequest, until deadline: Duration) {
        let longest = state.withLock { $0.reader.longestAnswer }
        retrying(until: deadline, services) { [self, request] left, done in
            var request = request
            request.stallLimit = left
            request.reason = .listing
            let handle = RequestHandle()
            services.send(request, as: handle, to: AnswerReceiver(self, handle, limit: longest, services, done))
            // This ends a body that drips for ever, too.
            services.ticker.after(left) { [services] in services.cancel(handle) }
        } completion: { [self] end in
            services.later { [self] in ended(end) }
        }
    }

    private func read(_ path: String) {
        var stamp: FileStamp?
        if case .file(let known)? = known { stamp = known }
        switch LocalFile.read(path, unless: stamp) {
        case .missing(let reason): finish(.failure(.unreachable(reason)))
        case .refused(let refusal): finish(.refused(refusal))
        case .unchanged: finish(.unchanged)
        case .bytes(let bytes, let stamp):
            state.withLock { $0.mark = .file(stamp) }
            take(nil, bytes)
        }
    }
}

/// Tells whether a folder has changed since it was listed.
enum FolderMark: Sendable {
    case condition(OriginRequest.Condition)
    case file(FileStamp)
}

private enum AnswerEnd: Attempted {
    case whole
    /// The folder's fetch ends with it.
    case over(FolderFetch.Outcome)
    /// Its time was over, or the transport has ended: not asked again.
    case cancelled

    var failure: OriginFailure? {
        switch self {
        case .whole: nil
        case .over(.failure(let failure)): failure
        case .over: nil
        case .cancelled: .cancelled
        }
    }
}

/// Takes one answer piece by piece to the reader, up to a limit, as the origin is not trusted.
private final class AnswerReceiver: OriginReceiver {
    private struct State {
        /// Decided before the answer has ended.
        var outcome: FolderFetch.Outcome?
        var size = 0
        /// Bytes that came and wait for the reader.
        var waiting = 0
        var isPaused = false
    }

    /// Bytes that may wait: a reader that is slower than the line does not make memory of the difference.
    private static let mostWaiting = 4 << 20

    private let state = Lock(State())
    private let limit: Int
    private let fetch: FolderFetch
    private let handle: RequestHandle
    private let services: Services
    private let done: @Sendable (AnswerEnd) -> Void

    init(
        _ fetch: FolderFetch, _ handle: RequestHandle, limit: Int, _ services: Services,
        _ done: @escaping @Sendable (AnswerEnd) -> Void
    ) {
        self.limit = limit
        self.fetch = fetch
        self.handle = handle
        self.services = services
        self.done = done
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        if head.isEncoded { return .wrongAnswer("a content encoding that was not requested") }
        if head.status == 304 {
            state.withLock { $0.outcome = .unchanged }
        } else {
            feed { state throws(SourceRefusal) in
                state.mark = head.folderMark
                try state.reader.head(head)
            }
        }
        return nil
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        services.counters.demandedBytes(bytes.count)
        let (isWanted, isPaused) = state.withLock { state in
            state.size += bytes.count
            if state.size > limit {
                let text = "a document of more than \(limit >> 20) MiB"
                state.outcome = state.outcome ?? .failure(.wrongAnswer(text))
            }
            state.waiting += bytes.count
            state.isPaused = state.outcome == nil && state.waiting > Self.mostWaiting
            return (state.outcome == nil, state.isPaused)
        }
        guard isWanted else { return .stop }
        let piece = Array(bytes)
        feed(piece.count) { state throws(SourceRefusal) in
            state.size += piece.count
            try state.reader.take(piece)
        }
        return isPaused ? .pause : .more
    }

    /// - Parameter count: bytes of the body that `take` reads.
    private func feed(
        _ count: Int = 0, _ take: @escaping @Sendable (inout FolderFetch.State) throws(SourceRefusal) -> Void
    ) {
        services.later { [self] in
            defer { taken(count) }
            if state.withLock({ $0.outcome != nil }) { return }
            do throws(SourceRefusal) {
                try fetch.withReader(take)
            } catch {
                state.withLock { $0.outcome = .refused(error) }
            }
        }
    }

    /// The reader has read so many bytes.
    private func taken(_ count: Int) {
        let goesOn = state.withLock { state in
            state.waiting -= count
            guard state.isPaused, state.waiting <= Self.mostWaiting / 2 else { return false }
            state.isPaused = false
            return true
        }
        if goesOn { services.resume(handle) }
    }

    func ended(_ failure: OriginFailure?) {
        // After the pieces that came before.
        services.later { [self] in
            if let outcome = state.withLock({ $0.outcome }) { return done(.over(outcome)) }
            done(failure.map { $0 == .cancelled ? .cancelled : .over(.failure($0)) } ?? .whole)
        }
    }
}

extension ResponseHead {
    /// Asks whether a listing has changed; nil: the answer has no validator. A date counts only a minute after it
    /// (RFC 9110, section 8.8.2.2): a directory may change again in the second of its change.
    fileprivate var folderMark: FolderMark? {
        var validator = Validator(entityTag: entityTag, lastModified: lastModified)
        if let date = validator.lastModified, (self["date"].flatMap { httpDate($0) } ?? date) - date < 60 {
            validator.lastModified = nil
        }
        return validator.ifChanged.map { .condition($0) }
    }
}
