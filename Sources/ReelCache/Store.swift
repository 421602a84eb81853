import ReelCore
import Synchronization

/// The cache of one source: sparse data files, the index that says what in them is filled, and the cap.
///
/// Thread-safe. Nothing blocks on the network; `makeRoom`, `object`, `forget` and `discard` may wait for the disk, the
/// `remember` family and `markFilled` do not. Locks: the writer's gate first, then one leaf (a file's state, the table of
/// open files, the room, the facts); the reader's gate stands alone. The gates are the only locks held over disk
/// operations, never over fdatasync of data (that is `commits` alone, which only commits wait for), and nothing outside of this module is called under any.
package final class Store: Sendable {
    let directory: SourceDirectory
    let writer: Gate
    let reader: Gate
    let room: Room
    let clock: UseClock
    let files = OpenFiles()
    let facts = FactQueue()
    let committer: Committer
    /// One commit at a time, so that `commit` returns only when all earlier ones have ended.
    let commits = Mutex(CommitState())
    /// Bytes filled since the last commit began.
    let uncommitted = Atomic<Int64>(0)

    /// ext4 ends at 16 TiB, the map of which is 16 MiB; a server that tells of more does not get it.
    static let longestFile: Int64 = 16 << 40

    struct CommitState: Sendable { var isSwept = false }

    /// Opens the cache of one source, alone.
    /// - Parameters:
    ///   - directory: of this source, `CACHE/<sourceDirectoryName(source)>`; made where there is none, 0700.
    ///   - source: as the user gave it; kept without credentials and query, to be recognised.
    ///   - cap: bytes, may differ from last time.
    ///   - mountPoint: what a second opener is told.
    package convenience init(
        directory: String, source: String, cap: Int64, owner mountPoint: String
    ) throws(CacheError) {
        try self.init(directory: directory, source: source, cap: cap, owner: mountPoint, disk: diskOf)
    }

    init(
        directory path: String, source: String, cap: Int64, owner mountPoint: String,
        disk: @escaping @Sendable (Int32) -> Room.Disk?
    ) throws(CacheError) {
        let directory = try SourceDirectory(path, owner: mountPoint)
        let index = try openTidyIndex(directory, source)
        let objects = directory.objects.number
        room = Room(cap: cap, used: index.used) { disk(objects) }
        clock = UseClock(after: index.lastUse)
        writer = Gate(index.writer, damageMark: directory.damageMark)
        reader = Gate(index.reader, damageMark: directory.damageMark)
        committer = Committer()
        self.directory = directory
        let surplus = room.shortfall(0)
        if surplus > 0 { _ = try evict(surplus) }
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
        let name = ExactText(directory)
        return facts.find { $0.listings[name] }
            ?? (try? reader.use { (index) throws(CacheError) in try index.listing(directory) })
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

/// An index that is this source's, without what a crash left.
private struct TidyIndex {
    let writer: Connection
    let reader: Connection
    /// Bytes in filled blocks.
    let used: Int64
    let lastUse: Int64

    init(_ directory: borrowing SourceDirectory, _ source: String) throws(CacheError) {
        let (writer, reader) = try directory.connections()
        try writer.claim(source: source)
        try writer.tidyAfterCrash(directory.objects)
        used = try writer.first("SELECT sum(min(max(cached, 0), length)) FROM objects") { $0.integer(0) } ?? 0
        lastUse = try writer.first("SELECT max(last_use) FROM objects") { $0.integer(0) } ?? 0
        self.writer = writer
        self.reader = reader
    }
}

/// A second try starts with a new index, where the first one met damage. By then the first one's connections are
/// closed: they would remove the new one's log.
private func openTidyIndex(_ directory: borrowing SourceDirectory, _ source: String) throws(CacheError) -> TidyIndex {
    do throws(CacheError) {
        return try TidyIndex(directory, source)
    } catch {
        guard error.isDamage else { throw error }
    }
    directory.markDamage()
    return try TidyIndex(directory, source)
}

extension Connection {
    /// The directory is this source's, from now on or since long.
    fileprivate func claim(source: String) throws(CacheError) {
        let text = ResourceURL(source)?.description ?? String(source.prefix { $0 != "?" })
        let known = try first("SELECT value FROM meta WHERE name = ?", [.text("source")]) { $0.text(0) }
        guard known.map(ExactText.init) ?? ExactText(text) == ExactText(text) else { throw .otherSource }
        if known == nil { try run("INSERT INTO meta VALUES (?, ?)", [.text("source"), .text(text)]) }
    }

    /// Objects that were in use when the last daemon died hold bytes that no row tells of; superseded ones go.
    fileprivate func tidyAfterCrash(_ objects: borrowing Descriptor) throws(CacheError) {
        let nonsense = "superseded OR length NOT BETWEEN 0 AND \(Store.longestFile)"
        var gone = try rows(where: nonsense)
        for row in try rows(where: "unclean AND NOT (\(nonsense))") {
            let map = try map(of: row)
            guard map.filledBlocks > 0, let file = row.open(in: objects, map: map) else {
                gone.append(row)
                continue
            }
            try? file.punchUnfilled(map)
        }
        try transaction { () throws(CacheError) in
            for row in gone { try delete(row.id) }
            try run("UPDATE objects SET unclean = 0 WHERE unclean")
        }
        for row in gone { row.name?.remove(in: objects) }
    }
}
