import ReelCore
import Synchronization

/// The cache of one source: sparse data files, the index that says what in them is filled, and the cap.
///
/// Thread-safe. Nothing blocks on the network; `object`, `forget` and what writes or discards may wait for the disk, the
/// `remember` family does not. No failure of the disk reaches a reader: what cannot be written is kept in memory.
/// Locks: the writer's gate first, then one leaf (a file's state, the table of open files, the room, the facts); the
/// reader's gate stands alone. The gates are the only locks held over disk operations, never over fdatasync of data
/// (that is `commits` alone, which only commits wait for), and nothing outside of this module is called under any.
package final class Store: Sendable {
    let directory: SourceDirectory
    let writer: Gate
    let reader: Gate
    let room: Room
    let limits: CacheLimits
    let clock: UseClock
    let files = OpenFiles()
    let seals = Seals()
    let facts = FactQueue()
    let committer: Committer
    let disk: DiskWatch
    /// nil where the directory is left as it is.
    let log: FillLog?
    let memory = MemoryAccount(limit: MemoryAccount.keptLimit)
    /// Blocks that were not what was written to them.
    let damage = Atomic<Int64>(0)
    /// One commit at a time, so that `commit` returns only when all earlier ones have ended.
    let commits = Mutex(CommitState())
    /// Bytes filled since the last commit began.
    let uncommitted = Atomic<Int64>(0)
    /// Where a test looks at what a crash would leave.
    let reached: @Sendable (CrashPoint) -> Void

    /// ext4 ends at 16 TiB, the map of which is 16 MiB; a server that tells of more does not get it.
    static let longestFile: Int64 = 16 << 40
    /// Those of such a file: the index may name any.
    static let extents = 0..<Int(longestFile / BlockSize.extent)

    struct CommitState: Sendable {
        var isSwept = false
        /// When the age limit was last looked at, on the clock of `now()`.
        var agedAt: Duration?
        /// Listings whose entries are to be deleted.
        var strays: [Int64] = []
    }

    /// Opens the cache of one source, alone.
    /// - Parameters:
    ///   - directory: of this source, `CACHE/<sourceDirectoryName(source)>`; made where there is none, 0700.
    ///   - source: as the user gave it; kept without credentials and query, to be recognised.
    ///   - limits: may differ from last time.
    ///   - mountPoint: what a second opener is told.
    ///   - watch: called when the disk stops taking what is written, and with nil when it takes it again.
    /// - Throws: where the directory is another's or another daemon's, or was never to be had. A disk that is full, broken
    ///   or read-only is no reason: what is there is read, and nothing written.
    package convenience init(
        directory: String, source: String, limits: CacheLimits, owner mountPoint: String,
        watch: @escaping @Sendable (CacheError?) -> Void = { _ in }
    ) throws(CacheError) {
        try self.init(
            directory: directory, source: source, limits: limits, owner: mountPoint, watch: watch, measure: diskOf)
    }

    /// Opens what is there already, without a mount: nothing goes for its age or for want of room.
    package convenience init(existing directory: String) throws(CacheError) {
        try self.init(
            directory: directory, source: nil, limits: CacheLimits(cap: .max, minimumFree: .bytes(0)), owner: "",
            measure: diskOf)
    }

    /// - Parameter source: nil: whatever the directory says.
    init(
        directory path: String, source: String?, limits: CacheLimits, owner mountPoint: String,
        watch: @escaping @Sendable (CacheError?) -> Void = { _ in },
        reached: @escaping @Sendable (CrashPoint) -> Void = { _ in },
        measure: @escaping @Sendable (Int32) -> Room.Disk?
    ) throws(CacheError) {
        let directory = try SourceDirectory.open(path, owner: mountPoint)
        let index = try openIndex(of: directory, source)
        let objects = directory.objects.number
        let indexPath = directory.index
        room = Room(limits, used: index.used) {
            measure(objects).map {
                var disk = $0
                disk.index = sizeOnDisk(ofIndex: indexPath)
                return disk
            }
        }
        self.limits = limits
        self.reached = reached
        clock = UseClock(after: index.lastUse)
        writer = Gate(index.writer, damageMark: directory.damageMark)
        reader = index.reader.map { Gate($0, damageMark: directory.damageMark) } ?? writer
        committer = Committer()
        disk = DiskWatch(forever: index.failure, watch)
        self.directory = directory
        log = index.log
        let surplus = room.shortfall(0)
        if surplus > 0 { _ = try? evict(surplus) }
        try committer.start(self)
        committer.schedule()
    }

    deinit { committer.stop(waiting: false) }

    /// Commits, ends the thread and unlocks the directory. Objects that still live can be read, no more.
    package func close() {
        commit()
        committer.stop(waiting: true)
        reader.close()
        // The last connection to close folds the log into the index.
        writer.close()
        directory.unlock()
    }

    /// Not where the directory is to be left as it is.
    func remove(_ name: FileName?) {
        if disk.isWritable { name?.remove(in: directory.objects) }
    }

    // MARK: Facts

    /// Content information of a resource, as last remembered.
    package func information(for key: String) -> Remembered? {
        let name = ExactText(key)
        return facts.find { $0.information[name] }
            ?? (try? reader.use { (index) throws(CacheError) in try index.information(for: key) })
    }

    /// Seen at once, written with the next batch.
    package func remember(_ information: ContentInformation, for key: String, checkedAt: Int64) {
        facts.add { $0.information[ExactText(key)] = Remembered(information: information, checkedAt: checkedAt) }
        committer.schedule()
    }

    package func listing(_ directory: String) -> RememberedListing? {
        var entries: [StoredEntry] = []
        let found = listing(directory, begin: { entries = [] }, { entries.append($0) })
        guard let (fetchedAt, complete) = found else { return nil }
        return RememberedListing(entries: entries, fetchedAt: fetchedAt, complete: complete)
    }

    /// Seen at once, written whole with the next batch.
    package func remember(_ listing: RememberedListing, for directory: String) {
        facts.add { $0.listings[ExactText(directory)] = listing }
        committer.schedule()
    }

    /// A small fact of the mount.
    package func setting(_ name: String) -> String? {
        facts.find { $0.settings[ExactText(name)] }
            ?? (try? reader.use { (index) throws(CacheError) in
                try index.first("SELECT value FROM settings WHERE name = ?", [.text(name)]) { $0.text(0) }
            })
    }

    /// Seen at once, written with the next batch.
    package func set(_ name: String, _ value: String) {
        facts.add { $0.settings[ExactText(name)] = value }
        committer.schedule()
    }
}

/// How much a cache may take, and for how long.
package struct CacheLimits: Hashable, Sendable {
    package enum Floor: Hashable, Sendable {
        case bytes(Int64)
        case percent(Int)
    }

    /// Bytes, the index included.
    package var cap: Int64
    /// What stays free of the disk, whatever the cap.
    package var minimumFree: Floor
    /// What was not used for so long goes; nil: nothing does.
    package var age: Duration?

    package init(cap: Int64, minimumFree: Floor = .percent(5), age: Duration? = nil) {
        self.cap = cap
        self.minimumFree = minimumFree
        self.age = age
    }
}

/// Moments between two steps of the format's protocol: what a crash there leaves is written down in CacheFormat.
enum CrashPoint: String, CaseIterable, Sendable {
    case fileMade, rowInserted
    case entriesWritten, dataSynced, rowsCommitted, idleRowsCommitted, swept
    case discardRowsCommitted, discardPunched
    case evictionRowsCommitted, evictionPunched
}
