import Glibc
import ReelCore
import ReelThreads

/// Finds logins in a file of the form that curl, ftp(1) and others share (`.netrc`). The file may change while a mount
/// lives, and is read again then, once a second at most.
package struct Netrc {
    /// The state of the file whose words are known.
    private struct Mark: Equatable {
        var inode: ino_t = 0
        var size: off_t = 0
        /// Seconds and nanoseconds.
        var changed: [Int] = []

        init(_ facts: stat) {
            (inode, size) = (facts.st_ino, facts.st_size)
            changed = [facts.st_mtim, facts.st_ctim].flatMap { [$0.tv_sec, $0.tv_nsec] }
        }
    }

    private let path: String?
    /// nil if there is no file that can be read.
    private var mark: Mark?
    private var words: [String] = []
    /// When the file was last looked at, on the clock of `now()`. A home may be slow, and all requests wait for a look.
    private var lookedAt: Duration?
    private static let interval = Duration.seconds(1)

    /// - Parameter path: nil: none.
    package init(_ path: String?) { self.path = path }

    /// The login of a host; nil if the file has none.
    /// - Parameter moment: on the clock of `now()`.
    package mutating func login(for host: String, at moment: Duration = now()) -> ResourceURL.Credentials? {
        guard let path else { return nil }
        if lookedAt.map({ moment - $0 >= Self.interval }) ?? true { look(path, at: moment) }
        return Self.login(for: String(host.filter { $0 != "[" && $0 != "]" }), among: words)
    }

    /// The first entry of the host, else a `default` before it: those behind a `default` count for nothing. Words may
    /// stand in double quotes, in which `\` makes the next character part of the word. A line that begins with `#` is a
    /// comment.
    static func login(for host: String, parsing text: String) -> ResourceURL.Credentials? {
        login(for: host, among: words(text))
    }

    private static func login(for host: String, among words: [String]) -> ResourceURL.Credentials? {
        var words = words[...]
        while let word = words.popFirst() {
            let isMeant: Bool
            switch word {
            case "machine": isMeant = words.popFirst().map { asciiLowercased($0) == asciiLowercased(host) } ?? false
            case "default": isMeant = true
            default: continue
            }
            guard isMeant else { continue }
            var found = ResourceURL.Credentials(user: "", password: "")
            while let word = words.popFirst(), word != "machine", word != "default" {
                switch word {
                case "login": found.user = words.popFirst() ?? ""
                case "password": found.password = words.popFirst() ?? ""
                case "account": _ = words.popFirst()
                default: break
                }
            }
            return found.user.isEmpty && found.password.isEmpty ? nil : found
        }
        return nil
    }

    private static func words(_ text: String) -> [String] {
        var words: [String] = []
        var isMacro = false
        for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            // A macro ends with an empty line.
            if isMacro {
                isMacro = !trimmed(line).isEmpty
                continue
            }
            var cursor = ByteCursor(trimmedBytes(Array(line.utf8)[...]))
            if cursor.peek() == UInt8(ascii: "#") { continue }
            while !cursor.isAtEnd {
                cursor.take(while: isBlank)
                let word = word(&cursor)
                isMacro = word == "macdef"
                if isMacro { break }
                words.append(word)
            }
        }
        return words
    }

    private static func word(_ cursor: inout ByteCursor) -> String {
        guard cursor.take(UInt8(ascii: "\"")) else {
            return String(decoding: cursor.take { !isBlank($0) }, as: UTF8.self)
        }
        return String(decoding: quotedRest(&cursor), as: UTF8.self)
    }

    private mutating func look(_ path: String, at moment: Duration) {
        var facts = stat()
        if stat(path, &facts) != 0 {
            (mark, words) = (nil, [])
        } else if mark != Mark(facts) {
            read(path)
        }
        // A look may take longer than the interval.
        lookedAt = max(moment, now())
    }

    private mutating func read(_ path: String) {
        (mark, words) = (nil, [])
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return }
        defer { close(file) }
        var facts = stat()
        guard fstat(file, &facts) == 0 else { return }
        var bytes = [UInt8](repeating: 0, count: Self.limit)
        var count = 0
        while count < bytes.count {
            let read = bytes.withUnsafeMutableBytes {
                Glibc.read(file, $0.baseAddress! + count, $0.count - count)
            }
            guard read > 0 else { break }
            count += read
        }
        mark = Mark(facts)
        words = Self.words(String(decoding: bytes[..<count], as: UTF8.self))
        // The last entry may go on behind the limit.
        if count == bytes.count {
            words.removeSubrange((words.lastIndex { $0 == "machine" || $0 == "default" } ?? 0)...)
        }
    }

    /// Bytes of a file to read: thousands of entries.
    static let limit = 1 << 20
}

/// The bytes up to a double quote, which is taken as well; a `\` makes the next byte part of them (RFC 9110, section
/// 5.6.4). All of the rest where no quote ends it.
func quotedRest(_ cursor: inout ByteCursor) -> [UInt8] {
    var bytes: [UInt8] = []
    while let byte = cursor.take(count: 1).first {
        if byte == UInt8(ascii: "\"") { break }
        bytes.append(byte == UInt8(ascii: "\\") ? cursor.take(count: 1).first ?? byte : byte)
    }
    return bytes
}
