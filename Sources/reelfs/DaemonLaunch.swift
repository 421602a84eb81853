import Glibc

/// What a daemon is started with.
struct MountRequest {
    var source: String
    /// Absolute.
    var mountpoint: String
    var options: MountOptions
}

/// The background form: the program is started again (a fork of a process with threads is no good) and says over a pipe
/// when its mount answers. The words of the command line go through another pipe: they may hold secrets.
enum DaemonLaunch {
    static let subcommand = "daemon"
    /// Where the daemon finds the pipe to say "ready" on.
    static let readyDescriptor: Int32 = 3
    /// The daemon asks the origin what the source is, once or twice, and then opens the cache and mounts.
    private static func patience(_ request: MountRequest) -> Duration { .seconds(30 + 2 * request.options.timeout) }

    static func start(_ request: MountRequest) throws(Failure) -> Int32 {
        guard let input = Pipe(), let ready = Pipe() else {
            throw .mount("cannot start the daemon: \(reason())")
        }
        let child = spawn(request, input: input.reading, ready: ready.writing)
        close(input.reading)
        close(ready.writing)
        defer { close(ready.reading) }
        guard let child else {
            close(input.writing)
            throw .mount("cannot start the daemon: \(reason())")
        }
        signal(SIGPIPE, SIG_IGN)
        let words = [request.mountpoint] + CommandLine.arguments
        writeAll(input.writing, Array(words.joined(separator: "\0").utf8))
        close(input.writing)
        let patience = patience(request)
        guard let answer = readLine(ready.reading, within: patience) else {
            kill(child, SIGTERM)
            throw .mount("the daemon was not ready within \(patience.components.seconds) seconds; see its log")
        }
        if answer == "ready" { return 0 }
        guard let space = answer.firstIndex(of: " "), let status = Int32(answer[..<space]) else {
            throw .mount("the daemon ended before the mount answered; try --foreground to see why")
        }
        throw Failure(
            status: Failure.Status(rawValue: status) ?? .mount, sentence: String(answer[answer.index(after: space)...]))
    }

    private static func spawn(_ request: MountRequest, input: Int32, ready: Int32) -> pid_t? {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        // stderr stays until the mount answers: fusermount3 speaks there.
        posix_spawn_file_actions_adddup2(&actions, ready, readyDescriptor)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // POSIX_SPAWN_SETSID, which Glibc's module hides behind _GNU_SOURCE.
        posix_spawnattr_setflags(&attributes, 0x80)
        let arguments = ["reelfs", subcommand, withoutQuery(request.source), request.mountpoint]
        let words = arguments.map { strdup($0) }
        // The crash backtracer holds a dead daemon's descriptors for minutes, and with them the mount.
        setenv("SWIFT_BACKTRACE", "enable=no", 1)
        defer { for word in words { free(word) } }
        var pid = pid_t()
        let code = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, words + [nil], environ)
        errno = code
        return code == 0 ? pid : nil
    }

    /// nil when the time is up; what came before the end of file otherwise.
    private static func readLine(_ descriptor: Int32, within limit: Duration) -> String? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1024)
        let end = ContinuousClock.now + limit
        while bytes.last != UInt8(ascii: "\n"), bytes.count < 8192 {
            let left = (end - .now).components
            var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let milliseconds = Int32(max(0, left.seconds * 1000 + left.attoseconds / 1_000_000_000_000_000))
            let count = poll(&poller, 1, milliseconds)
            if count == 0 { return nil }
            if count < 0 { continue }
            let got = read(descriptor, &chunk, chunk.count)
            if got <= 0 { break }
            bytes += chunk[..<got]
        }
        return String(decoding: bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes[...], as: UTF8.self)
    }
}

/// Both ends close on exec.
struct Pipe {
    let reading: Int32
    let writing: Int32

    init?() {
        // Above the standard descriptors and the daemon's third, so that handing one over never overwrites another.
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return nil }
        reading = fcntl(ends[0], F_DUPFD_CLOEXEC, 10)
        writing = fcntl(ends[1], F_DUPFD_CLOEXEC, 10)
        close(ends[0])
        close(ends[1])
        if reading < 0 || writing < 0 { return nil }
    }
}

/// Writes everything or gives up at the first error (a reader that has gone).
func writeAll(_ descriptor: Int32, _ bytes: [UInt8]) {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        if count <= 0 { return }
        rest = rest.dropFirst(count)
    }
}

/// Everything up to the end of file.
func readAll(_ descriptor: Int32) -> [UInt8] {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
        let count = read(descriptor, &chunk, chunk.count)
        if count < 0, errno == EINTR { continue }
        if count <= 0 { return bytes }
        bytes += chunk[..<count]
    }
}
