import ReelCache
import ReelCore

extension Volume {
    /// The state that `reelfs status` shows.
    package func status() -> VolumeStatus {
        let (store, counters, names) = (services.store, services.counters, tree.names)
        func path(_ key: String) -> String {
            names.path(ofKey: key)
                ?? ResourceURL(trusted: key).map { String(decoding: $0.lastSegment, as: UTF8.self) } ?? "?"
        }
        var shown: [String: VolumeStatus.File] = [:]
        func show(_ key: String, _ length: Int64?, _ cached: Int64, handles: Int = 0, rate: Int64 = 0) {
            shown[key] = VolumeStatus.File(
                path: path(key), length: length, cachedBytes: cached, openHandles: handles, rate: rate)
        }
        for object in store.objects() { show(object.key, object.length, object.cachedBytes) }
        // Of several files under one URL, this shows the one that an open gets.
        for file in files.all.reversed() {
            let length = file.isOpenEnded ? nil : file.length
            show(file.object.version.key, length, file.cachedBytes, handles: file.openHandles, rate: file.rate)
        }
        let sorted = shown.values.sorted {
            ($0.openHandles == 0 ? 1 : 0, $0.path) < ($1.openHandles == 0 ? 1 : 0, $1.path)
        }
        let usage = store.usage
        let demanded = counters.demanded.load(ordering: .relaxed)
        let speculative = counters.speculative.load(ordering: .relaxed)
        return VolumeStatus(
            cacheUsed: usage.used, cacheCap: usage.cap, cacheFailure: store.failure.map { "\($0)" },
            isEncrypted: store.isEncrypted,
            bytesInMemory: store.bytesInMemory, damagedBlocks: store.damagedBlocks,
            bytesFromOrigin: demanded + speculative,
            bytesServed: counters.bytesServed.load(ordering: .relaxed),
            hits: counters.hits.load(ordering: .relaxed), misses: counters.misses.load(ordering: .relaxed),
            demanded: demanded, speculative: speculative,
            wasted: counters.wasted.load(ordering: .relaxed) + files.unreadInVain,
            outages: services.origin.outages.map {
                VolumeStatus.Outage(origin: $0.origin, kind: $0.outage.rawValue, since: $0.since)
            },
            staleDirectories: tree.refresher.health.marked.prefix(500).map {
                VolumeStatus.StaleDirectory(path: path($0.key), trouble: $0.trouble, since: $0.since)
            }, files: Array(sorted.prefix(500)))
    }
}
