import Glibc

/// The levels of syslog(3), by which journalctl(1) sorts and colours.
enum Severity: Int {
    case critical = 2
    case error, warning, notice, info, debug
}

/// Whether stderr is a stream of the journal, which takes a line's level from a `<3>` before it (sd-daemon(3)). On a
/// terminal, in a file or in a pipe that would be litter. stderr as it was when first asked.
let standardErrorIsJournal: Bool = {
    var status = stat()
    guard let stream = getenv("JOURNAL_STREAM"), fstat(2, &status) == 0 else { return false }
    return isJournal(String(cString: stream), device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
}()

/// - Parameter stream: `device:inode`, by which systemd says what it connected (systemd.exec(5)). The variable alone proves
///   nothing: children that write elsewhere inherit it.
package func isJournal(_ stream: String, device: UInt64, inode: UInt64) -> Bool { stream == "\(device):\(inode)" }

/// A line on stderr, without controls, with its level where that is the journal.
func writeLine(_ line: String, _ severity: Severity = .error) {
    writeAll(2, Array(((standardErrorIsJournal ? "<\(severity.rawValue)>" : "") + printable(line) + "\n").utf8))
}
