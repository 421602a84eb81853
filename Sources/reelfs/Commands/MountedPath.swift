import Glibc
import ReelFuse

/// A path on a mounted tree, and the daemon behind it.
struct MountedPath {
    /// Inside the mount, without a leading `/`; empty for its root.
    let path: String
    let daemon: ControlClient
    let mountpoint: String

    /// Follows symbolic links, also those that lead into the mount.
    init(_ word: String) throws(Failure) {
        let shown = reelfs.shown(word)
        let silence = { (mount: Mount) in Failure.mount("\(shown): the daemon of \(mount.mountpoint) does not answer") }
        // Checked first: to resolve the path is a question to the daemon.
        let silent = Mount.all().first {
            $0.isOurs && Self.lies(absolute(word), below: $0.mountpoint)
                && Mountpoint.health(of: $0.mountpoint) == .silent
        }
        if let silent { throw silence(silent) }
        guard let resolved = realPath(word) else { throw .mount("\(shown): \(reason())") }
        // The longest prefix, and of several on one directory the one on top.
        let above = Mount.all().filter { Self.lies(resolved, below: $0.mountpoint) }
        let longest = above.map(\.mountpoint.utf8.count).max()
        guard let mount = above.last(where: { $0.mountpoint.utf8.count == longest }), mount.isOurs else {
            throw .mount("\(shown) is not on a reelfs mount")
        }
        do throws(Failure) {
            daemon = try ControlClient(of: mount)
        } catch {
            throw error.sentence == ControlClient.silence ? silence(mount) : .mount("\(shown): \(error.sentence)")
        }
        mountpoint = mount.mountpoint
        path = String(decoding: resolved.utf8.dropFirst(mount.mountpoint.utf8.count).drop { $0 == 0x2F }, as: UTF8.self)
    }

    /// Whether an absolute path is `folder` or below it.
    static func lies(_ path: String, below folder: String) -> Bool {
        guard folder != "/" else { return true }
        let (path, folder) = (path.utf8, folder.utf8)
        guard path.starts(with: folder) else { return false }
        return path.count == folder.count || path.dropFirst(folder.count).first == 0x2F
    }
}
