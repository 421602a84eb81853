import CLinux
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
        /// Processes that nobody has waited for yet, so that their numbers stay taken.
        var processes: Set<pid_t> = []
        var isStopped = false
    }

    private let state = Monitor(State())

    /// Runs a command to its end and waits for it: without a shell, in a session of its own. To be called on a
    /// `Thread`, which a command that does not read its input ends by no SIGPIPE.
    ///
    /// Its process group ends with it. After a failure, the deadline or `stop`, what it has started in other groups and
    /// sessions is killed as well: all processes inherit the variable `REELFS_RUN`. One that drops its environment
    /// escapes, and so does one whose environment the daemon may not read (an undumpable one, unless root mounts).
    /// After a good end these live on: agents that other programs use (gpg-agent, a shared connection of ssh).
    /// - Parameters:
    ///   - input: for its stdin.
    ///   - limit: bytes that it may write to stdout; nil where nobody wants them, so that it may write any number.
    ///   - time: until the deadline, at which it is killed.
    /// - Returns: what it wrote to stdout, if it ended with status 0.
    func run(
        _ command: Command, input: [UInt8] = [], limit: Int?, within time: Duration
    ) throws(CommandFailure) -> [UInt8] {
        guard state.withLock({ $0.enter() }) else { throw .stopped }
        defer { state.withLock { $0.running -= 1 } }
        let end = ContinuousClock.now + time
        let run = try CommandRun(command, input: input, keepsOutput: limit != nil)
        let most = limit ?? .max
        let isStopped = state.withLock { state in
            state.processes.insert(run.pid)
            return state.isStopped
        }
        if isStopped { run.kill() }
        while !run.isDead, run.output.count <= most, end > .now { run.work(until: end) }
        let isGood = state.withLock { state in
            state.processes.remove(run.pid)
            return run.isDead && run.output.count <= most && !state.isStopped
        }
        let failure = run.end(isGood: isGood)
        if state.withLock(notifying: false, { $0.isStopped }) { throw .stopped }
        if run.output.count > most { throw .tooLong }
        if !run.isDead { throw .timedOut }
        if let failure { throw failure }
        return run.output
    }

    /// Ends all commands, and returns when they have ended. No further one starts.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            for process in state.processes { killSession(process) }
        }
        state.wait { $0.running == 0 ? () : nil }
    }
}

extension CommandRuns.State {
    fileprivate mutating func enter() -> Bool {
        if !isStopped { running += 1 }
        return !isStopped
    }
}

/// Kills the leader of a session, which nobody has waited for yet, and its group.
private func killSession(_ leader: pid_t) {
    Glibc.kill(-leader, SIGKILL)
    Glibc.kill(leader, SIGKILL)
}

/// One process and the pipes to it.
private final class CommandRun {
    let pid: pid_t
    /// Readable once the process has ended. pidfd_open(2)
    private let process: Int32
    /// `REELFS_RUN=…`, in the environment of the process and of all that it starts.
    private let mark: String
    private var input: ArraySlice<UInt8>
    /// nil once all of the input is written.
    private var stdin: Int32?
    /// nil at the end of file, as `stderr`.
    private var stdout: Int32?
    private var stderr: Int32?
    private(set) var output: [UInt8] = []
    private let keepsOutput: Bool
    private var complaint: [UInt8] = []
    /// The process has ended by itself, and all that it had written by then is read.
    private(set) var isDead = false

    /// Bytes of stderr to keep: its last line is wanted.
    private static let complaintLimit = 4 << 10
    /// Bytes to read in one go, so that an output without end meets its limits.
    private static let pieceLimit = 64 << 10

