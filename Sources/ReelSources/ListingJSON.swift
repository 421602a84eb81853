import ReelCore

/// The array that nginx's `autoindex_format json` writes: name, type, mtime (an HTTP date) and size (exact).
///
/// Read by hand, item by item: a decoder builds the whole document before it can say that it is none of these, 700 MiB
/// for 64 MiB of another shape. And nginx writes names that are no UTF-8 as they are, which JSON is not.
func parseJSON(
    _ body: ArraySlice<UInt8>, _ directory: ListingDirectory, limit: Int, _ stop: StopCheck
) throws(SourceRefusal) -> ListingMerge {
    var entries = ListingMerge(limit: limit)
    var reader = JSONReader(body)
    var stop = stop
    try reader.list { (reader) throws(SourceRefusal) in
        if stop.step() { throw .stopped }
        guard let item = try reader.item(), !item.name.isEmpty, item.name != [0x2E], item.name != [0x2E, 0x2E],
            let url = directory.child(encodedSegment(item.name[...])[...], item.isDirectory)
        else { return }
        entries.add(ListingLink(name: item.name, isDirectory: item.isDirectory, url: url), item.facts)
        if entries.isTooLarge { throw .tooManyEntries }
    }
    return entries
}

/// JSON (RFC 8259), as far as nginx's array needs it. Whatever it does not expect is `.cutShort`.
private struct JSONReader {
    typealias Item = (name: [UInt8], isDirectory: Bool, facts: ListingFacts)

    private enum Value {
        case text([UInt8])
        /// A number, `true`, `false` or `null`, as it stands there.
        case word(ArraySlice<UInt8>)
        case nested

        func text() throws(SourceRefusal) -> [UInt8] {
            if case .text(let text) = self { text } else { throw .cutShort }
        }

        /// nil for `null`, and for a number that is negative or does not fit.
        func length() throws(SourceRefusal) -> Int64? {
            guard case .word(let word) = self else { throw .cutShort }
            if word.elementsEqual("null".utf8) { return nil }
            let digits = word.first == UInt8(ascii: "-") ? word.dropFirst() : word
            guard !digits.isEmpty, digits.allSatisfy(isDigit) else { throw .cutShort }
            return digits.count == word.count ? decimal(digits) : nil
        }
    }

    private var cursor: ByteCursor
    /// Brackets inside each other, of values that no item needs.
    private static let deepest = 64
    /// Bytes of a text that are kept: one more than a URL may have, so that a longer name becomes no entry.
    private static let longest = ResourceURL.longest + 1
    private static let escapes = Dictionary(uniqueKeysWithValues: zip("\"\\/bfnrt".utf8, "\"\\/\u{8}\u{C}\n\r\t".utf8))

    init(_ bytes: ArraySlice<UInt8>) { cursor = ByteCursor(bytes) }

    /// The whole document, an array. - Parameter element: reads one element of it.
    mutating func list(_ element: (inout JSONReader) throws(SourceRefusal) -> Void) throws(SourceRefusal) {
        try sequence("[", "]", element)
        cursor.take(while: isBlank)
        guard cursor.isAtEnd else { throw .cutShort }
    }

    /// nil for what is neither a file nor a directory.
    mutating func item() throws(SourceRefusal) -> Item? {
        var (name, type, facts) = (Value.nested, Value.nested, ListingFacts())
        try sequence("{", "}") { (reader) throws(SourceRefusal) in
            let key = try reader.value().text()
            try reader.expect(":")
            let value = try reader.value()
            switch String(decoding: key.prefix(16), as: UTF8.self) {
            case "name": name = value
            case "type": type = value
            case "mtime":
                if case .text(let text) = value { facts.modified = httpDate(String(decoding: text, as: UTF8.self)) }
            case "size": facts.length = try value.length()
            default: break
            }
        }
        let kind = try type.text()
        let isDirectory = kind.elementsEqual("directory".utf8)
        let item = (try name.text(), isDirectory, facts)
        return isDirectory || kind.elementsEqual("file".utf8) ? item : nil
    }

    private mutating func take(_ sign: Unicode.Scalar) -> Bool {
        cursor.take(while: isBlank)
        return cursor.take(UInt8(ascii: sign))
    }

    private mutating func expect(_ sign: Unicode.Scalar) throws(SourceRefusal) {
        guard take(sign) else { throw .cutShort }
    }

    private mutating func sequence(
        _ first: Unicode.Scalar, _ last: Unicode.Scalar, _ element: (inout JSONReader) throws(SourceRefusal) -> Void
    ) throws(SourceRefusal) {
        try expect(first)
        if take(last) { return }
        repeat { try element(&self) } while take(",")
        try expect(last)
    }

    /// Of any value its brackets have to fit, and no more is asked of it.
    private mutating func value() throws(SourceRefusal) -> Value {
        var closing: [UInt8] = []
        var value: Value?
        repeat {
            cursor.take(while: isBlank)
            let sign = cursor.peek()
            switch sign {
            case UInt8(ascii: "\""):
                let text = Value.text(try text())
                value = value ?? text
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                guard closing.count < Self.deepest else { throw .cutShort }
                closing.append(sign + 2)
                cursor.take(sign)
                value = value ?? .nested
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                guard closing.popLast() == sign else { throw .cutShort }
                cursor.take(sign)
            case UInt8(ascii: ","), UInt8(ascii: ":"):
                guard !closing.isEmpty else { throw .cutShort }
                cursor.take(sign)
            default:
                let word = cursor.take { $0 > 0x20 && !",:]}\"[{".utf8.contains($0) }
                guard !word.isEmpty else { throw .cutShort }
                value = value ?? .word(word)
            }
        } while !closing.isEmpty
        return value ?? .nested
    }

    /// Its bytes, escapes replaced; no more than `longest` of them.
    private mutating func text() throws(SourceRefusal) -> [UInt8] {
        let (quote, escape) = (UInt8(ascii: "\""), UInt8(ascii: "\\"))
        try expect("\"")
        var result: [UInt8] = []
        while !cursor.take(quote) {
            let piece: ArraySlice<UInt8>
            if cursor.take(escape) {
                piece = try escaped()[...]
            } else {
                piece = cursor.take { $0 >= 0x20 && $0 != quote && $0 != escape }
                guard !piece.isEmpty else { throw .cutShort }
            }
            result += piece.prefix(max(0, Self.longest - result.count))
        }
        return result
    }

    /// What stands behind a backslash.
    private mutating func escaped() throws(SourceRefusal) -> [UInt8] {
        if !cursor.take(UInt8(ascii: "u")) {
            guard let byte = cursor.take(count: 1).first.flatMap({ Self.escapes[$0] }) else { throw .cutShort }
            return [byte]
        }
        var value = try unit()
        if (0xD800..<0xDC00).contains(value), cursor.take(UInt8(ascii: "\\")) {
            guard cursor.take(UInt8(ascii: "u")), case let low = try unit(), (0xDC00..<0xE000).contains(low) else {
                throw .cutShort
            }
            value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(value) else { throw .cutShort }
        return Array(String(scalar).utf8)
    }

    /// Four hexadecimal digits.
    private mutating func unit() throws(SourceRefusal) -> UInt32 {
        let digits = cursor.take(count: 4)
        guard digits.count == 4, digits.allSatisfy({ hexDigit($0) != nil }),
            let value = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw .cutShort }
        return value
    }
}
