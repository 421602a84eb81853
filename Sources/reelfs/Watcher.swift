import Glibc
import Logging
import ReelFuse
import ReelThreads

/// What heals a mount whose daemon was killed: a process of its own that sleeps on a pipe which only the daemon holds
/// open. Its end without a word means that the mount is dead, and it is taken away.
///
/// Not libfuse's `auto_unmount`: that needs fusermount3 for root as well, keeps the caller's stderr open, and differs
/// from version to version.
struct Watcher {
    static let subcommand = "watch"
    /// The daemon's end of the pipe, open until it ends.
    private let pipe: Int32

    /// - Parameter device: `major:minor` of the mount; what stands at the same place later is left alone.
    /// nil where the system gives no process.
    init?(mountpoint: String, device: String) {
        guard let ends = Pipe() else { return nil }
        defer { close(ends.reading) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends.reading, 0)
        for descriptor: Int32 in 1...2 {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
        }
        guard spawnSelf(["reelfs", Self.subcommand, mountpoint, device], &actions, inNewSession: true) != nil else {
            close(ends.writing)
            return nil
        }
        pipe = ends.writing
    }

    /// The mount has ended as it should.
    func callOff() { writeAll(pipe, [0]) }

    /// The other side. Signals that end the daemon, too, do not end it: it goes when the daemon has gone.
    static func runFromPipe() -> Int32 {
        var status = stat()
        guard CommandLine.argc == 4, fstat(0, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else {
            return Failure.usage("`reelfs watch` is started by `reelfs mount`").printed()
        }
        // Started through /proc/self/exe, the process would be called "exe".
        Thread.nameCurrent("reelfs")
        for number in [SIGTERM, SIGINT, SIGHUP] { signal(number, SIG_IGN) }
        closefrom(3)
        chdir("/")
        if readAll(0).isEmpty { heal(CommandLine.arguments[2], device: CommandLine.arguments[3]) }
        return 0
    }

    private static func heal(_ path: String, device: String) {
        // The pipe may have been closed a moment before the device was.
        for _ in 0..<100 {
            guard let mount = Mount.on(path), mount.device == device else { return }
            if Mountpoint.isDead(path), (try? Mountpoint.unmountLazily(path)) != nil {
                LogSink.start(level: "notice", toStandardError: false)
                    .error("the daemon died, so its mount was taken away", metadata: ["on": "\(path)"])
                // journald asks /proc whose process has spoken: one that has gone by then is of no unit.
                usleep(200_000)
                return
            }
            usleep(10_000)
        }
    }
}

/// Starts this program again. - Returns: its process; nil with errno set.
func spawnSelf(_ words: [String], _ actions: inout posix_spawn_file_actions_t, inNewSession: Bool) -> pid_t? {
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // The daemon blocks the signals that a thread of its own waits for: a child starts without that.
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    // 0x80 is POSIX_SPAWN_SETSID, which Glibc's module hides behind _GNU_SOURCE.
    posix_spawnattr_setflags(&attributes, Int16((inNewSession ? 0x80 : 0) | POSIX_SPAWN_SETSIGMASK))
    let pointers = words.map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    // The crash backtracer holds a dead daemon's descriptors for minutes, and with them the mount.
    setenv("SWIFT_BACKTRACE", "enable=no", 1)
    var pid = pid_t()
    let code = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, pointers, environ)
    errno = code
    return code == 0 ? pid : nil
}
