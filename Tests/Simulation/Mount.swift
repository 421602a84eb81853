import Logging
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import TestKit

@testable import ReelCache
@testable import ReelVolume

/// A volume over a cache directory, as a daemon has it.
struct Mount: Sendable {
    static let refresh = Duration.seconds(1)
    let households: [Household]
    let volume: any MountedVolume
    private let store: Store
    private let transports: Transports

    /// The transports of its sources.
    private final class Transports: Sendable {
        let all = Lock<[SimulatedTransport]>([])
    }

    init(_ world: World, _ shape: Shape, _ cache: String, _ households: [Household], seed: UInt64) throws {
        self.households = households
        let findings = world.findings
        var logger = Logger(label: "simulation") { _ in StoryLog(findings: findings) }
        logger.logLevel = .info
        let key = Self.key(shape)
        let store = try Store(
            directory: cache, source: Household.address,
            // Half of the mounts have enough of it for so small a cap.
            limits: CacheLimits(cap: shape.cap, roomAhead: seed % 2 == 0 ? shape.cap / 4 : nil), owner: "/nowhere",
            cipher: key.map { CacheCipher(master: $0) })
        self.store = store
        let options = Self.options(world, shape, households[0].secrets, seed: seed)
        let transports = Transports()
        self.transports = transports
        if shape.has(.catalogue) {
            let entries = households.map { Self.entry($0, shape, options, transports, seed: seed) }
            volume = CatalogueVolume(entries, store: store, logger: logger)
            return
        }
        let transport = households[0].transport(Line(), seed: seed)
        transports.all.withLock { $0 = [transport] }
        var volume: Volume?
        let end = now() + .seconds(60)
        while volume == nil {
            do {
                volume = try Volume.open(
                    households[0].address, origin: transport, store: store, options: options, logger: logger,
                    finder: households[0].finder(shape, seed: seed))
            } catch {
                Simulation.tell("no mount: \(error)")
                guard now() < end else { throw error }
                Simulation.sleep(.seconds(1))
            }
        }
        self.volume = volume!
    }

    private static func key(_ shape: Shape) -> SecretBytes? { shape.has(.encrypted) ? SecretBytes(count: 32) : nil }

    private static func options(_ world: World, _ shape: Shape, _ secrets: Secrets, seed: UInt64) -> VolumeOptions {
        VolumeOptions(
            timeout: World.timeout, refresh: refresh, keepNext: seed % 5 == 3 ? 2 : 0,
            mirrors: shape.has(.mirror) ? [ResourceURL("http://mirror/")!] : [],
            via: shape.has(.shared)
                ? SharedCache(ResourceURL("http://shared/")!, getsCredentials: secrets.sharedGetsLogin) : nil,
            tier: shape.has(.tier) ? tier(world.bucket, key(shape), secrets, seed: seed) : nil)
    }

    private static func entry(
        _ household: Household, _ shape: Shape, _ options: VolumeOptions, _ transports: Transports, seed: UInt64
    ) -> CatalogueEntry {
        CatalogueEntry(
            path: [String(household.folder.dropLast())], address: household.address,
            scope: sourceDirectoryName(household.folder), fingerprint: household.folder, options: options
        ) { (line) throws(CatalogueFailure) in
            let transport = household.transport(line, seed: seed ^ household.seed)
            transports.all.withLock { $0.append(transport) }
            return CatalogueConnection(transport, finder: household.finder(shape, seed: seed)) { transport.shutdown() }
        }
    }

    private static func tier(
        _ bucket: ScriptedBucket, _ key: SecretBytes?, _ secrets: Secrets, seed: UInt64
    ) -> TierPlace {
        let address = S3Address("s3://shared/films", endpoint: ResourceURL("http://bucket/"))!
        return TierPlace(address, name: "s3://shared/films", seal: TierSeal(key: key, bucket: address.name)) { line in
            let transport = SimulatedTransport(
                ["http://bucket": { bucket.answer($0) }], line, watch: secrets.look, seed: ~seed)
            return TierConnection(transport) { transport.shutdown() }
        }
    }

    /// The catalogue has these sources from now on.
    func show(_ households: [Household], _ world: World, _ shape: Shape, seed: UInt64) {
        guard let catalogue = volume as? CatalogueVolume else { return }
        let options = Self.options(world, shape, self.households[0].secrets, seed: seed)
        catalogue.replace(with: households.map { Self.entry($0, shape, options, transports, seed: seed) })
    }

    func stop() {
        volume.shutdown()
        for transport in transports.all.withLock({ $0 }) { transport.shutdown() }
        store.close()
    }

    // MARK: Accounts

    /// The files that something holds, for the story.
    var held: [String] {
        store.files.all.filter { store.files.isHeld($0.row) }.map { file in
            "held: \(file.row) \(file.version.key), in memory: \(file.memoryBlocks)"
        } + volumes.flatMap(\.files.all).map { "open: \($0.url), \($0.openHandles) handles, done: \($0.isDone)" }
    }

    /// Blocks whose bytes were not those that were written.
    var damagedBlocks: Int64 { store.damagedBlocks }

    /// The state of the cache, for the story.
    var cache: String {
        let usage = store.usage
        return "\(usage.used) of \(usage.cap) bytes cached, \(store.evictedBytes) evicted, "
            + "\(store.bytesInMemory) in memory, \(store.damagedBlocks) blocks damaged"
    }

    /// Bytes of bodies that the origins have sent.
    var bytesFetched: Int64 { transports.all.withLock { $0 }.map(\.bytesSent).reduce(0, +) }

    private var volumes: [Volume] {
        if let volume = volume as? Volume { return [volume] }
        return (volume as? CatalogueVolume)?.sources.compactMap(\.volume) ?? []
    }

    /// What is held or under way although no program has a file open, as sentences. Of a queue the next item is kept
    /// for hours.
    var leftovers: [String] {
        var left: [String] = []
        var kept: Set<Int64> = []
        for volume in volumes {
            var files = volume.files.all
            if volume.tree.source.isQueue(volume.tree.source.root),
                let next = files.first(where: { $0.openHandles == 0 })
            {
                kept.insert(next.object.file.row)
                files.removeAll { $0 === next }
            }
            if !files.isEmpty { left.append("\(files.count) files are open") }
        }
        let held = store.files.all.filter { store.files.isHeld($0.row) && !kept.contains($0.row) }
        if !held.isEmpty { left.append("\(held.count) data files are held") }
        let requests = transports.all.withLock { $0 }.map(\.requestsUnderWay).reduce(0, +)
        if requests > 0 { left.append("\(requests) requests are under way") }
        if kept.isEmpty, store.bytesInMemory > 0 { left.append("\(store.bytesInMemory) bytes are in memory") }
        let usage = store.usage
        // What is pinned stays, and so does what is written beside it.
        let most = max(usage.cap, 2 * volume.maintenance.pinnedBytes) + World.indexGrowth
        if usage.used > most { left.append("\(usage.used) bytes are cached, with a cap of \(usage.cap)") }
        return left
    }
}

/// The program's log is a part of the story.
private struct StoryLog: LogHandler {
    let findings: Findings
    var metadata = Logger.Metadata()
    var logLevel = Logger.Level.info

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        Simulation.tell("log: \(event.message)")
        if "\(event.message)".contains(Secrets.mark) { findings.find("the log says: \(event.message)") }
    }
}
