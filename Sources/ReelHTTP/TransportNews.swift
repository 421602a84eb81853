import ReelCore
import ReelThreads

/// The work of a transport since it was made.
package struct TransportCounters: Hashable, Sendable {
    /// Bytes of bodies that were handed to receivers.
    package var bodyBytes: Int64 = 0
    /// Questions sent, each redirect counted.
    package var requests: Int64 = 0
    /// New connections; the others were reused.
    package var connections: Int64 = 0
}

/// Written by the transport's thread for all others.
final class TransportNews: Sendable {
    let counters = Lock(TransportCounters())
    /// Origins that are away or in doubt.
    let standings = Lock<[String: OriginStanding]>([:])
}
