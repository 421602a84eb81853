import ReelCache
import ReelCore
import ReelSources

/// What files are known by: `CacheKey` decides it, and the memory of content information helps.
struct FileKeys: Sendable {
    private let mode: CacheKey
    private let isResolved: Bool
    private let store: Store

    /// - Parameter isResolved: whether a resolver may have given keys.
    init(_ mode: CacheKey, isResolved: Bool, in store: Store) {
        (self.mode, self.isResolved, self.store) = (mode, isResolved, store)
    }

    /// The key of a version's bytes.
    func key(of url: ResourceURL, _ information: ContentInformation) -> String {
        resolvedKey(of: url) ?? mode.key(of: url, information)
    }

    /// The key that the resolver has given for a file.
    private func resolvedKey(of url: ResourceURL) -> String? {
        isResolved ? store.key(of: url).map { "key:" + $0 } : nil
    }

    /// The key under which the cache has the bytes of a file, or would have them.
    /// - Parameter length: from a listing, nil if it gives none.
    func key(of url: ResourceURL, length: Int64? = nil) -> String {
        if let key = resolvedKey(of: url) { return key }
        if mode.dependsOnFacts(url), let known = store.information(for: url.text)?.information {
            return mode.key(of: url, known)
        }
        return mode.key(of: url, length: length)
    }

    /// A pin from before the key of a file was known holds for that key from now on.
    func movePin(of url: ResourceURL, _ length: Int64?, to key: String) {
        // All other keys follow from the URL alone.
        guard isResolved || mode.dependsOnFacts(url) else { return }
        for earlier in Set([mode.key(of: url, length: nil), mode.key(of: url, length: length)]) where earlier != key {
            try? store.movePin(from: earlier, to: key)
        }
    }

    func key(of entry: SourceEntry) -> String { key(of: entry.url, length: entry.length) }

    /// Bytes of a file in the cache. Files that share a key share the sum, so that the length limits it.
    /// - Parameter length: nil where it is not known.
    func cachedBytes(of url: ResourceURL, _ length: Int64?) -> Int64 {
        min(store.cachedBytes(of: key(of: url, length: length)), length ?? .max)
    }

    /// What is known of a file of which the cache has bytes that came from another URL, nil if it has none. The origin
    /// has to confirm it.
    /// - Parameter length: from a listing, nil if it gives none.
    func knownElsewhere(_ url: ResourceURL, length: Int64?) -> ContentInformation? {
        let key = key(of: url, length: length)
        guard key != url.text, let known = store.information(for: key)?.information, known.length != nil else {
            return nil
        }
        return known
    }
}

/// The keys that a resolver gives outlive the mount: what is cached under them plays without it.
extension Store {
    fileprivate func key(of url: ResourceURL) -> String? { setting("key of " + url.text) }

    /// - Parameter key: nil leaves what is known.
    func remember(key: String?, of url: ResourceURL) {
        guard let key, self.key(of: url) != key else { return }
        set("key of " + url.text, key)
    }
}
