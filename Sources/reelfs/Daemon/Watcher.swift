import Glibc
import Logging
import ReelFuse
import ReelThreads

/// Removes a mount whose daemon was killed: a process of its own that sleeps on a pipe which only the daemon holds
/// open. If the pipe ends without a word, the mount is dead.
///
/// Not libfuse's `auto_unmount`: that needs fusermount3 for root as well, keeps the caller's stderr open, and differs
/// from version to version.
struct Watcher {
    /// The hidden command of the watcher's process.
    static let subcommand = "watch"
    /// The daemon's end of the pipe, open until it ends.
    let pipe: Int32

    /// A watcher that another process has started.
    init(pipe: Int32) { self.pipe = pipe }

    /// nil where the system gives no process.
    /// - Parameter device: `major:minor` of the mount; a later mount at the same place is left alone.
    init?(mountpoint: String, device: String) {
        guard let ends = Pipe() else { return nil }
        defer { Glibc.close(ends.reading) }
        let words = [Self.subcommand, mountpoint, device]
        guard spawnSelf(words, files: [0: ends.reading, 1: nil, 2: nil], inNewSession: true) != nil else {
            Glibc.close(ends.writing)
            return nil
        }
        pipe = ends.writing
    }

    /// Says that the mount has ended as it should.
    func callOff() { say(.calledOff) }

    /// Says that the daemon has ended the mount, which is to be removed if it is still there.
    func removeMount() { say(.remove) }

    /// What the daemon says; nothing where it died.
    private enum Word: UInt8 {
        case calledOff, remove
    }

    private func say(_ word: Word) {
        writeAll(pipe, [word.rawValue])
        close()
    }

    /// Closes this process's end of the pipe.
    func close() { Glibc.close(pipe) }

    /// The watcher's own process. Signals that also end the daemon do not end it: it ends after the daemon.
    static func runFromPipe() -> Int32 {
        var status = stat()
        guard CommandLine.argc == 4, fstat(0, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else {
            return Failure.usage("`reelfs watch` is started by `reelfs mount`").printed()
        }
        // Started through /proc/self/exe, the process would be called "exe".
        Thread.nameCurrent("reelfs")
        for number in [SIGTERM, SIGINT, SIGHUP] { signal(number, SIG_IGN) }
        chdir("/")
        let word = readAll(0).first
        if word != Word.calledOff.rawValue {
            removeDead(CommandLine.arguments[2], device: CommandLine.arguments[3], hasDied: word == nil)
        }
        return 0
    }

    private static func removeDead(_ path: String, device: String, hasDied: Bool) {
        // The pipe may have been closed a moment before the device was.
        for _ in 0..<100 {
            guard let mount = Mount.on(path), mount.device == device else { return }
            if Mountpoint.isDead(path), (try? Mountpoint.unmount(path, isLazy: true)) != nil {
                if !hasDied { return }
                LogSink.start(level: "notice", toStandardError: false)
                    .error("the daemon died, so its mount was removed", metadata: ["on": "\(path)"])
                // journald looks the sender up in /proc: a process that has ended by then belongs to no unit.
                usleep(200_000)
                return
            }
            usleep(10_000)
        }
    }
}
