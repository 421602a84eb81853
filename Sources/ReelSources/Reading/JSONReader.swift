import ReelCore

/// Reads JSON (RFC 8259) item by item and keeps nothing of what it has read. A decoder builds the whole document before
/// it finds its shape wrong: 700 MiB for 64 MiB of another one.
///
/// Every function throws `.cutShort` for what it does not expect.
struct JSONReader {
    enum Value {
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

    /// Whether half of a pair of surrogates is taken for U+FFFD: of a title that was cut in the middle of a character,
    /// not of a name, which would then be that of another file.
    private let mendsTexts: Bool

    init(_ bytes: ArraySlice<UInt8>, mendsTexts: Bool = false) {
        cursor = ByteCursor(bytes)
        self.mendsTexts = mendsTexts
    }

    /// An object. - Parameter member: reads the value of each member; gets the first 32 bytes of its name.
    mutating func object(
        _ member: (inout JSONReader, _ name: String) throws(SourceRefusal) -> Void
    ) throws(SourceRefusal) {
        try sequence("{", "}") { (reader) throws(SourceRefusal) in
            let name = try reader.value().text()
            try reader.expect(":")
            try member(&reader, String(decoding: name.prefix(32), as: UTF8.self))
        }
    }

    /// An array. - Parameter element: reads each element.
    mutating func array(_ element: (inout JSONReader) throws(SourceRefusal) -> Void) throws(SourceRefusal) {
        try sequence("[", "]", element)
    }

    /// Whether the next value begins with this sign.
    mutating func isNext(_ sign: Unicode.Scalar) -> Bool {
        cursor.take(while: isBlank)
        return cursor.peek() == UInt8(ascii: sign)
    }

    /// Throws if anything but blanks is left.
    mutating func finish() throws(SourceRefusal) {
        cursor.take(while: isBlank)
        guard cursor.isAtEnd else { throw .cutShort }
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

    /// Any value. What a nested one holds is skipped; only its brackets have to fit.
    mutating func value() throws(SourceRefusal) -> Value {
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
        guard let scalar = Unicode.Scalar(value) ?? (mendsTexts ? "\u{FFFD}" : nil) else { throw .cutShort }
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
