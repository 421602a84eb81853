import ReelCache
import ReelCore
import ReelThreads

/// The commands on a mount's cache while it runs: list, pin, evict, prune, verify. Each call may take a while, so its
/// thread must be allowed to wait.
package struct Maintenance: CacheCommands {
    let tree: Tree
    let files: FileTable
    let opener: FileOpener
    let services: Services

    /// All files that are cached in part, open or pinned; the last used first.
    package func cachedFiles() -> [CachedFile] {
        let names = tree.names
        let handles = Dictionary(
            files.all.map { (ExactText($0.object.version.key), $0.openHandles) }, uniquingKeysWith: +)
        return services.store.cachedFiles(names, openHandles: handles)
    }

    /// Pins files or unpins them; a pinned file leaves the cache only by command. A directory stands for the files that
    /// are listed or cached below it at this moment, and for none that come later.
    /// - Parameter path: inside the mount, without a leading `/`; empty for all of it.
    /// - Throws: a sentence for the user: the path is not listed, or the index failed.
    package func pin(_ path: String, _ isPinned: Bool, _ watch: MaintenanceWatch = MaintenanceWatch())
        throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        let chosen = try Selection(path, of: tree, until: watch.isOver)
        var report = MaintenanceReport()
        report.unlistedDirectories = isPinned ? chosen.unlisted : 0
        var rest = chosen.keys[...]
        while !rest.isEmpty, !watch.isOver() {
            // One transaction a thousand, as the writes of the streams wait for it.
            let share = rest.prefix(1000)
            rest = rest.dropFirst(share.count)
            try onCache { () throws(CacheError) in try services.store.pin(share, isPinned) }
            report.files += share.count
        }
        return report
    }

    /// Frees the cached bytes of files, pinned or not, except for those that readers need at this moment.
    package func evict(_ path: String, _ watch: MaintenanceWatch = MaintenanceWatch()) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        let chosen = try Selection(path, of: tree, until: watch.isOver)
        let cached = Set(services.store.objects().filter { $0.cachedBytes > 0 }.map { ExactText($0.key) })
        var report = MaintenanceReport()
        let store = services.store
        for key in chosen.keys where cached.contains(ExactText(key)) {
            let freed = try onWriter(watch) { () throws(CacheError) in try store.evict(key: key) }
            // Many files may take longer together than a client waits for a word.
            watch.progress(MaintenanceProgress(done: 0, total: 0))
            report.bytes += freed
            report.files += freed > 0 ? 1 : 0
            if watch.isOver() { break }
        }
        return report
    }

    /// Evicts the longest unused data until `bytes` are freed; pinned and open files stay.
    package func prune(freeing bytes: Int64, _ watch: MaintenanceWatch = MaintenanceWatch()) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        let store = services.store
        return try MaintenanceReport.pruning(bytes, of: store.usage.used, watch.progress, isOver: watch.isOver) {
            (rest) throws(MaintenanceFailure) in
            try onWriter(watch) { () throws(CacheError) in try store.prune(freeing: rest) }
        }
    }

    // MARK: Helpers

    /// Does a job on the thread that writes, and waits for it.
    func onWriter<Value: Sendable>(
        _ watch: MaintenanceWatch, _ progress: MaintenanceProgress? = nil,
        _ job: @escaping @Sendable () throws(CacheError) -> Value
    ) throws(MaintenanceFailure) -> Value {
        let answer = Monitor<Result<Value, CacheError>?>(nil)
        services.transport.perform {
            let result = Result { () throws(CacheError) in try job() }
            answer.withLock { $0 = result }
        }
        let result = try watch.wait(for: answer, progress, unless: { services.ticker.isOver })
        return try onCache { () throws(CacheError) in try result.get() }
    }
}

extension CacheCommands {
    /// Makes an error of the cache one of maintenance.
    func onCache<Value>(_ body: () throws(CacheError) -> Value) throws(MaintenanceFailure) -> Value {
        do throws(CacheError) { return try body() } catch { throw MaintenanceFailure("\(error)") }
    }
}
