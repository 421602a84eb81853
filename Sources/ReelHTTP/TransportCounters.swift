import Synchronization

/// What a transport has done since it was made.
package struct TransportCounters: Hashable, Sendable {
    /// Bytes of bodies that were handed to receivers.
    package var bodyBytes: Int64
    /// Questions sent, each redirect counted.
    package var requests: Int64
    /// New connections; the others were reused.
    package var connections: Int64
}

/// The same, counted by the transport's thread and read by any.
final class RunningCounters: Sendable {
    let bodyBytes = Atomic<Int64>(0)
    let requests = Atomic<Int64>(0)
    let connections = Atomic<Int64>(0)

    var snapshot: TransportCounters {
        TransportCounters(
            bodyBytes: bodyBytes.load(ordering: .relaxed), requests: requests.load(ordering: .relaxed),
            connections: connections.load(ordering: .relaxed))
    }
}
