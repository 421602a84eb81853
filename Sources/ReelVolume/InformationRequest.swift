import ReelCore
import ReelThreads

/// Asks for content information: for one byte of the resource, or none where the origin can answer "unchanged".
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
    ///   - known: the remembered information, which a 304 confirms.
    ///   - isDoubted: the origin has contradicted it, so that it has to tell all of it again: a 304 confirms the tag,
    ///     and not a length that was wrong.
    ///   - limit: the time for the request with its retries.
    static func start(
        _ url: ResourceURL, known: ContentInformation? = nil, isDoubted: Bool = false, limit: Duration,
        _ services: Services, _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        askingForBytes(ByteRange(0, 1), until: now() + limit, services) { range, left, done in
            var request = OriginRequest(
                url: url, range: range, condition: isDoubted ? nil : known?.validator.ifChanged, reason: .probe,
                stallLimit: left)
            request.isHeadEnough = true
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
            // A login page instead of a film is no new version of the film.
            if let remembered, remembered.mediaType != nil, !isWebPage(remembered.mediaType),
                isWebPage(information.mediaType)
            {
                return .wrongAnswer("a web page where media was expected")
            }
            known.withLock { $0 = .information(information) }
            // The head has told everything; a whole body is not wanted.
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
