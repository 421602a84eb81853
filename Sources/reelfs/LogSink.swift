import Glibc
import Logging

/// Where the daemon's log goes: stderr in the foreground, else the system's log socket (journald or syslogd). No system
/// log, no log: a daemon that fills a disk is worse than a silent one.
struct LogSink: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level
    /// nil: stderr.
    private let socket: Int32?

    static func start(level: String, toStandardError: Bool) -> Logger {
        let sink = LogSink(
            logLevel: Logger.Level(rawValue: level) ?? .notice, socket: toStandardError ? nil : connected())
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
        guard let socket else {
            writeLine("reelfs: \(event.level): \(text)")
            return
        }
        // RFC 3164: facility daemon (3), severity; sent without waiting.
        let line = Array("<\(3 << 3 | severity(event.level))>reelfs[\(getpid())]: \(text)".utf8)
        _ = send(socket, line, line.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
    }

    private func severity(_ level: Logger.Level) -> Int {
        switch level {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }

    private static func connected() -> Int32 {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        _ = UnixAddress("/dev/log").map { $0.connect(descriptor) }
        return descriptor
    }
}
