/// Reads the part of TOML (toml.io, 1.0) that a catalogue needs, strictly: tables and arrays of tables with one name,
/// bare and quoted keys, strings on one line, whole numbers, booleans, and arrays of strings.
///
/// Written here because each mistake has to name its line, also one that is found in a value later: no available
/// library for Swift or C gives the line of a value, and the one for Swift needs Foundation. One pass over the bytes,
/// and nothing nests.
struct TOMLReader {
    enum Value: Hashable {
        case text(String)
        /// The number as it stands, without underscores.
        case number(String)
        case flag(Bool)
        case list([String])
    }

    struct Entry: Hashable {
        var key: String
        var value: Value
        var line: Int
    }

    struct Table: Hashable {
        var name: String
        /// `[[name]]`.
        var isElement: Bool
        var line: Int
        var entries: [Entry] = []

        subscript(key: String) -> Entry? { entries.first { $0.key == key } }
    }

    /// What cannot be read, and where.
    struct Mistake: Error, Hashable {
        var line: Int
        /// For a sentence: never repeats a value, which may be a secret.
        var text: String
    }

    /// More than any catalogue has.
    private static let mostEntries = 2000

    private let bytes: [UInt8]
    private var place = 0
    private var line = 1

    private init(_ text: String) { bytes = Array(text.utf8) }

    /// All tables, in order. Keys before the first table are a mistake.
    static func read(_ text: String) throws(Mistake) -> [Table] {
        var reader = TOMLReader(text)
        return try reader.tables()
    }

    private mutating func tables() throws(Mistake) -> [Table] {
        var tables: [Table] = []
        var count = 0
        while true {
            skipSpace(lines: true)
            guard let byte = peek else { return tables }
            count += 1
            guard count <= Self.mostEntries else { throw mistake("more than \(Self.mostEntries) entries") }
            if byte == UInt8(ascii: "[") {
                let table = try header()
                if !table.isElement, tables.contains(where: { $0.name == table.name }) {
                    throw Mistake(line: table.line, text: "[\(shown(table.name))] stands here a second time")
                }
                tables.append(table)
                try endLine(table.name)
            } else {
                let start = line
                let key = try key()
                guard let last = tables.indices.last else {
                    throw Mistake(line: start, text: "\"\(shown(key))\" stands before the first table")
                }
                if tables[last][key] != nil {
                    throw Mistake(line: start, text: "\"\(shown(key))\" stands here a second time")
                }
                skipSpace()
                guard take(UInt8(ascii: "=")) else {
                    throw Mistake(line: start, text: "after \"\(shown(key))\" there must be `=` and a value")
                }
                skipSpace()
                tables[last].entries.append(Entry(key: key, value: try value(of: key), line: start))
                try endLine(key)
            }
        }
    }

    private mutating func header() throws(Mistake) -> Table {
        let start = line
        place += 1
        let isElement = take(UInt8(ascii: "["))
        skipSpace()
        let name = try key()
        skipSpace()
        guard take(UInt8(ascii: "]")), !isElement || take(UInt8(ascii: "]")) else {
            throw Mistake(line: start, text: "the name of a table must stand as [\(shown(name))] or [[\(shown(name))]]")
        }
        return Table(name: name, isElement: isElement, line: start)
    }

    private mutating func key() throws(Mistake) -> String {
        if peek == UInt8(ascii: "\"") || peek == UInt8(ascii: "'") { return try string(of: "a key") }
        let start = place
        while let byte = peek, isBare(byte) { place += 1 }
        guard place > start else {
            throw mistake("\"\(shown(word()))\" is no key: a line must be `key = value` or the name of a table")
        }
        if peek == UInt8(ascii: ".") { throw mistake("\"\(shown(word(from: start)))\": keys with dots are not read") }
        return String(decoding: bytes[start..<place], as: UTF8.self)
    }

    private mutating func value(of key: String) throws(Mistake) -> Value {
        switch peek {
        case UInt8(ascii: "\""), UInt8(ascii: "'"): return .text(try string(of: key))
        case UInt8(ascii: "["): return .list(try list(of: key))
        default: break
        }
        let start = place
        while let byte = peek, isBare(byte) || byte == UInt8(ascii: "+") { place += 1 }
        let word = String(decoding: bytes[start..<place], as: UTF8.self)
        if word == "true" || word == "false" { return .flag(word == "true") }
        let digits = word.replacing("_", with: "")
        guard Int64(digits) != nil, !word.hasPrefix("_"), !word.hasSuffix("_") else {
            throw mistake(
                "the value of \"\(shown(key))\" must be \"text\", a whole number, true, false or a list of them")
        }
        return .number(digits)
    }

