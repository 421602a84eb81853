import CSQLite

/// A value that SQLite takes. Texts are stored as blobs of UTF-8: a key may hold any byte, a zero too.
enum Value: Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])

    init(_ number: Int64?) { self = number.map { .integer($0) } ?? .null }
    init(_ text: String?) { self = text.map { .text($0) } ?? .null }
    init(_ flag: Bool) { self = .integer(flag ? 1 : 0) }
}

/// One prepared statement. It must not outlive its connection.
final class Statement: RowColumns {
    private let pointer: OpaquePointer

    init(_ sql: String, _ connection: OpaquePointer) throws(CacheError) {
        var pointer: OpaquePointer?
        let code = sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &pointer, nil)
        guard code == SQLITE_OK, let pointer else {
            throw .sqlite(sqlite3_extended_errcode(connection), on: connection)
        }
        self.pointer = pointer
    }

    deinit { sqlite3_finalize(pointer) }

    func bind(_ values: [Value]) throws(CacheError) {
        for (index, value) in values.enumerated() {
            let column = Int32(index + 1)
            let code =
                switch value {
                case .null: sqlite3_bind_null(pointer, column)
                case .integer(let number): sqlite3_bind_int64(pointer, column, number)
                case .text(var text):
                    text.withUTF8 { bind(UnsafeRawBufferPointer($0), column) }
                case .bytes(let bytes): bytes.withUnsafeBytes { bind($0, column) }
                }
            guard code == SQLITE_OK else { throw .sqlite(code, on: sqlite3_db_handle(pointer)) }
        }
    }

    private func bind(_ bytes: UnsafeRawBufferPointer, _ column: Int32) -> Int32 {
        // A null pointer would bind NULL, which is not the empty text.
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return sqlite3_bind_zeroblob(pointer, column, 0) }
        return reel_bind_text(pointer, column, base, Int32(clamping: bytes.count))
    }

    /// Goes to the next row. - Returns: false at the end.
    func step() throws(CacheError) -> Bool {
        let code = sqlite3_step(pointer)
        switch code & 0xFF {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw .sqlite(code, on: sqlite3_db_handle(pointer))
        }
    }

    func reset() { sqlite3_reset(pointer) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(pointer, column) == SQLITE_NULL }
    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(pointer, column) }
    func text(_ column: Int32) -> String { String(decoding: raw(column), as: UTF8.self) }
    func bytes(_ column: Int32) -> [UInt8] { Array(raw(column)) }

    private func raw(_ column: Int32) -> UnsafeRawBufferPointer {
        // SQLite demands this order: first the value, then its size.
        let base = sqlite3_column_blob(pointer, column)
        return UnsafeRawBufferPointer(start: base, count: base == nil ? 0 : Int(sqlite3_column_bytes(pointer, column)))
    }
}
