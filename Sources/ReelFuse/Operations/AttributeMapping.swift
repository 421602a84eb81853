import CFuse
import Glibc
import ReelCore
import ReelFilesystem

/// The attributes of every file and directory that are the same in the whole mount.
package struct Ownership: Sendable, Hashable {
    /// The owner (`st_uid`).
    package var user: uid_t
    /// The group (`st_gid`).
    package var group: gid_t
    /// The bits that files lack of 0444, and directories of 0555.
    package var umask: mode_t

    package init(user: uid_t, group: gid_t, umask: mode_t = 0) {
        self.user = user
        self.group = group
        self.umask = umask
    }

    func stat(of attributes: Attributes) -> stat {
        var result = Glibc.stat()
        result.st_ino = ino_t(attributes.inode)
        result.st_mode = mode(isDirectory: attributes.isDirectory, isLink: attributes.isLink)
        // Two for a directory, as if it had no subdirectories: `find` takes less as "do not count on it".
        result.st_nlink = attributes.isDirectory ? 2 : 1
        result.st_uid = user
        result.st_gid = group
        result.st_size = Int(attributes.length)
        result.st_blksize = Int(BlockSize.block)
        result.st_blocks = blocks(of: attributes)
        result.st_mtim.tv_sec = Int(attributes.modified)
        result.st_ctim = result.st_mtim
        result.st_atim = result.st_mtim
        return result
    }

    /// The length in units of 512, whatever is cached: nothing that programs see of a file changes as it is cached.
    /// Archivers take a file with few blocks for a hole from end to end, and write zeros without reading it.
    private func blocks(of attributes: Attributes) -> Int {
        Int(attributes.length / 512) + (attributes.length % 512 > 0 ? 1 : 0)
    }

    func mode(isDirectory: Bool, isLink: Bool) -> mode_t {
        // symlink(7): its permissions are those of what it leads to.
        if isLink { return S_IFLNK | 0o777 }
        return isDirectory ? S_IFDIR | (0o555 & ~umask) : S_IFREG | (0o444 & ~umask)
    }

    /// - Parameter generation: of the node's number.
    func parameters(of entry: Entry, generation: UInt64) -> fuse_entry_param {
        var result = fuse_entry_param()
        result.ino = entry.node
        result.generation = generation
        result.attr = stat(of: entry.attributes)
        result.attr_timeout = KernelTimeout.known
        result.entry_timeout = KernelTimeout.known
        return result
    }
}

/// `KernelBelief` in the kernel's unit, seconds.
enum KernelTimeout {
    static let known = KernelBelief.known / .seconds(1)
    static let missing = KernelBelief.missing / .seconds(1)
}
