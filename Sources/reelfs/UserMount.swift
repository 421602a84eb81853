import CFuse
import Glibc

/// What an ordinary user needs to mount through fusermount3. Looked at before anything is asked of the origin, so that
/// each lack is a sentence that says what to do; what remains fusermount3 says itself.
enum UserMount {
    /// Where libfuse looks first, and then along PATH.
    private static let places = ["/usr/bin", "/bin", "/usr/local/bin"]

    static func check(_ options: MountOptions) throws(Failure) {
        if geteuid() == 0 { return }
        try checkDevice()
        try checkProgram()
        if options.sharesWithOthers, forbidsAllowOther() {
            throw .mount(
                "allow_other is refused to ordinary users by /etc/fuse.conf: root can put the line user_allow_other "
                    + "there; or mount without allow_other")
        }
    }

    /// Opened, not only looked at: a container's device rules are no permission bits.
    static func checkDevice() throws(Failure) {
        let device = open("/dev/fuse", O_RDWR | O_CLOEXEC)
        if device >= 0 {
            close(device)
            return
        }
        let code = errno
        throw .mount(
            [ENOENT, ENODEV, ENXIO].contains(code)
                ? "there is no /dev/fuse: root can load the kernel's module by `modprobe fuse`"
                : "/dev/fuse cannot be opened by this user (\(reason(code))): root can allow it by `chmod 666 /dev/fuse`"
        )
    }

    private static func checkProgram() throws(Failure) {
        let path = getenv("PATH").map { String(cString: $0).split(separator: ":").map { String($0) } } ?? []
        let found = (places + path).map { $0 + "/fusermount3" }.first { access($0, X_OK) == 0 }
        guard let found else {
            throw .mount("fusermount3 is missing, without which only root can mount: install the package fuse3")
        }
        var status = stat()
        guard stat(found, &status) == 0, status.st_mode & S_ISUID == 0 else { return }
        // With file capabilities it would work as well, and be asked in vain.
        if getxattr(found, "security.capability", nil, 0) > 0 { return }
        throw .mount("\(found) is not set-user-ID root, so only root can mount: reinstall the package fuse3")
    }

    /// false also where the file cannot be read: fusermount3 can, and decides.
    static func forbidsAllowOther() -> Bool {
        let descriptor = open("/etc/fuse.conf", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return errno == ENOENT }
        defer { close(descriptor) }
        return !allowsOther(String(decoding: readAll(descriptor), as: UTF8.self))
    }
}

/// Whether the text of /etc/fuse.conf has the line `user_allow_other` (mount.fuse3(8)).
package func allowsOther(_ text: String) -> Bool {
    text.split(separator: "\n").contains { line in
        line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace) == ["user_allow_other"]
    }
}
