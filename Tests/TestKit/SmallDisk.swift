import Glibc

/// A small filesystem of a test's own, to be filled, broken and mended. Needs root.
///
///     let disk = try SmallDisk(.ext4, megabytes: 64, at: scene.cache)
///     defer { disk.end() }
///     try disk.fill()
///     …
///     disk.free()
///
/// An ext4 lies in a sparse image on a tmpfs of its own, so that no fault reaches another disk.
package final class SmallDisk: Sendable {
    package enum Kind: Sendable, CaseIterable { case tmpfs, ext4 }

    /// Where it is mounted: a directory that is there.
    package let path: String
    private let backing: String?
    private var image: String { (backing ?? "") + "/image" }
    private var foreign: String { path + "/foreign-file" }

    /// - Parameters:
    ///   - backed: how many megabytes of an ext4 can really be written; then its disk fails.
    ///   - path: an existing directory. Beside it one is made for an ext4's image, and removed at the end.
    package init(_ kind: Kind, megabytes: Int, backed: Int? = nil, at path: String) throws(ChildError) {
        self.path = path
        guard kind == .ext4 else {
            backing = nil
            try run(["mount", "-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", path])
            return
        }
        backing = path + ".backing"
        mkdir(backing!, 0o700)
        do {
            // Room for the inode of the image itself.
            try run(["mount", "-t", "tmpfs", "-o", "size=\((backed ?? megabytes) + 1)m", "tmpfs", backing!])
            try run(["truncate", "-s", "\(megabytes)M", image])
            // No blocks reserved for root, as whom the tests run.
            try run(["mkfs.ext4", "-q", "-m", "0", "-E", "nodiscard", image])
            try run(["mount", "-o", "loop", image, path])
        } catch {
            end()
            throw error
        }
    }

    /// Takes all free space with a file that is not ours. - Returns: how much that was.
    @discardableResult
    package func fill() -> Int64 {
        let descriptor = open(foreign, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        var done: Int64 = 0
        var piece = [UInt8](repeating: 0xF1, count: 1 << 20)
        while !piece.isEmpty {
            let count = write(descriptor, piece, piece.count)
            if count > 0 { done += Int64(count) }
            // Down to a page, which is the least that both kinds give out.
            if count <= 0 { piece.removeLast(piece.count > 4096 ? piece.count / 2 : piece.count) }
        }
        fsync(descriptor)
        return done
    }

    /// Gives back what `fill` took.
    package func free() { unlink(foreign) }

    /// Leaves the disk as after an error of the disk: the journal is aborted, and every change of the ext4 is EROFS
    /// from now on, whoever has files open. Only a new mount ends that.
    package func abort() throws(ChildError) { try run(["mount", "-o", "remount,abort", path]) }

    /// Unmounts and mounts it again, as a repair: the journal is replayed. Nobody may use it.
    package func mountAgain() throws(ChildError) {
        // A mount namespace that is just being made has a copy of the mount, and with it the same ext4 as it stands.
        eventually {
            unmount(path)
            return (try? ChildProcess.run(["losetup", "-j", image]).output.isEmpty) == true
        }
        try run(["mount", "-o", "loop", image, path])
    }

    /// Reads and writes behind the first megabytes of the disk are EIO from now on; what the kernel holds in memory
    /// is not asked of it.
    package func loseBlocks(after megabytes: Int) { truncate(image, off_t(megabytes) << 20) }

    /// Forbids every change below (EPERM, also through open descriptors), or allows it again.
    package func setImmutable(_ on: Bool) throws(ChildError) {
        let end = try ChildProcess.run(["chattr", "-R", "-f", on ? "+i" : "-i", path])
        // Sockets have no such flag: they are complained of, and that is all.
        guard end.status <= 1 else { throw ChildError(words: ["chattr"], reason: end.errors) }
    }

    /// Unmounts, at once if nobody uses it any more and otherwise when its last user is gone.
    package func end() {
        for place in [path, backing].compactMap({ $0 }) {
            if !unmount(place) { umount2(place, Int32(MNT_DETACH)) }
        }
        if let backing { rmdir(backing) }
    }
}

private func run(_ words: [String]) throws(ChildError) {
    let end = try ChildProcess.run(words)
    guard end.status == 0 else { throw ChildError(words: words, reason: end.errors) }
}

/// Unmounts what nobody uses; a program that looks at all mounts, such as `df`, may do so for a moment.
/// - Returns: false, with errno, where it stays.
@discardableResult package func unmount(_ path: String) -> Bool {
    var isGone = false
    eventually(within: .seconds(1)) {
        isGone = umount2(path, 0) == 0
        return isGone || errno != EBUSY
    }
    return isGone
}
