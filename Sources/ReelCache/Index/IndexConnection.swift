import CSQLite
import Glibc
import ReelCore

/// One connection to an index, with its statements prepared once each.
///
/// `@unchecked Sendable` because of sqlite.org/threadsafe.html, multi-thread mode (`SQLITE_OPEN_NOMUTEX`): "SQLite can
/// be safely used by multiple threads provided that no single database connection nor any object derived from database
/// connection, such as a prepared statement, is used in two or more threads at the same time." The locks of
/// `CacheIndex` see to that.
final class IndexConnection: @unchecked Sendable {
    private let pointer: OpaquePointer
    /// nil if the index is plain.
    let cipher: CacheCipher?
    private(set) var statements: [String: Statement] = [:]
    /// More than the texts in the sources. A debug build ends beyond it.
    private static let mostStatements = 100
    /// False after `unsynced` could not make the next commits durable again.
    var isSynchronous = true

    /// - Parameter path: of an existing file (which may be empty), without a symbolic link in it.
    init(_ path: String, _ cipher: CacheCipher? = nil) throws(CacheError) {
        self.cipher = cipher
        // unix-excl (sqlite.org/vfs.html) keeps the log's index in this process's memory: in a mapped file a disk that
        // takes no writes would end the program with SIGBUS. No other process can open the index meanwhile.
        pointer = try Self.open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, "unix-excl")
        // A reader outside of the daemon (a backup) may hold the index for a moment; streams wait for it.
        sqlite3_busy_timeout(pointer, 500)
    }

    /// An empty index, in memory, that lives as long as the connection.
    init(inMemory: Void, _ cipher: CacheCipher? = nil) throws(CacheError) {
        self.cipher = cipher
        pointer = try Self.open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
    }

    private static func open(_ path: String, _ flags: Int32, _ system: String? = nil) throws(CacheError)
        -> OpaquePointer
    {
        var pointer: OpaquePointer?
        let code = sqlite3_open_v2(path, &pointer, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, system)
        guard code == SQLITE_OK, let pointer else {
            defer { sqlite3_close_v2(pointer) }
            throw .sqlite(code, on: pointer)
        }
        return pointer
    }

    /// Without locks and, for its only user, without the file that has the log's index, which a read-only disk does not
    /// let SQLite make. sqlite.org/wal.html#use_of_wal_without_shared_memory
    private static let withLog = "mode=ro&vfs=unix-none"

    /// Copies the whole index at `path`, which is only read. sqlite.org/backup.html
    func copy(_ path: String) throws(CacheError) {
        let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let escaped = parts.map { percentEncodedSegment($0) }.joined(separator: "/")
        // The last try takes the file as it is: it has no log beside it, or an unusable one.
        for query in ["mode=ro", Self.withLog, "mode=ro&immutable=1"] {
            if query == Self.withLog, access(path + "-wal", R_OK) != 0 { continue }
            guard let source = try? Self.open("file:\(escaped)?\(query)", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI) else {
                continue
            }
            defer { sqlite3_close_v2(source) }
            if query == Self.withLog {
                // A close removes a log that it takes for done with.
                var staysInPlace: Int32 = 1
                sqlite3_file_control(source, "main", SQLITE_FCNTL_PERSIST_WAL, &staysInPlace)
                sqlite3_exec(source, "PRAGMA locking_mode=EXCLUSIVE", nil, nil, nil)
            }
            guard let backup = sqlite3_backup_init(pointer, "main", source, "main") else { continue }
            sqlite3_backup_step(backup, -1)
            if sqlite3_backup_finish(backup) == SQLITE_OK { return }
        }
        throw .index(SQLITE_CANTOPEN)
    }

    deinit {
        statements = [:]
        sqlite3_close_v2(pointer)
    }

    /// Runs a statement and ignores its rows.
    func run(_ sql: String, _ values: [Value] = []) throws(CacheError) {
        try query(sql, values) { _ in true }
    }

    /// Calls `row` for each row until that returns false.
    func query(_ sql: String, _ values: [Value] = [], _ row: (Statement) -> Bool) throws(CacheError) {
        let statement = try prepared(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() {
            guard row(statement) else { break }
        }
    }

    /// All rows.
    func all<Row>(_ sql: String, _ values: [Value] = [], _ row: (Statement) -> Row) throws(CacheError) -> [Row] {
        var rows: [Row] = []
        try query(sql, values) {
            rows.append(row($0))
            return true
        }
        return rows
    }

    /// The first row; nil where there is none.
    func first<Result>(_ sql: String, _ values: [Value] = [], _ row: (Statement) -> Result) throws(CacheError)
        -> Result?
    {
        var result: Result?
        try query(sql, values) {
            result = row($0)
            return false
        }
        return result
    }

    /// The number of rows that the last statement has changed.
    var changes: Int { Int(sqlite3_changes(pointer)) }

    var lastRow: Int64 { sqlite3_last_insert_rowid(pointer) }

    /// Runs `body` as one transaction, durable when this returns (`synchronous=FULL` syncs the log at each commit).
    func transaction<Result>(_ body: () throws(CacheError) -> Result) throws(CacheError) -> Result {
        try run("BEGIN IMMEDIATE")
        do throws(CacheError) {
            let result = try body()
            try run("COMMIT")
            return result
        } catch {
            // SQLite may have rolled back by itself (a full disk); then this fails, and its error says nothing new.
            try? run("ROLLBACK")
            throw error
        }
    }

    /// Runs `body` as one transaction that becomes durable only with the next `transaction`: a sync of the log covers
    /// all that is in it before.
    func unsynced<Result>(_ body: () throws(CacheError) -> Result) throws(CacheError) -> Result {
        try setSynchronous(false)
        defer { try? setSynchronous(true) }
        return try transaction(body)
    }

    /// Makes commits durable again where `unsynced` could not. Comes before each use of the connection.
    func restoreSynchronous() throws(CacheError) { if !isSynchronous { try setSynchronous(true) } }

    /// Prepared each time: this pragma takes effect when it is prepared (sqlite.org/pragma.html).
    private func setSynchronous(_ isOn: Bool) throws(CacheError) {
        _ = try Statement("PRAGMA synchronous=\(isOn ? "FULL" : "NORMAL")", pointer).step()
        isSynchronous = isOn
    }

    private func prepared(_ sql: String) throws(CacheError) -> Statement {
        if let statement = statements[sql] { return statement }
        // A text with a number in it would be kept for each number.
        assert(statements.count < Self.mostStatements, "values are to be bound: \(sql)")
        let statement = try Statement(sql, pointer)
        statements[sql] = statement
        return statement
    }
}
