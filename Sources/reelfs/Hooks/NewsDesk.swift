import Logging
import ReelThreads
import ReelVolume
import Synchronization

/// Where all sources of a mount report: what becomes of their trees, for `--on-change` and `--anchor`, and their
/// requests, for `--request-log`.
final class NewsDesk: Sendable {
    private let command: ChangeCommand?
    private let log: RequestLogFile?
    private let logger: Logger
    private let anchor: String?
    /// nil if there is no anchor, or the mount is not made yet.
    private let anchored = Lock<AnchoredVolume?>(nil)
    private let hasWarned = Atomic(false)

    /// Opens the request log.
    init(_ options: MountOptions, _ logger: Logger) throws(Failure) {
        log = try options.requestLog.map { (path) throws(Failure) in
            try RequestLogFile(path) { logger.warning("\($0)") }
        }
        command = options.onChange.map { ChangeCommand($0, logger) }
        anchor = options.anchor
        self.logger = logger
    }

    /// Gets a record of each request; nil if there is no log.
    var requestLog: (@Sendable (RequestRecord) -> Void)? {
        guard let log else { return nil }
        return { log.write($0) }
    }

    /// Opens the request log again, once logrotate(8) has moved it; nil if there is no log.
    var reopenLog: (@Sendable () -> Void)? {
        guard let log else { return nil }
        return { [logger] in
            do throws(Failure) {
                try log.reopen()
                logger.notice("the request log was opened again")
            } catch {
                logger.error("the request log stays the file that it was: \(error.sentence)")
            }
        }
    }

    /// Logs once a mount that a list is not trusted.
    func warn(ofList sentence: String) {
        if !hasWarned.exchange(true, ordering: .relaxed) { logger.warning("\(sentence)") }
    }

    /// Gets the news of a source, nil if nobody asks. - Parameter folder: of the source in the mount.
    func news(of folder: [String]) -> TreeNews? {
        guard command != nil || anchor != nil else { return nil }
        let prefix = folder.map { $0 + "/" }.joined()
        return TreeNews { [command] paths in
            command?.tell(paths.map { prefix + ($0 == "/" ? "" : $0) }.map { $0.isEmpty ? "/" : $0 })
        } trust: { [weak self] in
            self?.anchored.withLock { $0 }?.check()
        }
    }

    /// The mount's filesystem, with the anchor where there is one.
    func anchored(_ volume: any MountedVolume) -> any MountedVolume {
        guard let anchor else { return volume }
        let made = AnchoredVolume(volume, name: anchor, modified: wallClock())
        anchored.withLock { $0 = made }
        return made
    }

    /// Ends a command that runs.
    func stop() {
        command?.stop()
        anchored.withLock { $0 = nil }
    }
}
