import CSQLite
import Glibc
import Synchronization

/// One connection to an index, with its statements prepared once each.
///
/// `@unchecked Sendable` because of sqlite.org/threadsafe.html, multi-thread mode (`SQLITE_OPEN_NOMUTEX`): "SQLite can
/// be safely used by multiple threads provided that no single database connection nor any object derived from database
/// connection, such as a prepared statement, is used in two or more threads at the same time." `Gate` sees to that.
final class Connection: @unchecked Sendable {
    private let pointer: OpaquePointer
    private var statements: [String: Statement] = [:]

    /// - Parameter path: of an existing file (which may be empty), without a symbolic link in it.
    init(_ path: String) throws(CacheError) {
        var pointer: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE
        // sqlite.org/vfs.html: the log's index lives in this process's memory and not in a mapped file, where a disk that
        // takes nothing would end the program with SIGBUS. So nobody else can have the index open meanwhile.
        let code = sqlite3_open_v2(path, &pointer, flags, "unix-excl")
        guard code == SQLITE_OK, let pointer else {
            sqlite3_close_v2(pointer)
            throw .index(code)
        }
        self.pointer = pointer
        // A reader outside of the daemon (a backup) may hold the index for a moment; streams stand still so long.
        sqlite3_busy_timeout(pointer, 500)
    }

    /// An empty index that lives as long as the connection.
    init(inMemory: Void) throws(CacheError) {
        var pointer: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let code = sqlite3_open_v2(":memory:", &pointer, flags, nil)
        guard code == SQLITE_OK, let pointer else {
            sqlite3_close_v2(pointer)
            throw .index(code)
        }
        self.pointer = pointer
    }

    /// Takes over everything from the index at `path`, which is only read. sqlite.org/backup.html
    func copy(_ path: String) throws(CacheError) {
        // Without a log beside it, or where the log cannot be used, the file is taken as it is.
        let escaped = path.utf8.map { byte in
            let isPlain = byte == UInt8(ascii: "/") || byte > 0x20 && byte < 0x7F && !"?#%".utf8.contains(byte)
            return isPlain ? String(UnicodeScalar(byte)) : "%" + String(Int(byte) + 256, radix: 16).suffix(2)
        }.joined()
        for query in ["mode=ro", "mode=ro&immutable=1"] {
            var source: OpaquePointer?
            defer { sqlite3_close_v2(source) }
            let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
            guard sqlite3_open_v2("file:\(escaped)?\(query)", &source, flags, nil) == SQLITE_OK,
                let backup = sqlite3_backup_init(pointer, "main", source, "main")
            else { continue }
            sqlite3_backup_step(backup, -1)
            if sqlite3_backup_finish(backup) == SQLITE_OK { return }
        }
        throw .index(SQLITE_CANTOPEN)
    }

    deinit {
        statements = [:]
        sqlite3_close_v2(pointer)
    }

    /// Runs a statement that gives no rows, or whose rows nobody wants.
    func run(_ sql: String, _ values: [Value] = []) throws(CacheError) {
        try query(sql, values) { _ in true }
    }

    /// Calls `row` for each row until it says false.
    func query(_ sql: String, _ values: [Value] = [], _ row: (Statement) -> Bool) throws(CacheError) {
        let statement = try prepared(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() {
            guard row(statement) else { break }
        }
    }

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

    /// Rows that the last statement has changed.
    var changes: Int { Int(sqlite3_changes(pointer)) }

    var lastRow: Int64 { sqlite3_last_insert_rowid(pointer) }

    /// All of it or nothing; durable when this returns (`synchronous=FULL` syncs the log at each commit).
    func transaction<Result>(_ body: () throws(CacheError) -> Result) throws(CacheError) -> Result {
        try run("BEGIN IMMEDIATE")
        do throws(CacheError) {
            let result = try body()
            try run("COMMIT")
            return result
        } catch {
            // SQLite may have rolled back by itself (a full disk); the second time fails, and says nothing new.
            try? run("ROLLBACK")
            throw error
        }
    }

    /// The same, durable only with the next transaction that is: a sync of the log takes along all that is in it before.
    func unsynced<Result>(_ body: () throws(CacheError) -> Result) throws(CacheError) -> Result {
        try setSynchronous("NORMAL")
        do throws(CacheError) {
            let result = try transaction(body)
            try setSynchronous("FULL")
            return result
        } catch {
            try setSynchronous("FULL")
            throw error
        }
    }

    /// Not from the kept statements: this pragma takes effect when it is prepared (sqlite.org/pragma.html).
    private func setSynchronous(_ level: String) throws(CacheError) {
        _ = try Statement("PRAGMA synchronous=\(level)", pointer).step()
    }

    private func prepared(_ sql: String) throws(CacheError) -> Statement {
        if let statement = statements[sql] { return statement }
        let statement = try Statement(sql, pointer)
        statements[sql] = statement
        return statement
    }
}

/// A connection and its lock. Nothing else is locked inside but leaves: the memory of an object or of the store.
final class Gate: Sendable {
    private let connection: Mutex<Connection?>

    private let damageMark: String

    /// - Parameter damageMark: path of a file that is made when the index turns out to be broken.
    init(_ connection: Connection, damageMark: String) {
        self.connection = Mutex(connection)
        self.damageMark = damageMark
    }

    func use<Result: Sendable>(
        _ body: (Connection) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try connection.withLock { (connection) throws(CacheError) -> Result in
            guard let connection else { throw .closed }
            do throws(CacheError) {
                return try body(connection)
            } catch {
                if error.isDamage { _ = try? Descriptor(damageMark, O_WRONLY | O_CREAT) }
                throw error
            }
        }
    }

    func close() { connection.withLock { $0 = nil } }
}
