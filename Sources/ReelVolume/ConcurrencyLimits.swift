import ReelCore
import ReelThreads

/// The concurrency limit of each origin, shared by its files.
final class ConcurrencyLimits: Sendable {
    /// That of one origin.
    final class Shared: Sendable {
        let value = Lock(ConcurrencyLimit())

        /// Requests at a time for one reader.
        var share: Int { value.withLock { $0.share } }
    }

    private let known = Lock<[String: Shared]>([:])

    subscript(_ url: ResourceURL) -> Shared {
        known.withLock { known in
            let limit = known[url.origin] ?? Shared()
            known[url.origin] = limit
            return limit
        }
    }
}
