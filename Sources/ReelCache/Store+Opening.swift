import CSQLite
import Glibc
import ReelCore

/// An index that is this source's, without what a crash left.
struct TidyIndex {
    let writer: Connection
    /// nil: the writer reads as well.
    let reader: Connection?
    /// Bytes in filled blocks.
    let used: Int64
    let lastUse: Int64
    let log: FillLog?
    /// Why the index on the disk is not written to.
    var failure: CacheError?

    fileprivate init(_ directory: borrowing SourceDirectory, _ source: String?) throws(CacheError) {
        let (writer, reader) = try directory.connections()
        try writer.claim(source: source)
        let log = try FillLog(directory.own)
        try writer.recover(log, directory.objects)
        try writer.tidyAfterCrash(directory.objects)
        try self.init(writer, reader, log)
    }

    /// The disk takes nothing: what the index says is taken into memory, and changes there alone.
    fileprivate init(inMemoryOf index: String, _ source: String?, _ failure: CacheError) throws(CacheError) {
        // Where there is nothing to read, or nothing that is ours, an empty one.
        var copy = try inMemoryCopy(index)
        if copy == nil { copy = try openTables(Connection(inMemory: ())) }
        guard let connection = copy else { throw .index(SQLITE_CORRUPT) }
        try connection.claim(source: source)
        try connection.run("DELETE FROM objects WHERE length NOT BETWEEN 0 AND \(Store.longestFile)")
        try self.init(connection, nil, nil)
        self.failure = failure
    }

    private init(_ writer: Connection, _ reader: Connection?, _ log: FillLog?) throws(CacheError) {
        self.log = log
        used = try writer.first("SELECT sum(min(max(cached, 0), length)) FROM objects") { $0.integer(0) } ?? 0
        lastUse = try writer.first("SELECT max(last_use) FROM objects") { $0.integer(0) } ?? 0
        self.writer = writer
        self.reader = reader
    }
}

private func inMemoryCopy(_ index: String) throws(CacheError) -> Connection? {
    // SQLite would wait for somebody at the other end of a pipe.
    var status = stat()
    guard lstat(index, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    let connection = try Connection(inMemory: ())
    do throws(CacheError) {
        try connection.copy(index)
        return try openTables(connection)
    } catch {
        return nil
    }
}

/// The index of a directory that can be used, or what can be read of it.
func openIndex(of directory: borrowing SourceDirectory, _ source: String?) throws(CacheError) -> TidyIndex {
    var failure = directory.failure
    if failure == nil {
        do throws(CacheError) {
            return try openTidyIndex(directory, source)
        } catch {
            guard error.isSickDisk else { throw error }
            failure = error
        }
    }
    return try TidyIndex(inMemoryOf: directory.index, source, failure!)
}

/// A second try starts with a new index, where the first one met damage. By then the first one's connections are
/// closed: they would remove the new one's log.
private func openTidyIndex(_ directory: borrowing SourceDirectory, _ source: String?) throws(CacheError) -> TidyIndex {
    do throws(CacheError) {
        return try TidyIndex(directory, source)
    } catch {
        guard error.isDamage else { throw error }
    }
    directory.markDamage()
    return try TidyIndex(directory, source)
}

extension Connection {
    /// The directory is this source's, from now on or since long. - Parameter source: nil: whichever it is.
    fileprivate func claim(source: String?) throws(CacheError) {
        guard let source else { return }
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
            let map = try blocks(of: row).durable
            guard map.filledBlocks > 0, let file = row.name?.open(in: objects, length: row.version.length) else {
                gone.append(row)
                continue
            }
            try? DataFile(row, file, BlockTable(length: row.version.length)).punchUnfilled(map)
        }
        try transaction { () throws(CacheError) in
            for row in gone { try delete(row.id) }
            try run("UPDATE objects SET unclean = 0 WHERE unclean")
        }
        for row in gone { row.name?.remove(in: objects) }
    }
}

/// What the index and its log take on the disk.
func sizeOnDisk(ofIndex path: String) -> Int64 {
    var sum: Int64 = 0
    for suffix in ["", "-wal", "-shm"] {
        var status = stat()
        if lstat(path + suffix, &status) == 0 { sum += Int64(status.st_blocks) * 512 }
    }
    return sum
}

extension DataFile {
    convenience init(_ row: ObjectRow, _ descriptor: consuming Descriptor, _ blocks: BlockTable, isPinned: Bool = false)
    {
        self.init(
            row: row.id, version: row.version, name: row.name, descriptor: descriptor, blocks: blocks,
            lastUse: row.lastUse, isPinned: isPinned)
    }
}
