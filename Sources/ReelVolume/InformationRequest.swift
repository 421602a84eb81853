import ReelCore
import ReelThreads

/// Asks for content information: one byte of the resource, or none where the origin can say "unchanged".
final class InformationRequest: OriginReceiver {
    enum Outcome: Sendable {
        case information(ContentInformation)
        case unchanged
        case failure(OriginFailure)
    }

    private let request: OriginRequest
    private let remembered: ContentInformation?
    private let services: Services
    private let known = Lock<Outcome?>(nil)
    private let completion: @Sendable (Outcome) -> Void

    private init(
        _ request: OriginRequest, _ remembered: ContentInformation?, _ services: Services,
        _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        self.request = request
        self.remembered = remembered
        self.services = services
        self.completion = completion
    }

    /// - Parameters:
    ///   - known: what is remembered: 304 then confirms it.
    ///   - isDoubted: the origin has contradicted it. Then 304 would say of the tag that it is the same, and of a
    ///       length
    ///     that was told wrong nothing: the origin has to tell all of it again.
    ///   - limit: for the whole of it, with its retries.
    static func start(
        _ url: ResourceURL, known: ContentInformation? = nil, isDoubted: Bool = false, limit: Duration,
        _ services: Services, _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        askingForBytes(ByteRange(0, 1), until: now() + limit, services) { range, left, done in
            let request = OriginRequest(
                url: url, range: range, condition: isDoubted ? nil : known?.validator.ifChanged, stallLimit: left)
            services.send(request, to: InformationRequest(request, known, services, done))
        } completion: {
            completion($0)
        }
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        let verdict = judge(
            head, to: request.url, asked: request.range, isConditional: request.condition != nil, known: nil)
        switch verdict {
        case .range(let information), .whole(let information):
            // A login page in the place of a film is no new version of it.
            if let remembered, remembered.mediaType != nil, !isWebPage(remembered.mediaType),
                isWebPage(information.mediaType)
            {
                return .wrongAnswer("a web page where media was expected")
            }
            known.withLock { $0 = .information(information) }
            // Known now; a whole body is not wanted.
            return head.status == 206 ? nil : .cancelled
        case .unchanged:
            known.withLock { $0 = .unchanged }
            return nil
        case .failure(let failure): return failure
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        services.counters.demandedBytes(bytes.count)
        return .more
    }

    func ended(_ failure: OriginFailure?) {
        let outcome = known.withLock { $0 }
        completion(outcome ?? .failure(failure ?? .interrupted("no answer")))
    }
}
