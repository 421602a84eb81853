import ReelCore
import ReelThreads

/// Lets the transports of several sources write to one cache as one thread would: the cache has blocks written and
/// discarded by one thread at a time, and each transport calls its receivers on a thread of its own.
///
/// A call of a receiver waits for no network, so a source that does not answer holds up no other.
final class WriterGate: Sendable {
    private let lock = Lock((), .writer)

    /// Does what writes to the cache, or discards of it, while no other thread does.
    func pass<Value: Sendable>(_ body: () -> Value) -> Value { lock.withLock { _ in body() } }
}

/// The transport of one source of several: its receivers pass the gate.
final class GatedOrigin: Transport {
    private let origin: any Transport
    private let gate: WriterGate

    init(_ origin: any Transport, _ gate: WriterGate) {
        self.origin = origin
        self.gate = gate
    }

    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        origin.start(handle, request, GatedReceiver(receiver, gate))
    }

    func perform(_ job: @escaping @Sendable () -> Void) { origin.perform { [gate] in gate.pass(job) } }

    func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void) {
        origin.watchOutages(deadline: deadline, report)
    }
    var line: Line { origin.line }
    var standings: [String: OriginStanding] { origin.standings }
    func noteInterest(in url: ResourceURL) { origin.noteInterest(in: url) }
    func trust(_ origins: Set<String>) { origin.trust(origins) }
}

private final class GatedReceiver: ForwardingReceiver {
    let receiver: any OriginReceiver
    private let gate: WriterGate

    init(_ receiver: any OriginReceiver, _ gate: WriterGate) {
        self.receiver = receiver
        self.gate = gate
    }

    // The first bytes of a file may be kept until its head is known, and are written then.
    func head(_ head: ResponseHead) -> OriginFailure? { gate.pass { receiver.head(head) } }
    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        // The bytes stay where they are during the call.
        nonisolated(unsafe) let bytes = bytes
        return gate.pass { receiver.body(bytes) }
    }
    func ended(_ failure: OriginFailure?) { gate.pass { receiver.ended(failure) } }
}
