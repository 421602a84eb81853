import ReelCore
import ReelFilesystem

/// What a mount shows of a volume.
package enum VolumeView: Sendable {
    case whole
    /// What is cached whole. Nothing is asked for, also by reads of files that are opened in it.
    case cached
}

/// A filesystem with a cache and commands, as the program mounts it: of one source (`Volume`), or of the sources of a
/// catalogue (`CatalogueVolume`).
package protocol MountedVolume: Filesystem {
    /// The commands on the mount's cache.
    var maintenance: any CacheCommands { get }

    /// The prefetches of the mount.
    var prefetches: PrefetchJobs { get }

    // The calls of `Filesystem` in one view.
    func lookup(_ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>)
    func findAgain(_ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>)
    func open(
        _ node: NodeID, by thread: Int32?, _ view: VolumeView, _ completion: @escaping Completion<any FileHandle>)
    func readLink(_ node: NodeID, _ view: VolumeView, _ completion: @escaping Completion<String>)
    func openDirectory(_ node: NodeID, _ view: VolumeView, _ completion: @escaping Completion<any DirectoryHandle>)

    /// Notifies this cache from now on when something has changed that the kernel may have kept.
    func connect(_ cache: any KernelCache)

    /// Shows the path of the control socket as an attribute of the root.
    func announce(socketPath path: String)

    /// Whether all that the tree shows is as new as it should be, and can be fetched.
    var isTrusted: Bool { get }

    /// The line of the mount, with the limit of its rate.
    var line: Line { get }

    /// Asks for nothing from now on, and shows only what plays to its end without the network; or ends that.
    func setOffline(_ isOffline: Bool)

    /// The state that `reelfs status` and `/metrics` show.
    func status() -> VolumeStatus

    /// The last requests that failed, the oldest first.
    var lastFailures: [RequestRecord] { get }

    /// What the line has brought so far. Waits for no disk.
    func lineProgress() -> LineProgress

    /// Fails the calls that wait, stops the requests, and ends the threads. The caller closes the store.
    func shutdown()
}

extension MountedVolume {
    package func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        lookup(name, in: parent, .whole, completion)
    }
    package func findAgain(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        findAgain(name, in: parent, .whole, completion)
    }
    package func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        open(node, by: thread, .whole, completion)
    }
    package func readLink(_ node: NodeID, _ completion: @escaping Completion<String>) {
        readLink(node, .whole, completion)
    }
    package func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        openDirectory(node, .whole, completion)
    }
}

extension Volume: MountedVolume {
    package var maintenance: any CacheCommands { commands }
    package var lastFailures: [RequestRecord] { services.upstream.failures.all }
    package var isTrusted: Bool {
        let outages = services.transport.outages.filter { services.upstream.mirrors?.onlyOfShared($0.origin) != true }
        return !isOffline && outages.isEmpty && tree.refresher.health.isWell
    }
}

/// The commands on a mount's cache while it runs. Each call may take a while, so its thread must be allowed to wait.
package protocol CacheCommands: Sendable {
    /// All files that are cached in part, open or pinned; the last used first.
    func cachedFiles() -> [CachedFile]

    /// Pins files or unpins them; a pinned file leaves the cache only by command. A directory stands for the files that
    /// are listed or cached below it at this moment, and for none that come later.
    /// - Parameter path: inside the mount, without a leading `/`; empty for all of it.
    /// - Throws: a sentence for the user: the path is not listed, or the index failed.
    func pin(_ path: String, _ isPinned: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport

    /// Frees the cached bytes of files, pinned or not, except for those that readers need at this moment.
    func evict(_ path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> MaintenanceReport

    /// Evicts the longest unused data until `bytes` are freed; pinned and open files stay.
    func prune(freeing bytes: Int64, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> MaintenanceReport

    /// Reports from memory what was fetched of a file, or for the listing of a directory.
    /// - Parameter path: inside the mount, without a leading `/`.
    /// - Throws: a sentence for the user: the path is not listed.
    func explain(_ path: String) throws(MaintenanceFailure) -> Explanation

    /// Reports what the remembered listings hold, without a request.
    /// - Parameter isOver: true ends the search early.
    /// - Throws: a sentence for the user: the path is not listed.
    func contents(_ query: FolderQuery, until isOver: () -> Bool) throws(MaintenanceFailure) -> FolderContents

    /// Lists a directory again now; it keeps what it had where that fails. A file stands for its directory.
    /// - Parameters:
    ///   - path: inside the mount, without a leading `/`; empty for its root.
    ///   - isRecursive: all directories below it, too.
    /// - Returns: a report with a sentence for each directory that could not be listed.
    /// - Throws: a sentence for the user: there is no such path.
    func refresh(_ path: String, isRecursive: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport

    /// Has each directory listed again at the next look at it, however young its listing is.
    func expireListings()

    /// The places of a path in the mount's sources, each with the commands on that source's files.
    /// - Throws: a sentence for the user: a source cannot be opened.
    func places(of path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> [SourcePath]

    /// Bytes of files that stay in the cache. - Parameter arePinned: all of them.
    func cacheCapacity(arePinned: Bool) -> Int64

    /// The cached bytes that only a command evicts.
    var pinnedBytes: Int64 { get }

    /// Verifies everything, or one file or directory. A bad block is never served from then on; without a repair the
    /// next read fetches it again.
    /// - Parameters:
    ///   - path: inside the mount, without a leading `/`; nil for everything, listed or not.
    ///   - repairs: remove the bad blocks, fetch them again at once, and fetch nothing else.
    func verify(_ path: String?, repairs: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport
}

extension CacheCommands {
    /// Without a client that follows the work.
    package func pin(_ path: String, _ isPinned: Bool) throws(MaintenanceFailure) -> MaintenanceReport {
        try pin(path, isPinned, MaintenanceWatch())
    }

    /// Without a client that follows the work.
    package func evict(_ path: String) throws(MaintenanceFailure) -> MaintenanceReport {
        try evict(path, MaintenanceWatch())
    }

    /// Without a client that follows the work.
    package func prune(freeing bytes: Int64) throws(MaintenanceFailure) -> MaintenanceReport {
        try prune(freeing: bytes, MaintenanceWatch())
    }

    /// Without a client that follows the work.
    package func refresh(_ path: String, isRecursive: Bool) throws(MaintenanceFailure) -> MaintenanceReport {
        try refresh(path, isRecursive: isRecursive, MaintenanceWatch())
    }

    /// Without a client that follows the work.
    package func verify(_ path: String?, repairs: Bool) throws(MaintenanceFailure) -> MaintenanceReport {
        try verify(path, repairs: repairs, MaintenanceWatch())
    }
}
