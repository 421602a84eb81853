import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// A directory as it was when it was opened; `.` and `..` come first.
final class DirectorySnapshot: DirectoryHandle {
    private let volume: Volume
    private let node: Node
    private let parentInode: UInt64
    private let listed: Directory.Listed
    let isHeldByKernel: Bool

    /// One reading from the beginning to the end, in which every entry went with its attributes.
    private struct Telling {
        /// Where it goes on; nil: something was left out.
        var next: Int?
        var beganAt: Duration
    }

    private struct State {
        var telling: Telling?
        /// By URL: what the cache had when the first entry was told.
        var cached: [ExactText: Int64]?
    }

    private let state = Mutex(State())

    init(_ volume: Volume, _ node: Node, parentInode: UInt64, _ listed: Directory.Listed) {
        self.volume = volume
        self.node = node
        self.parentInode = parentInode
        self.listed = listed
        let told = node.directory!.state.withLock { $0.told }
        isHeldByKernel =
            told.map { $0.entries.isIdentical(to: listed.entries) && now() - $0.at < KernelBelief.known } ?? false
    }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        let first = max(offset, 0)
        if first == 0 { state.withLock { $0.telling = Telling(next: 0, beganAt: now()) } }
        var offset = first
        var isWhole = withAttributes
        while offset < listed.entries.count + 2 {
            let item = item(at: offset, withAttributes: withAttributes)
            guard add(item) else {
                if let entry = item.entry { volume.nodes.forget(entry.node, count: 1) }
                break
            }
            isWhole = isWhole && (item.entry != nil || offset < 2)
            offset += 1
        }
        told(first..<offset, isWhole: isWhole)
    }

    private func item(at offset: Int, withAttributes: Bool) -> DirectoryItem {
        switch offset {
        case 0: return DirectoryItem(name: ".", inode: node.inode, isDirectory: true, nextOffset: 1, entry: nil)
        case 1: return DirectoryItem(name: "..", inode: parentInode, isDirectory: true, nextOffset: 2, entry: nil)
        default:
            let place = offset - 2
            let name = listed.entries.name(at: place)
            var entry: Entry?
            if withAttributes {
                let known = volume.knownEntry(place, of: listed, in: node, cached: cached(place))
                if case .entry(let found) = known { entry = found }
            }
            return DirectoryItem(
                name: name, inode: entry?.attributes.inode ?? inodeNumber(of: name, in: node.inode),
                isDirectory: listed.entries.isDirectory(at: place), nextOffset: offset + 1, entry: entry)
        }
    }

    /// One question to the index for all entries together, where they lie in one folder.
    private func cached(_ place: Int) -> Int64 {
        guard let folder = listed.entries.folder else {
            return volume.services.store.cachedBytes(of: listed.entries.url(at: place).text)
        }
        var cached = state.withLock { $0.cached }
        if cached == nil {
            // The files of a list may lie deeper than its folder; those of a listing do not.
            let isList = volume.source.isQueue(node.directory!.place)
            cached = volume.services.store.cachedBytes(below: folder.text, isDeep: isList)
            state.withLock { $0.cached = cached }
        }
        guard let cached, !cached.isEmpty else { return 0 }
        return cached[ExactText(listed.entries.url(at: place).text)] ?? 0
    }

    /// The kernel reads an end that is empty last; then it has everything, and may answer by itself for as long as it
    /// believes what it was told first.
    private func told(_ range: Range<Int>, isWhole: Bool) {
        let finished = state.withLock { state -> Duration? in
            guard let telling = state.telling, telling.next == range.lowerBound, isWhole else {
                state.telling?.next = nil
                return nil
            }
            state.telling?.next = range.upperBound
            return range.upperBound == listed.entries.count + 2 ? telling.beganAt : nil
        }
        guard let finished else { return }
        node.directory!.state.withLock { state in
            // Who has an old list open tells nothing of the one that is there now.
            guard let current = state.listing?.entries, current.isIdentical(to: listed.entries) else { return }
            state.told = (current, finished)
        }
    }
}
