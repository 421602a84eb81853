import CFuse
import Glibc
import ReelFuse
import ReelThreads

/// The directory of a mount.
enum Mountpoint {
    /// The outcome of ``prepare(_:for:isRemount:)``.
    enum Place {
        /// Absolute, ready.
        case free(String)
        /// A remount of this mount: nothing to do.
        case mounted(Mount)
    }

    /// Checks the directory, and removes a dead mount that a crash left there.
    /// - Parameter source: of the mount to be made.
    static func prepare(_ path: String, for source: String, isRemount: Bool) throws(Failure) -> Place {
        let absolute = try resolve(path, isToBe: true)
        if let mount = Mount.on(absolute), mount.isOurs {
            let isDead = isDead(absolute)
            if isDead { try remove(mount) }
            // Not on top: the watcher has removed it between the two looks, and the bare directory answered.
            if isDead || !mount.isOnTop { return try prepare(path, for: source, isRemount: false) }
            if isRemount { return .mounted(mount) }
            if redacted(source) != source, redacted(source) == mount.source {
                throw .mount(
                    "\(shown(path)) is already mounted from this source; put its user and password into a file "
                        + "(credentials=FILE), so that mount(8) recognises it")
            }
            throw .mount(
                "\(shown(path)) is already mounted from \(withoutQuery(mount.source)); run `reelfs umount` first")
        }
        if isRemount { throw .mount("\(shown(path)) is not mounted, so it cannot be remounted") }
        var status = stat()
        guard stat(absolute, &status) == 0 else { throw .mount("mount point \(shown(path)): \(reason())") }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .mount("mount point \(shown(path)) is not a directory") }
        return .free(absolute)
    }

    /// Absolute and without symbolic links, also where the last component is a dead mount, which cannot be looked into.
    /// - Parameter isToBe: something is to be mounted there.
    static func resolve(_ path: String, isToBe: Bool = false) throws(Failure) -> String {
        // If a daemon hangs, the path is put together without asking it.
        let (resolved, code) = answered({ (realPath(path), errno) }) ?? (nil, ETIMEDOUT)
        if let resolved { return resolved }
        if code == ENOENT {
            throw .mount("mount point \(shown(path)) does not exist" + (isToBe ? "; create it with mkdir" : ""))
        }
        if code == EACCES { throw .mount("mount point \(shown(path)) cannot be reached: \(reason(code))") }
        guard let path = resolveAbove(path) else { throw .mount("mount point \(shown(path)): \(reason(code))") }
        return path
    }

    /// Resolves all but the last component, which is not looked at; nil with errno set.
    static func resolveAbove(_ path: String) -> String? {
        var trimmed = path.utf8[...]
        while trimmed.count > 1, trimmed.last == UInt8(ascii: "/") { trimmed.removeLast() }
        let rest = String(decoding: trimmed, as: UTF8.self)
        let (parent, name) = cutAtLastSlash(rest) ?? (".", rest)
        guard let folder = realPath(parent.isEmpty ? "/" : parent) else { return nil }
        return folder == "/" ? "/" + name : folder + "/" + name
    }

    /// The mount on a directory. - Throws: there is none of reelfs.
    static func mount(on path: String) throws(Failure) -> Mount {
        guard let mount = Mount.on(try resolve(path)), mount.isOurs else {
            throw .mount("\(shown(path)) is not a reelfs mount")
        }
        return mount
    }

    /// Whether a mount's daemon answers.
    enum Health {
        /// The daemon answers.
        case alive
        /// The daemon has ended without unmounting.
        case dead
        /// The daemon does not answer within two seconds: stopped, or stuck in its disk.
        case silent
    }

    /// Asks the daemon of a mount. If the daemon has ended, a call gets ENOTCONN; ECONNABORTED if it ended meanwhile.
    static func health(of path: String) -> Health {
        let code = answered {
            var status = statvfs()
            return statvfs(path, &status) == 0 ? 0 : errno
        }
        return switch code {
        case nil: .silent
        case ENOTCONN, ECONNABORTED: .dead
        default: .alive
        }
    }

    /// Whether the daemon of a mount has ended without unmounting.
    static func isDead(_ path: String) -> Bool { health(of: path) == .dead }

    /// Removes a mount whose daemon does not serve it.
    static func remove(_ mount: Mount) throws(Failure) {
        do {
            try unmount(mount.mountpoint, isLazy: true)
        } catch {
            // The watcher may have been quicker.
            if mount.isOnTop { throw error }
        }
    }

    /// Unmounts as root, or through fusermount3. - Parameter isLazy: also while files are open.
    ///
    /// What looks at all mounts, such as `df` or `reelfs status`, keeps each busy for a moment. So a busy one is tried
    /// for a second.
    static func unmount(_ path: String, isLazy: Bool) throws(Failure) {
        let end = now() + .seconds(1)
        while let refusal = refusal(path, isLazy) {
            guard refusal.hasSuffix(reason(EBUSY)) else { throw .mount("cannot unmount \(shown(path)): \(refusal)") }
            guard now() < end else {
                throw .mount("\(shown(path)) is busy: close the files open there, or use `reelfs umount --lazy`")
            }
            usleep(20_000)
        }
    }

    /// Tries to unmount. - Returns: why it stays, nil where it has gone.
    private static func refusal(_ path: String, _ isLazy: Bool) -> String? {
        if geteuid() == 0 {
            // UMOUNT_NOFOLLOW: the path was resolved once.
            return umount2(path, Int32(UMOUNT_NOFOLLOW | (isLazy ? MNT_DETACH : 0))) == 0 ? nil : reason()
        }
        let words = ["-u"] + (isLazy ? ["-z"] : []) + ["--", path]
        // A daemon, whose other threads write to stderr, unmounts lazily only.
        let (status, line) =
            isLazy
            ? (runProgram("fusermount3", words), nil)
            : capturingStandardError { runProgram("fusermount3", words) }
        guard let status else { return "fusermount3 was not found; install the package fuse3" }
        return status == 0 ? nil : line ?? "fusermount3 refused, see above"
    }

    /// The outcome of a call that may wait for a daemon; nil where none comes within two seconds. The thread is left
    /// behind, and ends with the program.
    static func answered<Answer: Sendable>(_ call: @escaping @Sendable () -> Answer) -> Answer? {
        let answer = Monitor<Answer?>(nil)
        Thread("ask") {
            let result = call()
            answer.withLock { $0 = result }
        }?.detach()
        return answer.wait(atMost: .seconds(2)) { $0 }
    }
}
