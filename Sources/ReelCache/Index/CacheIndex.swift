import CSQLite
import Glibc
import ReelCore
import ReelThreads

/// The index of one cache, over two SQLite connections, so that a read does not wait for a transaction.
///
/// Each connection has its own lock. A thread that holds the write lock may take one leaf (a file's table of blocks,
/// the data files in use, the quota, the metadata that waits), and under the read lock none. Only these two, the
/// committer's and the evictor's are held over calls that wait for the disk; the page Architecture lists the leaves
/// that are held over other system calls.
final class CacheIndex: Sendable {
    private final class Locked: Sendable {
        let connection: Lock<IndexConnection?>
        init(_ connection: IndexConnection) { self.connection = Lock(connection, .index) }
    }

    private let writer: Locked
    private let reader: Locked
    private let directory: CacheDirectory
    /// nil if the index is plain.
    var cipher: CacheCipher? { directory.cipher }
    /// The reason why the index on the disk is not written to, nil if it is.
    let failure: CacheError?

    /// - Parameter reader: nil if the writer reads as well.
    private init(
        _ directory: CacheDirectory, _ writer: IndexConnection, _ reader: IndexConnection? = nil,
        failure: CacheError? = nil
    ) {
        self.directory = directory
        self.writer = Locked(writer)
        self.reader = reader.map { Locked($0) } ?? self.writer
        self.failure = failure
    }

    /// Opens the index of a directory and removes the leftovers of a crash. On a disk that takes no writes the readable
    /// part is copied into memory, and changes only there.
    /// - Parameter source: the source that the directory must belong to, or belongs to from now on, nil for any.
    static func open(_ directory: CacheDirectory, source: String?) throws(CacheError) -> CacheIndex {
        do throws(CacheError) {
            if let failure = directory.failure { throw failure }
            return try onDisk(directory, source)
        } catch {
            guard error.isSickDisk else { throw error }
            return try inMemory(directory, source, error)
        }
    }

    /// The second try starts with a new index where the first one met damage. The first one's connections are closed by
    /// then: they would remove the new one's log.
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
        try writer.claim(source: source, in: directory)
        try writer.tidyAfterCrash(directory)
        return CacheIndex(directory, writer, reader)
    }

    private static func inMemory(
        _ directory: CacheDirectory, _ source: String?, _ failure: CacheError
    ) throws(CacheError) -> CacheIndex {
        // An empty one where there is no index, or none of ours.
        var copy = try inMemoryCopy(directory.index, directory.cipher)
        if copy == nil { copy = try openTables(IndexConnection(inMemory: (), directory.cipher)) }
        guard let connection = copy else { throw .index(SQLITE_CORRUPT) }
        try connection.claim(source: source, in: directory)
        try connection.run("DELETE FROM objects WHERE length NOT BETWEEN 0 AND \(BlockSize.longestFile)")
        return CacheIndex(directory, connection, failure: failure)
    }

    /// Runs `body` under the write lock.
    func write<Result: Sendable>(
        _ body: (IndexConnection) throws(CacheError) -> Result
    ) throws(CacheError) -> Result { try use(writer, body) }

    /// Runs `body` under the read lock, beside a transaction of the writer.
    func read<Result: Sendable>(
        _ body: (IndexConnection) throws(CacheError) -> Result
    ) throws(CacheError) -> Result { try use(reader, body) }

    private func use<Result: Sendable>(
        _ locked: Locked, _ body: (IndexConnection) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try locked.connection.withLock { (connection) throws(CacheError) -> Result in
            guard let connection else { throw .closed }
            do throws(CacheError) {
                try connection.restoreSynchronous()
                return try body(connection)
            } catch {
                if error.isDamage { directory.markDamage() }
                throw error
            }
        }
    }

    /// Closes both connections: every later use throws `.closed`.
    func close() {
        // The last connection that closes folds the log into the index.
        for locked in [reader, writer] { locked.connection.withLock { $0 = nil } }
    }
}

private func inMemoryCopy(_ index: String, _ cipher: CacheCipher?) throws(CacheError) -> IndexConnection? {
    // On a pipe SQLite would wait for a writer at the other end.
    var status = stat()
    guard lstat(index, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    let connection = try IndexConnection(inMemory: (), cipher)
    do throws(CacheError) {
        try connection.copy(index)
        return try openTables(connection)
    } catch {
        if error == .encrypted || error == .plain { throw error }
        return nil
    }
}

extension IndexConnection {
    /// The source that the directory belongs to, as the user gave it, without credentials and query; nil where it has
    /// none yet.
    func source() throws(CacheError) -> String? {
        guard
            let value = try first(
                "SELECT value FROM meta WHERE name = ?", [.text("source")],
                { opened($0, from: 0, of: "source")?.text(0) })
        else { return nil }
        guard let value else { throw .wrongKey }
        return value
    }

    /// The directory belongs to this source, from now on or already. - Parameter source: nil for any.
    fileprivate func claim(source: String?, in directory: CacheDirectory) throws(CacheError) {
        guard let source else { return }
        let text = ResourceURL(trusted: source)?.description ?? String(source.prefix { $0 != "?" })
        let known: String?
        do throws(CacheError) {
            known = try self.source()
            guard known.map(ExactText.init) ?? ExactText(text) == ExactText(text) else { throw .otherSource }
        } catch {
            // No other source has a directory of this name, nor has another key.
            let isOwn = directory.isNamed(after: source) && [.otherSource, .wrongKey].contains(error)
            throw isOwn ? .index(SQLITE_CORRUPT) : error
        }
        if known == nil {
            try run("INSERT INTO meta VALUES (?, ?)", [.text("source")] + sealed([.text(text)], of: "source"))
        }
    }

    /// Punches bytes that no row covers out of objects that were in use when the last daemon died, and removes
    /// superseded objects.
    fileprivate func tidyAfterCrash(_ directory: CacheDirectory) throws(CacheError) {
        let nonsense = "superseded OR length NOT BETWEEN 0 AND \(BlockSize.longestFile)"
        var gone = try rows(where: nonsense)
        var clean: [Int64] = []
        for row in try rows(where: "unclean AND NOT (\(nonsense))") {
            let table = try blocks(of: row)
            guard table.states.filledBlocks > 0, let file = try directory.open(row) else {
                gone.append(row)
                continue
            }
            // Else the next start tries again.
            if (try? file.punch(allBut: table.states.durable, of: table.blockCount)) != nil { clean.append(row.id) }
        }
        try transaction { () throws(CacheError) in
            for row in gone { try delete(row.id) }
            for id in clean { try run("UPDATE objects SET unclean = 0 WHERE id = ?", [.integer(id)]) }
        }
        for row in gone { row.name?.remove(in: directory.objects) }
    }
}
