import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads

/// The names of a mount: which node each leads to, and which attributes it shows.
final class Tree: Sendable {
    /// The number of entries whose lengths are requested together with one: `ls -l` goes on with them.
    private static let probedAhead = 64

    let services: Services
    let source: any Source
    let root: Node
    let nodes: NodeTable
    let wholeFiles: WholeFiles
    /// Fetches listings, and knows the ones that it could not fetch.
    let refresher: ListingRefresher
    private let files: FileTable
    private let information: InformationLoader
    /// The date of files without one: when the source was first mounted, in seconds since 1970.
    private let firstMountedAt: Int64
    /// The value of `user.reelfs.socket` on the root, nil if there is no such attribute.
    private let socketPath = Lock<String?>(nil)

    /// - Parameter inode: of the root; all others are made from it.
    init(_ opened: SourceOpening.Opened, _ files: FileTable, _ services: Services, inode: UInt64) {
        self.services = services
        self.files = files
        source = opened.source
        information = InformationLoader(files, services)
        wholeFiles = WholeFiles(services.store)
        firstMountedAt = services.store.setting("mounted").flatMap { decimal($0) } ?? wallClock()
        services.store.set("mounted", "\(firstMountedAt)")
        var listed = opened.listed.map { Directory.Listed($0.entries, fetchedAt: wallClock(), mark: $0.mark) }
        if let changedAt = opened.changedAt { listed?.changedAt = changedAt }
        // Only the list itself has the names of its files.
        if listed == nil, source.isQueue(source.root) { listed = services.remembered(source.root) }
        root = Node(
            id: rootNode, parent: rootNode, name: "", inode: inode, place: source.root, isDirectory: true,
            listed: Node.Facts(), listing: listed)
        nodes = NodeTable(root: root, keepsDates: source.keepsDates)
        refresher = ListingRefresher(source, nodes, services)
        guard source.isQueue(source.root), let list = root.directory else { return }
        services.upstream.renewLinks { [weak refresher, root] done in
            guard let refresher else { return done() }
            list.loading.join({ _ in done() }) { refresher.fetch(root, list, $0) }
        }
    }

    /// The root, to which the names in `status` are relative; nil for a list, whose files may lie anywhere.
    var rootURL: ResourceURL? { source.isQueue(source.root) ? nil : source.root.url }

    /// The names that the files of the cache have in this mount.
    var names: MountNames { MountNames(root: rootURL, entries: rootEntries) { services.keys.key(of: $0) } }

    /// The entries of the root's present listing.
    var rootEntries: EntryList { root.directory?.listing?.entries ?? EntryList([]) }

    // MARK: Entries

    /// The entry's node with its attributes, after a request if no listing has the length.
    func resolve(
        _ place: Int, of listed: Directory.Listed, in parent: Node, _ completion: @escaping Completion<Entry>
    ) {
        let entry = listed.entries[place]
        if entry.length == nil, !entry.isDirectory { probeAhead(of: place, listed) }
        if let known = knownEntry(place, of: listed, in: parent) { return completion(known) }
        information.load(entry.url) { [self] result in
            completion(result.flatMap { _ in knownEntry(place, of: listed, in: parent) ?? .failure(.failed) })
        }
    }

    /// The entry's node without a request; a success has a reference of the kernel. It fails with `stale` if another
    /// listing has replaced this one, and the kernel looks the path up once more.
    /// - Parameter asks: facts in doubt are asked for in the background.
    /// - Returns: nil if only a request can find the length.
    func knownEntry(
        _ place: Int, of listed: Directory.Listed, in parent: Node, asks: Bool = true
    ) -> Result<Entry, VolumeError>? {
        let entries = listed.entries
        let isDirectory = entries.isDirectory(at: place)
        let facts = parent.directory!.facts(of: place, in: entries)
        var information: ContentInformation?
        if !isDirectory, facts.length == nil {
            guard let remembered = services.store.information(for: entries.url(at: place).text) else { return nil }
            information = remembered.information
            if asks, remembered.isDoubted {
                askAgain(place, of: listed, in: parent, remembered.information)
            }
        }
        guard let (id, node) = nodes.node(at: place, of: listed, facts, in: parent, isUsed: information != nil)
        else { return .failure(.stale) }
        guard let node else {
            let attributes = Attributes(
                inode: inodeNumber(of: entries.name(at: place), in: parent.inode), isDirectory: isDirectory,
                isLink: services.options.links && entries.isLink(at: place),
                length: facts.length ?? 0, modified: facts.modified ?? firstMountedAt)
            return .success(Entry(node: id, attributes: attributes))
        }
        if let information, !node.take(information) {
            // The kernel has another version of this node: another node takes its place.
            nodes.supersede(node)
            nodes.forget(id, count: 1)
            return knownEntry(place, of: listed, in: parent, asks: asks)
        }
        return .success(Entry(node: id, attributes: attributes(of: node)))
    }

