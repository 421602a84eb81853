import Glibc
import Logging

/// Where the daemon's log goes: stderr in the foreground, else the system's log socket (journald or syslogd), in both cases
/// with levels. No system log, no log: a daemon that fills a disk is worse than a silent one.
struct LogSink: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level
    let toStandardError: Bool

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
        // What an origin sent may stand in it: one event, one line.
        let text = withoutControls(event.message.description + details, by: " ")
        let severity = severity(event.level)
        if toStandardError {
            // The journal knows name and level by itself.
            writeLine(standardErrorIsJournal ? text : "reelfs: \(event.level): \(text)", severity)
            return
        }
        // RFC 3164: facility daemon (3), severity. The socket is looked up each time: syslogd makes a new one when it starts.
        let line = "<\(3 << 3 | severity.rawValue)>reelfs[\(getpid())]: \(text)"
        UnixAddress("/dev/log")?.send(Array(line.utf8))
    }

    private func severity(_ level: Logger.Level) -> Severity {
        switch level {
        case .trace, .debug: .debug
        case .info: .info
        case .notice: .notice
        case .warning: .warning
        case .error: .error
        case .critical: .critical
        }
    }
}
