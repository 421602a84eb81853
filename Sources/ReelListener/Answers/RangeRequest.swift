import ReelCore

/// The bytes that a client asks for (`Range`, RFC 9110, section 14), read as nginx reads them.
package enum RangeRequest: Hashable, Sendable {
    /// Asks for no range, or in a way that is answered with the whole file.
    case whole
    /// In the order of the request, none of them empty, and together not longer than the file.
    case parts([ByteRange])
    /// No range is left: status 416.
    case unsatisfiable

    /// A player asks for one range, a download in pieces for a few; each of more than these costs a part's head.
    private static let mostParts = 64

    /// - Parameters:
    ///   - header: the value of `Range`; nil: there was none.
    ///   - length: of the file, in bytes.
    package init(_ header: String?, length: Int64) {
        let unit = "bytes="
        guard let header, header.utf8.count > unit.utf8.count, asciiLowercased(header.prefix(unit.count)) == unit else {
            self = .whole
            return
        }
        var cursor = ByteCursor(Array(header.utf8.dropFirst(unit.utf8.count))[...])
        var parts: [ByteRange] = []
        repeat {
            guard let range = cursor.range(of: length) else {
                self = .unsatisfiable
                return
            }
            if !range.isEmpty {
                parts.append(range)
            } else if range.lower == 0 {
                self = .whole
                return
            }
        } while cursor.take(UInt8(ascii: ","))
        // Overlapping ranges are not worth their bytes, and can ask for many times the file.
        let (sum, isTooLong) = parts.reduce((Int64(0), false)) { sum, part in
            let (total, overflow) = sum.0.addingReportingOverflow(part.count)
            return (total, sum.1 || overflow)
        }
        if parts.isEmpty {
            self = .unsatisfiable
        } else if isTooLong || sum > length || parts.count > Self.mostParts {
            self = .whole
        } else {
            self = .parts(parts)
        }
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
        if isAtEnd || peek() == UInt8(ascii: ",") {
            return first < length ? ByteRange(first, length) : ByteRange(first, first)
        }
        guard let last = number(), endsRange() else { return nil }
        let end = last < length ? last + 1 : length
        return first < end ? ByteRange(first, end) : ByteRange(first, first)
    }

    private mutating func endsRange() -> Bool {
        takeSpaces()
        return isAtEnd || peek() == UInt8(ascii: ",")
    }

    private mutating func takeSpaces() { take { $0 == UInt8(ascii: " ") } }
}
