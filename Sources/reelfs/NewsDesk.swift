import Logging
import ReelThreads
import ReelVolume

/// Where all sources of a mount tell what becomes of their trees, for `--on-change` and `--anchor`.
final class NewsDesk: Sendable {
    private let command: ChangeCommand?
    private let anchor: String?
    /// nil: no file tells of trust, or the mount is not made yet.
    private let anchored = Lock<AnchoredVolume?>(nil)

    init(_ options: MountOptions, _ logger: Logger) {
        command = options.onChange.map { ChangeCommand($0, logger) }
        anchor = options.anchor
    }

    /// What a source tells to; nil: nobody asks. - Parameter folder: of the source in the mount.
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
