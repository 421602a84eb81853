import Glibc

/// The source as others may see it: the password of a URL's user is replaced. Everything else stays byte for byte, as
/// mount(8) compares it with fstab.
package func redacted(_ source: String) -> String {
    guard let range = passwordRange(Array(source.utf8)) else { return source }
    let bytes = Array(source.utf8)
    return String(decoding: bytes[..<range.lowerBound] + Array("***".utf8) + bytes[range.upperBound...], as: UTF8.self)
}

/// For logs and errors: also without the query, which often is a signature.
package func withoutQuery(_ source: String) -> String {
    let visible = redacted(source)
    guard visible.contains("://"), let mark = visible.firstIndex(of: "?") else { return visible }
    return visible[..<mark] + "?…"
}

private func passwordRange(_ bytes: [UInt8]) -> Range<Int>? {
    guard let scheme = (0..<max(0, bytes.count - 2)).first(where: { Array(bytes[$0..<$0 + 3]) == Array("://".utf8) })
    else { return nil }
    let start = scheme + 3
    let end = bytes[start...].firstIndex { "/?#".utf8.contains($0) } ?? bytes.count
    guard let at = bytes[start..<end].lastIndex(of: UInt8(ascii: "@")),
        let colon = bytes[start..<at].firstIndex(of: UInt8(ascii: ":"))
    else { return nil }
    return colon + 1..<at
}

/// What of one argument must not stay readable in `ps`.
///
/// - Parameter isHeader: the argument is the value of `--header`.
package func secretRange(_ argument: String, isHeader: Bool) -> Range<Int>? {
    let bytes = Array(argument.utf8)
    if isHeader {
        return bytes.firstIndex(of: UInt8(ascii: ":")).map { $0 + 1..<bytes.count }
    }
    // A list of options is hidden from the header on: escapes make its end hard to see, and nobody needs to.
    if let at = position(of: "header=", in: bytes), let colon = bytes[at...].firstIndex(of: UInt8(ascii: ":")) {
        return colon + 1..<bytes.count
    }
    return passwordRange(bytes)
}

private func position(of word: String, in bytes: [UInt8]) -> Int? {
    let word = Array(word.utf8)
    guard bytes.count >= word.count else { return nil }
    return (0...bytes.count - word.count).first { bytes[$0..<$0 + word.count].elementsEqual(word) }
}

/// Overwrites secrets in the memory that /proc/PID/cmdline shows, as curl does. `CommandLine.arguments` must have been
/// copied before.
func hideSecrets() {
    let arguments = CommandLine.unsafeArgv
    for index in 0..<Int(CommandLine.argc) {
        guard let pointer = arguments[index] else { continue }
        let previous = index > 0 ? arguments[index - 1].map { String(cString: $0) } : nil
        guard let range = secretRange(String(cString: pointer), isHeader: previous == "--header") else { continue }
        for offset in range { pointer[offset] = CChar(UInt8(ascii: "*")) }
    }
}
