import Glibc
import ReelCore

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

/// A source that looks like a URL and is none is refused unseen: nobody could tell where its password ends.
func requireReadable(_ source: String) throws(Failure) {
    guard source.contains("://"), ResourceURL(source) == nil else { return }
    throw .usage(
        "the source is no http(s) URL; write / ? # @ in a password as %2F %3F %23 %40, or use credentials=FILE")
}

/// A word, or a sentence with words in it, that may hold a URL in the wrong place: from the first `://` on, everything
/// that may be a user's or a query is replaced. Rather too much of it than too little.
package func withoutSecrets(_ text: String) -> String {
    let bytes = Array(text.utf8)
    guard let start = authorityStart(bytes) else { return text }
    var result = bytes[..<start]
    var rest = bytes[start...]
    if let at = rest.lastIndex(of: UInt8(ascii: "@")) {
        result += "***".utf8
        rest = rest[at...]
    }
    let mark = rest.firstIndex { "?#".utf8.contains($0) }
    result += rest[..<(mark ?? rest.endIndex)]
    return String(decoding: result, as: UTF8.self) + (mark == nil ? "" : "?…")
}

private func authorityStart(_ bytes: [UInt8]) -> Int? { position(of: "://", in: bytes).map { $0 + 3 } }

private func passwordRange(_ bytes: [UInt8]) -> Range<Int>? {
    guard let start = authorityStart(bytes) else { return nil }
    let end = bytes[start...].firstIndex { "/?#".utf8.contains($0) } ?? bytes.count
    return passwordRange(bytes, start..<end)
}

/// From the first colon to the last `@`.
private func passwordRange(_ bytes: [UInt8], _ place: Range<Int>) -> Range<Int>? {
    guard let at = bytes[place].lastIndex(of: UInt8(ascii: "@")),
        let colon = bytes[place.lowerBound..<at].firstIndex(of: UInt8(ascii: ":"))
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
    // To the last `@` of all: a password may hold what ends an authority, and nobody needs the rest in `ps`.
    return authorityStart(bytes).flatMap { passwordRange(bytes, $0..<bytes.count) }
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
