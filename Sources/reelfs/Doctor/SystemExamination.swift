import CFuse
import CLinux
import Glibc
import ReelCache
import ReelFuse

extension SystemFacts {
    /// The facts of this process and this machine. Changes nothing.
    static func gather(_ options: MountOptions) -> SystemFacts {
        var facts = SystemFacts()
        facts.isRoot = geteuid() == 0
        do throws(Failure) {
            if facts.isRoot { try UserMount.checkDevice() } else { try UserMount.check(options) }
        } catch {
            facts.lack = error.sentence
        }
        facts.mayAdminister = reel_may_administer()
        facts.isFirstUserNamespace = mapsEverybody(textOfFile("/proc/self/uid_map") ?? "")
        facts.allowsOther = !UserMount.forbidsAllowOther()
        facts.kernel = trimmedSpaces((textOfFile("/proc/sys/kernel/osrelease") ?? "")[...])
        facts.libraryHasPassthrough = ReelFuse.libraryHasPassthrough
        return facts
    }
}

/// Whether a `uid_map` is that of the first user namespace, which maps all numbers to themselves (user_namespaces(7)).
func mapsEverybody(_ map: String) -> Bool {
    let words = map.split(whereSeparator: \.isWhitespace)
    return words.isEmpty || words == ["0", "0", "4294967295"]
}

extension CacheFacts {
    /// Tries a file without a name, which is gone when this returns.
    /// - Parameter source: its part of the cache counts as room, nil if no part does.
    static func gather(_ path: String, source: String?) -> CacheFacts {
        var facts = CacheFacts()
        facts.path = path
        facts.folder = nearestFolder(path)
        if let source { facts.held = bytes(in: path + "/" + sourceDirectoryName(source), depth: 3) }
        var disk = statvfs()
        if statvfs(facts.folder, &disk) == 0 {
            facts.free = diskBytes(disk.f_bavail, of: disk.f_frsize)
            facts.total = diskBytes(disk.f_blocks, of: disk.f_frsize)
        }
        var kind = statfs()
        if statfs(facts.folder, &kind) == 0 {
            facts.fileSystem = fileSystemNames[UInt32(truncatingIfNeeded: kind.f_type)]
        }
        var template = Array("\(facts.folder)/.reelfs-doctor-XXXXXX".utf8CString)
        let file = mkstemp(&template)
        guard file >= 0 else {
            facts.failure = errno
            return facts
        }
        defer { close(file) }
        unlink(template)
        facts.tryHoles(file)
        return facts
    }

    /// The bytes that the files of a directory take on the disk. - Parameter depth: of directories in it.
    private static func bytes(in folder: String, depth: Int) -> Int64 {
        var sum: Int64 = 0
        for name in names(in: folder) ?? [] {
            var status = stat()
            guard lstat(folder + "/" + name, &status) == 0 else { continue }
            switch status.st_mode & S_IFMT {
            case S_IFREG: sum += Int64(status.st_blocks) * 512
            case S_IFDIR where depth > 0: sum += bytes(in: folder + "/" + name, depth: depth - 1)
            default: break
            }
        }
        return sum
    }

    private mutating func tryHoles(_ file: Int32) {
        let block = 128 << 10
        let bytes = [UInt8](repeating: 1, count: block)
        // Far from the start: a filesystem without holes fills 8 MiB with zeros.
        let count = pwrite(file, bytes, block, 8 << 20)
        guard count == block else {
            failure = count < 0 ? errno : ENOSPC
            return
        }
        var status = stat()
        let isSparse = fstat(file, &status) == 0 && Int64(status.st_blocks) * 512 < 4 << 20
        hasHoles = isSparse && reel_punch_hole(file, 8 << 20, block) == 0
    }

    /// The directory, or the nearest one above it that exists.
    private static func nearestFolder(_ path: String) -> String {
        var folder = path[...]
        while !folder.isEmpty, access(String(folder), F_OK) != 0, errno == ENOENT, let slash = folder.lastIndex(of: "/")
        {
            folder = folder[..<slash]
        }
        return folder.isEmpty ? "/" : String(folder)
    }

    /// linux/magic.h, and the filesystems' own headers.
    private static let fileSystemNames: [UInt32: String] = [
        0xEF53: "ext4", 0x5846_5342: "xfs", 0x9123_683E: "btrfs", 0x0102_1994: "tmpfs", 0x794C_7630: "overlayfs",
        0x6969: "nfs", 0x2FC1_2FC1: "zfs", 0xF2F5_2010: "f2fs", 0x4D44: "vfat", 0x2011_BAB0: "exfat",
        0xFF53_4D42: "cifs", 0xFE53_4D42: "smb3", 0x6573_5546: "fuse", 0x7366_746E: "ntfs3",
    ]
}
