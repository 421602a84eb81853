import Glibc
import ReelCache
import ReelCore
import ReelVolume

/// One source's directory in a cache: its daemon does the work, or this process where the source is not mounted.
final class CacheKeeper {
    private enum Access {
        case daemon(ControlClient)
        case directory(Store)
        /// Why there is none.
        case none(String)
    }

    private let directory: String
    private var access: Access

    /// The directories of all sources, sorted; none where there is no such cache.
    /// - Parameter root: the cache directory; nil for the default of `reelfs mount`.
    static func directories(_ root: String?) throws(Failure) -> [String] {
        let path = try place(root)
        do throws(PathError) {
            close(try openTrusted(path, O_RDONLY | O_DIRECTORY))
        } catch {
            if case .untrusted = error { throw .mount("the cache directory \(shown(path)): \(error)") }
        }
        guard names(in: path) != nil else {
            if errno == ENOENT, root == nil { return [] }
            throw .mount("the cache directory \(shown(path)): \(reason())")
        }
        return CacheKeyFile.sourceDirectories(path).sorted().map { path + "/" + $0 }
    }

    /// The cache directory, absolute.
    static func place(_ root: String?) throws(Failure) -> String {
        if let root { absolute(root) } else { try SourceDirectory.standard() }
    }

    /// Holds the lock of a directory that is not mounted, so that it cannot be mounted meanwhile.
    /// - Parameter cipher: of an encrypted cache, where its key was given.
    init(_ directory: String, _ cipher: CacheCipher? = nil) {
        self.directory = directory
        var status = stat()
        // Root would leave files behind that their owner cannot use.
        if lstat(directory, &status) == 0, status.st_uid != geteuid() {
            access = .none("it belongs to another user")
        } else if let client = try? ControlClient(path: directory + "/control") {
            // A daemon that works answers this at once; one that does not is not asked for more.
            access = client.ask(.status) != nil ? .daemon(client) : .none(ControlClient.silence)
        } else {
            do throws(CacheError) {
                access = .directory(try Store(existing: directory, cipher: cipher))
            } catch {
                switch error {
                case .inUse(""): access = .none("another reelfs uses it at the moment; try again")
                case .inUse(let mountpoint):
                    access = .none("the daemon of \(mountpoint) uses it and does not answer")
                default: access = .none("\(error)")
                }
            }
        }
    }

    deinit { if case .directory(let store) = access { store.close() } }

    /// Whether a repair only removes damaged blocks, as nothing can fetch them.
    var isOffline: Bool { if case .directory = access { true } else { false } }

    /// The source and its cached files; with `error` where neither daemon nor directory can be asked.
    func list() -> CacheStatus {
        switch access {
        case .none(let reason): return CacheStatus(error: "\(printable(directory)): \(reason)")
        case .directory(let store):
            return CacheStatus(
                source: store.source, used: store.usage.used, files: store.cachedFiles(MountNames(store)))
        case .daemon(let client):
            var files: [CachedFile] = []
            do throws(Failure) {
                var status: CacheStatus = try client.result(of: .list) { files += $0.value() ?? [] }
                status.files = files
                return status
            } catch {
                return CacheStatus(error: "\(printable(directory)): \(error.sentence)")
            }
        }
    }

    /// Removes the least recently used data until `bytes` are freed; of a source of which nothing is known, all. The
    /// last call.
    func prune(freeing bytes: Int64, _ progress: (MaintenanceProgress) -> Void) throws(Failure) -> MaintenanceReport {
        var report = try perform(.prune(.freeing(bytes)), progress) { store throws(CacheError) in
            try MaintenanceReport.pruning(bytes, of: store.usage.used, progress) { (rest) throws(CacheError) in
                try store.prune(freeing: rest)
            }
        }
        if case .directory(let store) = access {
            report.bytes &+= store.closeUnused()
            access = .none("it is closed")
        }
        return report
    }

    /// Verifies all checksums. - Parameter repairs: fetch damaged blocks again, or drop them; see ``isOffline``.
    func verify(repairs: Bool, _ progress: (MaintenanceProgress) -> Void) throws(Failure) -> MaintenanceReport {
        try perform(.verify(repairs: repairs), progress) { store throws(CacheError) in
            try store.verifyAll(repairs: repairs, progress)
        }
    }

    /// - Parameter here: does the work in this process, where there is no daemon.
    private func perform(
        _ request: ControlRequest, _ progress: (MaintenanceProgress) -> Void,
        here: (Store) throws(CacheError) -> MaintenanceReport
    ) throws(Failure) -> MaintenanceReport {
        switch access {
        case .daemon(let client): return try client.report(request, progress)
        case .none(let reason): throw .mount("\(printable(directory)): \(reason)")
        case .directory(let store):
            do throws(CacheError) {
                return try here(store)
            } catch {
                throw .mount("\(printable(directory)): \(error)")
            }
        }
    }
}

extension Store {
    fileprivate func verifyAll(
        repairs: Bool, _ progress: (MaintenanceProgress) -> Void
    ) throws(CacheError) -> MaintenanceReport {
        let names = MountNames(self)
        let total = objects().reduce(Int64(0)) { $0 + $1.cachedBytes }
        var report = MaintenanceReport()
        for version in try versions() {
            let bad = try verify(version) { bytes in
                report.bytes += bytes
                progress(MaintenanceProgress(done: report.bytes, total: max(total, report.bytes)))
                return true
            }
            report.files += 1
            guard !bad.isEmpty else { continue }
            report.damagedBlocks += bad.count
            report.addDamaged(
                names.path(ofKey: version.key)
                    ?? ResourceURL(trusted: splitScope(ofKey: version.key).key)?.description ?? "?")
            if repairs { try lose(bad, of: version) }
        }
        return report
    }
}
