import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// What a person does with a mount's cache while it runs: look, pin, evict, prune. Each call may take a while, and is
/// for a thread that may.
extension Volume {
    /// Everything of which something is cached, or that is open or pinned; the last used first.
    package func cachedFiles() -> [CachedFile] {
        let names = names
        let handles = Dictionary(files.all.map { (ExactText($0.url.text), $0.openHandles) }, uniquingKeysWith: +)
        return services.store.cachedFiles(names, openHandles: handles)
    }

    /// Pins files, or no longer: those that are pinned are never evicted of themselves. What a directory names is what
    /// is listed, or cached, below it at this moment; files that come later are not pinned by it.
    /// - Parameter path: inside the mount, without a leading `/`; empty for all of it.
    package func pin(_ path: String, _ isPinned: Bool, _ watch: CareWatch = CareWatch()) throws(CareFailure)
        -> CareReport
    {
        let chosen = try choose(path, watch)
        var report = CareReport()
        report.unlistedDirectories = isPinned ? chosen.unlisted : 0
        var rest = chosen.keys[...]
        while !rest.isEmpty, !watch.isOver() {
            // A transaction each: what the streams have to write waits for it.
            let share = rest.prefix(1000)
            rest = rest.dropFirst(share.count)
            try careful { () throws(CacheError) in try services.store.pin(share, isPinned) }
            report.files += share.count
        }
        return report
    }

    /// Frees what is cached of files, pinned or not. What the readers of an open file need right now stays.
    package func evict(_ path: String, _ watch: CareWatch = CareWatch()) throws(CareFailure) -> CareReport {
        let chosen = try choose(path, watch)
        let cached = Set(services.store.objects().filter { $0.cachedBytes > 0 }.map { ExactText($0.key) })
        var report = CareReport()
        for key in chosen.keys where cached.contains(ExactText(key)) {
            let store = services.store
            let freed = try onWriter(watch) { () throws(CacheError) in try store.evict(key: key) }
            report.bytes += freed
            report.files += freed > 0 ? 1 : 0
            if watch.isOver() { break }
        }
        return report
    }

    /// Evicts, the longest unused first, until at most `bytes` are in use; what is pinned or open stays.
    package func prune(to bytes: Int64, _ watch: CareWatch = CareWatch()) throws(CareFailure) -> CareReport {
        var report = CareReport()
        let bytes = max(0, bytes)
        let surplus = max(0, services.store.usage.used - bytes)
        let store = services.store
        while true {
            watch.progress(CareProgress(done: min(report.bytes, surplus), total: surplus))
            let freed = try onWriter(watch) { () throws(CacheError) in try store.prune(to: bytes) }
            report.bytes += freed
            guard freed > 0, !watch.isOver() else { return report }
        }
    }

    var names: MountNames {
        MountNames(root: rootURL, entries: root.directory?.state.withLock { $0.listing?.entries } ?? EntryList([]))
    }

    // MARK: Helpers

    /// Does a job on the thread that writes, and waits for it.
    func onWriter<Value: Sendable>(
        _ watch: CareWatch, _ progress: CareProgress? = nil, _ job: @escaping @Sendable () throws(CacheError) -> Value
    ) throws(CareFailure) -> Value {
        let answer = Monitor<Result<Value, CacheError>?>(nil)
        services.origin.perform {
            let result = Result { () throws(CacheError) in try job() }
            answer.withLock { $0 = result }
        }
        let result = try wait(watch, progress, answer)
        return try careful { () throws(CacheError) in try result.get() }
    }

    /// - Parameter progress: told again while nothing happens.
    func wait<Value: Sendable>(
        _ watch: CareWatch, _ progress: CareProgress?, _ answer: Monitor<Value?>
    ) throws(CareFailure) -> Value {
        while true {
            if let value = answer.wait(atMost: .milliseconds(200), { $0 }) { return value }
            if watch.isOver() { throw CareFailure("it was ended before its time") }
            watch.progress(progress ?? CareProgress(done: 0, total: 0))
        }
    }

    func careful<Value>(_ body: () throws(CacheError) -> Value) throws(CareFailure) -> Value {
        do throws(CacheError) { return try body() } catch { throw CareFailure("\(error)") }
    }
}
