import ReelCore

/// The cache of one source: sparse data files, the index that says what in them is filled, and the cap. The front of
/// the module; the parts that it wires do the work, each with the state that is its own.
///
/// Thread-safe. Nothing waits for the network. `object`, `forget` and what writes or discards may wait for the disk;
/// the `remember` family does not. No failure of the disk reaches a reader: bytes that cannot be written are kept in
/// memory. Locks: see `CacheIndex`; a commit holds one of its own (`Committer`). Nothing outside of this module is
/// called under any of them, but for the listener to the disk's health, which hears of a failed commit under that one.
package final class Store: Sendable {
    let index: CacheIndex
    let files: DataFiles
    let quota: CacheQuota
    let disk: DiskWatch
    let verified: VerificationCache
    let evictor: Evictor
    let committer: Committer
    private let directory: CacheDirectory
    private let metadata: Metadata
    private let objectStore: ObjectStore
    private let maintenance: Maintenance

    /// Opens the cache of one source, alone.
    /// - Parameters:
    ///   - directory: of this source, `CACHE/<sourceDirectoryName(source)>`; made where there is none, 0700.
    ///   - source: as the user gave it; kept without credentials and query, to be recognised.
    ///   - limits: may differ from last time.
    ///   - mountPoint: told to a second opener.
    ///   - watch: called when the disk stops taking what is written, and with nil when it takes it again.
    /// - Throws: where the directory is another's or another daemon's, or cannot be made. A disk that is full, broken
    ///   or read-only is no reason: its contents are read, and nothing is written.
    package convenience init(
        directory: String, source: String, limits: CacheLimits, owner mountPoint: String,
        watch: @escaping @Sendable (CacheError?) -> Void = { _ in }
    ) throws(CacheError) {
        try self.init(
            directory: directory, source: source, limits: limits, owner: mountPoint, watch: watch, measure: diskOf)
    }

    /// Opens what is there already, without a mount: nothing is evicted for its age or for want of space.
    package convenience init(existing directory: String) throws(CacheError) {
        try self.init(
            directory: directory, source: nil, limits: CacheLimits(cap: .max, minimumFree: .bytes(0)), owner: "",
            measure: diskOf)
    }

    /// - Parameters:
    ///   - source: nil: the one that the directory belongs to.
    ///   - reached: where a test looks at what a crash would leave.
    init(
        directory path: String, source: String?, limits: CacheLimits, owner mountPoint: String,
        watch: @escaping @Sendable (CacheError?) -> Void = { _ in },
        reached: @escaping @Sendable (CrashPoint) -> Void = { _ in },
        measure: @escaping @Sendable (Int32) -> CacheQuota.Disk?
    ) throws(CacheError) {
        let directory = try CacheDirectory.open(path, owner: mountPoint)
        index = try CacheIndex.open(directory, source: source)
        let (used, lastUse) = try index.write { (index) throws(CacheError) in try index.totals() }
        self.directory = directory
        files = DataFiles(directory, isWritable: index.failure == nil)
        quota = CacheQuota(limits, used: used) {
            measure(directory.objects.number).map {
                var disk = $0
                disk.index = sizeOnDisk(ofIndex: directory.index)
                return disk
            }
        }
        disk = DiskWatch(forever: index.failure, watch)
        verified = VerificationCache()
        evictor = Evictor(
            index: index, files: files, quota: quota, disk: disk, clock: UseClock(after: lastUse),
            commits: CommitThread(), age: limits.age, reached: reached)
        metadata = Metadata(index, evictor.commits, reached)
        committer = Committer(index, files, metadata, evictor, verified)
        objectStore = ObjectStore(evictor, committer, verified)
        maintenance = Maintenance(index: index, files: files, objects: objectStore)
        let surplus = quota.shortfall(0)
        if surplus > 0 { _ = try? evictor.evict(surplus) }
        try committer.start()
    }

    /// Commits, ends the thread and unlocks the directory. Objects that still live can be read, no more.
    package func close() {
        commit()
        committer.stop()
        index.close()
        directory.unlock()
    }

    /// Everything filled and remembered so far is durable when this returns, unless the disk refuses.
    package func commit() { committer.commit() }

    // MARK: Objects

    /// The object of a version: the living instance, or the one of the index with what it holds, or a new empty one.
    /// Where disk or index do not take it, one that lives in memory alone.
    package func object(for version: Version) throws(CacheError) -> CacheObject { try objectStore.object(for: version) }

    /// A superseded version: goes at once, or with its last holder. Nothing happens where it is not known.
    package func forget(_ version: Version) { objectStore.forget(version) }

    /// Bytes of filled blocks under this key; 0 where nothing of it is cached.
    package func cachedBytes(of key: String) -> Int64 { maintenance.cachedBytes(of: key) }

    /// The same of all keys that begin with `prefix`, those of which nothing is cached left out.
    /// - Parameter isDeep: also of those with a slash behind it, in their path.
    package func cachedBytes(below prefix: String, isDeep: Bool) -> [ExactText: Int64] {
        maintenance.cachedBytes(below: prefix, isDeep: isDeep)
    }

    // MARK: State

    /// Bytes in use and the cap: the given one, but never more than what leaves the minimum of the disk free.
    package var usage: (used: Int64, cap: Int64) { quota.usage }

    /// False where the directory is left as it is as long as this store lives.
    package var isWritable: Bool { disk.isWritable }

    /// Why nothing is written to the disk at present; nil: it is.
    package var failure: CacheError? { disk.failure }

    /// Bytes that the disk does not take.
    package var bytesInMemory: Int64 { evictor.memory.bytes }

    /// Blocks that were not what was written to them, since the program started.
    package var damagedBlocks: Int64 { objectStore.damagedBlocks }

    /// These blocks were not what was written to them.
    package func found(damaged blocks: [Range<Int>]) {
        objectStore.found(damaged: blocks.reduce(0) { $0 + $1.count })
    }

    /// The source, as the user gave it, without credentials and query; nil where nobody has mounted it yet.
    package var source: String? { try? index.read { (index) throws(CacheError) in try index.source() } }

    // MARK: Metadata

    /// Content information of a resource, as last remembered.
    package func information(for key: String) -> StoredInformation? { metadata.information(for: key) }

    /// Seen at once, written with the next batch.
    package func remember(_ information: ContentInformation, for key: String, checkedAt: Int64) {
        metadata.add {
            $0.information[ExactText(key)] = StoredInformation(information: information, checkedAt: checkedAt)
        }
    }

    /// The entries of a remembered listing, one by one.
    /// - Parameters:
    ///   - begin: called before the first; and again where another listing has replaced this one meanwhile: then
    ///     nothing that was taken counts.
    ///   - take: in the listing's order.
    /// - Returns: when the listing was fetched, in seconds since 1970; nil where there is none.
    package func listing(
        _ directory: String, begin: () -> Void, _ take: (StoredEntry) -> Void
    ) -> (fetchedAt: Int64, complete: Bool)? { metadata.listing(directory, begin: begin, take) }

    /// Whether there is a remembered listing, an empty one too.
    package func hasListing(_ directory: String) -> Bool { metadata.hasListing(directory) }

    /// Whether a remembered listing has any entries.
    package func hasEntries(_ directory: String) -> Bool { metadata.hasEntries(directory) }

    /// Seen at once, written whole with the next batch.
    package func remember(_ listing: StoredListing, for directory: String) {
        metadata.add { $0.listings[ExactText(directory)] = listing }
    }

    /// A small fact of the mount.
    package func setting(_ name: String) -> String? { metadata.setting(name) }

    /// Seen at once, written with the next batch.
    package func set(_ name: String, _ value: String) { metadata.add { $0.settings[ExactText(name)] = value } }

    // MARK: Maintenance

    /// The objects that the cache holds, the last used first.
    package func objects() -> [ObjectSummary] { maintenance.summaries() }

    /// Every version of which something is cached, the last used first.
    package func versions() throws(CacheError) -> [Version] {
        commit()
        return try maintenance.versions()
    }

    /// Keys that are never evicted, also those of which nothing is cached yet.
    package func pins() throws(CacheError) -> Set<ExactText> { try maintenance.pins() }

    /// Never evict any version of these keys again; or do. In one transaction, durable when it returns.
    package func pin(_ keys: some Collection<String>, _ isPinned: Bool = true) throws(CacheError) {
        try maintenance.pin(keys, isPinned)
    }

    /// Frees what is cached under a key, pinned or not. Blocks that readers of an open file need right now stay, and
    /// files that the kernel reads itself. On the thread that writes. - Returns: bytes freed.
    package func evict(key: String) throws(CacheError) -> Int64 { try evictor.evict(key: key) }

    /// Evicts until at most `bytes` are in use, or nothing is left that may go: pinned and open files stay. On the
    /// thread that writes.
    /// - Parameter share: at most so much in this call, as streams stand still meanwhile.
    /// - Returns: bytes freed; 0 when it is done.
    package func prune(to bytes: Int64, atMost share: Int64 = 64 << 20) throws(CacheError) -> Int64 {
        try evictor.prune(to: bytes, atMost: share)
    }

    /// Holds the filled blocks of one version against their checksums, as far as they are on the disk. No use of it
    /// counts, and no read believes in a bad block from then on.
    /// - Parameter progress: gets the bytes looked at since the last call; false ends it.
    /// - Returns: blocks that are not what was written. Of a file that is gone or was cut all that were filled: no row
    ///   tells of it any more.
    package func verify(_ version: Version, _ progress: (Int64) -> Bool) throws(CacheError) -> [Int] {
        try maintenance.verify(version, progress)
    }

    /// Takes blocks out that `verify` found bad: the next read fetches them again. Of a closed file.
    package func lose(_ blocks: [Int], of version: Version) throws(CacheError) {
        try maintenance.lose(blocks, of: version)
    }
}
