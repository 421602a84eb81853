import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// Names and listings.
extension Volume {
    /// Entries whose lengths are asked for together with the one that somebody wants to know: `ls -l` goes on there.
    private static let probedAhead = 64

    /// The listing of a directory: what is known at once, else from the origin.
    func listing(of node: Node, _ completion: @escaping Completion<Directory.Listed>) {
        guard let directory = node.directory else { return completion(.failure(.notDirectory)) }
        guard let url = directory.url else {
            return completion(directory.state.withLock { $0.listing }.map { .success($0) } ?? .failure(.failed))
        }
        if let listed = known(directory, url) {
            completion(health.isGone(url) ? .failure(.stale) : .success(listed))
            if health.isDue(url, fetchedAt: listed.fetchedAt) { refresh(node, directory, url) }
        } else {
            fetch(node, directory, url, completion)
        }
    }

    private func known(_ directory: Directory, _ url: ResourceURL) -> Directory.Listed? {
        if let listed = directory.state.withLock({ $0.listing }) { return listed }
        guard let remembered = services.store.listing(url.text) else { return nil }
        let entries = remembered.entries.compactMap { $0.entry(under: url) }
        let listed = Directory.Listed(entries, fetchedAt: remembered.fetchedAt)
        directory.state.withLock { $0.listing = $0.listing ?? listed }
        return listed
    }

    /// The entry's node with the attributes that the kernel wants, after a request where no listing tells the length.
    func resolve(
        _ entry: SourceEntry, in parent: Node, _ listed: Directory.Listed, _ completion: @escaping Completion<Entry>
    ) {
        if entry.length == nil, !entry.isDirectory { probeAhead(of: entry, listed) }
        if let known = knownEntry(entry, in: parent) { return completion(.success(known)) }
        prober.probe(entry.url) { [self] result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success:
                completion(knownEntry(entry, in: parent).map { .success($0) } ?? .failure(.failed))
            }
        }
    }

    /// Without a request: nil where the length is not known. Counts a kernel reference.
    func knownEntry(_ entry: SourceEntry, in parent: Node) -> Entry? {
        let facts = parent.directory!.facts(of: entry)
        var information: ContentInformation?
        if !entry.isDirectory, facts.length == nil {
            guard let remembered = services.store.information(for: entry.url.text) else { return nil }
            information = remembered.information
        }
        let node = nodes.node(for: entry, facts, in: parent)
        if let information { node.state.withLock { $0.information = $0.information ?? information } }
        return Entry(node: node.id, attributes: attributes(of: node))
    }

    /// Keeps the lengths of the next entries coming: looks half a window ahead, so that one window follows the other.
    private func probeAhead(of entry: SourceEntry, _ listed: Directory.Listed) {
        guard let place = listed.places[ExactText(entry.name)] else { return }
        let window = listed.entries[min(place + 1, listed.entries.count)...].prefix(Volume.probedAhead)
        let isUnknown: (SourceEntry) -> Bool = { [self] in
            !$0.isDirectory && $0.length == nil && services.store.information(for: $0.url.text) == nil
        }
        guard window.dropFirst(Volume.probedAhead / 2).prefix(1).contains(where: isUnknown) || isUnknown(entry) else {
            return
        }
        for next in window where isUnknown(next) { prober.probe(next.url, isDemanded: false) }
    }
}

/// A directory as it was when it was opened; `.` and `..` come first.
final class OpenDirectory: DirectoryHandle {
    private let volume: Volume
    private let node: Node
    private let parentInode: UInt64
    private let listed: Directory.Listed

    init(_ volume: Volume, _ node: Node, parentInode: UInt64, _ listed: Directory.Listed) {
        self.volume = volume
        self.node = node
        self.parentInode = parentInode
        self.listed = listed
    }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        for offset in max(offset, 0)..<max(offset, listed.entries.count + 2) {
            var item: DirectoryItem
            switch offset {
            case 0: item = DirectoryItem(name: ".", inode: node.inode, isDirectory: true, nextOffset: 1, entry: nil)
            case 1: item = DirectoryItem(name: "..", inode: parentInode, isDirectory: true, nextOffset: 2, entry: nil)
            default:
                let entry = listed.entries[offset - 2]
                item = DirectoryItem(
                    name: entry.name, inode: inodeNumber(of: entry.name, in: node.inode),
                    isDirectory: entry.isDirectory, nextOffset: offset + 1,
                    entry: withAttributes ? volume.knownEntry(entry, in: node) : nil)
            }
            guard add(item) else {
                if let entry = item.entry { volume.nodes.forget(entry.node, count: 1) }
                return
            }
        }
    }
}
