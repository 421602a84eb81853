import Glibc

/// The control group (cgroups(7)) in which systemd has a process.
enum ControlGroup {
    /// Where systemd mounts its hierarchy: that of version 2, beside version 1, or of version 1.
    private static let roots = [
        ("", "/sys/fs/cgroup"), ("", "/sys/fs/cgroup/unified"), ("name=systemd", "/sys/fs/cgroup/systemd"),
    ]

    /// Moves this process into the group of another one, which it replaces: the end of a service takes along what its
    /// group holds, and whoever asks for a restart may be another service than that of the mount.
    static func join(thatOf process: pid_t) {
        for (kind, root) in roots {
            guard let wanted = path(of: "\(process)", kind), wanted != path(of: "self", kind) else { continue }
            let descriptor = open(root + wanted + "/cgroup.procs", O_WRONLY | O_CLOEXEC)
            // An ordinary user may not, as a rule.
            guard descriptor >= 0 else { continue }
            writeAll(descriptor, Array("\(getpid())".utf8))
            close(descriptor)
        }
    }

    /// - Parameter kind: what stands between the colons of its line.
    private static func path(of process: String, _ kind: String) -> Substring? {
        let lines = textOfFile("/proc/\(process)/cgroup")?.split(separator: "\n") ?? []
        return lines.lazy.map { $0.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false) }
            .first { $0.count == 3 && $0[1] == kind }?[2]
    }
}
