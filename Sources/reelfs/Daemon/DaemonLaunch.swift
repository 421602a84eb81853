import Glibc
import ReelFuse

/// Starts the daemon in the background: this program again, which says over a pipe when its mount answers. What it is
/// to mount goes through another pipe: that may hold secrets.
enum DaemonLaunch {
    /// The hidden command of the daemon's process.
    static let subcommand = "daemon"
    /// The daemon's end of the pipe on which it says "ready".
    static let readyDescriptor: Int32 = 3
    /// The daemon's descriptor of a mount that the caller has made.
    static let deviceDescriptor: Int32 = 4

    /// Returns when the mount answers. - Parameter words: what `request` was made of.
    static func start(_ request: MountRequest, _ words: MountWords) throws(Failure) {
        var handed = words
        if request.device == nil { handed.mountpoint = request.mountpoint }
        guard let input = Pipe(), let ready = Pipe() else { throw failure() }
        signal(SIGPIPE, SIG_IGN)
        let interruption = interruptions()
        // In the caller's process group until it has mounted: autofs knows by that which processes mount for it, and
        // all others, mount(2) included, wait until it is done. automount and systemd both count on it. stderr stays
        // until the mount answers.
        let line = [subcommand, withoutQuery(request.source), request.mountpoint]
        let child: pid_t?
        if let device = request.device {
            // Above those that are replaced before it.
            let copy = fcntl(device.descriptor, F_DUPFD_CLOEXEC, 10)
            child = spawnSelf(
                line,
                files: [0: input.reading, 1: nil, readyDescriptor: ready.writing, deviceDescriptor: copy],
                inNewSession: false)
            // The daemon's alone keeps the mount alive.
            for descriptor in [copy, device.descriptor] { close(descriptor) }
        } else {
            child = spawnSelf(
                line, files: [0: input.reading, 1: nil, readyDescriptor: ready.writing], inNewSession: false)
        }
        close(input.reading)
        close(ready.writing)
        defer { close(ready.reading) }
        guard let child else {
            close(input.writing)
            throw failure()
        }
        writeAll(input.writing, encodeLine(handed))
        close(input.writing)
        // One that has the mounts of another daemon already does not end by it.
        let end = words.predecessor == nil ? SIGTERM : SIGINT
        switch wait(ready.reading, within: request.patience, or: interruption) {
        case .late:
            kill(child, end)
            throw .mount("the daemon was not ready within \(request.patience.components.seconds) seconds; see its log")
        case .interrupted:
            kill(child, end)
            // The daemon undoes its work; the end of the pipe shows that it has ended.
            let last = wait(ready.reading, within: .seconds(5), or: -1)
            guard words.predecessor != nil else { throw .interrupted }
            if case .said("ready") = last { return }
            throw .restartInterrupted
        case .said("ready"): return
        case .said(let answer): throw Failure(line: answer)
        }
    }

    private static func failure() -> Failure {
        Failure(status: .system, sentence: "cannot start the daemon: \(reason())")
    }

    private enum LaunchEnd {
        /// A line, or the bytes that came before the end of file.
        case said(String)
        case late, interrupted
    }

    private static func wait(_ descriptor: Int32, within limit: Duration, or interruption: Int32) -> LaunchEnd {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1024)
        let end = ContinuousClock.now + limit
        while bytes.last != UInt8(ascii: "\n"), bytes.count < 8192 {
            var polled = [descriptor, interruption].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
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

    /// Takes the signals that ask this program to end; those that the caller ignores stay ignored.
    /// - Returns: a descriptor that is readable once one has come.
    private static func interruptions() -> Int32 {
        interruptionPipe = Pipe()
        for number in [SIGINT, SIGTERM, SIGHUP] where !isIgnoredByCaller(number) { signal(number, noteInterruption) }
        return interruptionPipe?.reading ?? -1
    }
}

/// Set before the handlers are, and not again: a launch happens once in a process.
private nonisolated(unsafe) var interruptionPipe: Pipe?

private func noteInterruption(_: Int32) {
    var byte: UInt8 = 0
    if let pipe = interruptionPipe { _ = write(pipe.writing, &byte, 1) }
}

/// The daemon's end of the pipe to the process that started it. It carries one line.
struct ReadyPipe {
    var descriptor: Int32

    /// Sends a line and closes the pipe.
    func say(_ line: String) {
        writeAll(descriptor, Array((line + "\n").utf8))
        close(descriptor)
    }
}

extension Failure {
    /// A signal came before the mount answered.
    static let interrupted = Failure(status: .interrupted, sentence: "interrupted, and nothing is mounted")
    fileprivate static let restartInterrupted = Failure(
        status: .interrupted, sentence: "interrupted; what was mounted stays mounted")

    /// The line as the daemon sends it to the process that started it.
    var line: String { "\(status.rawValue) \(sentence)" }

    fileprivate init(line: String) {
        guard let space = line.firstIndex(of: " "), let status = Int32(line[..<space]) else {
            self.init(
                status: .internal, sentence: "the daemon ended before the mount answered; --foreground shows why")
            return
        }
        self.init(status: Status(rawValue: status) ?? .mount, sentence: String(line[line.index(after: space)...]))
    }
}
