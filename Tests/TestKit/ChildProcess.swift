import Glibc
import ReelThreads
import Synchronization

/// Another program, run by a test. Whoever starts one waits for it or kills it.
package final class ChildProcess: Sendable {
    package let pid: pid_t
    private let output: Int32
    private let errors: Int32

    /// How a program ended.
    package struct End: Sendable {
        /// Its exit status; 128 and the signal's number where a signal ended it, as in a shell.
        package var status: Int32
        package var output: String
        package var errors: String
    }

    /// - Parameters:
    ///   - words: the program, found along PATH and the system's own directories, and its arguments.
    ///   - environment: added to this process's own.
    package init(
        _ words: [String], environment: [String: String] = [:], directory: String? = nil
    ) throws(ChildError) {
        output = try scratchDescriptor()
        errors = try scratchDescriptor()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_adddup2(&actions, errors, 2)
        // One spawn call does not know of a directory on every C library: env(1) does.
        let words = directory.map { ["env", "-C", $0] + words } ?? words
        let arguments = words.map { strdup($0) } + [nil]
        var variables = inheritedEnvironment()
        variables["PATH", default: "/usr/bin:/bin"] += ":/usr/local/sbin:/usr/sbin:/sbin"
        variables.merge(environment) { $1 }
        let pairs = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in arguments + pairs { free(pointer) } }
        // The threads that run tests block signals; a server must hear SIGTERM.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        unblockSignals(of: &attributes)
        var pid = pid_t()
        let code = startingChild { posix_spawnp(&pid, words[0], &actions, &attributes, arguments, pairs) }
        self.pid = pid
        guard code == 0 else { throw ChildError(words: words, reason: String(cString: strerror(code))) }
    }

    deinit {
        close(output)
        close(errors)
    }

    /// What it has said so far.
    package var said: (output: String, errors: String) { (text(output), text(errors)) }

    package func signal(_ number: Int32) { kill(pid, number) }

    /// nil while it runs. Only one caller may wait.
    package func poll() -> End? {
        var status: Int32 = 0
        guard waitpid(pid, &status, WNOHANG) == pid else { return nil }
        let code = status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + status & 0x7F
        return End(status: code, output: text(output), errors: text(errors))
    }

    /// Waits for the end; a child that takes longer is killed.
    package func wait(within limit: Duration = .seconds(20)) throws(ChildError) -> End {
        var end: End?
        eventually(within: limit) {
            end = poll()
            return end != nil
        }
        if let end { return end }
        signal(SIGKILL)
        // A process deep in an uninterruptible call is left behind rather than waited for.
        if !eventually(within: .seconds(5), { poll() != nil }) {
            // The test runner waits for any child: a zombie that stays would hide the ends of others from it.
            let left = pid
            Thread("reaper") { while waitpid(left, nil, 0) == -1, errno == EINTR {} }?.detach()
        }
        throw ChildError(words: ["process \(pid)"], reason: "did not end within \(limit): \(text(errors))")
    }

    /// Runs a program to its end.
    package static func run(
        _ words: [String], environment: [String: String] = [:], directory: String? = nil,
        within limit: Duration = .seconds(20)
    ) throws(ChildError) -> End {
        try ChildProcess(words, environment: environment, directory: directory).wait(within: limit)
    }
}

private let starting = Mutex(())
/// The thread in `withoutStartingChildren`, 0 where there is none.
private let holder = Atomic<UInt>(0)

/// Lets a child hear all signals. - Parameter flags: of posix_spawnattr_setflags(3), beside those for that.
package func unblockSignals(of attributes: inout posix_spawnattr_t, flags: Int32 = 0) {
    var (none, all) = (sigset_t(), sigset_t())
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(&attributes, Int16(flags | Int32(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)))
}

/// For calls of posix_spawn(3), which end when the child runs its program: until then it has all files open that this
/// process has.
package func startingChild(_ start: () -> Int32) -> Int32 { starting.withLock { _ in start() } }

/// What this process has closed before the call, no child of its own has open after it.
package func waitForStartingChildren() {
    if holder.load(ordering: .relaxed) != pthread_self() { starting.withLock { _ in } }
}

/// No child of this process starts meanwhile, so that what only this process has open is open nowhere else.
package func withoutStartingChildren<Result>(_ body: () throws -> Result) rethrows -> Result {
    try starting.withLock { _ in
        holder.store(pthread_self(), ordering: .relaxed)
        defer { holder.store(0, ordering: .relaxed) }
        return try body()
    }
}

package struct ChildError: Error, CustomStringConvertible {
    package var words: [String]
    package var reason: String

    package init(words: [String], reason: String) {
        self.words = words
        self.reason = reason
    }

    package var description: String { words.joined(separator: " ") + ": " + reason }
}

/// A file without a name, in memory, which waits for no disk: a pipe that nobody empties would stop the child.
private func scratchDescriptor() throws(ChildError) -> Int32 {
    var template = Array("/dev/shm/reelfs-test-XXXXXX".utf8CString)
    let descriptor = mkstemp(&template)
    guard descriptor >= 0 else { throw ChildError(words: ["mkstemp"], reason: String(cString: strerror(errno))) }
    unlink(template)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    return descriptor
}

private func text(_ descriptor: Int32) -> String {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while true {
        let count = pread(descriptor, &chunk, chunk.count, off_t(bytes.count))
        guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
        bytes += chunk[..<count]
    }
}

private func inheritedEnvironment() -> [String: String] {
    var result: [String: String] = [:]
    var next = environ
    while let entry = next.pointee {
        let pair = String(cString: entry).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        if pair.count == 2 { result[String(pair[0])] = String(pair[1]) }
        next += 1
    }
    return result
}
