import Glibc
import ReelFuse

/// A path on a mounted tree, and the daemon behind it.
struct MountedPath: ~Copyable {
    /// As the user gave it.
    let shown: String
    /// Inside the mount, without a leading `/`; empty for its root.
    let path: String
    let daemon: ControlClient

    /// Follows symbolic links, also those that lead into the mount.
    init(_ word: String) throws(Failure) {
        shown = reelfs.shown(word)
        // Before the path itself is looked at, which is a question to the daemon.
        let silent = Mount.all().first {
            $0.isOurs && Self.lies(absolute(word), below: $0.mountpoint)
                && Mountpoint.daemon(of: $0.mountpoint) == .silent
        }
        if let silent { throw .mount("\(shown): the daemon of \(silent.mountpoint) does not answer") }
        guard let pointer = realpath(word, nil) else { throw .mount("\(shown): \(reason())") }
        defer { free(pointer) }
        let resolved = String(cString: pointer)
        // The longest prefix, and of several on one directory the one on top.
        let above = Mount.all().filter { Self.lies(resolved, below: $0.mountpoint) }
        let longest = above.map(\.mountpoint.utf8.count).max()
        guard let mount = above.last(where: { $0.mountpoint.utf8.count == longest }), mount.isOurs else {
            throw .mount("\(shown) is not on a reelfs mount")
        }
        guard let socket = ControlClient.path(of: mount), let daemon = ControlClient(path: socket) else {
            throw .mount("\(shown): the daemon of \(mount.mountpoint) does not answer")
        }
        path = String(decoding: resolved.utf8.dropFirst(mount.mountpoint.utf8.count).drop { $0 == 0x2F }, as: UTF8.self)
        self.daemon = daemon
    }

    static func lies(_ path: String, below folder: String) -> Bool {
        guard folder != "/" else { return true }
        let (path, folder) = (path.utf8, folder.utf8)
        guard path.starts(with: folder) else { return false }
        return path.count == folder.count || path.dropFirst(folder.count).first == 0x2F
    }
}
