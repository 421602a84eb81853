import ReelCore
import ReelSources
import ReelThreads

/// How an answer has ended.
enum AnswerEnd: Attempted {
    case whole
    /// The folder's fetch ends with it.
    case over(FolderFetch.Outcome)
    /// The same, and no caller waits for another attempt.
    case unwanted(FolderFetch.Outcome)
    /// Its time was over, or the transport has ended: not asked again.
    case cancelled

    var failure: OriginFailure? {
        switch self {
        case .whole, .unwanted: nil
        case .over(.failure(let failure)): failure
        case .over: nil
        case .cancelled: .cancelled
        }
    }
}

/// Takes one answer piece by piece to the reader, up to a limit, as the origin is not trusted.
final class FolderAnswer: OriginReceiver {
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

    /// The reader has read this many bytes.
    private func taken(_ count: Int) {
        let goesOn = state.withLock { state in
            state.waiting -= count
            guard state.isPaused, state.waiting <= Self.mostWaiting / 2 else { return false }
            state.isPaused = false
            return true
        }
        if goesOn { handle.resume() }
    }

    func ended(_ failure: OriginFailure?) {
        // After the pieces that came before.
        services.later { [self] in
            if let outcome = state.withLock({ $0.outcome }) { return done(.over(outcome)) }
            guard let failure else { return done(.whole) }
            if failure == .cancelled { return done(.cancelled) }
            done(fetch.isWorthRetrying() ? .over(.failure(failure)) : .unwanted(.failure(failure)))
        }
    }
}

extension ResponseHead {
    /// Asks whether a listing has changed, nil if the answer has no validator. A date counts only a minute after it
    /// (RFC 9110, section 8.8.2.2): a directory may change again in the second of its change.
    fileprivate var folderMark: FolderMark? {
        var validator = Validator(entityTag: entityTag, lastModified: lastModified)
        if let date = validator.lastModified, (self["date"].flatMap { httpDate($0) } ?? date) - date < 60 {
            validator.lastModified = nil
        }
        return validator.ifChanged.map { .condition($0) }
    }
}
