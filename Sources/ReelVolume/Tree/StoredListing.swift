import ReelCache
import ReelCore
import ReelSources

// Converts between a listing in memory and a remembered one, entry by entry, as a whole one may be large.

extension EntryList: StoredEntries {
    package func stored(at place: Int) -> StoredEntry {
        let entry = self[place]
        return StoredEntry(
            name: entry.name, url: entry.url.text, isDirectory: entry.isDirectory, length: entry.length,
            modified: entry.modified)
    }
}

extension Store {
    /// The remembered listing of a folder, nil if none. Entries of the source's origin get the source's credentials,
    /// which the cache never holds. - Parameter links: name those of links as the links.
    func entries(at folder: SourcePlace, links: Bool = false) -> (entries: EntryList, fetchedAt: Int64)? {
        var builder = EntryList.Builder()
        let found = listing(folder.key, begin: { builder = EntryList.Builder() }) { stored in
            guard let url = folder.url.map({ $0.resolve(stored.url) }) ?? ResourceURL(stored.url) else { return }
            builder.append(
                SourceEntry(
                    name: stored.name, url: url, isDirectory: stored.isDirectory, length: stored.length,
                    modified: stored.modified
                ).unlinked)
        }
        return found.map { (builder.list().namingLinks(links), $0.fetchedAt) }
    }
}
