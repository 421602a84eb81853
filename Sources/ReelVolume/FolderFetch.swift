import ReelCore
import ReelThreads
import Synchronization

/// A whole document, kept in memory: a listing, a list. Bounded, as the origin is not trusted.
final class BodyFetch: OriginReceiver {
    struct Document: Sendable {
        var bytes: [UInt8]
        var head: ResponseHead

        /// False where only the end of the connection ended it, and it does not end as a page does: it may be cut.
        var isWhole: Bool {
            if head["content-length"] != nil || head["transfer-encoding"] != nil { return true }
            let end = asciiLowercased(String(decoding: bytes.suffix(1024), as: UTF8.self))
            return !isWebPage(head.mediaType) || end.contains("</html>") || end.contains("</body>")
        }
    }

    enum Outcome: Sendable {
        case document(Document)
        /// 304: the condition of the request does not hold.
        case unchanged
        case failure(OriginFailure)

        /// Bytes of the document.
        var size: Int { if case .document(let document) = self { document.bytes.count } else { 0 } }
    }

    /// A hundred bytes an entry: some hundred thousand entries.
    static let limit = 64 << 20

    private struct State {
        var head: ResponseHead?
        var bytes: [UInt8] = []
        var refusal: OriginFailure?
    }

    private let state = Mutex(State())
    private let services: Services
    private let completion: @Sendable (Outcome) -> Void

    private init(
        _ services: Services, _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        self.services = services
        self.completion = completion
    }

    /// - Parameters:
    ///   - condition: sent along, so that the origin may say "unchanged".
    ///   - limit: for the whole of it, with its retries.
    static func start(
        _ url: ResourceURL, condition: OriginRequest.Condition? = nil, limit: Duration, _ services: Services,
        _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        retrying(until: now() + limit, services) { left, done in
            let id = services.origin.start(
                OriginRequest(url: url, condition: condition, stallLimit: left), BodyFetch(services, done))
            // A body that drips for ever ends too.
            services.ticker.after(left) { services.origin.cancel(id) }
        } completion: {
            completion($0)
        }
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        state.withLock { $0.head = head }
        var refusal: OriginFailure?
        if head.isEncoded { refusal = .wrongAnswer("an encoding nobody asked for") }
        if head.status == 304 { return nil }
        if head.status != 200 { refusal = .status(head.status, retryAfter: nil) }
        state.withLock { state in
            state.refusal = refusal
            // At once, as an array that grows is there twice for a moment. What is not filled takes no memory.
            if refusal == nil, let length = head.contentLength, (0...Int64(BodyFetch.limit)).contains(length) {
                state.bytes.reserveCapacity(Int(length))
            }
        }
        return refusal
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        services.counters.demandedBytes(bytes.count)
        return state.withLock { state in
            state.bytes.append(contentsOf: bytes)
            guard state.bytes.count <= BodyFetch.limit else {
                state.refusal = .wrongAnswer("a document of more than \(BodyFetch.limit >> 20) MiB")
                return .stop
            }
            return .more
        }
    }

    func ended(_ failure: OriginFailure?) {
        let state = state.withLock { state in
            defer { state.bytes = [] }
            return state
        }
        if let failure = state.refusal ?? (failure == .cancelled ? .timedOut : failure) {
            completion(.failure(failure))
        } else if state.head?.status == 304 {
            completion(.unchanged)
        } else if let head = state.head {
            completion(.document(Document(bytes: state.bytes, head: head)))
        } else {
            completion(.failure(.interrupted("no answer")))
        }
    }
}
