/// Columns of a row that is read.
protocol RowColumns {
    func isNull(_ column: Int32) -> Bool
    func integer(_ column: Int32) -> Int64
    func bytes(_ column: Int32) -> [UInt8]
    func text(_ column: Int32) -> String
}

extension RowColumns {
    func optionalInteger(_ column: Int32) -> Int64? { isNull(column) ? nil : integer(column) }
    /// A date, in seconds since 1970; nil outside of the years that HTTP can express (1601 to 9999), so that no number
    /// of the index, which is not trusted, overflows.
    func moment(_ column: Int32) -> Int64? {
        optionalInteger(column).flatMap { (-11_644_473_600..<253_402_300_800).contains($0) ? $0 : nil }
    }
    func flag(_ column: Int32) -> Bool { integer(column) != 0 }
    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }
}

/// Columns that were sealed as one value.
private struct OpenedColumns: RowColumns {
    /// The number of the first.
    var first: Int32
    var values: [Value]

    private func value(_ column: Int32) -> Value {
        let index = Int(column - first)
        return values.indices.contains(index) ? values[index] : .null
    }

    func isNull(_ column: Int32) -> Bool { if case .null = value(column) { true } else { false } }
    func integer(_ column: Int32) -> Int64 { if case .integer(let number) = value(column) { number } else { 0 } }
    func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }
    func bytes(_ column: Int32) -> [UInt8] {
        switch value(column) {
        case .bytes(let bytes): bytes
        case .text(let text): Array(text.utf8)
        case .null, .integer: []
        }
    }
}

/// What an encrypted index keeps of texts: nothing that can be read without the key. A plain index has them as they
/// are.
extension IndexConnection {
    /// Bytes of a block's proof in a row.
    var sumSize: Int { cipher == nil ? BlockSum.plainSize : BlockSum.sealedSize }

    /// A text that rows are found by.
    func key(_ text: String) -> Value { cipher.map { .bytes($0.lookup(text)) } ?? .text(text) }

    /// The text of such a column; nil where it does not open.
    func keyText(_ row: Statement, _ column: Int32) -> String? {
        guard let cipher else { return row.text(column) }
        return cipher.text(ofLookup: row.bytes(column))
    }

    /// Values that no row is found by: as they are, or sealed as one in the first column, with zeros in the others.
    /// - Parameter context: the row that they belong to: they do not open elsewhere.
    func sealed(_ values: [Value], of context: @autoclosure () -> String) -> [Value] {
        guard let cipher else { return values }
        let zeros = [Value](repeating: .integer(0), count: values.count - 1)
        return [.bytes(cipher.seal(packed(values), of: context()))] + zeros
    }

    /// The same columns of a row that is read, under the same numbers; nil where they do not open.
    /// - Parameter first: the first of them.
    func opened(_ row: Statement, from first: Int32, of context: @autoclosure () -> String) -> (any RowColumns)? {
        guard let cipher else { return row }
        return cipher.open(row.bytes(first), of: context()).flatMap(unpacked).map {
            OpenedColumns(first: first, values: $0)
        }
    }
}

/// Values one behind the other: a byte for the kind, then eight of an integer or a length, the least significant first,
/// then the bytes.
private func packed(_ values: [Value]) -> [UInt8] {
    var result: [UInt8] = []
    func add(_ kind: UInt8, _ number: Int64, _ bytes: some Collection<UInt8> = []) {
        result.append(kind)
        withUnsafeBytes(of: number.littleEndian) { result.append(contentsOf: $0) }
        result.append(contentsOf: bytes)
    }
    for value in values {
        switch value {
        case .null: add(0, 0)
        case .integer(let number): add(1, number)
        case .text(let text): add(2, Int64(text.utf8.count), text.utf8)
        case .bytes(let bytes): add(2, Int64(bytes.count), bytes)
        }
    }
    return result
}

private func unpacked(_ bytes: [UInt8]) -> [Value]? {
    var values: [Value] = []
    var rest = bytes[...]
    while let kind = rest.popFirst() {
        guard rest.count >= 8 else { return nil }
        let number = rest.prefix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        rest = rest.dropFirst(8)
        switch kind {
        case 0: values.append(.null)
        case 1: values.append(.integer(Int64(bitPattern: number)))
        default:
            guard number <= UInt64(rest.count) else { return nil }
            values.append(.bytes(Array(rest.prefix(Int(number)))))
            rest = rest.dropFirst(Int(number))
        }
    }
    return values
}
