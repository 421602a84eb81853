import ReelCache
import ReelCore

/// A path of a mount in one of its sources.
package struct SourcePath: Sendable {
    let commands: Maintenance
    /// Inside the source, without a leading `/`; empty for all of it.
    let path: String
    /// The path of the source in the mount; empty where it is the mount.
    var source = ""

    /// The path in the mount of a path in the source.
    func name(of path: String) -> String {
        source.isEmpty ? path : path.isEmpty ? source : source + "/" + path
    }
}

extension Maintenance {
    /// Itself: a mount of one source.
    package func places(of path: String, _ watch: MaintenanceWatch) -> [SourcePath] {
        [SourcePath(commands: self, path: path)]
    }

    /// Bytes of files that stay in the cache. - Parameter arePinned: all of them.
    package func cacheCapacity(arePinned: Bool) -> Int64 { services.store.capacity(arePinned: arePinned) }

    /// The cached bytes that only a command evicts.
    package var pinnedBytes: Int64 { services.store.pinnedBytes }

    /// The keys that are never evicted.
    var pins: Set<ExactText> { (try? services.store.pins()) ?? [] }
}

extension CatalogueCommands {
    /// Waits for the sources that are not open yet.
    func places(of path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> [SourcePath] {
        var places: [SourcePath] = []
        for (source, rest) in try chosen(path) {
            let volume = try watch.wait { source.use($0) }
            switch volume {
            case .success(let volume):
                places.append(SourcePath(commands: volume.commands, path: rest, source: source.entry.name))
            case .failure(let error):
                throw MaintenanceFailure("\(source.entry.name): \(source.trouble?.sentence ?? error.reason)")
            }
        }
        return places
    }

    func cacheCapacity(arePinned: Bool) -> Int64 { store.capacity(arePinned: arePinned) }
    var pinnedBytes: Int64 { store.pinnedBytes }
}

extension Store {
    fileprivate var pinnedBytes: Int64 { objects().reduce(0) { $0 + ($1.isPinned ? $1.cachedBytes : 0) } }
}
