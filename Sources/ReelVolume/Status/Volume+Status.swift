import ReelCache
import ReelCore

extension Volume {
    /// The state of the mount: what `reelfs status` and `/metrics` show.
    package func status() -> VolumeStatus {
        let (store, names) = (services.store, tree.names)
        func path(_ key: String) -> String {
            names.path(ofKey: key)
                ?? ResourceURL(trusted: key).map { String(decoding: $0.lastSegment, as: UTF8.self) } ?? "?"
        }
        var shown: [String: (told: VolumeStatus.File, file: RemoteFile?)] = [:]
        func show(_ key: String, _ length: Int64?, _ cached: Int64, isPinned: Bool, _ file: RemoteFile? = nil) {
            let told = VolumeStatus.File(
                path: path(key), length: length, cachedBytes: cached, openHandles: file?.openHandles ?? 0,
                rate: file?.rate ?? 0, isPlayed: file?.isShownPlaying ?? false, isPinned: isPinned)
            shown[key] = (told, file)
        }
        for object in store.objects() {
            show(object.key, object.length, object.cachedBytes, isPinned: object.isPinned)
        }
        // Of several files under one URL, this shows the one that an open gets.
        for file in files.all.reversed() {
            let length = file.isOpenEnded ? nil : file.length
            let key = file.object.version.key
            show(key, length, file.cachedBytes, isPinned: shown[key]?.told.isPinned ?? false, file)
        }
        let sorted = shown.values.sorted {
            ($0.told.openHandles == 0 ? 1 : 0, $0.told.path) < ($1.told.openHandles == 0 ? 1 : 0, $1.told.path)
        }
        var status = VolumeStatus(numbers: VolumeNumbers(of: self))
        status.files = sorted.prefix(500).map { file in
            var told = file.told
            file.file?.tell(&told)
            return told
        }
        status.cacheFailure = store.failure.map { "\($0)" }
        status.isEncrypted = store.isEncrypted
        status.outages = services.transport.outages.map {
            VolumeStatus.Outage(origin: $0.origin, kind: $0.outage.rawValue, since: $0.since)
        }
        status.mirrors = services.upstream.mirrors?.status
        status.tier = services.tier?.status
        status.programs = services.programs.status
        status.staleDirectories = tree.refresher.health.marked.prefix(500).map {
            VolumeStatus.StaleDirectory(path: path($0.key), trouble: $0.trouble, since: $0.since)
        }
        status.warming = warming?.status
        status.stalls = services.counters.stalls
        status.origins = services.upstream.origins.status(services.transport.standings)
        status.leaving = store.nextToGo().map {
            VolumeStatus.Leaving(path: path($0.key), bytes: $0.bytes, lastUse: $0.lastUse / 1000)
        }
        status.isOffline = line.isOffline
        status.limitRate = line.limit.schedule.text
        status.prefetches = prefetches.all
        status.kept = keeper?.status
        status.verdict = status.judged
        return status
    }
}
