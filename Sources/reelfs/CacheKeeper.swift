import Glibc
import ReelCache
import ReelCore
import ReelVolume

/// Who can be asked about one source's part of a cache directory: its daemon, or, where nothing is mounted from it, the
/// directory itself.
final class CacheKeeper {
    private enum Way {
        case daemon(Connection)
        case directory(Store)
        case none(String)
    }

    private final class Connection {
        let client: ControlClient
        init(_ client: consuming ControlClient) { self.client = client }
    }

    let directory: String
    private let way: Way

    /// The directories of all sources, in order; none where there is no such cache.
    /// - Parameter root: the cache directory; nil for the one that `reelfs mount` takes.
    static func directories(_ root: String?) throws(Failure) -> [String] {
        let path: String
        if let root { path = absolute(root) } else { path = try SourceDirectory.standard() }
        do throws(PathError) {
            close(try openTrusted(path, O_RDONLY | O_DIRECTORY))
        } catch {
            if case .untrusted = error { throw .mount("the cache directory \(shown(path)): \(error)") }
        }
        guard let stream = opendir(path) else {
            if errno == ENOENT, root == nil { return [] }
            throw .mount("the cache directory \(shown(path)): \(reason())")
        }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if isSource(path, name) { names.append(name) }
        }
        return names.sorted().map { path + "/" + $0 }
    }

    /// Only what has our form: everything else in a cache directory is somebody else's.
    private static func isSource(_ root: String, _ name: String) -> Bool {
        var status = stat()
        guard name.utf8.count == 32, name.utf8.allSatisfy({ "0123456789abcdef".utf8.contains($0) }),
            lstat("\(root)/\(name)/index.sqlite", &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            lstat("\(root)/\(name)", &status) == 0
        else { return false }
        return status.st_mode & S_IFMT == S_IFDIR
    }

    /// Holds the lock of a directory that nobody has mounted: nobody can mount it meanwhile.
    init(_ directory: String) {
        self.directory = directory
        var status = stat()
        // Root would leave files behind that their owner cannot use.
        if lstat(directory, &status) == 0, status.st_uid != geteuid() {
            way = .none("it belongs to another user")
        } else if let client = ControlClient(path: directory + "/control") {
            // Answered at once by a daemon that lives: what takes longer is not asked of a dead one.
            way = client.ask("status") != nil ? .daemon(Connection(client)) : .none(Self.silence)
        } else {
            do throws(CacheError) {
                way = .directory(try Store(existing: directory))
            } catch {
                switch error {
                case .inUse(""): way = .none("another reelfs uses it at the moment; try again")
                case .inUse(let mountpoint):
                    way = .none("the daemon of \(mountpoint) uses it and does not answer")
                default: way = .none(String("\(error)".dropLast()))
                }
            }
        }
    }

    deinit { if case .directory(let store) = way { store.close() } }

    /// True where a repair cannot fetch: bad blocks are only taken out.
    var isOffline: Bool { if case .directory = way { true } else { false } }

    func list() -> CacheStatus {
        switch way {
        case .none(let reason): return CacheStatus(error: "\(printable(directory)): \(reason)")
        case .directory(let store):
            return CacheStatus(
                source: store.source, used: store.usage.used, files: store.cachedFiles(MountNames(store)))
        case .daemon(let connection):
            var files: [CachedFile] = []
            let answer = connection.client.ask(ControlRequest(command: "list")) { files += $0.files ?? [] }
            guard var status = answer?.cache else {
                return CacheStatus(error: "\(printable(directory)): \(answer?.error ?? Self.silence)")
            }
            status.files = files
            return status
        }
    }

    func prune(to bytes: Int64, _ progress: @escaping (MaintenanceProgress) -> Void) throws(Failure)
        -> MaintenanceReport
    {
        guard case .directory(let store) = way else {
            return try ask(ControlRequest(command: "prune", bytes: bytes), progress)
        }
        return try onStore { () throws(CacheError) in
            var report = MaintenanceReport()
            let surplus = max(0, store.usage.used - bytes)
            while true {
                progress(MaintenanceProgress(done: min(report.bytes, surplus), total: surplus))
                let freed = try store.prune(to: bytes)
                guard freed > 0 else { return report }
                report.bytes += freed
            }
        }
    }

    func verify(repairs: Bool, _ progress: @escaping (MaintenanceProgress) -> Void) throws(Failure) -> MaintenanceReport
    {
        guard case .directory(let store) = way else {
            return try ask(ControlRequest(command: "verify", repairs: repairs), progress)
        }
        return try onStore { () throws(CacheError) in try store.verifyAll(repairs: repairs, progress) }
    }

    private func ask(
        _ request: ControlRequest, _ progress: @escaping (MaintenanceProgress) -> Void
    ) throws(Failure) -> MaintenanceReport {
        switch way {
        case .daemon(let connection): return try connection.client.report(request, progress)
        case .none(let reason): throw .mount("\(printable(directory)): \(reason)")
        case .directory: throw .mount("\(printable(directory)): \(Self.silence)")
        }
    }

    private func onStore(_ body: () throws(CacheError) -> MaintenanceReport) throws(Failure) -> MaintenanceReport {
        do throws(CacheError) { return try body() } catch { throw .mount("\(printable(directory)): \(error)") }
    }

    static let silence = "the daemon does not answer"
}

extension ControlClient {
    borrowing func report(
        _ request: ControlRequest, _ progress: (MaintenanceProgress) -> Void = { _ in }
    ) throws(Failure) -> MaintenanceReport {
        let answer = ask(request) { if let news = $0.progress { progress(news) } }
        if let report = answer?.report { return report }
        throw .mount(answer?.error ?? CacheKeeper.silence)
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
            report.addDamaged(names.path(ofKey: version.key) ?? ResourceURL(version.key)?.description ?? "?")
            if repairs { try lose(bad, of: version) }
        }
        return report
    }
}
