import CSQLite

/// The index's tables. A change of these texts is a change of the format: raise `Schema.version` with it.
enum Schema {
    /// The number in `user_version`; 0 is a new file. An index of version 1, without checksums, is set aside like a
    /// damaged one. One of version 2 is taken over. The number keeps out programs that know no more than that: they
    /// would take a mirror's number in the column `weak` for a weak tag, and its bytes for the source's.
    static let version = 5
    private static let olderVersion = 2
    /// The number of an encrypted index: the same tables, whose texts are sealed. One of version 3 is taken over.
    static let sealedVersion = 4
    private static let olderSealedVersion = 3
    /// An index of a higher number is a newer program's.
    static let newestVersion = max(version, sealedVersion)

    static func isPlain(_ version: Int) -> Bool { version == olderVersion || version == Self.version }
    static func isSealed(_ version: Int) -> Bool { (olderSealedVersion...sealedVersion).contains(version) }

    /// In the form in which `sqlite_schema` gives them back, so that an index with other tables, views or triggers is
    /// not used.
    static let statements = [
        "CREATE TABLE meta (name BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE settings (name BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        """
        CREATE TABLE resources (key BLOB PRIMARY KEY, length INTEGER, tag BLOB, weak INTEGER NOT NULL, modified INTEGER, \
        media_type BLOB, ranges INTEGER NOT NULL, checked INTEGER NOT NULL) WITHOUT ROWID
        """,
        """
        CREATE TABLE listings (id INTEGER PRIMARY KEY, directory BLOB NOT NULL UNIQUE, fetched INTEGER NOT NULL, \
        complete INTEGER NOT NULL)
        """,
        """
        CREATE TABLE entries (listing INTEGER, position INTEGER, name BLOB NOT NULL, url BLOB NOT NULL, \
        is_directory INTEGER NOT NULL, length INTEGER, modified INTEGER, PRIMARY KEY (listing, position)) WITHOUT ROWID
        """,
        // AUTOINCREMENT: the number of a deleted object never names another one.
        """
        CREATE TABLE objects (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL, length INTEGER NOT NULL, tag BLOB, \
        weak INTEGER NOT NULL, modified INTEGER, file BLOB NOT NULL UNIQUE, cached INTEGER NOT NULL, \
        last_use INTEGER NOT NULL, unclean INTEGER NOT NULL, superseded INTEGER NOT NULL)
        """,
        "CREATE INDEX objects_by_key ON objects (key)",
        """
        CREATE TABLE extents (object INTEGER, extent INTEGER, word INTEGER NOT NULL, sums BLOB NOT NULL, \
        last_use INTEGER NOT NULL, edge INTEGER NOT NULL, PRIMARY KEY (object, extent)) WITHOUT ROWID
        """,
        "CREATE INDEX extents_by_use ON extents (edge, last_use)",
        "CREATE TABLE pins (key BLOB PRIMARY KEY) WITHOUT ROWID",
    ]
}

/// Opens an index. A new file gets its tables. nil if the index is broken, or not ours.
/// - Parameter path: of an existing file, which may be empty.
func openIndex(_ path: String, _ cipher: CacheCipher? = nil) throws(CacheError) -> IndexConnection? {
    do throws(CacheError) {
        let connection = try IndexConnection(path, cipher)
        try connection.run("PRAGMA journal_mode=WAL")
        try connection.run("PRAGMA synchronous=FULL")
        try connection.run("PRAGMA journal_size_limit=\(4 << 20)")
        return try openTables(connection)
    } catch {
        // SQLITE_ERROR means "table already exists": the file has version 0 and is not empty.
        if error.isDamage || error == .index(SQLITE_ERROR) { return nil }
        throw error
    }
}

/// Makes the tables in a new index. - Returns: nil where the index has other tables than ours.
func openTables(_ connection: IndexConnection) throws(CacheError) -> IndexConnection? {
    // Half a MiB for each of two connections keeps the program small.
    for pragma in ["trusted_schema=OFF", "cell_size_check=ON", "cache_size=-512", "temp_store=MEMORY"] {
        try connection.run("PRAGMA \(pragma)")
    }
    let found = try connection.first("PRAGMA user_version") { Int($0.integer(0)) } ?? 0
    let wanted = connection.cipher == nil ? Schema.version : Schema.sealedVersion
    guard found <= Schema.newestVersion else {
        throw CacheError.newerIndex(found: found, known: wanted)
    }
    // An index of version 1 is plain, and of no use.
    if Schema.isSealed(found), connection.cipher == nil { throw CacheError.encrypted }
    if Schema.isPlain(found), connection.cipher != nil { throw CacheError.plain }
    guard found == 0 || Schema.isPlain(found) || Schema.isSealed(found) else { return nil }
    if found == 0 {
        try connection.transaction { () throws(CacheError) in
            for statement in Schema.statements { try connection.run(statement) }
            try connection.run("PRAGMA user_version=\(wanted)")
        }
    }
    let tablesOnly = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    let tables = try connection.all(tablesOnly) { $0.text(0) }
    guard Set(tables) == Set(Schema.statements) else { return nil }
    if found != 0, found != wanted {
        try connection.transaction { () throws(CacheError) in
            if let cipher = connection.cipher { try connection.proveLengths(cipher) }
            try connection.run("PRAGMA user_version=\(wanted)")
        }
    }
    return connection
}
