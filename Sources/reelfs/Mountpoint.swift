import CFuse
import Glibc
import ReelFuse
import ReelThreads

/// What stands where a mount is to be made.
enum Mountpoint {
    enum Place {
        /// Absolute, ready.
        case free(String)
        /// A remount of what is there: nothing to do.
        case mounted(Mount)
    }

    /// Checks the directory; a mount that a crash left there is healed.
    /// - Parameter source: what is to be mounted there.
    static func prepare(_ path: String, for source: String, isRemount: Bool) throws(Failure) -> Place {
        let absolute = try resolve(path)
        if let mount = Mount.on(absolute), mount.isOurs {
            if isDead(absolute) {
                do {
                    try unmountLazily(absolute)
                } catch {
                    // The watcher may have been quicker.
                    if mount.isOnTop { throw error }
                }
                return try prepare(path, for: source, isRemount: false)
            }
            // Healed by the watcher between the two looks: what answered was the bare directory.
            guard mount.isOnTop else { return try prepare(path, for: source, isRemount: false) }
            if isRemount { return .mounted(mount) }
            if redacted(source) != source, redacted(source) == mount.source {
                throw .mount(
                    "\(shown(path)) is already mounted from this source; with its user and password in a file "
                        + "(credentials=FILE) mount(8) would know")
            }
            throw .mount(
                "\(shown(path)) is already mounted from \(withoutQuery(mount.source)); `reelfs umount` it first")
        }
        if isRemount { throw .mount("\(shown(path)) is not mounted, so it cannot be remounted") }
        var status = stat()
        guard stat(absolute, &status) == 0 else { throw .mount("mount point \(shown(path)): \(reason())") }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .mount("mount point \(shown(path)) is not a directory") }
        return .free(absolute)
    }

    /// Absolute and without symbolic links, also where the last component is a dead mount, which nobody can look into.
    static func resolve(_ path: String) throws(Failure) -> String {
        // A daemon that hangs is left aside: the path is put together without asking it.
        let (resolved, code) = answered({ (realPath(path), errno) }) ?? (nil, ETIMEDOUT)
        if let resolved { return resolved }
        if code == ENOENT { throw .mount("mount point \(shown(path)) does not exist; create it with mkdir") }
        if code == EACCES { throw .mount("mount point \(shown(path)) cannot be reached: \(reason(code))") }
        var trimmed = path[...]
        while trimmed.count > 1, trimmed.last == "/" { trimmed.removeLast() }
        let slash = trimmed.lastIndex(of: "/")
        let parent = slash.map { $0 == trimmed.startIndex ? "/" : String(trimmed[..<$0]) } ?? "."
        let name = slash.map { trimmed[trimmed.index(after: $0)...] } ?? trimmed
        guard let folder = realPath(parent) else { throw .mount("mount point \(shown(path)): \(reason(code))") }
        return folder == "/" ? "/" + name : folder + "/" + name
    }

    enum Daemon {
        /// It answers.
        case alive
        /// It has gone without unmounting.
        case gone
        /// It does not answer within two seconds: stopped, or stuck in its disk.
        case silent
    }

    /// Asks the daemon of a mount. A call that its end overtakes is told ECONNABORTED, later ones ENOTCONN.
    static func daemon(of path: String) -> Daemon {
        let code = answered {
            var status = statvfs()
            return statvfs(path, &status) == 0 ? 0 : errno
        }
        return switch code {
        case nil: .silent
        case ENOTCONN, ECONNABORTED: .gone
        default: .alive
        }
    }

    static func isDead(_ path: String) -> Bool { daemon(of: path) == .gone }

    static func unmountLazily(_ path: String) throws(Failure) { try unmount(path, isLazy: true) }

    static func unmount(_ path: String, isLazy: Bool) throws(Failure) {
        if geteuid() == 0 {
            // UMOUNT_NOFOLLOW: the path was resolved once.
            guard umount2(path, Int32(UMOUNT_NOFOLLOW | (isLazy ? MNT_DETACH : 0))) != 0 else { return }
            if errno == EBUSY {
                throw .mount("\(shown(path)) is busy: close the files open there, or use `reelfs umount --lazy`")
            }
            throw .mount("cannot unmount \(shown(path)): \(reason())")
        }
        let status = Child.run("fusermount3", ["-u"] + (isLazy ? ["-z"] : []) + ["--", path])
        guard status == 0 else {
            throw .mount(
                status == nil
                    ? "cannot unmount \(shown(path)): fusermount3 was not found; install the package fuse3"
                    : "cannot unmount \(shown(path)): fusermount3 refused, see above")
        }
    }

    /// The outcome of a call that may ask a daemon; nil where none comes within two seconds. The thread is left behind,
    /// and ends with the program.
    static func answered<Answer: Sendable>(_ call: @escaping @Sendable () -> Answer) -> Answer? {
        let answer = Monitor<Answer?>(nil)
        Thread("ask") {
            let result = call()
            answer.withLock { $0 = result }
        }?.detach()
        return answer.wait(atMost: .seconds(2)) { $0 }
    }

    private static func realPath(_ path: String) -> String? {
        guard let pointer = realpath(path, nil) else { return nil }
        defer { free(pointer) }
        return String(cString: pointer)
    }
}
