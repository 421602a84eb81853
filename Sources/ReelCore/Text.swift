// The few text operations that parsing headers and URLs needs, on bytes: no locale, no Unicode tables.

/// ASCII letters lowered, everything else kept.
package func asciiLowercased(_ text: some StringProtocol) -> String {
    String(decoding: text.utf8.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }, as: UTF8.self)
}

/// A space, a tab or a line end.
package func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (byte >= 0x09 && byte <= 0x0D) }

/// Without blanks at both ends.
package func trimmedBytes(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    guard let first = bytes.firstIndex(where: { !isBlank($0) }), let last = bytes.lastIndex(where: { !isBlank($0) })
    else { return [] }
    return bytes[first...last]
}

/// Without blanks at both ends.
package func trimmed(_ text: some StringProtocol) -> String {
    String(decoding: trimmedBytes(Array(text.utf8)[...]), as: UTF8.self)
}

/// A number of digits only, nil where it is anything else or does not fit.
package func decimal(_ text: String) -> Int64? { decimal(Array(text.utf8)[...]) }

/// A number of digits only, nil where it is anything else or does not fit.
package func decimal(_ bytes: ArraySlice<UInt8>) -> Int64? {
    if bytes.isEmpty { return nil }
    var value: Int64 = 0
    for byte in bytes {
        guard byte >= 0x30, byte <= 0x39 else { return nil }
        let (product, isTooLarge) = value.multipliedReportingOverflow(by: 10)
        let (sum, isOver) = product.addingReportingOverflow(Int64(byte - 0x30))
        if isTooLarge || isOver { return nil }
        value = sum
    }
    return value
}

/// A text compared byte by byte, for names: Swift takes composed and decomposed letters for the same, a filesystem and
/// an origin do not.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (one: ExactText, other: ExactText) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
