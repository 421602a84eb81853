import ReelCore

/// The array that nginx's `autoindex_format json` writes: name, type, mtime (an HTTP date) and size (exact).
///
/// Read by hand, item by item: a decoder builds the whole document before anybody can say that it is none of these, 700
/// MiB for 64 MiB of another shape. And nginx writes names that are no UTF-8 as they are, which JSON is not.
func parseJSON(
    _ body: [UInt8], _ directory: ListingDirectory, limit: Int, _ stop: StopCheck
) throws(ListingError) -> ListingMerge {
    var entries = ListingMerge(limit: limit)
    var reader = JSONReader(body)
    var stop = stop
    try reader.list { (reader) throws(ListingError) in
        if stop.step() { throw .stopped }
        guard let item = try reader.item(), !item.name.isEmpty, item.name != [0x2E], item.name != [0x2E, 0x2E] else {
            return
        }
        var segment: [UInt8] = []
        for byte in item.name {
            if isSegmentByte(byte) { segment.append(byte) } else { appendEscape(of: byte, to: &segment) }
        }
        guard let url = directory.child(segment[...], item.isDirectory) else { return }
        entries.add(ListingLink(name: item.name, isDirectory: item.isDirectory, url: url), item.facts)
        if entries.isTooLarge { throw .tooLarge }
    }
    return entries
}

private struct Item {
    var name: [UInt8]
    var isDirectory: Bool
    var facts: ListingFacts
}

/// JSON (RFC 8259), as far as nginx's array needs it. Whatever it does not expect is `.malformed`.
private struct JSONReader {
    private let bytes: [UInt8]
    private var index = 0
    /// Of values that nobody asked for.
    private static let deepest = 64
    /// Bytes of a text that are kept: one more than a URL may have, so that a longer name becomes no entry.
    private static let longest = ResourceURL.longest + 1

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The whole document, an array. - Parameter element: reads one element of it.
    mutating func list(_ element: (inout JSONReader) throws(ListingError) -> Void) throws(ListingError) {
        try sequence("[", "]", element)
        skipBlanks()
        guard index == bytes.count else { throw .malformed }
    }

    /// nil for what is neither a file nor a directory.
    mutating func item() throws(ListingError) -> Item? {
        var name: [UInt8]?
        var type: [UInt8]?
        var facts = ListingFacts()
        try sequence("{", "}") { (reader) throws(ListingError) in
            let key = try reader.text()
            try reader.expect(":")
            reader.skipBlanks()
            switch String(decoding: key.prefix(16), as: UTF8.self) {
            case "name": name = try reader.text()
            case "type": type = try reader.text()
            case "mtime" where reader.next == UInt8(ascii: "\""):
                facts.modified = httpDate(String(decoding: try reader.text(), as: UTF8.self))
            case "size" where reader.next != UInt8(ascii: "n"): facts.length = try reader.length()
            case "mtime", "size": try reader.word("null")
            default: try reader.skipValue()
            }
        }
        guard let name, let type else { throw .malformed }
        switch String(decoding: type, as: UTF8.self) {
        case "directory": return Item(name: name, isDirectory: true, facts: facts)
        case "file": return Item(name: name, isDirectory: false, facts: facts)
        default: return nil
        }
    }

    private var next: UInt8 { bytes[safe: index] }

    private mutating func skipBlanks() { while isBlank(next) { index += 1 } }

    private mutating func take(_ sign: Unicode.Scalar) -> Bool {
        skipBlanks()
        guard next == UInt8(ascii: sign) else { return false }
        index += 1
        return true
    }

    private mutating func expect(_ sign: Unicode.Scalar) throws(ListingError) {
        guard take(sign) else { throw .malformed }
    }

    private mutating func word(_ word: String) throws(ListingError) {
        guard bytes[index...].starts(with: word.utf8) else { throw .malformed }
        index += word.utf8.count
    }

    private mutating func sequence(
        _ first: Unicode.Scalar, _ last: Unicode.Scalar, _ element: (inout JSONReader) throws(ListingError) -> Void
    ) throws(ListingError) {
        try expect(first)
        if take(last) { return }
        repeat { try element(&self) } while take(",")
        try expect(last)
    }

    /// Digits, and `-` before them; nil for what is negative or does not fit.
    private mutating func length() throws(ListingError) -> Int64? {
        let isNegative = take("-")
        let digits = bytes[index...].prefix { (0x30...0x39).contains($0) }
        index = digits.endIndex
        guard !digits.isEmpty, !".eE".utf8.contains(next) else { throw .malformed }
        return isNegative ? nil : decimal(digits)
    }

    /// Its bytes, escapes replaced; no more than `longest` of them.
    private mutating func text() throws(ListingError) -> [UInt8] {
        try expect("\"")
        var result: [UInt8] = []
        while next != UInt8(ascii: "\"") {
            if next == UInt8(ascii: "\\") {
                let piece = try escaped()
                if result.count < JSONReader.longest { result += piece }
                continue
            }
            let run = bytes[index...].prefix { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
            guard !run.isEmpty else { throw .malformed }
            result += run.prefix(max(0, JSONReader.longest - result.count))
            index = run.endIndex
        }
        index += 1
        return result
    }

    private mutating func escaped() throws(ListingError) -> [UInt8] {
        let sign = bytes[safe: index + 1]
        index += 2
        switch sign {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [sign]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"):
            var value = try unit()
            if (0xD800..<0xDC00).contains(value), next == UInt8(ascii: "\\"),
                bytes[safe: index + 1] == UInt8(ascii: "u")
            {
                index += 2
                let low = try unit()
                guard (0xDC00..<0xE000).contains(low) else { throw .malformed }
                value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(value) else { throw .malformed }
            return Array(String(scalar).utf8)
        default: throw .malformed
        }
    }

    /// Four hexadecimal digits.
    private mutating func unit() throws(ListingError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = hexDigit(next) else { throw .malformed }
            value = value << 4 | UInt32(digit)
            index += 1
        }
        return value
    }

    /// A value that nobody asked for: its brackets have to fit, and no more is asked of it.
    private mutating func skipValue() throws(ListingError) {
        var closing: [UInt8] = []
        repeat {
            skipBlanks()
            switch next {
            case UInt8(ascii: "\""): _ = try text()
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                guard closing.count < JSONReader.deepest else { throw .malformed }
                closing.append(next + 2)
                index += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                guard closing.popLast() == next else { throw .malformed }
                index += 1
            case UInt8(ascii: ","), UInt8(ascii: ":"):
                guard !closing.isEmpty else { throw .malformed }
                index += 1
            default:
                let word = bytes[index...].prefix { $0 > 0x20 && !",:]}\"[{".utf8.contains($0) }
                guard !word.isEmpty else { throw .malformed }
                index = word.endIndex
            }
        } while !closing.isEmpty
    }
}
