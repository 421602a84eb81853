import Logging
import ReelCache
import ReelCore
import ReelThreads
import TestKit

@testable import ReelVolume

/// An origin whose every answer waits until the test gives it.
final class HeldOrigin: Transport, RequestControl {
    private struct State {
        var sent: [(handle: RequestHandle, request: OriginRequest, receiver: any OriginReceiver)] = []
        var ended: Set<RequestHandle> = []
        var standings: [String: OriginStanding] = [:]
        var report: (@Sendable (String, Outage?) -> Void)?
        /// Origins that are looked for.
        var missed: [String] = []
    }

    let line = Line()
    private let state = Lock(State())
    /// The thread that calls the receivers.
    private let thread = SerialQueue("held-origin")

    /// The paths of all requests, in their order.
    var paths: [String] { state.withLock { $0.sent.map { String($0.request.url.path.dropFirst()) } } }

    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        state.withLock { state in
            state.sent.append((handle, request, receiver))
            // It goes on at another place.
            state.ended.remove(handle)
        }
        handle.connect(to: self)
        if handle.isCancelled { cancel(handle) }
    }

    private func take(_ handle: RequestHandle) -> (request: OriginRequest, receiver: any OriginReceiver)? {
        state.withLock { state in
            guard let sent = state.sent.last(where: { $0.handle == handle }), state.ended.insert(handle).inserted
            else { return nil }
            return (sent.request, sent.receiver)
        }
    }

    func cancel(_ handle: RequestHandle) {
        if let sent = take(handle) { perform { sent.receiver.ended(.cancelled) } }
    }

    /// Answers the first request for a path with a length of 1000.
    func answer(_ path: String) {
        let handle = state.withLock { $0.sent.first { $0.request.url.path == "/" + path }?.handle }
        guard let handle, let sent = take(handle) else { return }
        perform {
            let headers = [("Content-Range", "bytes 0-0/1000"), ("Content-Length", "1")]
            _ = sent.receiver.head(ResponseHead(status: 206, headers: headers, url: sent.request.url))
            _ = [UInt8](repeating: 0, count: 1).withUnsafeBytes { sent.receiver.body($0) }
            sent.receiver.ended(nil)
        }
    }

    /// Answers a request with a part of the resource, and ends it as its receiver wants.
    /// - Parameter number: of the request, in their order.
    func answer(_ number: Int, _ headers: [(String, String)], body: [UInt8]) {
        guard let handle = state.withLock({ $0.sent.dropFirst(number).first?.handle }), let sent = take(handle) else {
            return
        }
        perform {
            let head = ResponseHead(status: 206, headers: headers, url: sent.request.url)
            if let failure = sent.receiver.head(head) { return sent.receiver.ended(failure) }
            let answer = body.withUnsafeBytes { sent.receiver.body($0) }
            sent.receiver.ended(answer == .stop ? .cancelled : nil)
        }
    }

    /// Ends a request. - Parameter number: of the request, in their order.
    func fail(_ number: Int, _ failure: OriginFailure) {
        guard let handle = state.withLock({ $0.sent.dropFirst(number).first?.handle }), let sent = take(handle) else {
            return
        }
        perform {
            sent.receiver.sent()
            sent.receiver.ended(failure)
        }
    }

    /// Whether a request was cancelled. - Parameter number: of the request, in their order.
    func isCancelled(_ number: Int) -> Bool {
        state.withLock { $0.sent[number].handle }.isCancelled
    }

    /// A request as it came. - Parameter number: of the request, in their order.
    func request(_ number: Int) -> OriginRequest { state.withLock { $0.sent[number].request } }

    /// Whether a request was promoted. - Parameter number: of the request, in their order.
    func isPromoted(_ number: Int) -> Bool { state.withLock { $0.sent[number].handle }.isPromoted }

    /// Waits until the thread that calls the receivers has done what it was given.
    func turn() {
        let gate = Gate()
        perform { gate.open() }
        _ = gate.wait(within: .seconds(30))
    }

    func perform(_ job: @escaping @Sendable () -> Void) { thread.add(job) }
    func resume(_ handle: RequestHandle) {}
    func promote(_ handle: RequestHandle) {}
    func trust(_ origins: Set<String>) {}
    func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void) {
        state.withLock { $0.report = report }
    }
    var standings: [String: OriginStanding] { state.withLock { $0.standings } }
    func noteInterest(in url: ResourceURL) { state.withLock { $0.missed.append(url.origin) } }
    var missed: [String] { state.withLock { $0.missed } }

    /// An origin goes, or comes back.
    func tell(_ origin: String, _ outage: Outage?) {
        let report = state.withLock { state in
            state.standings[origin] = outage.map { .away($0, since: 0) }
            return state.report
        }
        report?(origin, outage)
    }

    func stop() { thread.stop() }
}

/// Runs `body` with the services of a volume over an origin that holds its requests, and a cache of its own.
/// - Parameter source: nil where it is a local list.
func withServices(
    of source: ResourceURL? = ResourceURL("http://a/"), _ options: VolumeOptions = VolumeOptions(),
    finder: (any PlaceFinder)? = nil, _ body: (Services, HeldOrigin, Store) throws -> Void
) throws {
    try withTemporaryDirectory { directory in
        defer { removeTree(directory + "/cache") }
        let store = try Store(
            directory: directory + "/cache", source: "http://a/", limits: CacheLimits(cap: 1 << 30), owner: "/nowhere")
        let origin = HeldOrigin()
        let services = Services(
            source, scope: "", origin: origin, store: store, options: options, finder: finder,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        defer {
            services.shutdown()
            origin.stop()
            store.close()
        }
        try body(services, origin, store)
    }
}
