import ReelCache
import ReelCore
import ReelThreads

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
        let left = store.cachedFiles(MountNames(store), where: isLeft)
        return (all + left).sorted { $0.lastUse ?? 0 > $1.lastUse ?? 0 }
    }

    /// Whether a key is of a source that has left the catalogue, so that only a command on all of the mount reaches it.
    private var isLeft: (String) -> Bool {
        let scopes = Set(sources.map(\.entry.scope))
        return { key in splitScope(ofKey: key).scope.map { !scopes.contains($0) } ?? false }
    }

    func pin(_ path: String, _ isPinned: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        var report = try each(path, watch) { (commands, rest) throws(MaintenanceFailure) in
            try commands.pin(rest ?? "", isPinned, watch)
        }
        if path.isEmpty, !isPinned {
            let left = try onCache { () throws(CacheError) in try store.pins() }.map(\.text).filter(isLeft)
            try onCache { () throws(CacheError) in try store.pin(left, false) }
            report.files += left.count
        }
        return report
    }

    func evict(_ path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> MaintenanceReport {
        var report = try each(path, watch) { (commands, rest) throws(MaintenanceFailure) in
            try commands.evict(rest ?? "", watch)
        }
        guard path.isEmpty else { return report }
        for key in Set(store.objects().map(\.key).filter(isLeft)).sorted() where !watch.isOver() {
            let freed = try onWriter { () throws(CacheError) in try store.evict(key: key) }
            watch.progress(MaintenanceProgress(done: 0, total: 0))
            report.bytes += freed
            report.files += freed > 0 ? 1 : 0
        }
        return report
    }

    func contents(_ query: FolderQuery, until isOver: () -> Bool) throws(MaintenanceFailure) -> FolderContents {
        let depth = pathNames(query.path).count
        var contents = FolderContents()
        for (source, rest) in try chosen(query.path) where !isOver() {
            // A folder above its source is the catalogue's own.
            if depth < source.entry.path.count {
                let path = source.entry.path.prefix(depth + 1).joined(separator: "/")
                if query.wants(source.entry.path[depth]), !contents.entries.contains(where: { $0.path == path }) {
                    contents.entries.append(.folder(path))
                }
                if query.match.isEmpty { continue }
            }
            guard let volume = source.volume else {
                guard rest.isEmpty else { throw .unlisted(query.path) }
                contents.unlistedDirectories += 1
                continue
            }
            var part = query
            (part.path, part.limit) = (rest, max(0, query.limit - contents.entries.count))
            let found = try inSource(source, rest) { () throws(MaintenanceFailure) in
                try volume.commands.contents(part, until: isOver)
            }
            contents.add(found, at: source.entry.name)
        }
        return contents
    }

    func explain(_ path: String) throws(MaintenanceFailure) -> Explanation {
        let names = pathNames(path)
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
            throw error.below(source.entry.name)
        }
        told.path = path
        return told
    }

    func refresh(_ path: String, isRecursive: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        var report = MaintenanceReport()
        let depth = pathNames(path).count
        // A folder above its source is the catalogue's own.
        let chosen = try chosen(path).filter { isRecursive || depth >= $0.source.entry.path.count }
        // Sources that are not open make the others wait for nothing.
        let (open, closed) = (chosen.filter { $0.source.volume != nil }, chosen.filter { $0.source.volume == nil })
        for (source, rest) in open + closed {
            switch try watch.wait({ source.use($0) }) {
            case .failure(let error):
                let reason = source.trouble?.sentence ?? error.reason
                report.failedDirectories.append(FailedDirectory(path: source.entry.name, reason: reason))
            case .success(let volume):
                let part = try inSource(source, rest) { () throws(MaintenanceFailure) in
                    try volume.commands.refresh(rest, isRecursive: isRecursive, watch)
                }
                report.failedDirectories += part.failedDirectories.map { directory in
                    var directory = directory
                    directory.path = source.entry.name + (directory.path.isEmpty ? "" : "/" + directory.path)
                    return directory
                }
            }
        }
        return report
    }

    func expireListings() {
        for source in sources { source.volume?.commands.expireListings() }
    }

    func verify(_ path: String?, repairs: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        try each(path ?? "", watch) { (commands, rest) throws(MaintenanceFailure) in
            try commands.verify(rest, repairs: repairs, watch)
        }
    }

    func prune(freeing bytes: Int64, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> MaintenanceReport {
        try MaintenanceReport.pruning(bytes, of: store.usage.used, watch.progress, isOver: watch.isOver) {
            (rest) throws(MaintenanceFailure) in
            try onWriter { () throws(CacheError) in try store.prune(freeing: rest) }
        }
    }

    /// Does a job that writes, while no source does.
    private func onWriter(_ job: () throws(CacheError) -> Int64) throws(MaintenanceFailure) -> Int64 {
        try onCache { () throws(CacheError) in try gate.pass { Result { () throws(CacheError) in try job() } }.get() }
    }

    /// - Parameter body: gets the path in the source, nil for all of it.
    private func each(
        _ path: String, _ watch: MaintenanceWatch,
        _ body: (Maintenance, String?) throws(MaintenanceFailure) -> MaintenanceReport
    ) throws(MaintenanceFailure) -> MaintenanceReport {
        var report = MaintenanceReport()
        for (source, rest) in try chosen(path) where !watch.isOver() {
            guard let volume = source.volume else {
                guard rest.isEmpty else { throw .unlisted(path) }
                report.unlistedDirectories += 1
                continue
            }
            var part = try inSource(source, rest) { () throws(MaintenanceFailure) in
                try body(volume.commands, rest.isEmpty ? nil : rest)
            }
            part.damagedFiles = part.damagedFiles.map { source.entry.name + "/" + $0 }
            report.add(part)
        }
        return report
    }

    /// The sources that a path stands for, each with the path in it.
    func chosen(_ path: String) throws(MaintenanceFailure) -> [(source: CatalogueSource, rest: String)] {
        let names = pathNames(path)
        let chosen = sources.filter { source in
            zip(source.entry.path, names).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
        }
        guard !chosen.isEmpty || names.isEmpty else { throw .unlisted(path) }
        return chosen.map { ($0, names.dropFirst($0.entry.path.count).joined(separator: "/")) }
    }

    /// Names the source in an error, which names the path in it.
    private func inSource<Value>(
        _ source: CatalogueSource, _ rest: String, _ body: () throws(MaintenanceFailure) -> Value
    ) throws(MaintenanceFailure) -> Value {
        do throws(MaintenanceFailure) {
            return try body()
        } catch {
            throw rest.isEmpty ? error : error.below(source.entry.name)
        }
    }
}

