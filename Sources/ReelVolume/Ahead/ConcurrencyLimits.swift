import ReelCore
import ReelThreads

/// The concurrency limit of each origin, shared by its files.
///
/// It belongs to the readers and not to what the transport knows of an origin (`OriginHost`): a reader that plans its
/// next request asks it at once, on the kernel's threads and before anything was asked of the origin, only readers know
/// that they underrun, and the transport itself never asks it. On the transport's thread it would need this table all
/// the same, and a lock.
final class ConcurrencyLimits: Sendable {
    /// The limit of one origin.
    final class Shared: Sendable {
        let value = Lock(ConcurrencyLimit())

        /// Requests at a time for one reader.
        var share: Int { value.withLock { $0.share } }

        /// Like `ConcurrencyLimit.isRefused`.
        func isRefused(now: Duration) -> Bool { value.withLock { $0.isRefused(now: now) } }
    }

    /// A playlist may name many hosts: beyond this number the table forgets those that no file in memory uses.
    static let mostIdle = 1024

    private let known = Lock<[String: Shared]>([:])

    /// Origins in the table.
    var count: Int { known.withLock { $0.count } }

    /// The limit of the URL's origin.
    subscript(_ url: ResourceURL) -> Shared {
        known.withLock { known in
            if let limit = known[url.origin] { return limit }
            if known.count >= Self.mostIdle {
                for origin in Array(known.keys) where isKnownUniquelyReferenced(&known[origin]!) { known[origin] = nil }
            }
            let limit = Shared()
            known[url.origin] = limit
            return limit
        }
    }
}
