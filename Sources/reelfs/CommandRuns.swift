import Glibc
import ReelThreads

/// Why a command gave no answer.
enum CommandFailure: Error, Hashable {
    /// It cannot be run. - Parameter errno: of posix_spawn(3) or pipe(2).
    case notStarted(errno: Int32)
    /// It ran longer than allowed, and was killed.
    case timedOut
    /// It wrote more than allowed, and was killed.
    case tooLong
    /// It ended with another status than 0. - Parameter reason: the last line of its stderr, as it came.
    case status(Int32, reason: String)
    /// A signal ended it.
    case signal(Int32)
    /// The mount ends.
    case stopped
}

/// The commands of one mount that run at this moment. Each has a deadline and a bounded output, and none outlives the
/// mount.
final class CommandRuns: Sendable {
    fileprivate struct State {
        var running = 0
        var isStopped = false
    }

    private let state = Monitor(State())

    /// Runs a command to its end and waits for it: without a shell, in a session of its own. To be called on a
    /// `Thread`, which a command that does not read its input ends by no SIGPIPE.
    /// - Parameters:
    ///   - input: for its stdin.
    ///   - limit: bytes that it may write to stdout.
    ///   - time: until the deadline, at which it is killed with what it has started in its session.
    /// - Returns: what it wrote to stdout, if it ended with status 0.
    func run(
        _ command: Command, input: [UInt8] = [], limit: Int, within time: Duration
    ) throws(CommandFailure) -> [UInt8] {
        guard state.withLock({ $0.enter() }) else { throw .stopped }
        defer { state.withLock { $0.running -= 1 } }
        let run = try CommandRun(command, input: input)
        let end = ContinuousClock.now + time
        while !run.hasEnded {
            run.work(atMost: end - .now)
            if run.output.count > limit { throw .tooLong }
            if end <= .now { throw .timedOut }
            if state.withLock(notifying: false, { $0.isStopped }) { throw .stopped }
        }
        if let failure = run.failure { throw failure }
        return run.output
    }

    /// Ends all commands, and returns when they have ended. No further one starts.
    func stop() {
        state.withLock { $0.isStopped = true }
        state.wait { $0.running == 0 ? () : nil }
    }
}

extension CommandRuns.State {
    fileprivate mutating func enter() -> Bool {
        if !isStopped { running += 1 }
        return !isStopped
    }
}

/// One process and the pipes to it. Its end kills the process, and what that has started in its session.
private final class CommandRun {
    private let pid: pid_t
    private var input: ArraySlice<UInt8>
    /// nil once all of the input is written.
    private var stdin: Int32?
    /// nil at the end of file, as `stderr`.
    private var stdout: Int32?
    private var stderr: Int32?
    private(set) var output: [UInt8] = []
    private var complaint: [UInt8] = []
    /// The process has ended, and all that it had written by then is read.
    private(set) var hasEnded = false
    /// Set by the end of the process.
    private(set) var failure: CommandFailure?

    /// Bytes of stderr to keep: its last line is wanted.
    private static let complaintLimit = 4 << 10
    /// Bytes to read in one go, so that an output without end meets its limits.
    private static let pieceLimit = 64 << 10

    init(_ command: Command, input: [UInt8]) throws(CommandFailure) {
        guard let take = Pipe(), let give = Pipe(), let complain = Pipe() else { throw .notStarted(errno: errno) }
        let files: KeyValuePairs<Int32, Int32?> = [0: take.reading, 1: give.writing, 2: complain.writing]
        let child = spawn(command.words[0], Array(command.words.dropFirst()), files: files, inNewSession: true)
        let number = errno
        for end in [take.reading, give.writing, complain.writing] { close(end) }
        let ends = [take.writing, give.reading, complain.reading]
        guard let child else {
            for end in ends { close(end) }
            throw .notStarted(errno: number)
        }
        for end in ends { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
        pid = child
        self.input = input[...]
        (stdin, stdout, stderr) = (ends[0], ends[1], ends[2])
    }

    deinit {
        for descriptor in [stdin, stdout, stderr] { if let descriptor { close(descriptor) } }
        if !hasEnded { endSession() }
    }

    /// Writes and reads what it can, and notices the end of the process; waits at most `time` if nothing can be done.
    func work(atMost time: Duration) {
        writeInput()
        let isDead = isDead
        read(&stdout, into: &output)
        read(&stderr, into: &complaint)
        if complaint.count > Self.complaintLimit { complaint.removeFirst(complaint.count - Self.complaintLimit) }
        if isDead { return end() }
        var watched = [stdout, stderr].compactMap { $0 }.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        if let stdin { watched.append(pollfd(fd: stdin, events: Int16(POLLOUT), revents: 0)) }
        // No descriptor tells that the process has ended; one that has closed its output mostly ends at once.
        let step = stdout == nil ? 1 : 20
        _ = poll(&watched, nfds_t(watched.count), Int32(max(0, min(step, Int(time / .milliseconds(1)) + 1))))
    }

    private func writeInput() {
        guard let descriptor = stdin else { return }
        while !input.isEmpty {
            let count = input.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN { return }
            // A command need not read its input.
            if count < 0 { break }
            input = input.dropFirst(count)
        }
        close(descriptor)
        stdin = nil
    }

    private func read(_ descriptor: inout Int32?, into bytes: inout [UInt8]) {
        guard let open = descriptor else { return }
        var chunk = [UInt8](repeating: 0, count: Self.pieceLimit)
        let count = Glibc.read(open, &chunk, chunk.count)
        if count > 0 { bytes += chunk[..<count] }
        guard count == 0 || count < 0 && errno != EINTR && errno != EAGAIN else { return }
        close(open)
        descriptor = nil
    }

    /// Whether the process has ended; its number stays taken.
    private var isDead: Bool {
        var information = siginfo_t()
        let code = waitid(P_PID, id_t(pid), &information, Int32(WEXITED | WNOHANG | WNOWAIT))
        return code == 0 && information.si_signo != 0
    }

    private func end() {
        let status = endSession()
        hasEnded = true
        if status & 0x7F != 0 {
            failure = .signal(status & 0x7F)
        } else if status != 0 {
            let text = String(decoding: complaint, as: UTF8.self)
            let last = text.split(whereSeparator: \.isNewline).last.map(String.init)
            failure = .status(status >> 8 & 0xFF, reason: last ?? "")
        }
    }

    /// Kills what is left of the session, and waits for the process. - Returns: its status, as of waitpid(2).
    @discardableResult
    private func endSession() -> Int32 {
        // The number of the session is its leader's, and taken until the leader has been waited for.
        kill(-pid, SIGKILL)
        kill(pid, SIGKILL)
        var status: Int32 = 0
        while waitpid(pid, &status, 0) == -1, errno == EINTR {}
        return status
    }
}
