import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads

/// The listings of directories: the known ones, those that a program waits for, and those that none waits for.
extension Tree {
    /// The listing of a directory: the known one at once, else one from the origin.
    func listing(of node: Node, _ completion: @escaping Completion<Directory.Listed>) {
        guard let directory = node.directory else { return completion(.failure(.notDirectory)) }
        if let listed = directory.listing { return answer(.success(listed), node, directory, completion) }
        let isComing = directory.demand.wait()
        let answered: Completion<Directory.Listed> = { [self] in
            directory.demand.waited()
            answer($0, node, directory, completion)
        }
        let work = { @Sendable [self] (done: @escaping Completion<Directory.Listed>) in
            if let listed = directory.recall(services.remembered(directory.place)) { return done(.success(listed)) }
            refresher.fetch(node, directory, done)
        }
        if isComing {
            directory.loading.join(answered, work: work)
        } else {
            directory.loading.joinNext(answered, work: work)
        }
    }

    /// The listing of a directory that is known, whatever its age; nothing is asked for.
    func knownListing(of node: Node) -> Result<Directory.Listed, VolumeError> {
        guard let directory = node.directory else { return .failure(.notDirectory) }
        guard let listed = directory.listing ?? directory.recall(services.remembered(directory.place)) else {
            return .failure(.offline)
        }
        return refresher.health.isGone(directory.place) ? .failure(.stale) : .success(listed)
    }

    /// Lists a directory before a program asks for it, after all other requests. A listing that is there is enough,
    /// unless it is due and `refreshes` is true.
    func listAhead(
        _ node: Node, _ directory: Directory, refreshes: Bool = false,
        _ completion: @escaping @Sendable (FolderWalk.Found) -> Void
    ) {
        let known = directory.listing ?? directory.recall(services.remembered(directory.place))
        if let known, !refreshes || !refresher.isDue(directory, fetchedAt: known.fetchedAt) {
            return completion(.listed(known, trouble: nil))
        }
        if let url = directory.place.url, services.transport.standings[url.origin] != nil {
            return completion(.failed("the origin is away"))
        }
        directory.loading.join { [refresher] result in
            switch result {
            case .success(let listed):
                completion(.listed(listed, trouble: refresher.health.trouble(of: directory.place)))
            case .failure(.interrupted): completion(.givenUp)
            case .failure(let error): completion(.failed(error.reason))
            }
        } work: { [refresher] done in
            refresher.fetch(node, directory, isAhead: true, done)
        }
    }

    /// Lists a directory again now, whatever the age of its listing. A request that is under way does not count, as it
    /// may have begun before a change.
    func listAgain(
        _ node: Node, _ directory: Directory, _ completion: @escaping @Sendable (FolderWalk.Found) -> Void
    ) {
        let known = directory.listing ?? directory.recall(services.remembered(directory.place))
        // A single file.
        if let known, services.longestAge(of: directory.place, in: source) == nil {
            return completion(.listed(known, trouble: nil))
        }
        _ = directory.demand.wait()
        directory.loading.joinNext { [refresher] result in
            directory.demand.waited()
            switch result {
            case .success(let listed):
                completion(.listed(listed, trouble: refresher.health.trouble(of: directory.place)))
            case .failure(let error): completion(.failed(error.reason))
            }
        } work: { [refresher] done in
            refresher.fetch(node, directory, done)
        }
    }

    /// Lists the root again in the background, where a remembered listing is shown.
    func refreshRoot() {
        listing(of: root) { [self] _ in
            if let directory = root.directory, directory.listing != nil { refresher.contradicted(root, directory) }
        }
    }

    private func answer(
        _ result: Result<Directory.Listed, VolumeError>, _ node: Node, _ directory: Directory,
        _ completion: Completion<Directory.Listed>
    ) {
        completion(result.flatMap { refresher.health.isGone(directory.place) ? .failure(.stale) : .success($0) })
        if case .success(let listed) = result { refresher.look(node, directory, fetchedAt: listed.fetchedAt) }
    }
}

extension Services {
    /// The remembered listing of a folder; nil where there is none.
    func remembered(_ folder: SourcePlace) -> Directory.Listed? {
        store.entries(at: folder, links: options.links).map { Directory.Listed($0.entries, fetchedAt: $0.fetchedAt) }
    }
}
