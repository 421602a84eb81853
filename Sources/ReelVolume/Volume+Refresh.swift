import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// Fetching listings, and what becomes of the one that is there.
extension Volume {
    private enum Found {
        case entries(EntryList, OriginRequest.Condition?)
        case unchanged
        case trouble(ListingTrouble, VolumeError)
    }

    /// In the background: the listing that is there was answered already.
    func refresh(_ node: Node, _ directory: Directory, _ url: ResourceURL) {
        if services.origin.isWorthAsking(url) { return fetch(node, directory, url) { _ in } }
        // Not asked; a doubt that passes leaves no mark.
        if let outage = services.origin.outage(of: url) {
            _ = health.settle(url, ListingTrouble(.away(outage)), canGo: node.id != rootNode)
        }
    }

    func fetch(
        _ node: Node, _ directory: Directory, _ url: ResourceURL, _ completion: @escaping Completion<Directory.Listed>
    ) {
        let (isFirst, condition) = directory.state.withLock { state in
            state.waiting.append(completion)
            defer { state.isFetching = true }
            return (!state.isFetching, state.listing?.condition)
        }
        guard isFirst else { return }
        let deadline = now() + services.options.timeout
        BodyFetch.start(url, condition: condition, limit: services.options.timeout, services) { [self] outcome in
            services.chores.add { [self] in
                services.giveBackMemory(after: outcome.size)
                let result = settle(read(outcome, url, until: deadline), node, directory, url)
                let waiting = directory.state.withLock { state in
                    defer { state.waiting = [] }
                    state.isFetching = false
                    return state.waiting
                }
                for completion in waiting { completion(result) }
            }
        }
    }

    private func read(_ outcome: BodyFetch.Outcome, _ url: ResourceURL, until deadline: Duration) -> Found {
        switch outcome {
        case .unchanged: return .unchanged
        case .failure(let failure): return .trouble(ListingTrouble(failure), VolumeError(failure))
        case .document(let document):
            guard document.isWhole else { return .trouble(.cutShort, .failed) }
            // Links count from where the page really was, as a browser sees it.
            let head = document.head
            let base = head.url.with(credentials: head.url.isSameOrigin(as: url) ? url.credentials : nil)
            do throws(ListingError) {
                let entries = try Listing.parse(
                    document.bytes, mediaType: head.mediaType, url: base, isOver: services.isOver(at: deadline))
                return .entries(entries, head.listingCondition)
            } catch {
                switch error {
                case .malformed: return .trouble(.cutShort, .failed)
                case .stopped: return .trouble(.timedOut, .timedOut)
                case .notAListing, .tooLarge: return .trouble(.noListing, .failed)
                }
            }
        }
    }

    private func settle(
        _ found: Found, _ node: Node, _ directory: Directory, _ url: ResourceURL
    ) -> Result<Directory.Listed, VolumeError> {
        guard let old = directory.state.withLock({ $0.listing }) else {
            switch found {
            case .entries(let entries, let condition):
                return .success(take(entries, condition, nil, node, directory, url))
            case .unchanged: return .failure(.failed)
            case .trouble(let trouble, let error):
                services.logger.warning("\(url): no listing: \(trouble.name)")
                return .failure(error)
            }
        }
        var trouble: ListingTrouble?
        switch found {
        case .entries(let entries, _): trouble = entries.isEmpty && !old.entries.isEmpty ? .empty : nil
        case .unchanged: break
        case .trouble(let what, _): trouble = what
        }
        let wasGone = health.isGone(url)
        let verdict = health.settle(url, trouble, canGo: node.id != rootNode)
        if let trouble { services.logger.warning("\(url): no new listing: \(trouble.name)") }
        switch (verdict, found) {
        case (.believe, .entries(let entries, let condition)):
            return .success(take(entries, condition, old, node, directory, url))
        case (.believe, _):
            return .success(
                directory.state.withLock { state in
                    state.listing?.fetchedAt = wallClock()
                    return state.listing ?? old
                })
        case (.keep, _): return .success(old)
        case (.gone, _):
            if !wasGone, let kernel = kernelCache {
                for entry in old.entries { kernel.forgetEntry(entry.name, in: node.id) }
            }
            return .failure(.stale)
        }
    }

    private func take(
        _ entries: EntryList, _ condition: OriginRequest.Condition?, _ old: Directory.Listed?, _ node: Node,
        _ directory: Directory, _ url: ResourceURL
    ) -> Directory.Listed {
        var news = ListingNews(entries)
        if let old { for place in old.entries.indices { news.compare(old.entries, place, directory) } }
        for url in news.contradicted { services.doubt(url) }
        let list = news.list
        let isSame = old.map { $0.entries == list } ?? false
        // One and the same in memory, so that a refresh without news takes none.
        let entries = isSame ? old!.entries : list
        var listed = Directory.Listed(entries, fetchedAt: wallClock(), condition: condition)
        if let old, isSame { listed.changedAt = old.changedAt }
        directory.state.withLock { state in
            state.listing = listed
            // What the listing says as before is contradicted as before.
            if !isSame { state.corrections = state.corrections.filter { old?[$0.key.text] == listed[$0.key.text] } }
            if !isSame { state.told = nil }
        }
        nodes.adopt(listed, of: node)
        // One that says the same need not be written: known a little older than it is, it is asked for a little sooner.
        if isSame { return listed }
        services.store.remember(
            RememberedListing(entries: entries, fetchedAt: listed.fetchedAt, complete: true), for: url.text)
        if let old, let kernel = kernelCache {
            for entry in old.entries { revoke(entry, listed[entry.name], node, kernel) }
            // The kernel may know that there was no such name.
            for entry in entries where old[entry.name] == nil { kernel.forgetEntry(entry.name, in: node.id) }
            kernel.forgetDirectory(node.id)
        }
        return listed
    }

    /// What the kernel knows of an entry that a newer list has another one for, or none.
    private func revoke(_ entry: SourceEntry, _ newer: SourceEntry?, _ parent: Node, _ kernel: any KernelCache) {
        if entry == newer { return }
        // By its number: without its name it would be another one for who stands in it or has mounted below it.
        if let newer, entry.isStill(newer) {
            if let child = nodes.known(entry.name, in: parent) { kernel.forgetDirectory(child) }
        } else {
            kernel.forgetEntry(entry.name, in: parent.id)
        }
    }
}

extension ResponseHead {
    /// What asks whether a listing has changed. A date counts only where it lies a minute before the answer (RFC 9110,
    /// section 8.8.2.2): in the second of its change a directory may change again.
    fileprivate var listingCondition: OriginRequest.Condition? {
        var validator = Validator(entityTag: entityTag, lastModified: lastModified)
        if let date = validator.lastModified, (self["date"].flatMap { httpDate($0) } ?? date) - date < 60 {
            validator.lastModified = nil
        }
        return validator.ifChanged
    }
}
