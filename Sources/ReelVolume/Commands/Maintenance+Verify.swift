import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads

/// The check of cached bytes against their checksums, and the repair of damaged ones.
extension Maintenance {
    /// The most blocks that one request of a repair asks for: a MiB.
    private static let blocksARequest = 8

    /// Verifies everything, or one file or directory. A bad block is never served from then on; without a repair the
    /// next read fetches it again.
    /// - Parameters:
    ///   - path: inside the mount, without a leading `/`; nil for everything, listed or not.
    ///   - repairs: remove the bad blocks, fetch them again at once, and fetch nothing else.
    package func verify(
        _ path: String?, repairs: Bool, _ watch: MaintenanceWatch = MaintenanceWatch()
    ) throws(MaintenanceFailure) -> MaintenanceReport {
        let store = services.store
        var versions = try onCache { () throws(CacheError) in try store.versions() }
        if let path {
            let chosen = Set(try Selection(path, of: tree, until: watch.isOver).keys.map { ExactText($0) })
            versions.removeAll { !chosen.contains(ExactText($0.key)) }
        }
        let keys = Set(versions.map { ExactText($0.key) })
        let total = store.objects().reduce(Int64(0)) { $0 + (keys.contains(ExactText($1.key)) ? $1.cachedBytes : 0) }
        let names = tree.names
        var report = MaintenanceReport()
        // Asks an origin that is away once, not for every file.
        var isAway = false
        for version in versions where !watch.isOver() {
            let bad = try onCache { () throws(CacheError) in
                try store.verify(version) { bytes in
                    report.bytes += bytes
                    watch.progress(MaintenanceProgress(done: report.bytes, total: max(total, report.bytes)))
                    return !watch.isOver()
                }
            }
            report.files += 1
            guard !bad.isEmpty else { continue }
            report.damagedBlocks += bad.count
            report.addDamaged(names.path(ofKey: version.key) ?? url(ofKey: version.key)?.description ?? "?")
            guard repairs else { continue }
            let progress = MaintenanceProgress(done: report.bytes, total: max(total, report.bytes))
            let (refetched, error) = try repair(version, bad, fetches: !isAway, watch, progress)
            report.refetchedBlocks += refetched
            guard let error else { continue }
            report.failure = report.failure ?? error.sentence
            isAway = isAway || error.isOfOrigin
        }
        return report
    }

    /// Repairs one version. - Returns: the number of blocks that were fetched again, and why not all of them.
    private func repair(
        _ version: Version, _ bad: [Int], fetches: Bool, _ watch: MaintenanceWatch, _ progress: MaintenanceProgress
    ) throws(MaintenanceFailure) -> (refetched: Int, error: RepairFailure?) {
        // One that is open stays where it is: its key may not tell the place.
        let inUse = files.file(for: version)
        guard let url = inUse?.url ?? url(ofKey: version.key) else { return (0, .origin(.failed)) }
        let remembered = services.store.information(for: url.text)?.information
        let information =
            inUse?.information
            ?? ContentInformation(
                length: version.length, validator: version.validator, mediaType: remembered?.mediaType,
                acceptsRanges: remembered?.acceptsRanges ?? true)
        let opened = Monitor<Result<RemoteFile, VolumeError>?>(nil)
        files.open(url, information) { result in opened.withLock { $0 = result } }
        let file: RemoteFile
        // The version is known, so this waits for no request, only for a file that is just leaving.
        switch opened.wait({ $0 }) {
        case .success(let found): file = found
        case .failure(let error): return (0, .origin(error))
        }
        defer { files.close(file) }
        let isDropped = try onWriter(watch, progress) { () throws(CacheError) in file.dropDamaged(bad) }
        guard isDropped else { return (0, .inUse) }
        var refetched = 0
        for run in runs(of: bad, most: Self.blocksARequest) where fetches {
            let read = file.refetch(run)
            do throws(MaintenanceFailure) {
                switch try watch.wait(for: read.answer, progress) {
                case .success: refetched += run.count
                case .failure(let error): return (refetched, .origin(error))
                }
            } catch {
                file.abandon(read)
                throw error
            }
        }
        return (refetched, nil)
    }

    /// The URL of a key, with the credentials of the source where both are of the same origin.
    private func url(ofKey key: String) -> ResourceURL? {
        if let entry = tree.rootEntries.first(where: { ExactText(services.keys.key(of: $0)) == ExactText(key) }) {
            return entry.url
        }
        return tree.source.root.url?.resolve(key) ?? ResourceURL(trusted: key)
    }
}

/// Why damaged blocks were not fetched again.
private enum RepairFailure: Error {
    case origin(VolumeError)
    /// Another program reads the data file itself, and would read a hole.
    case inUse

    /// Whether the next file will fare no better.
    var isOfOrigin: Bool {
        if case .origin(let error) = self { [.unreachable, .timedOut, .failed].contains(error) } else { false }
    }

    var sentence: String {
        switch self {
        case .origin(let error): error.sentence
        case .inUse: "another program has a damaged file open, and its blocks can only be replaced when it is closed"
        }
    }
}

extension VolumeError {
    /// Why bytes did not come.
    var sentence: String {
        switch self {
        case .offline: "the origin is away"
        case .unreachable: "the origin cannot be reached"
        case .timedOut: "the origin did not answer in time"
        case .accessDenied: "the origin refuses access"
        case .stale: "the origin has another version by now"
        default: "the origin did not give the bytes"
        }
    }
}