    private mutating func list(of key: String) throws(Mistake) -> [String] {
        var items: [String] = []
        let start = line
        place += 1
        while true {
            skipSpace(lines: true)
            if take(UInt8(ascii: "]")) { return items }
            guard peek == UInt8(ascii: "\"") || peek == UInt8(ascii: "'"), items.count < Self.mostEntries else {
                let text = "the list of \"\(shown(key))\" must hold \"text\", separated by commas, and end with ]"
                throw peek == nil ? Mistake(line: start, text: text) : mistake(text)
            }
            items.append(try string(of: key))
            skipSpace(lines: true)
            if !take(UInt8(ascii: ",")), peek != UInt8(ascii: "]") {
                throw mistake("in the list of \"\(shown(key))\" a comma or ] is missing")
            }
        }
    }

    // MARK: Strings

    /// - Parameter key: for the mistake.
    private mutating func string(of key: String) throws(Mistake) -> String {
        let quote = bytes[place]
        place += 1
        if peek == quote, bytes.count > place + 1, bytes[place + 1] == quote {
            throw mistake("the text of \"\(shown(key))\" must stand on one line, in single or double quotes")
        }
        var text: [UInt8] = []
        while let byte = peek, byte != UInt8(ascii: "\n") {
            place += 1
            if byte == quote { return String(decoding: text, as: UTF8.self) }
            if byte < 0x20 && byte != 0x09 || byte == 0x7F {
                throw mistake("the text of \"\(shown(key))\" has a control character")
            }
            if byte == UInt8(ascii: "\\"), quote == UInt8(ascii: "\"") {
                text += try escaped(key)
            } else {
                text.append(byte)
            }
        }
        throw mistake("the text of \"\(shown(key))\" has no closing quote")
    }

    private mutating func escaped(_ key: String) throws(Mistake) -> [UInt8] {
        let names: [UInt8: UInt8] = [
            UInt8(ascii: "b"): 0x08, UInt8(ascii: "t"): 0x09, UInt8(ascii: "n"): 0x0A, UInt8(ascii: "f"): 0x0C,
            UInt8(ascii: "r"): 0x0D, UInt8(ascii: "\""): 0x22, UInt8(ascii: "\\"): 0x5C,
        ]
        guard let byte = peek else { throw mistake("the text of \"\(shown(key))\" has no closing quote") }
        place += 1
        if let plain = names[byte] { return [plain] }
        let count = byte == UInt8(ascii: "u") ? 4 : byte == UInt8(ascii: "U") ? 8 : 0
        let digits = bytes[place..<min(place + count, bytes.count)]
        guard count > 0, digits.count == count, digits.allSatisfy(isHexadecimal),
            let number = UInt32(String(decoding: digits, as: UTF8.self), radix: 16), let scalar = Unicode.Scalar(number)
        else { throw mistake("in the text of \"\(shown(key))\" a backslash starts no escape; write \\\\ or 'text'") }
        place += count
        return Array(String(Character(scalar)).utf8)
    }

    // MARK: Bytes

    private var peek: UInt8? { place < bytes.count ? bytes[place] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        place += 1
        return true
    }

    /// Spaces and tabs. - Parameter lines: also line ends and comments.
    private mutating func skipSpace(lines: Bool = false) {
        while let byte = peek {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\t"): place += 1
            case UInt8(ascii: "\r") where lines: place += 1
            case UInt8(ascii: "\n") where lines:
                place += 1
                line += 1
            case UInt8(ascii: "#") where lines: skipComment()
            default: return
            }
        }
    }

    private mutating func skipComment() { while let byte = peek, byte != UInt8(ascii: "\n") { place += 1 } }

    /// Nothing more may stand on the line. - Parameter name: of what stands before.
    private mutating func endLine(_ name: String) throws(Mistake) {
        skipSpace()
        if peek == UInt8(ascii: "#") { skipComment() }
        if peek == UInt8(ascii: "\r") { place += 1 }
        guard peek == nil || peek == UInt8(ascii: "\n") else {
            throw mistake("there is more behind \"\(shown(name))\"")
        }
    }

    private func isBare(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }

    private func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
        default: false
        }
    }

    /// The word at a place, for a mistake.
    private func word(from start: Int? = nil) -> String {
        let rest = bytes[(start ?? place)...].prefix(40)
        return String(decoding: rest.prefix { $0 > 0x20 && $0 != UInt8(ascii: "=") }, as: UTF8.self)
    }

    private func mistake(_ text: String) -> Mistake { Mistake(line: line, text: text) }
}
