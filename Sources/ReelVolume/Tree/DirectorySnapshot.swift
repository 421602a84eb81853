import ReelCore
import ReelFilesystem
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
    private let view: VolumeView
    let isHeldByKernel: Bool

    private struct State {
        /// A reading from the beginning that gave every entry with its attributes: its next item, and when it began;
        /// nil if it left something out.
        var telling: (next: Int, beganAt: Duration)?
        var isKept = true
    }

    private let state = Lock(State())

    init(
        _ tree: Tree, _ node: Node, _ directory: Directory, parentInode: UInt64, _ listed: Directory.Listed,
        _ view: VolumeView
    ) {
        self.tree = tree
        self.node = node
        self.directory = directory
        self.parentInode = parentInode
        self.listed = listed
        entries = listed.entries
        self.view = view
        isHeldByKernel =
            view == .whole && !tree.isInSeveralMounts && directory.isTold(listed.entries)
            && !tree.services.transport.line.isOffline
    }

    var listing: ObjectIdentifier? { view == .cached ? nil : entries.identity }

    func isNotKept() { state.withLock { $0.isKept = false } }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        let first = max(offset, 0)
        if first == 0 { state.withLock { $0.telling = $0.isKept ? (next: 0, beganAt: now()) : nil } }
        var offset = first
        // A view of cached files is one mount's own: reading it does not count as the kernel having the directory.
        var isWhole = withAttributes && view == .whole
        while offset < entries.count + 2 {
            guard offset < 2 || isShown(offset - 2) else {
                isWhole = false
                offset += 1
                continue
            }
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

    private func isShown(_ place: Int) -> Bool {
        view == .cached ? tree.isWhole(place, of: entries) : tree.isShown(place, of: entries)
    }

    private func item(at offset: Int, withAttributes: Bool) -> DirectoryItem {
        if offset < 2 {
            let (name, inode) = offset == 0 ? (".", node.inode) : ("..", parentInode)
            return DirectoryItem(name: name, inode: inode, isDirectory: true, nextOffset: offset + 1, entry: nil)
        }
        let place = offset - 2
        let name = entries.name(at: place)
        let known = withAttributes ? tree.knownEntry(place, of: listed, in: node, asks: view == .whole) : nil
        let entry = try? known?.get()
        return DirectoryItem(
            name: name, inode: entry?.attributes.inode ?? inodeNumber(of: name, in: node.inode),
            isDirectory: entries.isDirectory(at: place),
            isLink: tree.services.options.links && entries.isLink(at: place), nextOffset: offset + 1, entry: entry)
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
        if let beganAt, !tree.isInSeveralMounts { directory.told(entries, began: beganAt) }
    }
}

extension Tree {
    /// One of two mounts may still keep the names of a listing from before.
    fileprivate var isInSeveralMounts: Bool { services.kernelCache?.isShared ?? false }
}
