import Logging
import ReelCache
import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// The filesystem: joins a source's tree, the cache and the origin.
///
/// `Volume+Listing` resolves names, `Volume+Open` finds out which version of a file to open, `RemoteFile` reads.
package final class Volume: Sendable {
    let services: Services
    let source: any Source
    let files: FileTable
    let nodes: NodeTable
    let prober: Prober
    let health: ListingHealth
    /// Files of which the origin has said "no such thing" once, and when it first did (on the clock of `now()`).
    let missing = Mutex<[String: Duration]>([:])
    /// Answered as `user.reelfs.socket` on the root; nil: no such attribute.
    let socketPath = Mutex<String?>(nil)
    let prebuffer: Prebuffer
    let root: Node
    /// Where the tree hangs: names shown in `status` are relative to it.
    let rootURL: ResourceURL?
    /// Seconds since 1970: the date of what has none. The source's first mount, so that it stays.
    let firstMountedAt: Int64
    /// Calls of `forget`.
    let forgotten = Atomic<Int>(0)
    private let isShutDown = Atomic(false)

    /// Finds out what the source is, from the origin or from memory, and blocks so long: nothing is mounted yet.
    /// - Parameter source: an http(s) URL, or the path of a list.
    package static func open(
        _ source: String, origin: any Origin, store: Store, options: VolumeOptions = VolumeOptions(), logger: Logger,
        kinds: [any Source.Type] = SourceKinds.all
    ) throws(SourceError) -> Volume {
        let services = Services(origin: origin, store: store, options: options, logger: logger)
        do throws(SourceError) {
            let opened = try SourceOpening(services: services, kinds: kinds).open(source)
            // A line of a page and its entry are about as long as each other.
            services.giveBackMemory(after: opened.listed?.entries.footprint ?? 0)
            return Volume(opened, services)
        } catch {
            services.shutdown()
            throw error
        }
    }

    init(_ opened: SourceOpening.Opened, _ services: Services) {
        self.services = services
        source = opened.source
        files = FileTable(services)
        prober = Prober(files, services)
        firstMountedAt = services.store.setting("mounted").flatMap { decimal($0) } ?? wallClock()
        services.store.set("mounted", "\(firstMountedAt)")
        health = ListingHealth(refresh: services.options.refresh)
        prebuffer = Prebuffer(files, services)
        let isQueue = source.isQueue(source.root)
        rootURL = isQueue ? nil : source.root.url
        root = Node(
            id: rootNode, parent: rootNode, name: "", inode: rootNode, place: source.root, isDirectory: true,
            listed: Node.Facts())
        nodes = NodeTable(root: root)
        prebuffer.connect(nodes, source)
        services.origin.connect(source)
        var listed = opened.listed.map { Directory.Listed($0.entries, fetchedAt: wallClock(), mark: $0.mark) }
        if listed == nil, isQueue {
            // What its files are called nothing else tells.
            listed = services.store.entries(at: source.root).map {
                Directory.Listed($0.entries, fetchedAt: $0.fetchedAt)
            }
        }
        root.directory?.state.withLock { $0.listing = listed }
    }

    /// Who is told when something that the kernel may have cached has changed.
    package func connect(_ cache: any KernelCache) { services.kernel.withLock { $0 = cache } }

    var kernelCache: (any KernelCache)? { services.kernel.withLock { $0 } }

    /// Where whoever serves the mount can be talked to.
    package func announce(socketPath path: String) { socketPath.withLock { $0 = path } }

    /// Fails what waits, stops what runs, ends the threads. The store is the caller's to close.
    package func shutdown() {
        // A thread is joined once.
        guard !isShutDown.exchange(true, ordering: .relaxed) else { return }
        // The clock first: what it would find idle now is not over, but ended.
        services.ticker.stop()
        for file in files.all { file.shutdown() }
        services.endLines()
    }

    // MARK: Attributes

    func attributes(of node: Node) -> Attributes {
        let information = node.state.withLock { $0.information }
        let cached = node.isDirectory ? 0 : cachedBytes(node, information)
        let listedAt = node.directory?.state.withLock { $0.listing?.changedAt }
        let shown = node.shown
        let modified = node.isDirectory ? nodes.modified(node) : shown.modified
        return Attributes(
            inode: node.inode, isDirectory: node.isDirectory, length: shown.length ?? 0, cachedBytes: cached,
            modified: modified ?? listedAt ?? firstMountedAt)
    }

    func cachedBytes(_ node: Node, _ information: ContentInformation?) -> Int64 {
        guard let url = node.url else { return 0 }
        guard let information, let length = information.length else {
            return services.store.cachedBytes(of: url.text)
        }
        let version = Version(key: url.text, validator: information.validator, length: length)
        return files.file(for: version)?.cachedBytes ?? services.store.cachedBytes(of: url.text)
    }

    // MARK: Status

    package func status() -> VolumeStatus {
        let usage = services.store.usage
        let names = names
        let path: (String) -> String = { key in
            names.path(ofKey: key)
                ?? ResourceURL(key).map { String(decoding: $0.lastSegment, as: UTF8.self) } ?? "?"
        }
        var shown: [String: VolumeStatus.File] = [:]
        for object in services.store.objects() {
            shown[object.key] = VolumeStatus.File(
                path: path(object.key), length: object.length, cachedBytes: object.cachedBytes, openHandles: 0,
                rate: 0)
        }
        // Of several under one URL the one that an open gets is shown.
        for file in files.all.reversed() {
            shown[file.url.text] = VolumeStatus.File(
                path: path(file.url.text), length: file.isOpenEnded ? nil : file.length,
                cachedBytes: file.cachedBytes, openHandles: file.openHandles, rate: file.rate)
        }
        let sorted = shown.values.sorted {
            ($0.openHandles == 0 ? 1 : 0, $0.path) < ($1.openHandles == 0 ? 1 : 0, $1.path)
        }
        return VolumeStatus(
            cacheUsed: usage.used, cacheCap: usage.cap, cacheFailure: services.store.failure.map { "\($0)" },
            bytesInMemory: services.store.bytesInMemory, damagedBlocks: services.store.damagedBlocks,
            bytesFromOrigin: services.counters.bytesFromOrigin.load(ordering: .relaxed),
            bytesServed: services.counters.bytesServed.load(ordering: .relaxed),
            hits: services.counters.hits.load(ordering: .relaxed),
            misses: services.counters.misses.load(ordering: .relaxed),
            demanded: services.counters.demanded.load(ordering: .relaxed),
            speculative: services.counters.speculative.load(ordering: .relaxed), wasted: wasted,
            outages: services.origin.outages.map {
                VolumeStatus.Outage(origin: $0.origin, kind: $0.outage.rawValue, since: $0.since)
            },
            staleDirectories: health.marked.prefix(500).map {
                VolumeStatus.StaleDirectory(path: path($0.key), trouble: $0.trouble, since: $0.since)
            }, files: Array(sorted.prefix(500)))
    }

    private var wasted: Int64 {
        services.counters.wasted.load(ordering: .relaxed) + files.unreadInVain
    }
}