/// The state of all sources together.
func catalogueStatus(_ sources: [CatalogueSource], _ store: Store) -> VolumeStatus {
    var status = VolumeStatus(numbers: VolumeNumbers(of: store))
    status.cacheFailure = store.failure.map { "\($0)" }
    status.isEncrypted = store.isEncrypted
    var origins: Set<String> = []
    var parts: [VolumeStatus] = []
    for source in sources {
        let name = source.entry.name
        guard var part = source.volume?.status() else {
            let trouble = source.trouble
            let closed = VolumeStatus.ClosedSource(
                path: name, trouble: trouble?.sentence, since: trouble?.since, word: trouble?.fault?.word.rawValue,
                culprit: trouble?.fault?.culprit)
            status.closedSources = (status.closedSources ?? []) + [closed]
            continue
        }
        if let path = part.verdict?.path { part.verdict?.path = "\(name)/\(path)" }
        parts.append(part)
        status.add(part, at: name)
        if let mirrors = part.mirrors { status.mirrors = (status.mirrors ?? []) + mirrors }
        for outage in part.outages where origins.insert(outage.origin).inserted { status.outages.append(outage) }
    }
    status.files.sort { ($0.openHandles == 0 ? 1 : 0, $0.path) < ($1.openHandles == 0 ? 1 : 0, $1.path) }
    status.files = Array(status.files.prefix(500))
    status.leaving = status.leaving.map { Array($0.sorted { $0.lastUse < $1.lastUse }.prefix(Store.mostNext)) }
    status.staleDirectories = Array(status.staleDirectories.prefix(500))
    status.verdict = status.judged(of: parts)
    return status
}

extension VolumeStatus {
    /// Adds the numbers and the files of a source, except for what all sources share.
    mutating func add(_ part: VolumeStatus, at name: String) {
        numbers.add(part.numbers)
        details.add(part.details, at: name)
    }

    /// Adds what only grows of a source that has left the catalogue: counters never fall.
    mutating func addCounters(of part: VolumeStatus) {
        numbers.addCounters(part.numbers)
        details.addCounters(of: part.details)
    }
}

extension VolumeStatus.Details {
    fileprivate mutating func addCounters(of part: VolumeStatus.Details) {
        if let one = part.tier {
            if tier == nil { tier = one } else { tier! += one }
        }
        if let more = part.stalls {
            var sum = stalls ?? VolumeStatus.Stalls(origin: 0, queue: 0, disk: 0)
            sum += more
            stalls = sum
        }
    }

    fileprivate mutating func add(_ part: VolumeStatus.Details, at name: String) {
        addCounters(of: part)
        addLive(part, at: name)
        if let warming = part.warming {
            let before = self.warming ?? VolumeStatus.Warming(folders: 0, failed: 0, isOver: true)
            self.warming = VolumeStatus.Warming(
                folders: before.folders + warming.folders, failed: before.failed + warming.failed,
                isOver: before.isOver && warming.isOver)
        }
        var sums = Dictionary(uniqueKeysWithValues: (programs ?? []).map { ($0.name, $0) })
        for part in part.programs ?? [] {
            let none = VolumeStatus.Program(name: part.name, files: 0, readBytes: 0, fetchedBytes: 0)
            sums[part.name, default: none] += part
        }
        programs = sums.values.sorted { ($0.fetchedBytes, $0.name) > ($1.fetchedBytes, $1.name) }
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

    private mutating func addLive(_ part: VolumeStatus.Details, at name: String) {
        if let more = part.kept {
            kept =
                (kept ?? [])
                + more.map { file in
                    var file = file
                    file.path = name + "/" + file.path
                    return file
                }
        }
        origins = (origins ?? []) + (part.origins ?? [])
        leaving =
            (leaving ?? [])
            + (part.leaving ?? []).map { file in
                VolumeStatus.Leaving(path: name + "/" + file.path, bytes: file.bytes, lastUse: file.lastUse)
            }
    }
}
