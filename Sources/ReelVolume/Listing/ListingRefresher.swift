import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads

/// Fetches listings, and decides whether they replace the present ones.
final class ListingRefresher: Sendable {
    /// Directories whose listing could not be refreshed.
    let health: ListingHealth
    private let source: any Source
    private let nodes: NodeTable
    private let services: Services
    private let listener = Lock<(@Sendable () -> Void)?>(nil)

    init(_ source: any Source, _ nodes: NodeTable, _ services: Services) {
        self.source = source
        self.nodes = nodes
        self.services = services
        health = services.health
    }

    /// Calls `body` with each listing that differs from the one before, from now on.
    func onNews(_ body: @escaping @Sendable () -> Void) { listener.withLock { $0 = body } }

    /// Whether a listing should be refreshed. - Parameter fetchedAt: seconds since 1970.
    func isDue(_ directory: Directory, fetchedAt: Int64) -> Bool {
        health.isDue(directory.place, services.longestAge(of: directory.place, in: source), fetchedAt: fetchedAt)
    }

    /// A program looks at a listing: refreshes it where it is due. - Parameter fetchedAt: seconds since 1970.
    func look(_ node: Node, _ directory: Directory, fetchedAt: Int64) {
        if isDue(directory, fetchedAt: fetchedAt) { refresh(node, directory) }
    }

    /// Refreshes a listing that was found wrong, unless it never changes.
    func contradicted(_ node: Node, _ directory: Directory) {
        if services.longestAge(of: directory.place, in: source) != nil { refresh(node, directory) }
    }

    /// Goes on in the background: the caller has its answer already.
    private func refresh(_ node: Node, _ directory: Directory) {
        guard let url = directory.place.url, !services.transport.isWorthAsking(url) else {
            return directory.loading.join({ _ in }) { fetch(node, directory, $0) }
        }
        // What the user wants is no trouble.
        if services.transport.line.isOffline { return }
        // No request goes out; a doubt that passes leaves no mark.
        if let outage = services.transport.outage(of: url) {
            _ = settle(ListingTrouble(.away(outage)), node, directory, isAway: true)
        }
    }

    /// Asks the origin; the work of the directory's `loading`. - Parameter isAhead: no call may wait for it; it fails
    ///   with `interrupted` where it was given up.
    func fetch(
        _ node: Node, _ directory: Directory, isAhead: Bool = false,
        _ completion: @escaping Completion<Directory.Listed>
    ) {
        let old = directory.listing
        directory.demand.begins()
        FolderFetch.start(
            source.list(directory.place, known: old?.entries), of: directory.place.url, known: old?.mark,
            demand: isAhead ? directory.demand : nil, limit: services.options.timeout, services
        ) { [self] outcome in
            // It says nothing of the folder.
            if isAhead, outcome.trouble != nil, directory.demand.isGivenUp { return completion(.failure(.interrupted)) }
            completion(settle(outcome, node, directory))
        }
    }

    private func settle(
        _ outcome: FolderFetch.Outcome, _ node: Node, _ directory: Directory
    ) -> Result<Directory.Listed, VolumeError> {
        let place = directory.place
        guard let old = directory.listing else {
            if case .entries(let entries, let mark, _) = outcome {
                return .success(take(entries, mark, nil, node, directory))
            }
            guard let (trouble, error) = outcome.trouble else { return .failure(.failed) }
            let isUrgent = directory.demand.isDemanded
            services.logger.log(level: isUrgent ? .warning : .info, "\(place): no listing: \(trouble.name)")
            return .failure(error)
        }
        var trouble = outcome.trouble?.name
        if case .entries(let entries, _, _) = outcome, entries.isEmpty, !old.entries.isEmpty { trouble = .empty }
        let wasGone = health.isGone(place)
        let isAway = if case .failure(.away) = outcome { true } else { false }
        let verdict = settle(trouble, node, directory, isAway: isAway)
        if let trouble { services.logger.warning("\(place): no new listing: \(trouble.name)") }
        switch (verdict, outcome) {
        case (.believe, .entries(let entries, let mark, let remark)):
            if let remark, entries != old.entries { services.logger.warning("\(place): \(remark)") }
            return .success(take(entries, mark, old, node, directory))
        case (.believe, _): return .success(directory.confirm() ?? old)
        case (.keep, _): return .success(old)
        case (.gone, _):
            if !wasGone, let kernel = services.kernelCache {
                for entry in old.entries { kernel.forgetEntry(entry.name, in: node.id) }
            }
            return .failure(.stale)
        }
    }

