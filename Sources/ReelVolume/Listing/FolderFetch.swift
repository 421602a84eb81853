import ReelCore
import ReelSources
import ReelThreads

/// Lists one folder: sends the requests of its reader, one after another, and hands it the answers.
///
/// The `chores` queue does all that may take a while, such as the reading of an answer, and calls the completion.
final class FolderFetch: Sendable {
    enum Outcome: Sendable {
        /// - Parameter mark: asks whether the folder has changed, nil if nothing does.
        case entries(EntryList, FolderMark?, remark: String?)
        case unchanged
        case refused(SourceRefusal)
        case failure(OriginFailure)
    }

    struct State {
        var reader: any FolderReader
        /// The mark of the answer, if there is one request only.
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
    /// Like `OriginRequest.subject`.
    private let subject: ResourceURL?
    private let known: FolderMark?
    private let first: First?
    private let demand: CallDemand?
    /// The time for one request.
    private let limit: Duration
    /// No request goes on after this moment, on the clock of `now()`.
    private let end: Duration
    private let services: Services
    private let completion: @Sendable (Outcome) -> Void

    private init(
        _ reader: any FolderReader, of subject: ResourceURL?, known: FolderMark?, first: First?,
        _ demand: CallDemand?, limit: Duration, inAll: Duration, _ services: Services,
        _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        let start = now()
        state = Lock(State(reader: reader, mark: first?.mark, deadline: start + limit), .folder)
        self.subject = subject
        self.known = known
        self.first = first
        self.demand = demand
        self.limit = limit
        end = start + max(limit, inAll)
        self.services = services
        self.completion = completion
    }

    /// - Parameters:
    ///   - subject: the folder, or the joined file, nil for the document that is asked for.
    ///   - known: the mark of the present listing: a document that has not changed need not come again.
    ///   - first: a document that need not be asked for.
    ///   - demand: says whether a caller waits, nil if one does.
    ///   - limit: for each request, with its retries and the reading of its answer.
    ///   - inAll: for all requests together, where that is longer.
    static func start(
        _ reader: any FolderReader, of subject: ResourceURL? = nil, known: FolderMark? = nil, first: First? = nil,
        demand: CallDemand? = nil, limit: Duration, inAll: Duration = longest, _ services: Services,
        _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        let fetch = FolderFetch(
            reader, of: subject, known: known, first: first, demand, limit: limit, inAll: inAll, services, completion)
        services.later { fetch.perform { reader, _ throws(SourceRefusal) in try reader.start() } }
    }

    // MARK: On the queue

    private typealias Step = (inout any FolderReader, @escaping StopQuestion) throws(SourceRefusal) -> FolderStep

    private func perform(_ step: Step) {
        do throws(SourceRefusal) {
            let next = try withReader { state throws(SourceRefusal) in
                try step(&state.reader, services.isOver(at: state.deadline))
            }
            if case .file(let stamp)? = state.withLock({ $0.mark }), stamp.isTrusted {
                services.upstream.trustNamedOrigins()
            }
            switch next {
            case .ask(let request): ask(request)
            case .beginnings(let urls, let then):
                let limit = min(Beginnings.limit, end - now())
                Beginnings.ask(for: urls, within: limit, services) { [self] found in
                    services.later { [self] in perform { _, _ in then(found) } }
                }
            case .entries(let entries, let remark):
                let mark = state.withLock { $0.requests == 1 ? $0.mark : nil }
                services.noteSignatures()
                finish(.entries(entries.namingLinks(services.options.links), mark, remark: remark))
            }
        } catch {
            finish(.refused(error))
        }
    }

    func withReader<Value: Sendable>(
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
        case .over(let outcome), .unwanted(let outcome): finish(outcome)
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
        if case .document(.path(let path)) = request { return read(path, until: deadline) }
        guard var sent = request.sent else { return }
        if number == 1, case .document = request, case .condition(let condition)? = known { sent.condition = condition }
        send(sent, until: deadline)
    }

    private func send(_ request: OriginRequest, until deadline: Duration) {
        let longest = state.withLock { $0.reader.longestAnswer }
        retrying(until: deadline, services) { [self, request] left, done in
            var request = request
            request.stallLimit = left
            (request.reason, request.subject) = (.listing, subject)
            let handle = RequestHandle()
            if let demand { request.isDemanded = demand.begins(handle) }
            // This ends a body that never stops dripping, too.
            let cancel = { @Sendable in handle.cancel() }
            let timer = services.ticker.after(left, cancel, atEnd: cancel)
            let answer = FolderAnswer(self, handle, limit: longest, services) { [services] end in
                services.ticker.cancel(timer)
                done(end)
            }
            services.origin.start(handle, request, answer)
        } completion: { [self] end in
            services.later { [self] in ended(end) }
        }
    }

    /// A failure is not asked about again where no caller waits.
    func isWorthRetrying() -> Bool { demand?.isDemanded ?? true }

    private func read(_ path: String, until deadline: Duration) {
        var stamp: FileStamp?
        if case .file(let known)? = known { stamp = known }
        let ended = Once<LocalFile.Outcome?> { [self] file in
            services.later { [self] in took(file) }
        }
        let giveUp = { @Sendable in ended(nil) }
        let timer = services.ticker.after(deadline - now(), giveUp, atEnd: giveUp)
        let isTaken = services.readLocally { [services, stamp] in
            // The disk may have hung until the deadline.
            if !ended.isOver { ended(LocalFile.read(services.options.openList(path), unless: stamp)) }
            services.ticker.cancel(timer)
        }
        if !isTaken { giveUp() }
    }

    /// - Parameter file: nil where it did not come in time.
    private func took(_ file: LocalFile.Outcome?) {
        switch file {
        case nil: finish(.failure(.timedOut))
        case .missing(let reason): finish(.failure(.unreachable(reason)))
        case .refused(let refusal): finish(.refused(refusal))
        case .unchanged: finish(.unchanged)
        case .bytes(let bytes, let stamp):
            state.withLock { $0.mark = .file(stamp) }
            take(nil, bytes)
        }
    }
}

/// Shows whether a folder has changed since it was listed.
enum FolderMark: Sendable {
    case condition(OriginRequest.Condition)
    case file(FileStamp)
}

extension Services {
    /// Whether the list had signatures, or logins, for some of its files when it was read last: the next process has
    /// none of them until it has read it, and asks for no file before.
    var wasSigned: Bool { store.setting("signed") == "yes" }

    fileprivate func noteSignatures() {
        guard let isSigned = upstream.isSigned, isSigned != wasSigned else { return }
        store.set("signed", isSigned ? "yes" : "no")
    }
}
