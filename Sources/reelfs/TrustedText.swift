import Glibc
import ReelCache
import ReelVolume

/// What a file that the user names is for, which decides who may have access to it.
enum FileUse {
    /// No other user can read or write it.
    case secret
    /// No other user can write it: its lines are options, or it says which servers to trust.
    case options
    /// The same, but a group of root's or of this user's own may write it: the umask of many systems makes files so.
    case list
    /// This program writes it; made if it is missing. It belongs to this user, and no other one can read it.
    case log
}

/// A file that the user names and no other user could have written or put in its place, open.
///
/// This process may read files that the author of such a file could not, and what stands in it decides where they go.
struct NamedFile {
    /// The caller's to close.
    let descriptor: Int32
    /// Group and others can neither read nor write it.
    let isPrivate: Bool

    /// - Parameters:
    ///   - kind: for the sentence, as `config file`.
    ///   - limit: bytes.
    init(_ path: String, kind: String, for use: FileUse, limit: Int64 = .max) throws(Failure) {
        let name = "\(kind) \(shown(path))"
        // Without waiting, in case it is a FIFO.
        let flags = (use == .log ? O_WRONLY | O_APPEND | O_CREAT : O_RDONLY) | O_NONBLOCK | O_NOCTTY
        do throws(PathError) {
            descriptor = try openTrusted(absolute(path), flags)
        } catch {
            guard case .system(_, let number) = error else { throw .usage("\(name): \(error)") }
            throw .usage("\(name) cannot be opened: \(reason(number))")
        }
        var status = stat()
        let isFile = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        isPrivate = status.st_mode & 0o077 == 0
        guard let flaw = isFile ? Self.flaw(status, use, limit) : Self.notRegular(limit) else { return }
        close(descriptor)
        throw .usage("\(name) \(flaw)")
    }

    /// Why a file is not used for this; nil if it is.
    private static func flaw(_ status: stat, _ use: FileUse, _ limit: Int64) -> String? {
        let mode = status.st_mode
        if status.st_size > limit { return notRegular(limit) }
        if use == .log, status.st_uid != geteuid() { return "belongs to another user" }
        if ![0, geteuid()].contains(status.st_uid) { return "belongs neither to root nor to the mounting user" }
        if use == .secret || use == .log, mode & 0o077 != 0 {
            return "is accessible to others: run `chmod 600` on it"
        }
        let isOwnGroups = use == .list && [0, getegid()].contains(status.st_gid)
        if mode & (isOwnGroups ? 0o002 : 0o022) != 0 { return "is writable by others: run `chmod go-w` on it" }
        return nil
    }

    private static func notRegular(_ limit: Int64) -> String {
        if limit == .max { return "is not a regular file" }
        return "is not a regular file of at most " + (limit < 1 << 20 ? "\(limit >> 10) KiB" : "\(limit >> 20) MiB")
    }
}

/// The text of a small ``NamedFile``.
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
        let file = try NamedFile(path, kind: kind, for: isSecret ? .secret : .options, limit: limit)
        defer { close(file.descriptor) }
        isPrivate = file.isPrivate
        bytes = readAll(file.descriptor)
    }
}

/// Opens a local list of the source. One that another user could have written names no origins for secrets.
/// - Parameter getsSecrets: all origins that the list names get what the options hold: then it has to be trusted.
func openList(_ path: String, getsSecrets: Bool) -> OpenedList {
    do throws(Failure) {
        return .file(try NamedFile(path, kind: "list", for: .list).descriptor, isTrusted: true)
    } catch {
        if getsSecrets { return .failed(error.sentence) }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        return descriptor < 0 ? .failed(reason()) : .file(descriptor, isTrusted: false)
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