    /// - Parameter isAway: the origin was not asked.
    private func settle(
        _ trouble: ListingTrouble?, _ node: Node, _ directory: Directory, isAway: Bool
    ) -> ListingDoubt.Verdict {
        let wasMarked = health.trouble(of: directory.place) != nil
        let isListed = nodes.isListed(node)
        let verdict = health.settle(directory.place, trouble, canGo: node.id != rootNode, isListed: isListed)
        // Its return is reported once, and perhaps before this.
        if isAway, let url = directory.place.url, services.transport.outage(of: url) == nil {
            health.isBack(url.origin)
        }
        services.options.news?.trust()
        // The listing above is out of date, and no program may come to look at it.
        if let trouble, trouble.isMissing, isListed, node.id != rootNode, !wasMarked || verdict == .gone,
            let parent = nodes[node.parent], let above = parent.directory
        {
            contradicted(parent, above)
        }
        return verdict
    }

    private func take(
        _ entries: EntryList, _ mark: FolderMark?, _ old: Directory.Listed?, _ node: Node, _ directory: Directory
    ) -> Directory.Listed {
        var news = ListingNews(entries)
        if let old { for place in old.entries.indices { news.compare(old.entries, place, directory) } }
        for (url, length) in news.contradicted { services.doubt(url, length: length) }
        let list = news.list
        let isSame = old.map { $0.entries == list } ?? false
        // The same object, so that a refresh without news takes no memory.
        let entries = isSame && old!.entries.hasSameTags(as: list) ? old!.entries : list
        var listed = Directory.Listed(entries, fetchedAt: wallClock(), mark: mark)
        if let old, isSame { listed.changedAt = old.changedAt }
        directory.replace(old, with: listed, isSame: isSame)
        nodes.adopt(listed, of: node)
        if let old, !isSame {
            health.forget { old.entries.folderKeys.subtracting(listed.entries.folderKeys) }
            services.options.news?.trust()
        }
        // An equal one need not be written: it only counts as a little older after the next mount.
        if isSame { return listed }
        services.store.remember(
            StoredListing(entries: entries, fetchedAt: listed.fetchedAt, complete: true), for: directory.place.key)
        if old != nil { listener.withLock { $0 }?() }
        if let old, let news = services.options.news { news.tell(old, listed, in: path(of: node, directory)) }
        if let old, let kernel = services.kernelCache {
            for entry in old.entries { revoke(entry, listed[entry.name], node, kernel) }
            // The kernel may have kept the answer that there was no such name.
            for entry in entries where old[entry.name] == nil { kernel.forgetEntry(entry.name, in: node.id) }
            kernel.forgetDirectory(node.id)
        }
        return listed
    }

    /// The path of a directory inside the volume; nil where it is not known.
    private func path(of node: Node, _ directory: Directory) -> String? {
        if let path = nodes.path(of: node) { return path }
        // The kernel has forgotten a directory above it.
        let root = source.isQueue(source.root) ? nil : source.root.url
        let path = MountNames(root: root, entries: [SourceEntry]()) { $0.url.text }.path(ofKey: directory.place.key)
        return path.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
    }

    /// Makes the kernel forget an entry that a newer list lacks, or has another one for.
    private func revoke(_ entry: SourceEntry, _ newer: SourceEntry?, _ parent: Node, _ kernel: any KernelCache) {
        if entry == newer { return }
        // Forgotten by number: without its name it would be another directory for a program that works in it, or has
        // mounted below.
        if let newer, entry.isStill(newer) {
            if let child = nodes.known(entry.name, in: parent) { kernel.forgetDirectory(child) }
        } else {
            kernel.forgetEntry(entry.name, in: parent.id)
        }
    }
}

extension EntryList {
    /// The keys of the directories in it.
    fileprivate var folderKeys: Set<String> {
        Set(indices.lazy.filter { isDirectory(at: $0) }.map { SourcePlace.url(url(at: $0)).key })
    }
}

extension FolderFetch.Outcome {
    /// nil if there is none.
    fileprivate var trouble: (name: ListingTrouble, error: VolumeError)? {
        switch self {
        case .entries, .unchanged: nil
        case .failure(let failure): (ListingTrouble(failure), VolumeError(failure))
        case .refused(.foreign): (.noListing, .failed)
        case .refused(.useless): (.failed, .failed)
        case .refused(.cutShort): (.cutShort, .failed)
        case .refused(.stopped): (.timedOut, .timedOut)
        }
    }
}
