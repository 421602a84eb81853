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
        let code = sqlite3_open_v2(path, &pointer, flags, nil)
        guard code == SQLITE_OK, let pointer else {
            sqlite3_close_v2(pointer)
            throw .index(code)
        }
        self.pointer = pointer
        // A reader outside of the daemon (`status`, a backup) may hold the index for a moment.
        sqlite3_busy_timeout(pointer, 5000)
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
