/// What may control a terminal, break a line or turn its direction round: C0, DEL and C1 (ECMA-48), line and paragraph
/// separators, and Unicode's bidirectional controls (UAX 9), by which a text shows other than it is.
private func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case ..<0x20, 0x7F...0x9F, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
}

/// The text with each control replaced. Bytes that are no UTF-8 are U+FFFD in every String already.
/// - Parameter isKept: controls that stay, as line ends between lines of ours.
func withoutControls(
    _ text: String, by replacement: Unicode.Scalar, keeping isKept: (Unicode.Scalar) -> Bool = { _ in false }
) -> String {
    var result = String.UnicodeScalarView()
    result.append(contentsOf: text.unicodeScalars.map { isControl($0) && !isKept($0) ? replacement : $0 })
    return String(result)
}

/// A name in a line of its own: names come from origins and from other users, and a terminal must not obey them.
func printable(_ text: String) -> String { withoutControls(text, by: "?") }

/// Writes lines to stdout. All that the program says goes through here or `writeLine`, whatever names are in it.
func say(_ text: String) { print(withoutControls(text, by: "?") { $0 == "\n" || $0 == "\t" }) }

/// JSON with each control in its strings as `\uXXXX`. - Parameter bytes: of an encoder, which escapes C0 alone.
func withEscapedControls(_ bytes: [UInt8]) -> [UInt8] {
    // All others begin with one of these bytes.
    guard bytes.contains(where: { [0x7F, 0xC2, 0xD8, 0xE2].contains($0) }) else { return bytes }
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
        if scalar.value >= 0x7F, isControl(scalar) {
            let digits = String(scalar.value, radix: 16)
            result += Array(("\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits).utf8)
        } else {
            result += UTF8.encode(scalar)!
        }
    }
    return result
}
