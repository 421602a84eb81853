import ReelCache
import ReelCore

/// The commands on the cache of a catalogue: each goes to the sources that its path stands for.
struct CatalogueCommands: CacheCommands {
    let sources: [CatalogueSource]
    let store: Store
    let gate: WriterGate

    func cachedFiles() -> [CachedFile] {
        let all = sources.flatMap { source in
            (source.volume?.commands.cachedFiles() ?? []).map { file in
                var file = file
                file.path = file.path.map { source.entry.name + "/" + $0 }
                return file
            }
        }
        return all.sorted { $0.lastUse ?? 0 > $1.lastUse ?? 0 }
    }

    func pin(_ path: String, _ isPinned: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        try each(path, watch) { (commands, rest) throws(MaintenanceFailure) in
            try commands.pin(rest ?? "", isPinned, watch)
        }
    }

    func evict(_ path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> MaintenanceReport {
        try each(path, watch) { (commands, rest) throws(MaintenanceFailure) in try commands.evict(rest ?? "", watch) }
    }

    func explain(_ path: String) throws(MaintenanceFailure) -> Explanation {
        let names = path.split(separator: "/").map { String($0) }
        let source = sources.first { source in
            names.count >= source.entry.path.count
                && zip(source.entry.path, names).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
        }
        guard let source, let volume = source.volume else {
            throw MaintenanceFailure("\(path.isEmpty ? "the root" : path) is in no source that is mounted")
        }
        var told: Explanation
        do throws(MaintenanceFailure) {
            told = try volume.commands.explain(names.dropFirst(source.entry.path.count).joined(separator: "/"))
        } catch {
            // It names the path in the source.
            throw MaintenanceFailure("\(source.entry.name)/\(error)")
        }
        told.path = path
        return told
    }

    func verify(_ path: String?, repairs: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        try each(path ?? "", watch) { (commands, rest) throws(MaintenanceFailure) in
            try commands.verify(rest, repairs: repairs, watch)
        }
    }

    func prune(to bytes: Int64, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> MaintenanceReport {
        let bytes = max(0, bytes)
        let surplus = max(0, store.usage.used - bytes)
        var report = MaintenanceReport()
        while true {
            watch.progress(MaintenanceProgress(done: min(report.bytes, surplus), total: surplus))
            let freed: Int64
            do throws(CacheError) {
                freed = try gate.pass { Result { () throws(CacheError) in try store.prune(to: bytes) } }.get()
            } catch {
                throw MaintenanceFailure("\(error)")
            }
            report.bytes += freed
            guard freed > 0, !watch.isOver() else { return report }
        }
    }

    /// - Parameter body: gets the path in the source; nil: all of it.
    private func each(
        _ path: String, _ watch: MaintenanceWatch,
        _ body: (Maintenance, String?) throws(MaintenanceFailure) -> MaintenanceReport
    ) throws(MaintenanceFailure) -> MaintenanceReport {
        let names = path.split(separator: "/").map { String($0) }
        let chosen = sources.filter { source in
            zip(source.entry.path, names).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
        }
        guard !chosen.isEmpty || names.isEmpty else { throw MaintenanceFailure("\(path) is not listed in the mount") }
        var report = MaintenanceReport()
        for source in chosen where !watch.isOver() {
            let rest = names.dropFirst(source.entry.path.count)
            guard let volume = source.volume else {
                guard rest.isEmpty else { throw MaintenanceFailure("\(path) is not listed in the mount") }
                report.unlistedDirectories += 1
                continue
            }
            var part: MaintenanceReport
            do throws(MaintenanceFailure) {
                part = try body(volume.commands, rest.isEmpty ? nil : rest.joined(separator: "/"))
            } catch {
                // It names the path in the source.
                guard rest.isEmpty else { throw MaintenanceFailure("\(source.entry.name)/\(error)") }
                throw error
            }
            part.damagedFiles = part.damagedFiles.map { source.entry.name + "/" + $0 }
            report.add(part)
        }
        return report
    }
}

/// The state of all sources together.
func catalogueStatus(_ sources: [CatalogueSource], _ store: Store) -> VolumeStatus {
    let usage = store.usage
    var status = VolumeStatus(
        cacheUsed: usage.used, cacheCap: usage.cap, cacheFailure: store.failure.map { "\($0)" },
        isEncrypted: store.isEncrypted,
        bytesInMemory: store.bytesInMemory, damagedBlocks: store.damagedBlocks, bytesFromOrigin: 0, bytesServed: 0,
        hits: 0, misses: 0, demanded: 0, speculative: 0, wasted: 0, files: [])
    var origins: Set<String> = []
    for source in sources {
        let name = source.entry.name
        guard let part = source.volume?.status() else {
            let trouble = source.trouble
            let closed = VolumeStatus.ClosedSource(path: name, trouble: trouble?.sentence, since: trouble?.since)
            status.closedSources = (status.closedSources ?? []) + [closed]
            continue
        }
        status.add(part, at: name)
        for outage in part.outages where origins.insert(outage.origin).inserted { status.outages.append(outage) }
    }
    status.files.sort { ($0.openHandles == 0 ? 1 : 0, $0.path) < ($1.openHandles == 0 ? 1 : 0, $1.path) }
    status.files = Array(status.files.prefix(500))
    status.staleDirectories = Array(status.staleDirectories.prefix(500))
    return status
}

extension VolumeStatus {
    /// Adds the numbers and the files of a source, but for what all sources share.
    fileprivate mutating func add(_ part: VolumeStatus, at name: String) {
        bytesFromOrigin += part.bytesFromOrigin
        bytesServed += part.bytesServed
        hits += part.hits
        misses += part.misses
        demanded += part.demanded
        speculative += part.speculative
        wasted += part.wasted
        files += part.files.map { file in
            var file = file
            file.path = name + "/" + file.path
            return file
        }
        staleDirectories += part.staleDirectories.map { directory in
            var directory = directory
            directory.path = directory.path.isEmpty ? name : name + "/" + directory.path
            return directory
        }
    }
}
