/// Whether a scalar may control a terminal, break a line or reverse its direction: C0, DEL and C1 (ECMA-48), line and
/// paragraph separators, and Unicode's bidirectional controls (UAX 9), which make a text look like another.
private func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case ..<0x20, 0x7F...0x9F, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
}

/// Replaces each control. Bytes that are not UTF-8 are U+FFFD in every String already.
/// - Parameter isKept: controls to keep, such as the line ends of the program's own text.
func withoutControls(
    _ text: String, by replacement: Unicode.Scalar, keeping isKept: (Unicode.Scalar) -> Bool = { _ in false }
) -> String {
    var result = String.UnicodeScalarView()
    result.append(contentsOf: text.unicodeScalars.map { isControl($0) && !isKept($0) ? replacement : $0 })
    return String(result)
}

/// A text that fits in one line: names come from origins and from other users, and must not control the terminal.
func printable(_ text: String) -> String { withoutControls(text, by: "?") }

/// Writes lines to stdout. All of the program's text goes through here or `writeLine`, as any of it may hold such
/// names.
func say(_ text: String) { print(withoutControls(text, by: "?") { $0 == "\n" || $0 == "\t" }) }

/// Writes a value as one line of JSON.
func sayJSON(_ value: some Encodable) { say(String(decoding: encodeLine(value).dropLast(), as: UTF8.self)) }

/// Writes each control in JSON's strings as `\uXXXX`. - Parameter bytes: of an encoder, which escapes only C0.
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
