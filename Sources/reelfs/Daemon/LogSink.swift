import Glibc
import Logging
import Synchronization

/// The levels of syslog(3), by which journalctl(1) sorts and colours.
enum Severity: Int {
    case critical = 2
    case error, warning, notice, info, debug
}

/// Whether stderr is a stream of the journal, which takes a line's level from a `<3>` before it (sd-daemon(3)); on a
/// terminal, in a file or in a pipe that would be litter. Decided when first asked.
private let standardErrorIsJournal: Bool = {
    var status = stat()
    guard let stream = environment("JOURNAL_STREAM"), fstat(2, &status) == 0 else { return false }
    return isJournal(stream, device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
}()

/// - Parameter stream: `device:inode`, by which systemd names the stream that it connected (systemd.exec(5)). The
///   variable alone proves nothing: children that write elsewhere inherit it.
func isJournal(_ stream: String, device: UInt64, inode: UInt64) -> Bool { stream == "\(device):\(inode)" }

/// Writes a line to stderr, without controls; with its level if that is the journal.
func writeLine(_ line: String, _ severity: Severity = .error) {
    writeAll(2, Array(((standardErrorIsJournal ? "<\(severity.rawValue)>" : "") + printable(line) + "\n").utf8))
}

/// Takes the daemon's log to stderr in the foreground, else to the system's log socket (journald or syslogd), in both
/// cases with levels. Without a system log there is no log: a daemon that fills a disk is worse than a silent one.
struct LogSink: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level
    let toStandardError: Bool
    /// Whether somebody waits for the mount, at the other end of stderr.
    private static let isStarting = Atomic(true)

    /// stderr is no longer the caller's.
    static func mounted() { isStarting.store(false, ordering: .relaxed) }

    /// - Parameter level: the least severe one to log, of ``logLevels``.
    static func start(level: String, toStandardError: Bool) -> Logger {
        let sink = LogSink(logLevel: Logger.Level(rawValue: level) ?? .notice, toStandardError: toStandardError)
        return Logger(label: "reelfs") { _ in sink }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { $1 }
        let details = all.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        // Text of an origin may be in it: one event, one line.
        let text = withoutControls(event.message.description + details, by: " ")
        let severity = Self.severities[event.level] ?? .debug
        if toStandardError {
            // The journal knows name and level by itself.
            writeLine(standardErrorIsJournal ? text : "reelfs: \(event.level): \(text)", severity)
            return
        }
        if Self.isStarting.load(ordering: .relaxed), event.level >= .warning {
            writeLine("reelfs: \(event.level): \(text)", severity)
        }
        // RFC 3164: facility daemon (3), severity. The socket is looked up each time: syslogd makes a new one when it
        // starts.
        let line = "<\(3 << 3 | severity.rawValue)>reelfs[\(getpid())]: \(text)"
        UnixAddress("/dev/log")?.send(Array(line.utf8))
    }

    private static let severities: [Logger.Level: Severity] = [
        .info: .info, .notice: .notice, .warning: .warning, .error: .error, .critical: .critical,
    ]
}
