import ReelCore
import Synchronization

/// Between the transport and the receiver of one request.
final class WatchedReceiver: OriginReceiver {
    private struct State {
        var id: OriginRequestID?
        var isCut = false
        var isPaused = false
        var isRedirected = false
    }

    let url: ResourceURL
    private let receiver: any OriginReceiver
    private let owner: CircuitOrigin
    private let state = Mutex(State())

    init(_ receiver: any OriginReceiver, _ url: ResourceURL, _ owner: CircuitOrigin) {
        self.receiver = receiver
        self.url = url
        self.owner = owner
    }

    var id: OriginRequestID? { state.withLock { $0.id } }
    var isCut: Bool { state.withLock { $0.isCut } }
    var isPaused: Bool { state.withLock { $0.isPaused } }
    /// The origin has answered, so that who refuses is somebody else.
    var isRedirected: Bool { state.withLock { $0.isRedirected } }

    /// - Returns: whether it was cut before it had a name.
    func started(_ id: OriginRequestID) -> Bool {
        state.withLock { state in
            state.id = id
            return state.isCut
        }
    }

    /// - Returns: what to cancel, where it is known yet.
    func cut() -> OriginRequestID? {
        state.withLock { state in
            state.isCut = true
            return state.id
        }
    }

    /// - Returns: whether that changes anything.
    func setPaused(_ isPaused: Bool) -> Bool {
        state.withLock { state in
            defer { state.isPaused = isPaused }
            return state.isPaused != isPaused
        }
    }

    func sent() { receiver.sent() }

    func yields() -> Bool { receiver.yields() }

    func redirected() { state.withLock { $0.isRedirected = true } }

    func head(_ head: ResponseHead) -> OriginFailure? {
        owner.answered(url)
        return receiver.head(head)
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        owner.answered(url)
        let answer = receiver.body(bytes)
        if answer == .pause { owner.paused(self) }
        return answer
    }

    func ended(_ failure: OriginFailure?) { receiver.ended(owner.ended(self, failure)) }
}

/// Wants to know only whether anything is answered.
final class ProbeReceiver: OriginReceiver {
    private let isAnswered = Atomic(false)
    private let isRedirected = Atomic(false)
    private let connection: @Sendable () -> Void
    private let completion: @Sendable (OriginFailure?) -> Void

    /// - Parameter connection: called when one is tried.
    init(
        _ connection: @escaping @Sendable () -> Void, completion: @escaping @Sendable (OriginFailure?) -> Void
    ) {
        self.connection = connection
        self.completion = completion
    }

    func connecting() { connection() }

    func redirected() { isRedirected.store(true, ordering: .relaxed) }

    func head(_ head: ResponseHead) -> OriginFailure? {
        isAnswered.store(true, ordering: .relaxed)
        return head.status == 206 ? nil : .cancelled
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer { .more }

    func ended(_ failure: OriginFailure?) {
        var isAnswered = isAnswered.load(ordering: .relaxed)
        // Another place refused; silence there is taken for the origin's.
        if case .unreachable = failure, isRedirected.load(ordering: .relaxed) { isAnswered = true }
        completion(isAnswered ? nil : failure)
    }
}
