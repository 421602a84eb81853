import ReelCore

/// A row of `objects`: one data file in the index.
struct ObjectRow: Sendable {
    var id: Int64
    var version: Version
    /// nil where the row holds nonsense, or does not open.
    var name: FileName?
    /// Bytes in filled blocks, never more than the length: the index is not trusted.
    var cached: Int64
    var lastUse: Int64
    var isSuperseded: Bool
    /// The file may hold bytes that no row covers.
    var isUnclean: Bool

    static let columns = "id, key, length, tag, weak, modified, file, \(cached), last_use, superseded, unclean"
    static let cached = "min(max(cached, 0), max(length, 0))"

    init(_ row: Statement, _ index: IndexConnection) {
        id = row.integer(0)
        name = FileName(bytes: row.bytes(6))
        let key = index.keyText(row, 1)
        let length = row.integer(2)
        let columns = index.opened(row, from: 3, of: Self.context(name, key ?? "", length))
        version = Version(
            key: key ?? "",
            validator: columns.map { Validator($0, at: 3) } ?? Validator(entityTag: nil, lastModified: nil),
            length: length)
        if key == nil || columns == nil { name = nil }
        cached = row.integer(7)
        lastUse = row.integer(8)
        isSuperseded = row.flag(9)
        isUnclean = row.flag(10)
    }

    /// What the sealed columns of a row belong to: they prove what stands in clear beside them.
    static func context(_ name: FileName?, _ key: String, _ length: Int64) -> String {
        "version \(name?.text ?? "") \(length) \(key)"
    }

    /// How well this row fits a wanted validator; nil where it is another version.
    func fit(_ wanted: Validator) -> Int? {
        version.validator.fit(wanted).map { $0 + (isSuperseded ? 0 : Validator.bestFit + 1) }
    }
}

extension IndexConnection {
    /// Bytes in filled blocks of all objects, and the last use of any.
    func totals() throws(CacheError) -> (used: Int64, lastUse: Int64) {
        let sql = "SELECT sum(\(ObjectRow.cached)), max(last_use) FROM objects"
        return try first(sql) { ($0.integer(0), $0.integer(1)) } ?? (0, 0)
    }

    /// Whether nothing is known of the source.
    func isUnused() throws(CacheError) -> Bool {
        let tables = ["objects", "listings", "resources", "pins", "settings"]
        let sql = tables.map { "SELECT 1 FROM \($0)" }.joined(separator: " UNION ALL ") + " LIMIT 1"
        return try first(sql) { _ in true } == nil
    }

    /// The row that fits best, the last used where several do.
    func row(of version: Version) throws(CacheError) -> ObjectRow? {
        // Of rows that fit equally well the first one stays.
        let values = [key(version.key), .integer(version.length)]
        var best: (fit: Int, row: ObjectRow)?
        for row in try rows(where: "key = ? AND length = ? ORDER BY last_use DESC", values) {
            if cipher == nil || row.name != nil, let fit = row.fit(version.validator), fit > best?.fit ?? -1 {
                best = (fit, row)
            }
        }
        return best?.row
    }

    /// The row of this number; nil if there is none.
    func row(_ id: Int64) throws(CacheError) -> ObjectRow? { try rows(where: "id = ?", [.integer(id)]).first }

    /// - Parameter condition: the SQL behind WHERE, with a `?` for each value: each text is prepared once and kept.
    func rows(where condition: String, _ values: [Value] = []) throws(CacheError) -> [ObjectRow] {
        try all("SELECT \(ObjectRow.columns) FROM objects WHERE \(condition)", values) { ObjectRow($0, self) }
    }

    func insert(_ version: Version, _ name: FileName, lastUse: Int64) throws(CacheError) -> Int64 {
        let values = [
            [key(version.key), .integer(version.length)],
            sealed(version.validator.columns, of: ObjectRow.context(name, version.key, version.length)),
            [.bytes(name.bytes), .integer(lastUse)],
        ]
        let columns = "key, length, tag, weak, modified, file, last_use, cached, unclean, superseded"
        try run("INSERT INTO objects (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 1, 0)", Array(values.joined()))
        return lastRow
    }

    /// Adds the validators of a later answer of the same version (a tag that was missing, or a strong one for a weak
    /// one), so that a third answer that contradicts them counts as another version. - Returns: what is known then.
    func know(_ wanted: Validator, of row: ObjectRow) throws(CacheError) -> Validator {
        let mine = row.version.validator
        var best = wanted
        if wanted.entityTag?.isWeak ?? true, let tag = mine.entityTag { best.entityTag = tag }
        best.lastModified = wanted.lastModified ?? mine.lastModified
        if best != mine { try set(best, of: row) }
        return best
    }