    /// Checks facts that are shown and may be outdated; where they are, the kernel looks the name up once more.
    private func askAgain(
        _ place: Int, of listed: Directory.Listed, in parent: Node, _ known: ContentInformation
    ) {
        let entry = listed.entries[place]
        guard services.transport.isWorthAsking(entry.url) else { return }
        self.information.load(entry.url, isDemanded: false) { [services] result in
            guard case .success(let new) = result, !new.isSameVersion(as: known) else { return }
            parent.directory?.untold()
            services.kernelCache?.forgetEntry(entry.name, in: parent.id)
        }
    }

    /// Requests the lengths of the next entries: looks half a window ahead, so that one window follows the other.
    private func probeAhead(of place: Int, _ listed: Directory.Listed) {
        let entry = listed.entries[place]
        let window = listed.entries[min(place + 1, listed.entries.count)...].prefix(Tree.probedAhead)
        let isUnknown: (SourceEntry) -> Bool = { [self] in
            !$0.isDirectory && $0.length == nil && services.store.information(for: $0.url.text) == nil
        }
        guard window.dropFirst(Tree.probedAhead / 2).prefix(1).contains(where: isUnknown) || isUnknown(entry) else {
            return
        }
        for next in window where isUnknown(next) { information.load(next.url, isDemanded: false) }
    }

    // MARK: Attributes

    /// The attributes of a node, as `stat` shows them.
    func attributes(of node: Node) -> Attributes {
        let shown = node.shown
        let modified = node.isDirectory ? nodes.modified(node) ?? node.directory?.listing?.changedAt : shown.modified
        return Attributes(
            inode: node.inode, isDirectory: node.isDirectory, isLink: node.isLink, length: shown.length ?? 0,
            modified: modified ?? firstMountedAt)
    }

    /// Every extended attribute that a node may have.
    static let attributeNames = [
        "user.mime_type", "user.reelfs.url", "user.reelfs.cached", "user.reelfs.socket", "user.reelfs.stale",
    ]

    /// The control socket's path, from here on a value of the root.
    func announce(socketPath path: String) { socketPath.withLock { $0 = path } }

    /// The value of one of these, without a request; nil where the node has none.
    func extendedAttribute(_ name: String, of node: Node) -> String? {
        switch name {
        case "user.reelfs.url": return node.url.map { services.upstream.place(of: $0).key }
        case "user.reelfs.socket": return node.id == rootNode ? socketPath.withLock { $0 } : nil
        case "user.reelfs.stale": return node.directory.flatMap { refresher.health.mark(of: $0.place) }
        case "user.mime_type" where !node.isDirectory: return information(of: node)?.mediaType
        case "user.reelfs.cached" where !node.isDirectory:
            let information = information(of: node)
            guard let length = information?.length, length > 0 else { return information == nil ? "0" : "100" }
            return "\(cachedBytes(node, information) * 100 / length)"
        default: return nil
        }
    }

    private func information(of node: Node) -> ContentInformation? {
        node.information ?? node.url.flatMap { services.store.information(for: $0.text)?.information }
    }

    private func cachedBytes(_ node: Node, _ information: ContentInformation?) -> Int64 {
        guard let url = node.url else { return 0 }
        guard let information, let length = information.length else {
            return services.keys.cachedBytes(of: url, node.listed.length)
        }
        let key = services.keys.key(of: url, information)
        let version = Version(key: key, validator: information.validator, length: length)
        return files.file(for: version)?.cachedBytes ?? services.keys.cachedBytes(of: url, length)
    }
}
