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
        let (listed, isFirst) = directory.state.withLock { state in
            if state.listing == nil { state.recalling.append(completion) }
            return (state.listing, state.recalling.count == 1)
        }
        if let listed {
            answer(listed, node, directory, completion)
        } else if isFirst {
            recall(node, directory)
        }
    }

    /// Reads what is remembered, once for all who wait: of a large directory that takes a while.
    private func recall(_ node: Node, _ directory: Directory) {
        let remembered = services.store.entries(at: directory.place).map {
            Directory.Listed($0.entries, fetchedAt: $0.fetchedAt)
        }
        let (listed, waiting) = directory.state.withLock { state in
            state.listing = state.listing ?? remembered
            defer { state.recalling = [] }
            return (state.listing, state.recalling)
        }
        for completion in waiting {
            if let listed {
                answer(listed, node, directory, completion)
            } else {
                fetch(node, directory, completion)
            }
        }
    }

    private func answer(
        _ listed: Directory.Listed, _ node: Node, _ directory: Directory, _ completion: Completion<Directory.Listed>
    ) {
        completion(health.isGone(directory.place) ? .failure(.stale) : .success(listed))
        let age = services.longestAge(of: directory.place, in: source)
        if health.isDue(directory.place, age, fetchedAt: listed.fetchedAt) { refresh(node, directory) }
    }

    /// The entry's node with the attributes that the kernel wants, after a request where no listing tells the length.
    func resolve(
        _ place: Int, of listed: Directory.Listed, in parent: Node, _ completion: @escaping Completion<Entry>
    ) {
        let entry = listed.entries[place]
        if entry.length == nil, !entry.isDirectory { probeAhead(of: place, listed) }
        switch knownEntry(place, of: listed, in: parent) {
        case .entry(let known): completion(.success(known))
        // The kernel looks the path up once more.
        case .outdated: completion(.failure(.stale))
        case .unknown:
            prober.probe(entry.url) { [self] result in
                switch (result, knownEntry(place, of: listed, in: parent)) {
                case (.failure(let error), _): completion(.failure(error))
                case (.success, .entry(let known)): completion(.success(known))
                case (.success, .outdated): completion(.failure(.stale))
                case (.success, .unknown): completion(.failure(.failed))
                }
            }
        }
    }

    enum KnownEntry {
        /// With a kernel reference.
        case entry(Entry)
        /// The length takes a request.
        case unknown
        /// Of a listing that another one has replaced.
        case outdated
    }

    /// Without a request.
    /// - Parameter cached: how much of the entry's bytes the cache has, where the caller knows it already.
    func knownEntry(
        _ place: Int, of listed: Directory.Listed, in parent: Node, cached: Int64? = nil
    ) -> KnownEntry {
        let entries = listed.entries
        let isDirectory = entries.isDirectory(at: place)
        let facts = parent.directory!.facts(of: place, in: entries)
        var information: ContentInformation?
        if !isDirectory, facts.length == nil {
            let key = entries.url(at: place).text
            guard let remembered = services.store.information(for: key) else { return .unknown }
            information = remembered.information
            if remembered.checkedAt == Services.doubted {
                askAgain(place, of: listed, in: parent, remembered.information)
            }
        }
        guard let (id, node) = nodes.node(at: place, of: listed, facts, in: parent, isUsed: information != nil)
        else { return .outdated }
        if let information, let node, !node.take(information) {
            // It is of another version than the kernel was told: another node takes its place.
            nodes.supersede(node)
            nodes.forget(id, count: 1)
            return knownEntry(place, of: listed, in: parent, cached: cached)
        }
        if let node { return .entry(Entry(node: id, attributes: attributes(of: node))) }
        let bytes = isDirectory ? 0 : cached ?? services.store.cachedBytes(of: entries.url(at: place).text)
        return .entry(
            Entry(
                node: id,
                attributes: Attributes(
                    inode: inodeNumber(of: entries.name(at: place), in: parent.inode), isDirectory: isDirectory,
                    length: facts.length ?? 0, cachedBytes: bytes, modified: facts.modified ?? firstMountedAt)))
    }

    /// What is remembered is shown, and may be outdated: if it is, the kernel asks for the name once more.
    private func askAgain(
        _ place: Int, of listed: Directory.Listed, in parent: Node, _ known: ContentInformation
    ) {
        let entry = listed.entries[place]
        guard services.origin.isWorthAsking(entry.url) else { return }
        prober.probe(entry.url, isDemanded: false) { [self] result in
            guard case .success(let new) = result, !new.isSameVersion(as: known) else { return }
            parent.directory?.state.withLock { $0.told = nil }
            kernelCache?.forgetEntry(entry.name, in: parent.id)
        }
    }

    /// Keeps the lengths of the next entries coming: looks half a window ahead, so that one window follows the other.
    private func probeAhead(of place: Int, _ listed: Directory.Listed) {
        let entry = listed.entries[place]
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
