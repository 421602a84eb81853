import CSQLite
import Glibc
import ReelCore
import ReelThreads

/// The index of one cache, over two SQLite connections, so that a read does not wait for a transaction.
///
/// Each connection is used under a lock of its own. Under the write lock one leaf may be locked (a file's table of
/// blocks, the data files in use, the quota, the metadata that waits); the read lock stands alone. These are the only
/// locks held over disk operations.
final class CacheIndex: Sendable {
    private final class Locked: Sendable {
        let connection: Lock<IndexConnection?>
        init(_ connection: IndexConnection) { self.connection = Lock(connection, .index) }
    }

    private let writer: Locked
    private let reader: Locked
    private let directory: CacheDirectory
    /// nil where the directory is left as it is.
    let journal: FillJournal?
    /// Why the index on the disk is not written to; nil: it is.
    let failure: CacheError?

    /// - Parameter reader: nil: the writer reads as well.
    private init(
        _ directory: CacheDirectory, _ writer: IndexConnection, _ reader: IndexConnection? = nil,
        _ journal: FillJournal? = nil, failure: CacheError? = nil
    ) {
        self.directory = directory
        self.writer = Locked(writer)
        self.reader = reader.map { Locked($0) } ?? self.writer
        self.journal = journal
        self.failure = failure
    }

    /// The index of a directory, without what a crash left in it. A disk that takes nothing leaves what can be read of
    /// it: that is copied into memory, and changes there alone.
    /// - Parameter source: whose the directory must be, or becomes; nil: whatever it says.
    static func open(_ directory: CacheDirectory, source: String?) throws(CacheError) -> CacheIndex {
        do throws(CacheError) {
            if let failure = directory.failure { throw failure }
            return try onDisk(directory, source)
        } catch {
            guard error.isSickDisk else { throw error }
            return try inMemory(directory, source, error)
        }
    }

    /// A second try starts with a new index, where the first one met damage. By then the first one's connections are
    /// closed: they would remove the new one's log.
    private static func onDisk(_ directory: CacheDirectory, _ source: String?) throws(CacheError) -> CacheIndex {
        do throws(CacheError) {
            return try tidied(directory, source)
        } catch {
            guard error.isDamage else { throw error }
        }
        directory.markDamage()
        return try tidied(directory, source)
    }

    private static func tidied(_ directory: CacheDirectory, _ source: String?) throws(CacheError) -> CacheIndex {
        let (writer, reader) = try directory.connections()
        try writer.claim(source: source)
        let journal = try FillJournal(directory.own)
        try writer.recover(journal, directory)
        try writer.tidyAfterCrash(directory)
        return CacheIndex(directory, writer, reader, journal)
    }

    private static func inMemory(
        _ directory: CacheDirectory, _ source: String?, _ failure: CacheError
    ) throws(CacheError) -> CacheIndex {
        // Where there is nothing to read, or nothing that is ours, an empty one.
        var copy = try inMemoryCopy(directory.index)
        if copy == nil { copy = try openTables(IndexConnection(inMemory: ())) }
        guard let connection = copy else { throw .index(SQLITE_CORRUPT) }
        try connection.claim(source: source)
        try connection.run("DELETE FROM objects WHERE length NOT BETWEEN 0 AND \(DataFile.longest)")
        return CacheIndex(directory, connection, failure: failure)
    }

    /// Under the write lock.
    func write<Result: Sendable>(
        _ body: (IndexConnection) throws(CacheError) -> Result
    ) throws(CacheError) -> Result { try use(writer, body) }

    /// Beside whatever is written meanwhile.
    func read<Result: Sendable>(
        _ body: (IndexConnection) throws(CacheError) -> Result
    ) throws(CacheError) -> Result { try use(reader, body) }

    private func use<Result: Sendable>(
        _ locked: Locked, _ body: (IndexConnection) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try locked.connection.withLock { (connection) throws(CacheError) -> Result in
            guard let connection else { throw .closed }
            do throws(CacheError) {
                return try body(connection)
            } catch {
                if error.isDamage { directory.markDamage() }
                throw error
            }
        }
    }

    /// Every use throws `.closed` from here on.
    func close() {
        // The last connection to close folds the log into the index.
        for locked in [reader, writer] { locked.connection.withLock { $0 = nil } }
    }
}

private func inMemoryCopy(_ index: String) throws(CacheError) -> IndexConnection? {
    // SQLite would wait for somebody at the other end of a pipe.
    var status = stat()
    guard lstat(index, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    let connection = try IndexConnection(inMemory: ())
    do throws(CacheError) {
        try connection.copy(index)
        return try openTables(connection)
    } catch {
        return nil
    }
}

extension IndexConnection {
    /// The source that the directory belongs to, as the user gave it, without credentials and query.
    func source() throws(CacheError) -> String? {
        try first("SELECT value FROM meta WHERE name = ?", [.text("source")]) { $0.text(0) }
    }

    /// The directory is this source's, from now on or since long. - Parameter source: nil: whichever it is.
    fileprivate func claim(source: String?) throws(CacheError) {
        guard let source else { return }
        let text = ResourceURL(source)?.description ?? String(source.prefix { $0 != "?" })
        let known = try self.source()
        guard known.map(ExactText.init) ?? ExactText(text) == ExactText(text) else { throw .otherSource }
        if known == nil { try run("INSERT INTO meta VALUES (?, ?)", [.text("source"), .text(text)]) }
    }

    /// Objects that were in use when the last daemon died hold bytes that no row tells of; superseded ones go.
    fileprivate func tidyAfterCrash(_ directory: CacheDirectory) throws(CacheError) {
        let nonsense = "superseded OR length NOT BETWEEN 0 AND \(DataFile.longest)"
        var gone = try rows(where: nonsense)
        for row in try rows(where: "unclean AND NOT (\(nonsense))") {
            let map = try blocks(of: row).durable
            guard map.filledBlocks > 0, let file = directory.open(row) else {
                gone.append(row)
                continue
            }
            try? DataFile(row, file, BlockTable(length: row.version.length)).punchUnfilled(map)
        }
        try transaction { () throws(CacheError) in
            for row in gone { try delete(row.id) }
            try run("UPDATE objects SET unclean = 0 WHERE unclean")
        }
        for row in gone { row.name?.remove(in: directory.objects) }
    }
}
