import ReelCore

/// The cache of one source: sparse data files, the index of their filled blocks, and the cap. It is the front of the
/// module; its parts do the work, each with its own state.
///
/// Thread-safe. No call waits for the network. `object`, `forget` and all that write or discard may wait for the disk;
/// the `remember` family does not. No failure of the disk reaches a reader: bytes that cannot be written are kept in
/// memory. Locks: see `CacheIndex`; a commit holds one of its own (`Committer`). The store calls nothing outside of
/// this module under a lock, except the listener to the disk's health, which hears of a failed commit under the
/// committer's, and holders, which say under the one of `Evictor.turn` what they can give up.
///
/// `scoped` gives a store of the same parts for one of several sources.
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
    let objectStore: ObjectStore
    /// Which of the cache's keys are this store's.
    let scope: KeyScope

    /// Opens the cache of one source, alone.
    /// - Parameters:
    ///   - directory: of this source, `CACHE/<sourceDirectoryName(source)>`; made where there is none, 0700.
    ///   - source: as the user gave it; kept without credentials and query, to be recognised.
    ///   - limits: may differ from last time.
    ///   - mountPoint: named in the error that a second opener gets.
    ///   - cipher: of an encrypted cache, nil for a plain one.
    ///   - watch: called when the disk stops taking writes, and with nil when it takes them again.
    /// - Throws: where the directory belongs to another user or source, is held by another daemon, or cannot be made.
    ///   Not for a disk that is full, broken or read-only: its contents are read, and nothing is written.
    package convenience init(
        directory: String, source: String, limits: CacheLimits, owner mountPoint: String,
        cipher: CacheCipher? = nil, watch: @escaping @Sendable (CacheError?) -> Void = { _ in }
    ) throws(CacheError) {
        try self.init(
            directory: directory, source: source, limits: limits, owner: mountPoint, cipher: cipher, watch: watch,
            measure: diskOf)
    }

    /// Opens an existing cache without a mount: evicts nothing for its age or for want of space.
    package convenience init(existing directory: String, cipher: CacheCipher? = nil) throws(CacheError) {
        try self.init(
            directory: directory, source: nil, limits: CacheLimits(cap: .max, minimumFree: .bytes(0)), owner: "",
            cipher: cipher, measure: diskOf)
    }

    /// - Parameters:
    ///   - source: nil for the one that the directory belongs to.
    ///   - reached: called between steps of the protocol, where a test looks at what a crash would leave.
    init(
        directory path: String, source: String?, limits: CacheLimits, owner mountPoint: String,
        cipher: CacheCipher? = nil, watch: @escaping @Sendable (CacheError?) -> Void = { _ in },
        reached: @escaping @Sendable (CrashPoint) -> Void = { _ in },
        measure: @escaping @Sendable (Int32) -> CacheQuota.Disk?
    ) throws(CacheError) {
        let directory = try CacheDirectory.open(path, owner: mountPoint, cipher)
        index = try CacheIndex.open(directory, source: source)
        let (used, lastUse) = try index.write { (index) throws(CacheError) in try index.totals() }
        self.directory = directory
        // As the slack of an eviction: what is kept for people costs the cache little.
        if index.failure == nil { directory.limitSetAside(to: limits.cap / 16) }
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
            commits: StoreThread("committer"), age: limits.age, reached: reached,
            memory: MemoryAccount(isEncrypted: cipher != nil))
        metadata = Metadata(index, evictor.commits, reached)
        committer = Committer(index, files, metadata, evictor, verified)
        objectStore = ObjectStore(evictor, committer, verified)
        scope = KeyScope()
        let surplus = quota.shortfall(0)
        if surplus > 0 { _ = try? evictor.evict(surplus) }
        try committer.start()
    }

    private init(_ whole: Store, _ scope: KeyScope) {
        index = whole.index
        files = whole.files
        quota = whole.quota
        disk = whole.disk
        verified = whole.verified
        evictor = whole.evictor
        committer = whole.committer
        directory = whole.directory
        metadata = whole.metadata
        objectStore = whole.objectStore
        self.scope = scope
    }

    /// The part of this cache that belongs to one of several sources: the same cap, and keys of its own, so that
    /// sources which name the same URL share nothing. Only the whole store is closed.
    /// - Parameter name: of 32 hexadecimal digits, as `sourceDirectoryName` makes it.
    package func scoped(_ name: String) -> Store { Store(self, KeyScope(name: name)) }

    /// The name that this part was made with, nil if it is the whole cache.
    package var scopeName: String? { scope.name }

    /// The names of all scopes of which something is cached or pinned, sorted.
    package var scopes: [String] {
        let keys = objects().map(\.key) + ((try? pins()) ?? []).map(\.text)
        return Set(keys.compactMap { KeyScope.split($0).scope }).sorted()
    }

    /// Commits, ends the thread and unlocks the directory. Objects that still live can only be read.
    package func close() {
        commit()
        committer.stop()
        index.close()
        directory.unlock()
    }

    /// The same, and takes the directory away where nothing is known of its source: no listing, no bytes, no setting.
    /// - Returns: bytes freed on the disk.
    @discardableResult
    package func closeUnused() -> Int64 {
        commit()
        committer.stop()
        let isUnused =
            index.failure == nil && (try? index.read { (index) throws(CacheError) in try index.isUnused() }) == true
        index.close()
        let freed = isUnused ? directory.removeAll() : 0
        directory.unlock()
        return freed
    }

    /// Makes all blocks and facts so far durable before it returns, unless the disk refuses.
    package func commit() { committer.commit() }

    // MARK: Objects

    /// The object of a version: the living instance, or the one that the index knows, or a new empty one; in memory
    /// alone where disk or index do not take it.
    package func object(for version: Version) throws(CacheError) -> CacheObject {
        try objectStore.object(for: scope.inside(version))
    }

    /// Removes a superseded version, at once or with its last holder. Does nothing where it is not known.
    package func forget(_ version: Version) { objectStore.forget(scope.inside(version)) }

    /// The same of the version that an object has, whatever others are known under its name.
    package func forget(_ object: CacheObject) { objectStore.forget(object) }

    /// Makes a cached version one with another validator, in place of what is cached under that. Its living instance
    /// has that from then on.
    /// - Returns: false if nothing of it is on the disk, or if another instance has that validator.
    package func rename(_ version: Version, _ validator: Validator) -> Bool {
        objectStore.rename(scope.inside(version), validator)
    }

    /// What became of `lengthen`. Unless it is done, the version stays as it is.
    package enum Lengthening: Hashable, Sendable {
        case done
        /// Its last block is on its way out, or bytes come into it.
        case later
        /// What stands in the way may stay: another object has that version, its bytes were lent, the disk refuses.
        case never
    }

    /// Makes the version of an object a longer one: what is cached stays, except for a last block that is not whole. On
    /// the thread that writes.
    package func lengthen(_ object: CacheObject, to length: Int64, _ validator: Validator) -> Lengthening {
        objectStore.lengthen(object.file, to: length, validator)
    }

    // MARK: State

    /// Whether bytes and names are encrypted on the disk: the kernel cannot read such files itself then.
    package var isEncrypted: Bool { index.cipher != nil }

    /// Bytes in use, and the cap: the given one, or less where the disk must keep free space.
    package var usage: (used: Int64, cap: Int64) { quota.usage }

    /// Bytes of files that stay in the cache: without the index, and without the room that is made ahead, which what is
    /// pinned has as well. - Parameter arePinned: all of them.
    package func capacity(arePinned: Bool) -> Int64 {
        max(0, quota.capacity - (arePinned ? 0 : quota.ahead))
    }

    /// False where the store never changes the directory.
    package var isWritable: Bool { disk.isWritable }

    /// The reason why the disk is not written to at present, nil if it is.
    package var failure: CacheError? { disk.failure }

    /// Bytes in memory that the disk does not take.
    package var bytesInMemory: Int64 { evictor.memory.bytes }

    /// Bytes that were evicted since the program started.
    package var evictedBytes: Int64 { evictor.tally.bytes.load(ordering: .relaxed) }

    /// The number of blocks found damaged since the program started.
    package var damagedBlocks: Int64 { objectStore.damagedBlocks }

    /// Counts these blocks as damaged.
    package func found(damaged blocks: [Range<Int>]) {
        objectStore.found(damaged: blocks.reduce(0) { $0 + $1.count })
    }

    /// The source, as the user gave it, without credentials and query; nil before the first mount.
    package var source: String? { try? index.read { (index) throws(CacheError) in try index.source() } }

    // MARK: Metadata

    /// Content information of a resource, as last remembered; nil where there is none.
    package func information(for key: String) -> StoredInformation? {
        metadata.information(for: scope.inside(key))
    }

    /// Remembers a fact: readers see it at once, the next commit writes it.
    package func remember(_ information: ContentInformation, for key: String, checkedAt: Int64) {
        metadata.add {
            $0.information[ExactText(scope.inside(key))] = StoredInformation(
                information: information, checkedAt: checkedAt)
        }
    }

    /// The entries of a remembered listing, one by one.
    /// - Parameters:
    ///   - begin: called before the first, and again where another listing has replaced this one meanwhile: earlier
    ///     entries do not count then.
    ///   - take: in the listing's order.
    /// - Returns: the time at which the listing was fetched, in seconds since 1970; nil where there is none.
    package func listing(
        _ directory: String, begin: () -> Void, _ take: (StoredEntry) -> Void
    ) -> (fetchedAt: Int64, complete: Bool)? { metadata.listing(scope.inside(directory), begin: begin, take) }

    /// Whether there is a remembered listing, even an empty one.
    package func hasListing(_ directory: String) -> Bool { metadata.hasListing(scope.inside(directory)) }

    /// Whether a remembered listing has any entries.
    package func hasEntries(_ directory: String) -> Bool { metadata.hasEntries(scope.inside(directory)) }

    /// Remembers a listing: readers see it at once, the next commit writes it whole.
    package func remember(_ listing: StoredListing, for directory: String) {
        metadata.add { $0.listings[ExactText(scope.inside(directory))] = listing }
    }

    /// A small fact of the mount.
    package func setting(_ name: String) -> String? { metadata.setting(scope.inside(name)) }

    /// Remembers a fact: readers see it at once, the next commit writes it.
    package func set(_ name: String, _ value: String) {
        metadata.add { $0.settings[ExactText(scope.inside(name))] = value }
    }
}
