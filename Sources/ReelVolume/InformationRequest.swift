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

/// Asks for the lengths that no listing tells: many at once, each resource once, answers remembered on disk.
final class Prober: Sendable {
    /// Requests at once: first as many as browsers make, then more as long as none is slow. A server with a short queue
    /// for connections (Python's holds 5) drops what is too much, and TCP asks again only after a second.
    private static let limits = (first: 6, most: 16)
    private static let fast = Duration.milliseconds(500)
    private static let trial = 32

    private struct State {
        var limit = Prober.limits.first
        var fastInARow = 0
        /// Once it was too much, it stays with the few.
        var mayGrow = true
        var waiting: [String: [Completion<ContentInformation>]] = [:]
        var queue: [ResourceURL] = []
        var running = 0
    }

    private let state = Lock(State())
    private let files: FileTable
    private let services: Services

    init(_ files: FileTable, _ services: Services) {
        self.files = files
        self.services = services
    }

    /// - Parameter isDemanded: a caller waits; goes before what is asked for in advance.
    func probe(
        _ url: ResourceURL, isDemanded: Bool = true, _ completion: @escaping Completion<ContentInformation> = { _ in }
    ) {
        state.withLock { state in
            if state.waiting[url.text] != nil {
                state.waiting[url.text]!.append(completion)
                guard isDemanded, let index = state.queue.firstIndex(of: url) else { return }
                state.queue.insert(state.queue.remove(at: index), at: 0)
            } else {
                state.waiting[url.text] = [completion]
                state.queue.insert(url, at: isDemanded ? 0 : state.queue.count)
            }
        }
        startNext()
    }

    private func startNext() {
        while true {
            let next = state.withLock { state -> ResourceURL? in
                guard state.running < state.limit, !state.queue.isEmpty else { return nil }
                state.running += 1
                return state.queue.removeFirst()
            }
            guard let url = next else { return }
            // It may have come since the caller looked.
            if let known = services.store.information(for: url.text), known.checkedAt != Services.doubted {
                finish(url, .success(known.information), after: .zero)
                continue
            }
            let start = now()
            InformationRequest.start(url, limit: services.options.timeout, services) { [self] outcome in
                switch outcome {
                case .information(let information):
                    finish(url, .success(files.learn(information, of: url)), after: now() - start)
                case .unchanged: finish(url, .failure(.failed), after: now() - start)
                case .failure(let failure):
                    services.logger.info("\(url): \(failure)")
                    finish(url, .failure(VolumeError(failure)), after: now() - start)
                }
                startNext()
            }
        }
    }

    private func finish(_ url: ResourceURL, _ result: Result<ContentInformation, VolumeError>, after time: Duration) {
        let waiting = state.withLock { state in
            state.running -= 1
            state.fastInARow = time < Prober.fast ? state.fastInARow + 1 : 0
            if time >= Prober.fast { (state.limit, state.mayGrow) = (Prober.limits.first, false) }
            if state.mayGrow, state.fastInARow == Prober.trial { state.limit = Prober.limits.most }
            return state.waiting.removeValue(forKey: url.text) ?? []
        }
        for completion in waiting { completion(result) }
    }
}
