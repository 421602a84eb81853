import ReelCache
import ReelCore
import ReelThreads

/// Finds the files that play to their end without the network: those of which all bytes are cached, as of a few
/// seconds ago.
final class WholeFiles: Sendable {
    private struct State: Sendable {
        /// In the order of their bytes.
        var keys: [String] = []
        var lookedAt: Duration?
    }

    /// Offline nothing comes, and only evictions take away.
    private static let age = Duration.seconds(10)

    private let store: Store
    private let state = Lock(State())

    init(_ store: Store) { self.store = store }

    /// Whether all of the file of a key is there.
    func has(_ key: String) -> Bool { keys().first(from: key).map { $0.utf8.elementsEqual(key.utf8) } ?? false }

    /// Whether there is one whose key begins so.
    func hasAny(below prefix: String) -> Bool { keys().first(from: prefix)?.utf8.starts(with: prefix.utf8) ?? false }

    /// Looks again at the next question.
    func forget() { state.withLock { $0.lookedAt = nil } }

    private func keys() -> [String] {
        let moment = now()
        let known = state.withLock { state in
            state.lookedAt.map { moment - $0 < Self.age } ?? false ? state.keys : nil
        }
        if let known { return known }
        let whole = store.objects().filter { object in object.length.map { object.cachedBytes >= $0 } ?? false }
        let keys = whole.map(\.key).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        state.withLock { $0 = State(keys: keys, lookedAt: moment) }
        return keys
    }
}

extension [String] {
    /// Returns the first element that is no less than this one.
    fileprivate func first(from text: String) -> String? {
        var (lower, upper) = (0, count)
        while lower < upper {
            let middle = (lower + upper) / 2
            if self[middle].utf8.lexicographicallyPrecedes(text.utf8) { lower = middle + 1 } else { upper = middle }
        }
        return lower < count ? self[lower] : nil
    }
}
