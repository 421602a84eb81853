import ReelCore
import ReelThreads

/// The work of a transport since it was made.
package struct TransportCounters: Hashable, Sendable {
    /// Bytes of bodies that were handed to receivers.
    package var bodyBytes: Int64 = 0
    /// Requests that were sent; each redirect is one more.
    package var requests: Int64 = 0
    /// Connections that were opened; all other requests reused one.
    package var connections: Int64 = 0
}

/// The facts that the transport's thread publishes for all others.
final class TransportNews: Sendable {
    struct Facts {
        var counters = TransportCounters()
        /// Origins that are away or in doubt.
        var standings: [String: OriginStanding] = [:]
    }

    let facts = Lock(Facts())
}
