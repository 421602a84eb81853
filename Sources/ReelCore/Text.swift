// The few text operations that parsing headers and URLs needs, on bytes: no locale, no Unicode tables.

/// ASCII letters lowered, everything else kept.
package func asciiLowercased(_ text: some StringProtocol) -> String {
    String(decoding: text.utf8.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }, as: UTF8.self)
}

/// Without spaces, tabs and line ends at both ends.
package func trimmed(_ text: some StringProtocol) -> String {
    let isBlank: (UInt8) -> Bool = { $0 == 0x20 || ($0 >= 0x09 && $0 <= 0x0D) }
    var bytes = Array(text.utf8)[...]
    while let first = bytes.first, isBlank(first) { bytes.removeFirst() }
    while let last = bytes.last, isBlank(last) { bytes.removeLast() }
    return String(decoding: bytes, as: UTF8.self)
}

/// A number of digits only, nil where it is anything else or does not fit.
package func decimal(_ text: String) -> Int64? {
    guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return Int64(text)
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
