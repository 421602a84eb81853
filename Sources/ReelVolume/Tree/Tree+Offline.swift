import ReelCore
import ReelFilesystem
import ReelSources

/// What is shown while nothing may be asked for.
extension Tree {
    /// Whether an entry is shown: offline, files of which all is cached, and folders in which there may be some.
    func isShown(_ place: Int, of entries: EntryList) -> Bool {
        !services.transport.line.isOffline || isWhole(place, of: entries)
    }

    /// Whether all of a file is cached, or a folder may have such files.
    func isWhole(_ place: Int, of entries: EntryList) -> Bool {
        let url = entries.url(at: place)
        if !entries.isDirectory(at: place) {
            let length = entries.length(at: place)
            return length == 0 || wholeFiles.has(services.keys.key(of: url, length: length))
        }
        guard services.store.hasListing(SourcePlace.url(url).key) else { return false }
        // A key may name no folder, such as one from a resolver.
        guard services.upstream.resolver == nil, !source.isQueue(.url(url)),
            let prefix = services.options.cacheKey.prefix(of: url)
        else { return true }
        return wholeFiles.hasAny(below: prefix)
    }

    /// An entry that is cached whole; nothing is asked for. - Parameter isShown: false: also one that is not.
    func cachedEntry(_ name: String, in node: Node, isShown: Bool = true) -> Result<Entry, VolumeError> {
        knownListing(of: node).flatMap { listed in
            guard let place = listed.entries.place(of: name), !isShown || isWhole(place, of: listed.entries),
                let known = knownEntry(place, of: listed, in: node, asks: false)
            else { return .failure(.notFound) }
            return known
        }
    }

    /// Makes the kernel forget what is shown otherwise from now on.
    func offlineChanged() {
        wholeFiles.forget()
        guard let kernel = services.kernelCache else { return }
        for node in nodes.directories {
            guard let directory = node.directory, let entries = directory.listing?.entries else { continue }
            directory.untold()
            for place in entries.indices where !isWhole(place, of: entries) {
                kernel.forgetEntry(entries.name(at: place), in: node.id)
            }
            kernel.forgetDirectory(node.id)
        }
    }
}

extension Volume {
    /// Whether the user wants nothing to be asked for.
    package var isOffline: Bool { services.transport.line.isOffline }

    /// Asks for nothing from now on, and shows only what plays without; or ends that.
    package func setOffline(_ isOffline: Bool) {
        if services.transport.line.setOffline(isOffline) { offlineChanged() }
    }

    /// The line is offline now, or no longer.
    func offlineChanged() {
        // The transport's thread ends what is under way.
        services.transport.perform {}
        tree.offlineChanged()
        keeper?.offlineChanged()
    }

    package var line: Line { services.transport.line }
}
