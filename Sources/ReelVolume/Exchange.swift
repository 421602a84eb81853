import ReelCore
import ReelThreads
import Synchronization

/// One request of the mount and its answer, between the transport and the receiver: finds out where to ask, asks anew
/// where that place refuses, and reports what came of it.
final class Exchange: OriginReceiver {
    private struct State {
        /// Of the resolver's answer that the request was sent to; nil: of none.
        var place: UInt64?
        var moves = 0
        var status: Int?
        var bytes: Int64 = 0
        var origin: String
    }

    /// Where many readers share links that serve few requests, others may use up a link before this request gets
    /// there.
    private static let mostMoves = 16

    private let request: OriginRequest
    private let handle: RequestHandle
    private let receiver: any OriginReceiver
    private let services: Services
    private let resolver: Resolver?
    private let start = now()
    /// Seconds since 1970.
    private let startedAt = wallClock()
    private let state: Mutex<State>

    /// - Parameter request: as the source sends it.
    init(
        _ request: OriginRequest, as handle: RequestHandle, to receiver: any OriginReceiver, _ services: Services
    ) {
        self.request = request
        self.handle = handle
        self.receiver = receiver
        self.services = services
        resolver = request.reason == .listing ? nil : services.resolver
        state = Mutex(State(origin: request.url.origin))
    }

    func begin() {
        if resolver != nil { resolve() } else { services.origin.start(handle, request, self) }
    }

    private func resolve(after refusal: Resolver.Refusal? = nil) {
        resolver?.place(of: request.url, after: refusal) { [self] place in
            guard let place else {
                // Receivers are called on the transport's thread alone.
                return services.origin.perform { [self] in ended(.unresolved) }
            }
            state.withLock { state in
                state.place = place.number
                state.origin = place.answer.url.origin
            }
            services.origin.start(handle, request.moved(to: place.answer), self)
        }
    }

    // MARK: The answer

    func sent() { receiver.sent() }
    func yields() -> Bool { receiver.yields() }
    func connecting() { receiver.connecting() }
    func redirected() { receiver.redirected() }

    func head(_ head: ResponseHead) -> OriginFailure? {
        state.withLock { $0.status = head.status }
        return receiver.head(head)
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        state.withLock { $0.bytes += Int64(bytes.count) }
        return receiver.body(bytes)
    }

    func ended(_ failure: OriginFailure?) {
        if let refusal = refusal(failure) {
            receiver.redirected()
            return resolve(after: refusal)
        }
        services.requests.add(record(failure), of: request.url, services.chores)
        receiver.ended(failure)
    }

    private func record(_ failure: OriginFailure?) -> RequestRecord {
        let end = state.withLock { $0 }
        var status = end.status
        if status == nil, case .status(let number, _)? = failure { status = number }
        return RequestRecord(
            when: dateText(startedAt), file: request.url.description,
            range: request.range.map { [$0.lower, $0.upper - 1] }, why: request.reason.rawValue,
            program: receiver.program, host: end.origin, status: status, bytes: end.bytes,
            milliseconds: Int64((now() - start) / .milliseconds(1)),
            failure: failure == .cancelled ? nil : failure?.reason)
    }

    /// The place that refuses, if another one may be asked for.
    private func refusal(_ failure: OriginFailure?) -> Resolver.Refusal? {
        guard case .status(let status, _)? = failure, [401, 403, 404, 410].contains(status) else { return nil }
        return state.withLock { state in
            guard let place = state.place, state.moves < Self.mostMoves else { return nil }
            state.moves += 1
            return Resolver.Refusal(number: place, status: status)
        }
    }
}

extension OriginRequest {
    /// The same request to another place, which gets its own headers and none of those that are for the original one.
    fileprivate func moved(to place: PlaceAnswer) -> OriginRequest {
        var request = self
        let keepsHeaders = isPublic || place.url.isSameOrigin(as: url)
        request.url = place.url
        request.headers = (keepsHeaders ? headers : []) + place.headers
        request.isPublic = false
        request.signed = nil
        request.expires = nil
        return request
    }
}
