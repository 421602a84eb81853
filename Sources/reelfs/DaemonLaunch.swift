import Glibc

/// What a daemon is started with.
struct MountRequest {
    var source: String
    /// Absolute.
    var mountpoint: String
    var options: MountOptions

    /// How long a mount may take: the origin is asked what the source is, once or twice, then the cache is opened.
    var patience: Duration { .seconds(30 + 2 * options.timeout) }
}

/// The background form: the program is started again (a fork of a process with threads is no good) and says over a pipe
/// when its mount answers. The words of the command line go through another pipe: they may hold secrets.
enum DaemonLaunch {
    static let subcommand = "daemon"
    /// Where the daemon finds the pipe to say "ready" on.
    static let readyDescriptor: Int32 = 3
    /// Returns when the mount answers.
    static func start(_ request: MountRequest) throws(Failure) {
        guard let input = Pipe(), let ready = Pipe() else {
            throw Failure(status: .system, sentence: "cannot start the daemon: \(reason())")
        }
        signal(SIGPIPE, SIG_IGN)
        let interruption = Interruption()
        let child = spawn(request, input: input.reading, ready: ready.writing)
        close(input.reading)
        close(ready.writing)
        defer { close(ready.reading) }
        guard let child else {
            close(input.writing)
            throw Failure(status: .system, sentence: "cannot start the daemon: \(reason())")
        }
        let words = [request.mountpoint] + CommandLine.arguments
        writeAll(input.writing, Array(words.joined(separator: "\0").utf8))
        close(input.writing)
        try understand(wait(ready.reading, within: request.patience, or: interruption), child, ready.reading, request)
    }

    private static func understand(
        _ end: Waited, _ child: pid_t, _ ready: Int32, _ request: MountRequest
    ) throws(Failure) {
        switch end {
        case .late:
            kill(child, SIGTERM)
            throw .mount("the daemon was not ready within \(request.patience.components.seconds) seconds; see its log")
        case .interrupted:
            kill(child, SIGTERM)
            // It undoes what it has done; the pipe's end tells of its own.
            _ = wait(ready, within: .seconds(5), or: nil)
            throw Failure(status: .interrupted, sentence: "interrupted, and nothing is mounted")
        case .said("ready"): return
        case .said(let answer):
            guard let space = answer.firstIndex(of: " "), let status = Int32(answer[..<space]) else {
                throw Failure(
                    status: .internal, sentence: "the daemon ended before the mount answered; --foreground shows why")
            }
            throw Failure(
                status: Failure.Status(rawValue: status) ?? .mount,
                sentence: String(answer[answer.index(after: space)...]))
        }
    }

    private static func spawn(_ request: MountRequest, input: Int32, ready: Int32) -> pid_t? {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        // stderr stays until the mount answers.
        posix_spawn_file_actions_adddup2(&actions, ready, readyDescriptor)
        // In the caller's process group until it has mounted: autofs knows by that who mounts for it, and everybody else,
        // mount(2) included, waits until it is done. automount and systemd both count on it.
        let words = ["reelfs", subcommand, withoutQuery(request.source), request.mountpoint]
        return spawnSelf(words, &actions, inNewSession: false)
    }

    private enum Waited {
        /// A line, or what came before the end of file.
        case said(String)
        case late, interrupted
    }

    private static func wait(_ descriptor: Int32, within limit: Duration, or interruption: Interruption?) -> Waited {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1024)
        let end = ContinuousClock.now + limit
        while bytes.last != UInt8(ascii: "\n"), bytes.count < 8192 {
            var polled = [
                pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: interruption?.descriptor ?? -1, events: Int16(POLLIN), revents: 0),
            ]
            let count = poll(&polled, 2, Int32(max(.zero, end - .now) / .milliseconds(1)))
            if count == 0 { return .late }
            if count < 0 { continue }
            if polled[1].revents != 0 { return .interrupted }
            let got = read(descriptor, &chunk, chunk.count)
            if got <= 0 { break }
            bytes += chunk[..<got]
        }
        return .said(String(decoding: bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes[...], as: UTF8.self))
    }
}

/// A signal that asks this program to end, as something to poll for. Signals that the caller ignores stay ignored.
struct Interruption {
    /// Readable once a signal has come.
    var descriptor: Int32 { interruptionPipe?.reading ?? -1 }

    init() {
        interruptionPipe = Pipe()
        for number in [SIGINT, SIGTERM, SIGHUP] {
            let previous = signal(number, noteInterruption)
            if unsafeBitCast(previous, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) { signal(number, SIG_IGN) }
        }
    }
}

/// Set before the handlers are, and not again: a launch happens once in a process.
private nonisolated(unsafe) var interruptionPipe: Pipe?

private func noteInterruption(_: Int32) {
    var byte: UInt8 = 0
    if let pipe = interruptionPipe { _ = write(pipe.writing, &byte, 1) }
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