    init(_ command: Command, input: [UInt8], keepsOutput: Bool) throws(CommandFailure) {
        guard let pipes = Pipe.make(3) else { throw .notStarted(errno: errno) }
        let (take, give, complain) = (pipes[0], pipes[1], pipes[2])
        mark = "REELFS_RUN=" + String(UInt64.random(in: .min ... .max), radix: 16)
        let files: KeyValuePairs<Int32, Int32?> = [0: take.reading, 1: give.writing, 2: complain.writing]
        let child = spawn(
            command.words[0], Array(command.words.dropFirst()), files: files, variables: [mark], inNewSession: true)
        let process = child.map { reel_process_descriptor($0) } ?? -1
        let number = errno
        for end in [take.reading, give.writing, complain.writing] { close(end) }
        let ends = [take.writing, give.reading, complain.reading]
        guard let child, process >= 0 else {
            for end in ends { close(end) }
            if let child {
                killSession(child)
                _ = waitForProcess(child)
            }
            throw .notStarted(errno: number)
        }
        for end in ends { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
        (pid, self.process) = (child, process)
        self.input = input[...]
        self.keepsOutput = keepsOutput
        (stdin, stdout, stderr) = (ends[0], ends[1], ends[2])
    }

    deinit { for descriptor in [process, stdin, stdout, stderr] { if let descriptor { close(descriptor) } } }

    func kill() { killSession(pid) }

    /// Waits until something can be read or written, the process ends, or the time comes; then writes and reads what
    /// it can.
    func work(until end: ContinuousClock.Instant) {
        writeInput()
        var watched = [process, stdout, stderr].compactMap { $0 }.map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
        if let stdin { watched.append(pollfd(fd: stdin, events: Int16(POLLOUT), revents: 0)) }
        let rest = Int32(clamping: Int(max(.zero, end - .now) / .milliseconds(1)) + 1)
        guard poll(&watched, nfds_t(watched.count), rest) >= 0 else { return }
        // Looked at before the last read: what was written before the end is in the pipes by now.
        isDead = watched[0].revents != 0
        read(&stdout, into: &output)
        if !keepsOutput { output = [] }
        read(&stderr, into: &complaint)
        if complaint.count > Self.complaintLimit { complaint.removeFirst(complaint.count - Self.complaintLimit) }
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

    /// Kills the process and its group, and after a bad end all that it has started.
    /// - Returns: why the process failed; nil if its status is 0.
    func end(isGood: Bool) -> CommandFailure? {
        killSession(pid)
        let status = waitForProcess(pid)
        if !isGood || status != 0 { endProcesses(markedBy: mark) }
        if status & 0x7F != 0 { return .signal(status & 0x7F) }
        if status == 0 { return nil }
        let text = String(decoding: complaint, as: UTF8.self)
        return .status(status >> 8 & 0xFF, reason: text.split(whereSeparator: \.isNewline).last.map(String.init) ?? "")
    }
}

/// - Returns: the status of a child that has ended or is about to, as of waitpid(2).
private func waitForProcess(_ process: pid_t) -> Int32 {
    var status: Int32 = 0
    while waitpid(process, &status, 0) == -1, errno == EINTR {}
    return status
}

/// Kills the processes that have a variable in their environment, and what they start meanwhile.
/// - Parameter mark: `NAME=VALUE`.
private func endProcesses(markedBy mark: String) {
    // Each look may miss a child of a process that it kills.
    var killed: Set<String> = []
    while true {
        let count = killed.count
        killed.formUnion(endListedProcesses(markedBy: Array(mark.utf8)))
        if killed.count == count { return }
    }
}

/// - Returns: their numbers.
private func endListedProcesses(markedBy mark: [UInt8]) -> [String] {
    guard let list = opendir("/proc") else { return [] }
    defer { closedir(list) }
    var killed: [String] = []
    while let entry = readdir(list) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        guard name.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { continue }
        // A descriptor of the directory stays that process's, whoever gets its number afterwards.
        let process = openat(dirfd(list), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard process >= 0 else { continue }
        defer { close(process) }
        let file = openat(process, "environ", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { continue }
        defer { close(file) }
        guard readAll(file).split(separator: 0).contains(where: { $0.elementsEqual(mark) }) else { continue }
        _ = reel_signal_process(process, SIGKILL)
        killed.append(name)
    }
    return killed
}
