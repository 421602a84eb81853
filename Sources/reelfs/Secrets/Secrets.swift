import Glibc
import ReelCore
import ReelSources

// All of this works on bytes, as `ResourceURL` does: a mark that combines with a delimiter would hide it from a
// comparison of Characters, and the two would not agree on where a password ends.

/// The source as mountinfo shows it: user and password are replaced, as a user's name may be a token. Everything else
/// stays byte for byte, as mount(8) compares it with fstab.
func redacted(_ source: String) -> String {
    let bytes = Array(source.utf8)
    guard let start = authorityStart(bytes) else { return source }
    let end = bytes[start...].firstIndex { "/?#".utf8.contains($0) } ?? bytes.count
    guard let at = bytes[start..<end].lastIndex(of: UInt8(ascii: "@")) else { return source }
    return String(decoding: bytes[..<start] + Array("***".utf8) + bytes[at...], as: UTF8.self)
}

/// The source for logs, `status`, `ps` and errors: without user, password, and the query, which often is a signature.
func withoutQuery(_ source: String) -> String {
    // An address without a login may hold any character, as the prefix of a bucket does.
    SourceKinds.own(source)?.credentials == .keys
        ? source : ResourceURL(source)?.description ?? withoutSecrets(source)
}

/// Refuses a source that looks like a URL and is none. The error does not repeat it: it is not known where its password
/// ends. Also refuses a URL whose password seems to contain a character that ends the host.
func requireReadable(_ source: String) throws(Failure) {
    let bytes = Array(source.utf8)
    if SourceKinds.own(source)?.credentials == .keys { return }
    if let mistake = SourceKinds.mistake(in: source) { throw .usage(mistake) }
    if SourceKinds.url(of: source) != nil {
        guard isAmbiguous(bytes) else { return }
    } else {
        let isPath =
            bytes.first == UInt8(ascii: ".") || (bytes.first == UInt8(ascii: "/") && !bytes.starts(with: "//".utf8))
        if !isPath, isHostAndPort(bytes), isMissing(source) {
            throw .usage("a server is written with a scheme: http://HOST:PORT/")
        }
        let isMeant =
            urlStart(bytes) != nil || (bytes.contains(UInt8(ascii: "@")) && !isPath && isMissing(source))
        guard isMeant else { return }
    }
    if let end = position(of: "://", in: bytes), case let scheme = asciiLowercased(bytes[..<end]),
        !scheme.isEmpty, scheme.utf8.allSatisfy(isLetter), !sourceSchemes.contains(scheme)
    {
        throw .usage("no source is at \(shown(scheme))://; there are \(sourceSchemes.joined(separator: ", "))")
    }
    // As scp(1) and sshfs write it; a password may not be guessed at.
    if urlStart(bytes) == nil, !bytes.contains(UInt8(ascii: "?")), let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
        bytes[..<colon].contains(UInt8(ascii: "@"))
    {
        throw .usage("a folder of an SSH server is written sftp://USER@HOST/FOLDER")
    }
    throw .usage(
        "the source is not a URL; write / ? # @ in a password as %2F %3F %23 %40, or use credentials=FILE")
}

/// `host:8080`, `host:8080/films`.
private func isHostAndPort(_ bytes: [UInt8]) -> Bool {
    let place = bytes.prefix { $0 != UInt8(ascii: "/") }
    guard let colon = place.lastIndex(of: UInt8(ascii: ":")), colon > 0 else { return false }
    let port = place[(colon + 1)...]
    return !port.isEmpty && port.allSatisfy { (0x30...0x39).contains($0) }
        && !place[..<colon].contains { [UInt8(ascii: "@"), UInt8(ascii: "?")].contains($0) }
}

/// The schemes of sources.
let sourceSchemes = ["http", "https", "dav", "davs", "ftp", "ftps", "ftpes", "sftp", "s3"]

/// Whether there is an `@` in a fragment, which no source needs, or in a query right behind the host.
private func isAmbiguous(_ bytes: [UInt8]) -> Bool {
    guard let start = authorityStart(bytes), let end = bytes[start...].firstIndex(where: { "/?#".utf8.contains($0) })
    else { return false }
    let rest = bytes[end...]
    let doubtful = bytes[end] == UInt8(ascii: "/") ? rest.drop { $0 != UInt8(ascii: "#") } : rest
    return doubtful.contains(UInt8(ascii: "@"))
}

private func isMissing(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR)
}

