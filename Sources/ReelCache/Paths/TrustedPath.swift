import CLinux
import Glibc

/// The reason why a path is not used.
package enum PathError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A system call failed for this path; its errno.
    case system(String, Int32)
    /// Another user owns this directory or symbolic link, or may write to it.
    case untrusted(String)

    /// The path and the reason, to stand inside a sentence.
    package var description: String {
        switch self {
        case .system(let path, let number): "\(path): \(String(cString: strerror(number)))"
        case .untrusted(let path):
            "another user could replace what is in \(path): it must belong to root or to the mounting user, and others must "
                + "not be able to write to it"
        }
    }
}

/// Opens a path, unless a user other than root and this one could replace it.
///
/// The owner of `/` counts as root: in a user namespace that does not map the machine's root, the overflow user seems
/// to own its directories (user_namespaces(7)), and those of all other users outside.
///
/// Each directory on the way must belong to one of the two, and only they, or a group of root or of this user, may
/// write to it; or it is sticky, as /tmp is, where users cannot replace each other's entries. Each symbolic link must
/// belong to one of the two as well, and is followed by hand. Every step starts from the directory opened before
/// (openat(2)), so that no checked directory can be exchanged before it is used.
/// - Parameters:
///   - path: absolute.
///   - flags: of open(2) for the last part, which may be a file; the caller checks a file's owner and mode. With
///     `O_NOFOLLOW` a symbolic link there is an error, whoever owns it.
///   - makesDirectories: makes missing directories, 0700.
///   - groupsMayWrite: any group may write to the directories, as syslog's may to /var/log: for a file whose
///     replacement the caller recognises by its owner.
/// - Returns: a descriptor that is closed on exec, for the caller to close.
package func openTrusted(
    _ path: String, _ flags: Int32, makesDirectories: Bool = false, groupsMayWrite: Bool = false
) throws(PathError) -> Int32 {
    var walk = try PathWalk(groupsMayWrite)
    // Bytes: the kernel cuts where a slash is, also before a mark that combines with it, and names need not be UTF-8.
    var rest = Array(path.utf8.split(separator: slash).map { Array($0) }.reversed())
    while let name = rest.popLast() {
        if let target = try walk.step(name, rest.isEmpty ? flags : nil, makesDirectories) {
            if target.first == slash { try walk.restart() }
            rest += target.split(separator: slash).map { Array($0) }.reversed()
        }
    }
    // The path led only through links back to the current directory: open that one.
    if !walk.hasEnded { _ = try walk.step(dot, flags, false) }
    return walk.take()
}

private let slash = UInt8(ascii: "/")
private let dot = [UInt8(ascii: ".")]

/// The place of a walk down a path.
private struct PathWalk: ~Copyable {
    private var current: Int32 = -1
    /// For errors.
    private var place = ""
    private var links = 0
    /// Users who may own directories on the way.
    private var owners = [0, geteuid()]
    private let groupsMayWrite: Bool
    /// The last part was opened.
    private(set) var hasEnded = false

    init(_ groupsMayWrite: Bool) throws(PathError) {
        self.groupsMayWrite = groupsMayWrite
        try restart()
    }

    deinit { if current >= 0 { close(current) } }

    mutating func restart() throws(PathError) {
        place = ""
        try go(to: open("/", reel_o_path | O_DIRECTORY | O_CLOEXEC))
    }

    /// Goes one part further. - Parameter flags: nil where the part has to be a directory on the way.
    /// - Returns: the target, where the part is a symbolic link.
    mutating func step(_ bytes: [UInt8], _ flags: Int32?, _ makes: Bool) throws(PathError) -> [UInt8]? {
        let directory = current
        let before = place
        let name = bytes.map { CChar(bitPattern: $0) } + [0]
        place += bytes == dot ? "" : "/" + String(decoding: bytes, as: UTF8.self)
        let wanted = (flags ?? (reel_o_path | O_DIRECTORY)) | O_NOFOLLOW | O_CLOEXEC
        var next = openat(directory, name, wanted, 0o600)
        if next < 0, errno == ENOENT, makes {
            guard mkdirat(directory, name, 0o700) == 0 || errno == EEXIST else { throw failure() }
            next = openat(directory, name, wanted, 0o600)
        }
        let follows = flags.map { $0 & O_NOFOLLOW == 0 } ?? true
        if next < 0, follows, errno == ELOOP || errno == ENOTDIR, let target = try link(name) {
            place = before
            return target
        }
        try go(to: next)
        hasEnded = flags != nil
        return nil
    }

    mutating func take() -> Int32 {
        defer { current = -1 }
        return current
    }

    private mutating func go(to next: Int32) throws(PathError) {
        guard next >= 0 else { throw failure() }
        if current >= 0 { close(current) }
        current = next
        var status = stat()
        guard fstat(next, &status) == 0 else { throw failure() }
        if place.isEmpty { owners.append(status.st_uid) }
        guard status.st_mode & S_IFMT != S_IFDIR || isTrusted(status) else {
            throw .untrusted(place.isEmpty ? "/" : place)
        }
    }

    /// nil where it is no symbolic link.
    private mutating func link(_ name: [CChar]) throws(PathError) -> [UInt8]? {
        let code = errno
        let link = openat(current, name, reel_o_path | O_NOFOLLOW | O_CLOEXEC)
        guard link >= 0 else { throw failure() }
        defer { close(link) }
        var status = stat()
        guard fstat(link, &status) == 0, status.st_mode & S_IFMT == S_IFLNK else {
            errno = code
            return nil
        }
        guard owners.contains(status.st_uid) else { throw .untrusted(place) }
        links += 1
        var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = bytes.withUnsafeMutableBytes {
            readlinkat(link, "", $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        }
        // The kernel follows as many.
        guard count > 0, count < bytes.count, links <= 40 else { throw .system(place, ELOOP) }
        return Array(bytes[..<count])
    }

    private func isTrusted(_ directory: stat) -> Bool {
        guard owners.contains(directory.st_uid) else { return false }
        if directory.st_mode & S_ISVTX != 0 { return true }
        let isGroupTrusted =
            groupsMayWrite || directory.st_mode & 0o020 == 0 || [0, getegid()].contains(directory.st_gid)
        return directory.st_mode & 0o002 == 0 && isGroupTrusted
    }

    private func failure() -> PathError { .system(place.isEmpty ? "/" : place, errno) }
}
