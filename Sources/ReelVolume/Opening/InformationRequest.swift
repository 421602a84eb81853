import ReelCore
import ReelSources
import ReelThreads

/// Asks for content information: for one byte of the resource, or none where the origin can answer "unchanged"; for
/// some more where the beginning of the resource is wanted, too.
final class InformationRequest: OriginReceiver {
    enum Outcome: Sendable {
        case information(ContentInformation)
        case unchanged
        case failure(OriginFailure)
    }

    private let request: OriginRequest
    private let remembered: ContentInformation?
    private let demand: CallDemand?
    private let services: Services

    private struct State {
        var known: (outcome: Outcome, head: ResponseHead)?
        /// The bytes of the beginning, as far as it has come.
        var bytes: [UInt8] = []
    }

    private let state = Lock(State())
    private let began: (@Sendable (FileBeginning) -> Void)?
    private let completion: @Sendable (Outcome) -> Void

    private init(
        _ request: OriginRequest, _ remembered: ContentInformation?, _ demand: CallDemand?, _ services: Services,
        _ began: (@Sendable (FileBeginning) -> Void)?, _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        self.request = request
        self.remembered = remembered
        self.demand = demand
        self.services = services
        self.began = began
        self.completion = completion
    }

    /// - Parameters:
    ///   - file: the joined file that has the resource as a piece, nil if it is a file itself.
    ///   - known: the remembered information, which a 304 confirms.
    ///   - isDoubted: the origin has contradicted it, and has to send all of it again: a 304 confirms the tag, and not
    ///     a length that was wrong.
    ///   - demand: says whether a caller waits, nil if one does.
    ///   - limit: the time until the completion, whatever waits: the request with its retries, the resolver, the
    ///     renewal of a link, or the queue for a connection.
    ///   - began: gets the first bytes, before the completion, nil if they are not asked for.
    static func start(
        _ url: ResourceURL, of file: ResourceURL? = nil, known: ContentInformation? = nil, isDoubted: Bool = false,
        demand: CallDemand? = nil, limit: Duration,
        _ services: Services, began: (@Sendable (FileBeginning) -> Void)? = nil,
        _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        let wanted = ByteRange(0, began == nil ? 1 : Int64(FileBeginning.length))
        let ended = Once(completion)
        let current = Lock<RequestHandle?>(nil)
        let giveUp = { @Sendable in
            guard let completion = ended.take() else { return }
            current.withLock { $0 }?.cancel()
            // It may read the cache, and timers wait for no disk.
            services.later { completion(.failure(.timedOut)) }
        }
        let timer = services.ticker.after(max(limit, .milliseconds(100)), giveUp, atEnd: giveUp)
        askingForBytes(wanted, until: now() + limit, services) {
            (range, left, done: @escaping @Sendable (Outcome) -> Void) in
            let handle = RequestHandle()
            current.withLock { $0 = handle }
            if ended.isOver { return done(.failure(.cancelled)) }
            var request = OriginRequest(
                url: url, range: range, condition: isDoubted ? nil : known?.validator.ifChanged, reason: .probe,
                stallLimit: left)
            (request.isHeadEnough, request.subject) = (began == nil, file)
            if let demand { request.isDemanded = demand.begins(handle) }
            services.origin.start(
                handle, request, InformationRequest(request, known, demand, services, began, done))
        } completion: { (outcome: Outcome) in
            services.ticker.cancel(timer)
            ended(outcome)
        }
    }

    var program: String? { demand?.program }

    func head(_ head: ResponseHead) -> OriginFailure? {
        let verdict = judge(
            head, to: request.url, asked: request.range, isConditional: request.condition != nil, known: nil)
        switch verdict {
        case .range(let information), .whole(let information):
            if isForeignPage(information, inPlaceOf: remembered) {
                return .wrongAnswer("a web page where media was expected")
            }
            state.withLock { $0.known = (.information(information), head) }
            // The head has everything; a whole body is not wanted.
            return head.status == 206 || began != nil ? nil : .cancelled
        case .unchanged:
            state.withLock { $0.known = (.unchanged, head) }
            return nil
        case .failure(let failure): return failure
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        services.counters.demandedBytes(bytes.count)
        if began == nil { return .more }
        let isWhole = state.withLock { state in
            state.bytes += bytes.prefix(FileBeginning.length - state.bytes.count)
            return state.bytes.count == FileBeginning.length
        }
        return isWhole ? .stop : .more
    }

    func ended(_ failure: OriginFailure?) {
        let (known, bytes) = state.withLock { ($0.known, $0.bytes) }
        if let known { began?(FileBeginning(known.head, bytes)) }
        completion(known?.outcome ?? .failure(failure ?? .interrupted("no answer")))
    }
}
