import CLinux
import Glibc

/// Starts a program without a fork of its own, as a process with threads must not fork.
///
/// The program gets the standard descriptors and those of `files`, and no other: libraries open some that do not close
/// on exec, and a socket that a child holds outlives its connection here.
/// - Parameters:
///   - program: a path, or a name to be found along PATH.
///   - words: without the program's name.
///   - files: the child's descriptors, each with the one of this process that it is; /dev/null for writing if nil.
///   - variables: `NAME=VALUE` each, which replace those of this process.
/// - Returns: its process; nil with errno set.
func spawn(
    _ program: String, name: String? = nil, _ words: [String], files: KeyValuePairs<Int32, Int32?> = [:],
    variables: [String] = [], inNewSession: Bool = false
) -> pid_t? {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for (descriptor, file) in files {
        if let file {
            posix_spawn_file_actions_adddup2(&actions, file, descriptor)
        } else {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
        }
    }
    posix_spawn_file_actions_addclosefrom_np(&actions, max(2, files.map { $0.key }.max() ?? 2) + 1)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // The daemon blocks the signals that a thread of its own waits for: a child starts without that.
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    // 0x80 is POSIX_SPAWN_SETSID, which Glibc's module hides behind _GNU_SOURCE.
    posix_spawnattr_setflags(&attributes, Int16((inNewSession ? 0x80 : 0) | POSIX_SPAWN_SETSIGMASK))
    let pointers = ([name ?? program] + words).map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    let added = variables.map { strdup($0) }
    defer { for variable in added { free(variable) } }
    var pid = pid_t()
    let code = posix_spawnp(
        &pid, program, &actions, &attributes, pointers, added + inheritedVariables(without: variables) + [nil])
    errno = code
    return code == 0 ? pid : nil
}

/// The environment, except for the names of `variables`.
private func inheritedVariables(without variables: [String]) -> [UnsafeMutablePointer<CChar>?] {
    let names = variables.compactMap { variable in variable.firstIndex(of: "=").map { variable[...$0] } }
    var inherited: [UnsafeMutablePointer<CChar>?] = []
    var place: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> = environ
    while let variable = place.pointee {
        if !names.contains(where: { strncmp(variable, String($0), $0.utf8.count) == 0 }) { inherited.append(variable) }
        place += 1
    }
    return inherited
}

/// Starts this program again. - Returns: its process; nil with errno set.
func spawnSelf(_ words: [String], files: KeyValuePairs<Int32, Int32?>, inNewSession: Bool) -> pid_t? {
    // The crash backtracer holds a dead daemon's descriptors for minutes, and with them the mount.
    setenv("SWIFT_BACKTRACE", "enable=no", 1)
    return spawn("/proc/self/exe", name: "reelfs", words, files: files, inNewSession: inNewSession)
}

/// Runs another program to its end. - Returns: its exit status; nil where it could not be started or was killed.
func runProgram(_ program: String, _ words: [String]) -> Int32? {
    // mount(8) gives no PATH to an ordinary user's helper.
    if getenv("PATH") == nil { setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1) }
    guard let pid = spawn(program, words) else { return nil }
    var status: Int32 = 0
    while waitpid(pid, &status, 0) == -1 { if errno != EINTR { return nil } }
    return status & 0x7F == 0 ? (status >> 8) & 0xFF : nil
}

/// Runs `body` and returns, beside its result, the last line that stderr got meanwhile: fusermount3, which mounts for
/// ordinary users, reports its errors there. nil where there was none, or stderr is closed.
///
/// stderr belongs to the whole process: only for a daemon that mounts once, and for a command.
func capturingStandardError<Value>(_ body: () -> Value) -> (Value, String?) {
    let saved = fcntl(2, F_DUPFD_CLOEXEC, 3)
    guard saved >= 0, let pipe = Pipe() else {
        if saved >= 0 { close(saved) }
        return (body(), nil)
    }
    // A writer that fills the pipe loses the rest; neither side waits.
    for end in [pipe.reading, pipe.writing] { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
    dup2(pipe.writing, 2)
    let result = body()
    dup2(saved, 2)
    close(pipe.writing)
    close(saved)
    defer { close(pipe.reading) }
    return (result, lastSentence(String(decoding: readAll(pipe.reading), as: UTF8.self)))
}

/// The last line, without the name of the program that wrote it.
private func lastSentence(_ text: String) -> String? {
    guard let line = text.split(separator: "\n").last else { return nil }
    return String(line.hasPrefix("fusermount3: ") ? line.dropFirst(13) : line)
}
