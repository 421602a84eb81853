import Glibc
import ReelCache
import ReelVolume

/// What a file that the user names is for, which decides who may have access to it.
enum FileUse: Equatable {
    /// No other user can read or write it.
    case secret
    /// The same, but a group of root's or of this user's own may read it where nobody may write it: container runtimes
    /// make secrets so (0440).
    case key
    /// No other user can write it: its lines are options, or it says which servers to trust.
    case options
    /// The same, but a group of root's or of this user's own may write it: the umask of many systems makes files so.
    /// - Parameter getsSecrets: headers and cookies go to all origins that it names; else only logins of `.netrc`.
    case list(getsSecrets: Bool)
    /// This program writes it; made if it is missing. It belongs to this user, and no other one can read it. Any group
    /// may write to its directory: what it puts in the log's place belongs to another user, or is a link, or has
    /// another name.
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
        let access = use == .log ? O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW : O_RDONLY
        do throws(PathError) {
            descriptor = try openTrusted(
                absolute(path), access | O_NONBLOCK | O_NOCTTY, groupsMayWrite: use == .log)
        } catch {
            switch (error, use) {
            case (.system(_, ELOOP), .log): throw .usage("\(name) is a symbolic link: name the file itself")
            case (.system(_, let number), _): throw .usage("\(name) cannot be opened: \(reason(number))")
            case (.untrusted(let place), .list(let getsSecrets)):
                let remedy = "make \(shown(place)) the mounting user's own, and run `chmod go-w` on it"
                throw .usage("\(name) \(Self.changeable(getsSecrets, remedy))")
            case (.untrusted, .log): throw .usage("\(name): \(error)")
            case (.untrusted, _): throw .usage("\(name): \(error); or \(Self.copy)")
            }
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
        let isOwn = [0, geteuid()].contains(status.st_uid)
        let isOwnGroups = [0, getegid()].contains(status.st_gid)
        switch use {
        case .list(let getsSecrets):
            if !isOwn { return changeable(getsSecrets, "make it the mounting user's own") }
            if mode & (isOwnGroups ? 0o002 : 0o022) == 0 { return nil }
            return changeable(getsSecrets, "run `chmod go-w` on it")
        case .log:
            if status.st_uid != geteuid() { return "belongs to another user" }
            if status.st_nlink > 1 { return "has another name (a hard link)" }
        case .secret, .key, .options:
            if !isOwn { return "belongs neither to root nor to the mounting user: \(copy)" }
        }
        if use == .options { return mode & 0o022 == 0 ? nil : "is writable by others: run `chmod go-w` on it" }
        // Nobody may write it, and others nothing at all.
        if use == .key, isOwnGroups, mode & 0o337 == 0 { return nil }
        return mode & 0o077 == 0 ? nil : "is accessible to others: run `chmod 600` on it"
    }

    private static func changeable(_ getsSecrets: Bool, _ remedy: String) -> String {
        getsSecrets
            ? "could be changed by another user: \(remedy), or leave out header and cookies, which go where the list says"
            : "could be changed by another user, so nothing of .netrc goes to the origins that it names: \(remedy)"
    }

    /// Also helps where root mounts and the file is in a user's home, which has to stay that user's.
    private static var copy: String {
        geteuid() == 0
            ? "copy it to a directory of root's, owned by root, mode 0600"
            : "copy it to a directory of your own, mode 0600"
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
/// - Parameters:
///   - getsSecrets: all origins that the list names get what the options hold: then it has to be trusted.
///   - warn: gets the sentence about a list that is opened without trust.
func openList(_ path: String, getsSecrets: Bool, warn: (String) -> Void = { _ in }) -> OpenedList {
    do throws(Failure) {
        return .file(
            try NamedFile(path, kind: "list", for: .list(getsSecrets: getsSecrets)).descriptor, isTrusted: true)
    } catch {
        if getsSecrets { return .failed(error.sentence) }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { return .failed(reason()) }
        warn(error.sentence)
        return .file(descriptor, isTrusted: false)
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
