import ReelCore
import ReelThreads

/// The origins (`ResourceURL.origin`) of the URLs that a list on the disk has named since the mount began. The list is
/// the user's own, so that these may get the user's secrets; what documents from the network name may not.
final class NamedOrigins: Sendable {
    private let origins = Lock<Set<String>>([])

    /// - Parameter news: that one document names; empty where it is not on the disk.
    func add(_ news: Set<String>) {
        if !news.isEmpty { origins.withLock { $0.formUnion(news) } }
    }

    var all: Set<String> { origins.withLock { $0 } }
}
