import CFuse
import Glibc

/// Checks whether an ordinary user can mount through fusermount3, before the origin is asked. Each lack is a sentence
/// that names the remedy. fusermount3 reports the rest.
enum UserMount {
    /// libfuse looks here first, and then along PATH.
    private static let places = ["/usr/bin", "/bin", "/usr/local/bin"]

    /// Throws a sentence about the first thing that is missing; does nothing for root.
    static func check(_ options: MountOptions) throws(Failure) {
        if geteuid() == 0 { return }
        try checkDevice()
        try checkProgram()
        if options.sharesWithOthers, forbidsAllowOther() {
            throw .mount(
                "/etc/fuse.conf does not let ordinary users mount with allow_other: root can add the line "
                    + "user_allow_other there; or mount without allow_other")
        }
    }

    /// Opens the device, as a container's device rules are no permission bits.
    static func checkDevice() throws(Failure) {
        let device = open("/dev/fuse", O_RDWR | O_CLOEXEC)
        if device >= 0 {
            close(device)
            return
        }
        let code = errno
        throw .mount(
            [ENOENT, ENODEV, ENXIO].contains(code)
                ? "there is no /dev/fuse: root can load the kernel's module with `modprobe fuse`"
                : "/dev/fuse cannot be opened by this user (\(reason(code))): root can allow it with "
                    + "`chmod 666 /dev/fuse`")
    }

    private static func checkProgram() throws(Failure) {
        let path = environment("PATH")?.split(separator: ":").map { String($0) } ?? []
        let found = (places + path).map { $0 + "/fusermount3" }.first { access($0, X_OK) == 0 }
        guard let found else {
            throw .mount("fusermount3 is missing, so only root can mount: install the package fuse3")
        }
        var status = stat()
        guard stat(found, &status) == 0, status.st_mode & S_ISUID == 0 else { return }
        // With file capabilities it works as well.
        if getxattr(found, "security.capability", nil, 0) > 0 { return }
        throw .mount("\(found) is not set-user-ID root, so only root can mount: reinstall the package fuse3")
    }

    /// false also where the file cannot be read: fusermount3 can, and decides.
    static func forbidsAllowOther() -> Bool {
        guard let text = textOfFile("/etc/fuse.conf") else { return errno == ENOENT }
        return !allowsOther(text)
    }
}

/// Whether a text of /etc/fuse.conf has the line `user_allow_other` (mount.fuse3(8)).
func allowsOther(_ text: String) -> Bool {
    text.split(separator: "\n").contains { line in
        line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace) == ["user_allow_other"]
    }
}