/// A word or a sentence that may contain a URL in the wrong place: replaces everything that may be a user, a password
/// or a query, and rather too much than too little.
func withoutSecrets(_ text: String) -> String {
    let bytes = Array(text.utf8)
    guard let start = secretStart(bytes) else { return text }
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

/// The place where a user's name may start: behind the slashes of a URL, well written or not; else, if a colon stands
/// before an `@`, at the start of that word.
private func secretStart(_ bytes: [UInt8]) -> Int? {
    let at = bytes.lastIndex(of: UInt8(ascii: "@")) ?? bytes.endIndex
    if let start = urlStart(bytes), !bytes[..<start].contains(UInt8(ascii: "@")) { return start }
    guard at < bytes.endIndex, let colon = bytes[..<at].firstIndex(of: UInt8(ascii: ":")) else { return nil }
    return bytes[..<colon].lastIndex { " '\"".utf8.contains($0) }.map { $0 + 1 } ?? 0
}

private func authorityStart(_ bytes: [UInt8]) -> Int? { position(of: "://", in: bytes).map { $0 + 3 } }

/// Behind `://`; if there is none, behind `http:` or `https:` and any slashes.
private func urlStart(_ bytes: [UInt8]) -> Int? {
    if let start = authorityStart(bytes) { return start }
    let lowered = bytes.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
    for scheme in ["http:", "https:"] {
        guard let place = position(of: scheme, in: lowered) else { continue }
        let rest = bytes[(place + scheme.utf8.count)...]
        return (rest.firstIndex { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "\\") }) ?? rest.endIndex
    }
    return nil
}

/// The bytes of an argument that must not stay readable in `ps`: of a header its value, of a command its words but the
/// program's name, of a source user and password.
/// - Parameters:
///   - argument: need not be UTF-8.
///   - previous: the argument before, which may be the name of an option.
func secretRange(_ argument: [UInt8], after previous: String?) -> Range<Int>? {
    if let form = previous.flatMap({ formOfValue(after: $0) }), let start = secretStart(argument, form) {
        return start..<argument.count
    }
    // Hides the rest of a list of options, too: escapes make the end of a value hard to find.
    let forms = OptionTable.rows.map { ($0.name, $0.form) } + [("to", .key)]
    let starts = forms.compactMap { name, form -> Int? in
        guard let form else { return nil }
        let names = [name, String(name.map { $0 == "-" ? "_" : $0 })]
        // Every one: the value behind the first may be a file's name, and that behind another a secret.
        let values = names.flatMap { positions(of: $0 + "=", in: argument).map { $0 + name.utf8.count + 1 } }
        return values.compactMap { value in secretStart(Array(argument[value...]), form).map { value + $0 } }.min()
    }
    if let start = starts.min() { return start..<argument.count }
    // To the very last `@`: a password may contain a character that ends an authority.
    guard let start = secretStart(argument), let at = argument[start...].lastIndex(of: UInt8(ascii: "@")) else {
        return nil
    }
    return start..<at
}

/// What a word as `--header`, `-H`, or `--to` of `cache rekey` says of the next one.
private func formOfValue(after word: String) -> ValueForm? {
    if word == "--to" { return .key }
    if word.hasPrefix("--") { return OptionTable[String(word.dropFirst(2))]?.form }
    return OptionTable.rows.first { $0.letter.map { "-\($0)" == word } ?? false }?.form
}

/// The place of the secret in the value of an option of this form.
private func secretStart(_ value: [UInt8], _ form: ValueForm) -> Int? {
    // A scalar a byte, so that places are the same.
    let text = String(String.UnicodeScalarView(value.map { UnicodeScalar($0) }))
    return form.secretStart(text).map { text.unicodeScalars.distance(from: text.startIndex, to: $0) }
}

private func position(of word: String, in bytes: [UInt8]) -> Int? { positions(of: word, in: bytes).first }

private func positions(of word: String, in bytes: [UInt8]) -> LazyFilterSequence<Range<Int>> {
    let word = Array(word.utf8)
    return (0..<max(0, bytes.count - word.count + 1)).lazy.filter { bytes[$0..<$0 + word.count].elementsEqual(word) }
}

/// Overwrites secrets in the memory that /proc/PID/cmdline shows, as curl does. To be called after
/// `CommandLine.arguments` was copied.
func hideSecrets() {
    let arguments = CommandLine.unsafeArgv
    for index in 0..<Int(CommandLine.argc) {
        guard let pointer = arguments[index] else { continue }
        let bytes = UnsafeBufferPointer(start: pointer, count: strlen(pointer)).map { UInt8(bitPattern: $0) }
        let previous = index > 0 ? arguments[index - 1].map { String(cString: $0) } : nil
        guard let range = secretRange(bytes, after: previous) else { continue }
        for offset in range { pointer[offset] = CChar(UInt8(ascii: "*")) }
    }
}
