import ReelCache
import ReelCore
import ReelSources

/// The names that the resources of a cache have inside the mount.
package struct MountNames: Sendable {
    /// The URL to which paths are relative; nil where the files may lie anywhere.
    private let root: ResourceURL?
    /// The names of a list's entries, by key.
    private let names: [ExactText: String]
    /// The names of the sources of a catalogue that is not mounted, by scope, each with the path of its folder.
    private var sources: [String: (names: MountNames, path: String)] = [:]

    init(root: ResourceURL?, entries: some Sequence<SourceEntry>, key: (SourceEntry) -> String) {
        self.root = root
        names =
            root == nil
            ? Dictionary(entries.map { (ExactText(key($0)), $0.name) }, uniquingKeysWith: { first, _ in first })
            : [:]
    }

    /// The names in a cache that is not mounted, where those of a list's entries are not known.
    package init(_ store: Store) {
        self.init(root: store.setting("folder").flatMap { ResourceURL(trusted: $0) }, entries: []) { $0.url.text }
        for scope in store.scopes {
            let part = store.scoped(scope)
            if let path = part.setting("path") { sources[scope] = (MountNames(part), path) }
        }
    }

    /// The path of a resource, without a leading `/` and without a query, which may be a secret; nil where it is not
    /// known.
    package func path(ofKey key: String) -> String? {
        if let name = names[ExactText(key)] { return name }
        let (scope, inner) = splitScope(ofKey: key)
        if let scope {
            guard let source = sources[scope] else { return nil }
            return source.names.path(ofKey: inner).map { source.path + "/" + $0 }
        }
        if let name = CacheKey.name(inKey: key) { return name }
        guard let root, let url = root.resolve(key), url.isSameOrigin(as: root), url.path.hasPrefix(root.path) else {
            return nil
        }
        return String(decoding: percentDecoded(String(url.path.dropFirst(root.path.count))), as: UTF8.self)
    }
}

extension Store {
    /// All files that are cached in part, open or pinned; the last used first.
    /// - Parameters:
    ///   - openHandles: by key.
    ///   - isWanted: asked of each key.
    package func cachedFiles(
        _ names: MountNames, openHandles: [ExactText: Int] = [:], where isWanted: (String) -> Bool = { _ in true }
    ) -> [CachedFile] {
        let objects = objects().filter { isWanted($0.key) }
        let known = Set(objects.map { ExactText($0.key) })
        let pinned = ((try? pins()) ?? []).subtracting(known).map(\.text).filter(isWanted).sorted()
        let shown = objects.map {
            CachedFile(
                path: names.path(ofKey: $0.key), url: describe($0.key), length: $0.length, cachedBytes: $0.cachedBytes,
                lastUse: $0.lastUse, isPinned: $0.isPinned, openHandles: openHandles[ExactText($0.key)] ?? 0)
        }
        return shown.filter { $0.cachedBytes > 0 || $0.isPinned || $0.openHandles > 0 }
            + pinned.map {
                CachedFile(
                    path: names.path(ofKey: $0), url: describe($0), length: information(for: $0)?.information.length,
                    cachedBytes: 0, lastUse: nil, isPinned: true)
            }
    }

    private func describe(_ inside: String) -> String {
        let key = splitScope(ofKey: inside).key
        return ResourceURL(trusted: key)?.description
            ?? (key.hasPrefix("/") ? key : CacheKey.name(inKey: key) ?? "?")
    }
}
