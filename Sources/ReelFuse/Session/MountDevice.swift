import CFuse
import Glibc

/// A mount as the process that serves it has it: an open `/dev/fuse` that is mounted.
package struct MountDevice: Sendable {
    /// The descriptor of `/dev/fuse`.
    package var descriptor: Int32
    /// `major:minor` of the mount, as in mountinfo; nil where it is not known.
    package var number: String?

    package init(descriptor: Int32, number: String?) {
        self.descriptor = descriptor
        self.number = number
    }

    /// One that this process was given, mounted. - Returns: nil where the descriptor is no open `/dev/fuse`.
    package init?(given descriptor: Int32) {
        guard Self.isFuse(descriptor) else { return nil }
        // From Linux 6.11 on: the minor number of the mount, whose major number is 0.
        let line = contents(of: "/proc/self/fdinfo/\(descriptor)")?.split(separator: "\n")
            .first { $0.hasPrefix("fuse_connection:") }
        let number = line.flatMap { UInt32($0.drop { !$0.isNumber }) }
        self.init(descriptor: descriptor, number: number.map { "0:\($0)" })
    }

    /// The descriptor in a mount point of the form `/dev/fd/N`, as libfuse has it; nil for any other path.
    package static func descriptor(in mountpoint: String) -> Int32? {
        guard mountpoint.hasPrefix("/dev/fd/") else { return nil }
        let digits = mountpoint.dropFirst(8)
        return digits.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int32(digits) : nil
    }

    /// Makes a mount that another process will serve; until then its callers wait. When the last copy of the
    /// descriptor is closed, the mount is dead.
    /// - Throws: a sentence for the user.
    package static func make(_ options: FuseSession.Options) throws(MountError) -> MountDevice {
        let session = try makeSession(options, nil)
        // Closes libfuse's own copy, and leaves the mount.
        defer { fuse_session_destroy(session) }
        guard fuse_session_mount(session, options.mountpoint) == 0 else {
            throw MountError(message: LibraryLog.last() ?? "mounting on \(options.mountpoint) was refused")
        }
        let descriptor = fcntl(fuse_session_fd(session), F_DUPFD_CLOEXEC, 3)
        guard descriptor >= 0 else {
            fuse_session_unmount(session)
            throw MountError(message: "mounting on \(options.mountpoint) failed: too many open files")
        }
        return MountDevice(descriptor: descriptor, number: Mount.on(options.mountpoint)?.device)
    }

    /// Whether a descriptor is an open `/dev/fuse`, wherever its node stands.
    package static func isFuse(_ descriptor: Int32) -> Bool {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFCHR else { return false }
        // MISC_MAJOR and FUSE_MINOR (linux/miscdevice.h).
        return gnu_dev_major(status.st_rdev) == 10 && gnu_dev_minor(status.st_rdev) == 229
    }
}
