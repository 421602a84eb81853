// The few text operations that parsing headers, URLs and documents needs, on bytes: no locale, no Unicode tables.

/// Lowers the letters of ASCII, and keeps everything else.
package func asciiLowercased(_ text: some StringProtocol) -> String { asciiLowercased(Array(text.utf8)[...]) }

/// The same of bytes that need not be text.
package func asciiLowercased(_ bytes: ArraySlice<UInt8>) -> String {
    String(decoding: bytes.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }, as: UTF8.self)
}

/// True for a space, a tab or a line end.
@inlinable package func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (byte >= 0x09 && byte <= 0x0D) }

/// True for a digit of ASCII.
@inlinable package func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

/// The bytes without blanks at both ends.
package func trimmedBytes(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    guard let first = bytes.firstIndex(where: { !isBlank($0) }), let last = bytes.lastIndex(where: { !isBlank($0) })
    else { return [] }
    return bytes[first...last]
}

/// The text without blanks at both ends.
package func trimmed(_ text: some StringProtocol) -> String {
    String(decoding: trimmedBytes(Array(text.utf8)[...]), as: UTF8.self)
}

/// The names in a path. It is cut at the bytes of its slashes: a mark that combines with one belongs to a name.
package func pathNames(_ path: String) -> [String] {
    path.utf8.split(separator: UInt8(ascii: "/")).map { String(Substring($0)) }
}

/// The path of a name in a folder. - Parameter folder: without a `/` at either end; empty for the root.
package func joinedPath(_ folder: String, _ name: String) -> String { folder.isEmpty ? name : folder + "/" + name }

/// A number of digits only, nil where it is anything else or does not fit.
package func decimal(_ text: String) -> Int64? { text.utf8.allSatisfy(isDigit) ? Int64(text) : nil }

/// The same of bytes that need not be text.
package func decimal(_ bytes: ArraySlice<UInt8>) -> Int64? {
    var number: Int64? = bytes.isEmpty ? nil : 0
    for byte in bytes {
        guard let old = number, isDigit(byte) else { return nil }
        let (tenfold, isOver) = old.multipliedReportingOverflow(by: 10)
        let (sum, isMore) = tenfold.addingReportingOverflow(Int64(byte - 0x30))
        number = isOver || isMore ? nil : sum
    }
    return number
}

/// Takes bytes from the front of `rest`, each of them once.
///
/// `@usableFromInline`, as `@inlinable` has no effect across modules without it: each byte would cost two calls.
@usableFromInline package struct ByteCursor {
    /// The bytes that are not taken yet.
    @usableFromInline package var rest: ArraySlice<UInt8>

    /// All of `bytes` is still to be taken.
    @inlinable package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    /// Whether all bytes are taken.
    @inlinable package var isAtEnd: Bool { rest.isEmpty }

    /// The byte that many places ahead; 0 past the end, so that looking ahead needs no bounds of its own.
    @inlinable package func peek(_ distance: Int = 0) -> UInt8 {
        distance < rest.count ? rest[rest.startIndex + distance] : 0
    }

    /// Takes the byte if it is the next one; false, and nothing taken, where it is not.
    @inlinable @discardableResult package mutating func take(_ byte: UInt8) -> Bool {
        guard rest.first == byte else { return false }
        rest.removeFirst()
        return true
    }

    /// Takes as many bytes as there are, at most `count`.
    @inlinable @discardableResult package mutating func take(count: Int) -> ArraySlice<UInt8> {
        let taken = rest.prefix(count)
        rest = rest[taken.endIndex...]
        return taken
    }

    /// Takes the bytes up to the first that is not `wanted`.
    @inlinable @inline(__always) @discardableResult package mutating func take(
        while isWanted: (UInt8) throws -> Bool
    ) rethrows -> ArraySlice<UInt8> {
        let count = try rest.withUnsafeBufferPointer { bytes in
            var count = 0
            while count < bytes.count, try isWanted(bytes[count]) { count += 1 }
            return count
        }
        return take(count: count)
    }

    /// Takes digits; nil where there is none, or too many for the number.
    package mutating func number() -> Int64? { decimal(take(while: isDigit)) }
}

/// A text compared byte by byte, for names: Swift takes composed and decomposed letters for the same, a filesystem and
/// an origin do not.
package struct ExactText: Hashable, Sendable {
    /// The text as it was given.
    package let text: String

    /// The text to be compared byte by byte.
    package init(_ text: String) { self.text = text }

    /// Whether both have the same bytes.
    package static func == (one: ExactText, other: ExactText) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

    /// By its bytes.
    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

/// In bytes, 1024 to a step, three digits: `1.46 GiB`.
package func humanSize(_ bytes: Int64) -> String {
    guard bytes >= 1024 else { return "\(bytes) B" }
    var value = Double(bytes)
    var unit = -1
    while value >= 1024, unit < 4 {
        value /= 1024
        unit += 1
    }
    let factor: Double = value < 10 ? 100 : value < 100 ? 10 : 1
    let rounded = (value * factor).rounded() / factor
    let digits = factor == 1 ? String(Int64(rounded)) : String(rounded)
    return digits + " " + ["KiB", "MiB", "GiB", "TiB", "PiB"][unit]
}
