import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelHTTP

/// A receiver that keeps all that it gets, and whether it came in the order that the contract promises.
final class Recorder: OriginReceiver {
    struct Record {
        var heads: [ResponseHead] = []
        var bytes: [UInt8] = []
        var pieces: [Int] = []
        var failure: OriginFailure?
        var ends = 0
        var endedAt: ContinuousClock.Instant?
        var isInOrder = true
        var timesSent = 0
    }

    private let state = Mutex(Record())
    private let judge: @Sendable (ResponseHead) -> OriginFailure?
    private let answer: @Sendable (Record) -> BodyAnswer
    private let isYielding: Bool

    /// - Parameters:
    ///   - judge: what `head` returns.
    ///   - answer: what `body` returns, given all that came up to then.
    init(
        judge: @escaping @Sendable (ResponseHead) -> OriginFailure? = { _ in nil },
        answer: @escaping @Sendable (Record) -> BodyAnswer = { _ in .more }, yields isYielding: Bool = false
    ) {
        self.isYielding = isYielding
        self.judge = judge
        self.answer = answer
    }

    var record: Record { state.withLock { $0 } }
    var isEnded: Bool { state.withLock { $0.ends > 0 } }
    var byteCount: Int { state.withLock { $0.bytes.count } }

    func sent() { state.withLock { $0.timesSent += 1 } }

    func yields() -> Bool { isYielding }

    func head(_ head: ResponseHead) -> OriginFailure? {
        state.withLock { record in
            record.isInOrder = record.isInOrder && record.heads.isEmpty && record.ends == 0
            record.heads.append(head)
        }
        return judge(head)
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let record = state.withLock { record in
            record.isInOrder = record.isInOrder && record.heads.count == 1 && record.ends == 0 && !bytes.isEmpty
            record.bytes += bytes
            record.pieces.append(bytes.count)
            return record
        }
        return answer(record)
    }

    func ended(_ failure: OriginFailure?) {
        state.withLock { record in
            record.ends += 1
            record.failure = failure
            record.endedAt = .now
        }
    }

    /// Waits for the end, and checks what holds for every request.
    @discardableResult
    func finished(within limit: Duration = .seconds(10), at location: SourceLocation = #_sourceLocation) -> Record {
        #expect(eventually(within: limit) { isEnded }, "the request never ended", sourceLocation: location)
        let record = record
        #expect(record.ends == 1 && record.isInOrder, sourceLocation: location)
        return record
    }
}

extension CurlOrigin {
    /// Makes a request and waits for its end.
    func fetch(
        _ url: ResourceURL, _ range: ByteRange? = nil, if condition: OriginRequest.Condition? = nil,
        stallLimit: Duration = .seconds(30), into recorder: Recorder = Recorder(),
        at location: SourceLocation = #_sourceLocation
    ) -> Recorder.Record {
        let request = OriginRequest(url: url, range: range, condition: condition, stallLimit: stallLimit)
        _ = start(request, recorder)
        return recorder.finished(at: location)
    }
}

/// Runs `body` with a server and a transport that end behind it.
func withTransport(
    to server: ScriptedServer, _ change: (inout TransportConfiguration) -> Void = { _ in },
    _ body: (CurlOrigin) throws -> Void
) throws {
    defer { server.stop() }
    var configuration = TransportConfiguration(version: "test")
    configuration.usesProxies = false
    change(&configuration)
    let origin = try CurlOrigin(configuration)
    defer { origin.shutdown() }
    try body(origin)
}