    func set(_ validator: Validator, of row: ObjectRow) throws(CacheError) {
        var version = row.version
        version.validator = validator
        try set(version, row.name, of: row.id)
    }

    /// Changes length and validator of a row.
    func set(_ version: Version, _ name: FileName?, of id: Int64) throws(CacheError) {
        let values = sealed(version.validator.columns, of: ObjectRow.context(name, version.key, version.length))
        let sql = "UPDATE objects SET length = ?, tag = ?, weak = ?, modified = ? WHERE id = ?"
        try run(sql, [.integer(version.length)] + values + [.integer(id)])
    }

    /// Takes over the rows of an index of version 3, in which nothing proves a version's length: as long as they are
    /// there they hold for the length that they have now.
    func proveLengths(_ cipher: CacheCipher) throws(CacheError) {
        let rows = try all("SELECT id, key, length, tag, file FROM objects") { row -> (id: Int64, sealed: [UInt8])? in
            guard let name = FileName(bytes: row.bytes(4)), let key = keyText(row, 1),
                let values = cipher.open(row.bytes(3), of: "object \(name.text) \(key)")
            else { return nil }
            return (row.integer(0), cipher.seal(values, of: ObjectRow.context(name, key, row.integer(2))))
        }
        // A row that does not open is believed by no read, and goes with its bytes.
        for row in rows.compactMap(\.self) {
            try run("UPDATE objects SET tag = ? WHERE id = ?", [.bytes(row.sealed), .integer(row.id)])
        }
    }

    /// Sets the bytes in filled blocks, and notes that the file may hold bytes outside of them.
    func setUnclean(_ id: Int64, cached: Int64) throws(CacheError) {
        try run("UPDATE objects SET cached = ?, unclean = 1 WHERE id = ?", [.integer(cached), .integer(id)])
    }

    func delete(_ id: Int64) throws(CacheError) {
        try run("DELETE FROM extents WHERE object = ?", [.integer(id)])
        try run("DELETE FROM objects WHERE id = ?", [.integer(id)])
    }

    /// The blocks of an object that are filled, and the last uses of its extents.
    func blocks(of row: ObjectRow) throws(CacheError) -> BlockTable {
        var blocks = BlockTable(
            length: row.version.length, lastUse: row.lastUse, keepsSums: cipher != nil, hasLeftovers: row.isUnclean)
        try query("SELECT extent, word, last_use FROM extents WHERE object = ?", [.integer(row.id)]) {
            blocks.states.load(
                Int(clamping: $0.integer(0)), word: UInt64(bitPattern: $0.integer(1)), lastUse: $0.integer(2))
            return true
        }
        return blocks
    }

    /// The checksums of one extent; nil where there is no row, or nonsense in it.
    func sums(of object: Int64, extent: Int) throws(CacheError) -> ExtentSums? {
        let sql = "SELECT word, sums FROM extents WHERE object = ? AND extent = ?"
        return try first(sql, [.integer(object), .integer(Int64(extent))]) {
            ExtentSums($0.bytes(1), filled: UInt64(bitPattern: $0.integer(0)), size: sumSize)
        } ?? nil
    }

    /// Writes words, and the checksums of the blocks that are new in them.
    func write(_ rows: [BlockTable.Row], of file: DataFile) throws(CacheError) {
        let last = (file.version.length - 1) / BlockSize.extent
        for row in rows {
            let place: [Value] = [.integer(file.row), .integer(Int64(row.extent))]
            if row.word == 0 {
                try run("DELETE FROM extents WHERE object = ? AND extent = ?", place)
                continue
            }
            let older = try sums(of: file.row, extent: row.extent) ?? ExtentSums()
            let isEdge = row.extent == 0 || Int64(row.extent) == last
            let values: [Value] = [
                .integer(Int64(bitPattern: row.word)), .bytes(row.sums.over(older).bytes(size: sumSize)),
                .integer(row.lastUse),
                Value(isEdge),
            ]
            try run("INSERT OR REPLACE INTO extents VALUES (?, ?, ?, ?, ?, ?)", place + values)
        }
    }

    func write(_ uses: [(extent: Int, lastUse: Int64)], of object: Int64) throws(CacheError) {
        for use in uses {
            let sql = "UPDATE extents SET last_use = ? WHERE object = ? AND extent = ?"
            try run(sql, [.integer(use.lastUse), .integer(object), .integer(Int64(use.extent))])
        }
    }

    func isPinned(_ text: String) throws(CacheError) -> Bool {
        try first("SELECT 1 FROM pins WHERE key = ?", [key(text)]) { _ in true } ?? false
    }
}
