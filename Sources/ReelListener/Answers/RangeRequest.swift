import ReelCore

/// The bytes that a client asks for (`Range`, RFC 9110, section 14), one range of them read as nginx reads it.
package enum RangeRequest: Hashable, Sendable {
    /// Asks for no range, for several, or in a way that is answered with the whole file.
    case whole
    /// Not empty, and within the file.
    case part(ByteRange)
    /// Nothing of the range is in the file: status 416.
    case unsatisfiable

    /// - Parameters:
    ///   - header: the value of `Range`, nil if there was none.
    ///   - length: of the file, in bytes.
    package init(_ header: String?, length: Int64) {
        let unit = "bytes="
        // A server may ignore several ranges (section 14.2). No player asks for them.
        guard let header, header.utf8.count > unit.utf8.count, asciiLowercased(header.prefix(unit.count)) == unit,
            !header.utf8.contains(UInt8(ascii: ","))
        else {
            self = .whole
            return
        }
        var cursor = ByteCursor(Array(header.utf8.dropFirst(unit.utf8.count))[...])
        guard let range = cursor.range(of: length) else {
            self = .unsatisfiable
            return
        }
        self = if !range.isEmpty { .part(range) } else if range.lower == 0 { .whole } else { .unsatisfiable }
    }
}

extension ByteCursor {
    /// Takes `first-last`, `first-` or `-count`, with spaces around: the bytes of the file that it means, empty where
    /// there are none. nil where it is none of these.
    fileprivate mutating func range(of length: Int64) -> ByteRange? {
        takeSpaces()
        if take(UInt8(ascii: "-")) {
            guard let count = number(), endsRange() else { return nil }
            return ByteRange(max(0, length - count), length)
        }
        guard let first = number() else { return nil }
        takeSpaces()
        guard take(UInt8(ascii: "-")) else { return nil }
        takeSpaces()
        if isAtEnd { return first < length ? ByteRange(first, length) : ByteRange(first, first) }
        guard let last = number(), endsRange() else { return nil }
        let end = last < length ? last + 1 : length
        return first < end ? ByteRange(first, end) : ByteRange(first, first)
    }

    private mutating func endsRange() -> Bool {
        takeSpaces()
        return isAtEnd
    }

    private mutating func takeSpaces() { take { $0 == UInt8(ascii: " ") } }
}
