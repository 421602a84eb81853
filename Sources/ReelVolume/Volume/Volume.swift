import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import Synchronization

/// The filesystem: joins a source's tree, the cache and the origin.
///
/// `Tree` resolves names, `FileOpener` finds out which version of a file to open, `RemoteFile` reads.
package final class Volume: Sendable {
    let services: Services
    let tree: Tree
    let files: FileTable
    let opener: FileOpener
    let prebuffer: Prebuffer
    /// nil where nothing is kept.
    let keeper: Keeper?
    let ahead: TreeAhead
    /// Lists the whole tree, nil if it was not asked for.
    let warming: FolderWalk?
    /// The commands on the mount's cache.
    package let commands: Maintenance
    package let prefetches = PrefetchJobs()
    /// The number of calls of `forget`.
    private let forgotten = Atomic<Int>(0)
    private let isShutDown = Atomic(false)

    /// Finds out the kind of a source, from the origin or from the cache, and makes its volume. It blocks until then,
    /// as nothing is mounted yet.
    /// - Parameters:
    ///   - source: a URL, or the path of a list.
    ///   - kinds: the kinds of sources, in the order in which they are asked.
    ///   - finder: the user's resolver, nil if files are asked for at their URLs.
    ///   - inode: the inode number of the root.
    ///   - asks: false: a source that is remembered is opened without a request, and listed again in the background.
    /// - Throws: a sentence for the user.
    package static func open(
        _ source: String, origin: any Transport, store: Store, options: VolumeOptions = VolumeOptions(), logger: Logger,
        kinds: [any Source.Type] = SourceKinds.all, finder: (any PlaceFinder)? = nil, inode: UInt64 = rootNode,
        asks: Bool = true
    ) throws(SourceError) -> Volume {
        let name = SourceKinds.url(of: source).map { options.cacheKey.directory(of: $0) } ?? source
        let services = Services(
            ResourceURL(source), scope: store.scopeName ?? sourceDirectoryName(name), origin: origin, store: store,
            options: options, finder: finder, logger: logger)
        do throws(SourceError) {
            let opening = SourceOpening(services: services, kinds: kinds)
            if !asks, let known = opening.remembered(source) {
                let volume = Volume(known, services, inode: inode)
                volume.tree.refreshRoot()
                return volume
            }
            let opened = try opening.open(source, isMounted: !asks)
            // A line of a page is about as long as its entry.
            services.giveBackMemory(after: opened.listed?.entries.footprint ?? 0)
            return Volume(opened, services, inode: inode)
        } catch {
            services.shutdown()
            throw error
        }
    }

    private init(_ opened: SourceOpening.Opened, _ services: Services, inode: UInt64) {
        self.services = services
        files = FileTable(services)
        tree = Tree(opened, files, services, inode: inode)
        keeper = Keeper(services)
        prebuffer = Prebuffer(tree, files, keeper, services)
        opener = FileOpener(tree, files, prebuffer, services)
        commands = Maintenance(tree: tree, files: files, opener: opener, services: services)
        ahead = TreeAhead(tree)
        let isWarm = services.options.warm == .all || services.options.warm == .cheap && tree.source.listsAhead
        warming = isWarm ? FolderWalk(tree, .warm) : nil
        services.upstream.connect(tree.source, wasSigned: services.wasSigned)
        services.segments.connect(PieceLengths(files, services))
        keeper?.start(commands)
        warming?.start(at: FolderWalk.Folder(path: "", node: tree.root))
    }

    /// Notifies this cache from now on when something has changed that the kernel may have kept.
    package func connect(_ cache: any KernelCache) { services.kernel.withLock { $0 = cache } }

    /// Shows the path of the control socket as an attribute of the root.
    package func announce(socketPath path: String) { tree.announce(socketPath: path) }

    /// Fails the calls that wait, stops the requests, and ends the threads. The caller closes the store.
    package func shutdown() {
        // A thread is joined once.
        guard !isShutDown.exchange(true, ordering: .relaxed) else { return }
        prefetches.stop()
        keeper?.stop()
        // The ticker first: files that end would look idle to it.
        services.ticker.stop()
        ahead.end()
        warming?.end()
        services.upstream.resolver?.stop()
        files.shutdown()
        services.tier?.shutdown()
        services.endQueues()
    }
}

/// The calls of the kernel adapter.
extension Volume: Filesystem {
    package func lookup(
        _ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>
    ) {
        find(name, in: parent, view, isShown: true, completion)
    }

    package func findAgain(
        _ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>
    ) {
        find(name, in: parent, view, isShown: false, completion)
    }

