import ReelCore
import ReelSources
import ReelThreads

/// A directory as it was when a program opened it; `.` and `..` come first.
final class DirectorySnapshot: DirectoryHandle {
    private let tree: Tree
    private let node: Node
    private let directory: Directory
    private let parentInode: UInt64
    private let entries: EntryList
    private let listed: Directory.Listed
    let isHeldByKernel: Bool

    private struct State {
        /// A reading from the beginning that told every entry with its attributes: its next item, and when it began;
        /// nil: it left something out.
        var telling: (next: Int, beganAt: Duration)?
        /// The cached bytes by URL, when the first entry was told; nil: the index was not asked yet.
        var cached: [ExactText: Int64]?
    }

    private let state = Lock(State())

    init(_ tree: Tree, _ node: Node, _ directory: Directory, parentInode: UInt64, _ listed: Directory.Listed) {
        self.tree = tree
        self.node = node
        self.directory = directory
        self.parentInode = parentInode
        self.listed = listed
        entries = listed.entries
        isHeldByKernel = directory.isTold(listed.entries)
    }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        let first = max(offset, 0)
        if first == 0 { state.withLock { $0.telling = (next: 0, beganAt: now()) } }
        var offset = first
        var isWhole = withAttributes
        while offset < entries.count + 2 {
            let item = item(at: offset, withAttributes: withAttributes)
            guard add(item) else {
                if let entry = item.entry { tree.nodes.forget(entry.node, count: 1) }
                break
            }
            isWhole = isWhole && (item.entry != nil || offset < 2)
            offset += 1
        }
        told(first..<offset, isWhole: isWhole)
    }

    private func item(at offset: Int, withAttributes: Bool) -> DirectoryItem {
        if offset < 2 {
            let (name, inode) = offset == 0 ? (".", node.inode) : ("..", parentInode)
            return DirectoryItem(name: name, inode: inode, isDirectory: true, nextOffset: offset + 1, entry: nil)
        }
        let place = offset - 2
        let name = entries.name(at: place)
        let known = withAttributes ? tree.knownEntry(place, of: listed, in: node, cached: cached(place)) : nil
        let entry = try? known?.get()
        return DirectoryItem(
            name: name, inode: entry?.attributes.inode ?? inodeNumber(of: name, in: node.inode),
            isDirectory: entries.isDirectory(at: place), nextOffset: offset + 1, entry: entry)
    }

    /// The cached bytes of an entry, from one query of the index for all entries where they lie in one folder.
    private func cached(_ place: Int) -> Int64 {
        let (services, store) = (tree.services, tree.services.store)
        let key = services.key(of: entries.url(at: place), length: entries.length(at: place))
        guard let prefix = entries.folder.flatMap({ services.options.cacheKey.prefix(of: $0) }) else {
            return store.cachedBytes(of: key)
        }
        var cached = state.withLock { $0.cached }
        if cached == nil {
            // The files of a list may lie deeper than its folder.
            cached = store.cachedBytes(below: prefix, isDeep: tree.source.isQueue(directory.place))
            state.withLock { $0.cached = cached }
        }
        guard let cached, !cached.isEmpty else { return 0 }
        return cached[ExactText(key)] ?? 0
    }

    /// Notes the items that the kernel got. The kernel reads the empty end last; it then has everything, and may answer
    /// by itself for as long as it believes the attributes that it got first.
    private func told(_ range: Range<Int>, isWhole: Bool) {
        let beganAt = state.withLock { state -> Duration? in
            guard let telling = state.telling, telling.next == range.lowerBound, isWhole else {
                state.telling = nil
                return nil
            }
            state.telling?.next = range.upperBound
            return range.upperBound == entries.count + 2 ? telling.beganAt : nil
        }
        if let beganAt { directory.told(entries, began: beganAt) }
    }
}
