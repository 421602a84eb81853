import Glibc

/// Runs `body` and returns, beside its result, the last line that stderr got meanwhile: fusermount3, which mounts for
/// ordinary users, says there what is wrong. nil where it was silent, or stderr is closed.
///
/// stderr belongs to the whole process: only for a daemon that mounts once.
func capturingStandardError<Value>(_ body: () -> Value) -> (Value, String?) {
    var ends: [Int32] = [-1, -1]
    let saved = fcntl(2, F_DUPFD_CLOEXEC, 3)
    guard saved >= 0, pipe(&ends) == 0 else {
        if saved >= 0 { close(saved) }
        return (body(), nil)
    }
    for end in ends {
        _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        // Whoever fills the pipe loses the rest; nobody waits.
        _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
    dup2(ends[1], 2)
    let result = body()
    dup2(saved, 2)
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = read(ends[0], &bytes, bytes.count)
    for descriptor in ends + [saved] { close(descriptor) }
    return (result, lastSentence(String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)))
}

/// The last line that says something, without the name of who says it.
func lastSentence(_ text: String) -> String? {
    guard let line = text.split(separator: "\n").last(where: { !$0.isEmpty }) else { return nil }
    return String(line.hasPrefix("fusermount3: ") ? line.dropFirst(13) : line)
}