    /// - Parameter isShown: finds only what is shown at present.
    private func find(
        _ name: String, in parent: NodeID, _ view: VolumeView, isShown: Bool, _ completion: @escaping Completion<Entry>
    ) {
        guard name.utf8.count <= 255 else { return completion(.failure(.nameTooLong)) }
        guard let node = tree.nodes[parent] else { return completion(.failure(.stale)) }
        if view == .cached { return completion(tree.cachedEntry(name, in: node, isShown: isShown)) }
        tree.listing(of: node) { [self] result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(let listed):
                guard let place = listed.entries.place(of: name), !isShown || tree.isShown(place, of: listed.entries)
                else { return completion(.failure(.notFound)) }
                tree.resolve(place, of: listed, in: node, completion)
            }
        }
    }

    package func forget(_ node: NodeID, count: UInt64) {
        tree.nodes.forget(node, count: count)
        // A kernel short of memory forgets by the ten thousand, and the daemon should do the same.
        if forgotten.add(1, ordering: .relaxed).newValue % 65_536 == 0 {
            services.giveBackMemory(after: .max)
        }
    }

    package func attributes(of id: NodeID, _ completion: @escaping Completion<Attributes>) {
        guard let node = tree.nodes.peek(id) else { return completion(.failure(.stale)) }
        completion(.success(tree.attributes(of: node)))
    }

    package func place(of id: NodeID) -> NodePlace? {
        tree.nodes.place(of: id)
    }

    package func open(
        _ id: NodeID, by thread: Int32?, _ view: VolumeView, _ completion: @escaping Completion<any FileHandle>
    ) {
        guard let node = tree.nodes[id] else { return completion(.failure(.stale)) }
        guard !node.isDirectory else { return completion(.failure(.isDirectory)) }
        switch view {
        case .whole: opener.open(node, by: thread, completion)
        case .cached: opener.openCached(node, by: thread, completion)
        }
    }

    package func reopen(_ id: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        guard let node = tree.nodes[id] else { return completion(.failure(.stale)) }
        guard !node.isDirectory else { return completion(.failure(.isDirectory)) }
        opener.reopen(node, completion)
    }

    package func supersede(_ file: any FileHandle) { opener.supersede((file as! OpenFile).node) }

    package func close(_ file: any FileHandle) {
        opener.close(file as! OpenFile)
    }

    package func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        let file = file as! OpenFile
        let remote = file.remote
        let answer =
            file.isCachedOnly
            ? remote.readCached(offset, into: buffer) : remote.read(offset, into: buffer, of: file.node.id, park: park)
        if let reads = file.cacheReads, case .read(let count) = answer { reads.add(offset, count) }
        if !file.isCachedOnly { lookAtPlay(of: file) }
        return answer
    }

    package func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes? {
        let file = file as! OpenFile
        // What is lent holds a file as it is.
        guard file.remote.growth == nil else { return nil }
        let bytes = file.remote.lend(range, of: file.node.id)
        if let bytes { file.cacheReads?.add(bytes.range.lower, Int(bytes.range.count)) }
        lookAtPlay(of: file)
        return bytes
    }

    /// Once a reader has played the file through, the next item is fetched.
    private func lookAtPlay(of file: OpenFile) {
        if file.remote.takeWantsNext() { prebuffer.played(file.node, isThere: file.remote.isPlayedFromCache) }
    }

    package func abandon(_ read: any ParkedRead, of file: any FileHandle) {
        (file as! OpenFile).remote.abandon(read)
    }

    package func openDirectory(
        _ id: NodeID, _ view: VolumeView, _ completion: @escaping Completion<any DirectoryHandle>
    ) {
        guard let node = tree.nodes[id] else { return completion(.failure(.stale)) }
        guard let directory = node.directory else { return completion(.failure(.notDirectory)) }
        let parentInode = tree.nodes.peek(node.parent)?.inode ?? node.inode
        let opened = { @Sendable [tree] (result: Result<Directory.Listed, VolumeError>) in
            completion(result.map { DirectorySnapshot(tree, node, directory, parentInode: parentInode, $0, view) })
        }
        if view == .cached { return opened(tree.knownListing(of: node)) }
        let walk = ahead.reads(node, directory)
        tree.listing(of: node) { [ahead] result in
            if let walk { ahead.answered(walk) }
            opened(result)
        }
    }

    package func capacity() -> Capacity {
        let usage = services.store.usage
        return Capacity(total: usage.cap, used: usage.used)
    }

    package func extendedAttribute(_ name: String, of id: NodeID) -> Result<[UInt8], VolumeError> {
        // `ls -l` asks for some of every file (security.selinux, system.posix_acl_access), and after this answer once.
        guard name.hasPrefix("user.") else { return .failure(.unsupported) }
        guard let node = tree.nodes.peek(id) else { return .failure(.stale) }
        return tree.extendedAttribute(name, of: node).map { .success(Array($0.utf8)) } ?? .failure(.noAttribute)
    }

    package func extendedAttributeNames(of id: NodeID) -> Result<[String], VolumeError> {
        guard let node = tree.nodes.peek(id) else { return .failure(.stale) }
        return .success(Tree.attributeNames.filter { tree.extendedAttribute($0, of: node) != nil })
    }
}
