import ReelCache
import ReelCore
import ReelSources

/// The files that a path of the mount stands for, from remembered listings, without a request.
struct Selection {
    /// The keys of the files, each once.
    private(set) var keys: [String] = []
    /// Directories that have not been listed yet.
    private(set) var unlisted = 0

    /// - Parameters:
    ///   - path: inside the mount, without a leading `/`; empty for all of it.
    ///   - isOver: true ends the walk early.
    /// - Throws: a sentence for the user where no listing has the path.
    init(_ path: String, of tree: Tree, until isOver: () -> Bool) throws(MaintenanceFailure) {
        let (place, file) = try tree.place(of: path)
        if let file {
            keys = [tree.services.keys.key(of: file)]
            return
        }
        addAll(below: place, of: tree, until: isOver)
    }

    /// Adds the listed files, and those that are cached or pinned and no longer listed.
    private mutating func addAll(below folder: SourcePlace, of tree: Tree, until isOver: () -> Bool) {
        var known: Set<ExactText> = []
        var seen: Set<ExactText> = []
        var rest = [folder]
        while let folder = rest.popLast(), !isOver() {
            guard let entries = tree.entries(of: folder) else {
                unlisted += 1
                continue
            }
            for entry in entries {
                if entry.isDirectory {
                    if seen.insert(ExactText(entry.url.text)).inserted { rest.append(.url(entry.url)) }
                    continue
                }
                let key = ExactText(tree.services.keys.key(of: entry))
                if known.insert(key).inserted {
                    keys.append(key.text)
                }
            }
        }
        let store = tree.services.store
        let start = folder.url.flatMap { tree.services.options.cacheKey.prefix(of: $0) }.map { Array($0.utf8) }
        let isAll = folder == tree.source.root
        for key in store.objects().map({ ExactText($0.key) }) + ((try? store.pins()) ?? [])
        where isAll || start.map({ key.text.utf8.starts(with: $0) }) ?? false {
            if known.insert(key).inserted { keys.append(key.text) }
        }
    }
}

extension Tree {
    /// What a path of the mount is, from remembered listings, without a request.
    /// - Parameter path: inside the mount, without a leading `/`; empty for its root.
    /// - Returns: a folder, or the folder of a file and that file.
    /// - Throws: a sentence for the user where no listing has the path.
    func place(of path: String) throws(MaintenanceFailure) -> (folder: SourcePlace, file: SourceEntry?) {
        var place = source.root
        var names = pathNames(path)[...]
        while let name = names.popFirst() {
            guard let entries = entries(of: place), let index = entries.place(of: name),
                entries.isDirectory(at: index) || names.isEmpty
            else { throw .unlisted(path) }
            if !entries.isDirectory(at: index) { return (place, entries[index]) }
            place = .url(entries.url(at: index))
        }
        return (place, nil)
    }

    /// The last good listing of a folder; nil where there is none yet.
    func entries(of folder: SourcePlace) -> EntryList? {
        if folder == source.root, let listing = root.directory?.listing { return listing.entries }
        return services.store.entries(at: folder, links: services.options.links)?.entries
    }
}
