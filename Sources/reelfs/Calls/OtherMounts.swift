import Glibc
import ReelFuse
import ReelVolume

/// The other mounts of the daemon's user on this machine, for a page that leads to each of theirs.
struct OtherMounts: Codable, Sendable {
    struct Other: Codable, Sendable {
        var mountpoint: String
        /// Without a query.
        var source: String
        /// nil where its daemon does not answer. The sentence of the verdict may name films, which its own page shows.
        var word: Verdict.Word?
        /// The URL of its page, nil if it has none.
        var page: String?
    }

    var mounts: [Other]

    /// Asks each daemon, two seconds at most.
    init(besides own: [String], until isOver: () -> Bool) {
        mounts = []
        for mount in Mount.all() where mount.isOurs && mount.user == geteuid() {
            if own.contains(mount.mountpoint) { continue }
            if isOver() { return }
            let status = StatusCommand.status(of: mount)
            mounts.append(
                Other(
                    mountpoint: status.mountpoint, source: status.source, word: status.volume?.verdict?.word,
                    page: status.listening.flatMap { $0.hasPrefix("http://") ? $0 : nil }))
        }
    }
}
