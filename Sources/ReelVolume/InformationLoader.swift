import ReelCore
import ReelThreads

/// Asks for the content information of files whose length no listing tells: many at once, one request a resource. The
/// cache remembers the answers.
final class InformationLoader: Sendable {
    /// Requests at once: first as many as browsers make, then more as long as none is slow. A server with a short queue
    /// for connections (Python's holds 5) drops the others, and TCP asks again only after a second.
    private static let limits = (first: 6, most: 16)
    /// A request that took longer is slow.
    private static let fast = Duration.milliseconds(500)
    /// So many fast requests in a row raise the limit.
    private static let trial = 32

    private struct State {
        var limit = InformationLoader.limits.first
        var fastInARow = 0
        /// A slow request keeps the lower limit for good.
        var mayGrow = true
        var waiting: [String: [Completion<ContentInformation>]] = [:]
        var queue: [(url: ResourceURL, file: ResourceURL)] = []
        var running = 0
    }

    private let state = Lock(State())
    private let files: FileTable
    private let services: Services

    init(_ files: FileTable, _ services: Services) {
        self.files = files
        self.services = services
    }

    /// Joins the request for the same resource, if there is one.
    /// - Parameters:
    ///   - file: the joined file that has the resource as a piece; nil: it is a file itself.
    ///   - isDemanded: a caller waits: the request goes before those made in advance.
    func load(
        _ url: ResourceURL, of file: ResourceURL? = nil, isDemanded: Bool = true,
        _ completion: @escaping Completion<ContentInformation> = { _ in }
    ) {
        state.withLock { state in
            if state.waiting[url.text] != nil {
                state.waiting[url.text]!.append(completion)
                guard isDemanded, let index = state.queue.firstIndex(where: { $0.url == url }) else { return }
                state.queue.insert(state.queue.remove(at: index), at: 0)
            } else {
                state.waiting[url.text] = [completion]
                state.queue.insert((url, file ?? url), at: isDemanded ? 0 : state.queue.count)
            }
        }
        startNext()
    }

    private func startNext() {
        while true {
            let next = state.withLock { state -> (url: ResourceURL, file: ResourceURL)? in
                guard state.running < state.limit, !state.queue.isEmpty else { return nil }
                state.running += 1
                return state.queue.removeFirst()
            }
            guard let (url, file) = next else { return }
            // An answer may have come since the caller looked.
            if let known = services.store.information(for: url.text), known.checkedAt != Services.doubted {
                finish(url, .success(known.information), after: .zero)
                continue
            }
            let start = now()
            InformationRequest.start(url, of: file, limit: services.options.timeout, services) { [self] outcome in
                finish(url, result(of: outcome, for: url), after: now() - start)
                startNext()
            }
        }
    }

    private func result(
        of outcome: InformationRequest.Outcome, for url: ResourceURL
    ) -> Result<ContentInformation, VolumeError> {
        switch outcome {
        case .information(let information): return .success(files.learn(information, of: url))
        case .unchanged: return .failure(.failed)
        case .failure(let failure):
            services.logger.info("\(url): \(failure)")
            return .failure(VolumeError(failure))
        }
    }

    private func finish(_ url: ResourceURL, _ result: Result<ContentInformation, VolumeError>, after time: Duration) {
        let waiting = state.withLock { state in
            state.running -= 1
            state.fastInARow = time < Self.fast ? state.fastInARow + 1 : 0
            if time >= Self.fast { (state.limit, state.mayGrow) = (Self.limits.first, false) }
            if state.mayGrow, state.fastInARow == Self.trial { state.limit = Self.limits.most }
            return state.waiting.removeValue(forKey: url.text) ?? []
        }
        for completion in waiting { completion(result) }
    }
}
