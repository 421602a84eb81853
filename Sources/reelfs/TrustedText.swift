import Glibc
import ReelCache

/// The text of a file that an option names, and that no other user could have written or put in its place: its lines
/// are options, or go to the origin, and this process may read files that the author of another could not.
struct TrustedText {
    let bytes: [UInt8]
    var text: String { String(decoding: bytes, as: UTF8.self) }
    /// Group and others can neither read nor write the file.
    let isPrivate: Bool

    /// - Parameters:
    ///   - kind: for the sentence, as `config file`.
    ///   - limit: bytes.
    ///   - isSecret: refuse a file that others can read.
    init(_ path: String, kind: String, limit: Int64 = 1 << 20, isSecret: Bool) throws(Failure) {
        let name = "\(kind) \(shown(path))"
        let descriptor: Int32
        do throws(PathError) {
            // Without waiting, in case it is a FIFO.
            descriptor = try openTrusted(absolute(path), O_RDONLY | O_NONBLOCK)
        } catch {
            guard case .system(_, let number) = error else { throw .usage("\(name): \(error)") }
            throw .usage("\(name) cannot be opened: \(reason(number))")
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= limit else {
            let most = limit < 1 << 20 ? "\(limit >> 10) KiB" : "\(limit >> 20) MiB"
            throw .usage("\(name) is not a regular file of at most \(most)")
        }
        guard status.st_uid == 0 || status.st_uid == geteuid() else {
            throw .usage("\(name) belongs neither to root nor to the mounting user")
        }
        isPrivate = status.st_mode & 0o077 == 0
        if isSecret, !isPrivate { throw .usage("\(name) is accessible to others: run `chmod 600` on it") }
        guard status.st_mode & 0o022 == 0 else { throw .usage("\(name) is writable by others: run `chmod go-w` on it") }
        bytes = readAll(descriptor)
    }
}

/// Lines that are neither empty nor a comment, with their numbers from 1.
func numberedLines(_ text: String) -> [(number: Int, text: Substring)] {
    text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated().compactMap { index, line in
        let text = line.drop { $0 == " " || $0 == "\t" }
        return text.isEmpty || text.first == "#" ? nil : (index + 1, text)
    }
}

/// Without white space at both ends.
func trimmedSpaces(_ text: Substring) -> String {
    let head = text.drop(while: \.isWhitespace)
    return String(head.reversed().drop(while: \.isWhitespace).reversed())
}
