import Glibc

/// Running another program, without a fork of our own.
enum Child {
    /// - Returns: its exit status; nil where it could not be started or was killed.
    static func run(_ program: String, _ arguments: [String]) -> Int32? {
        let words = ([program] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var pid = pid_t()
        // mount(8) gives no PATH to an ordinary user's helper.
        if getenv("PATH") == nil { setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1) }
        guard posix_spawnp(&pid, program, nil, nil, words + [nil], environ) == 0 else { return nil }
        var status: Int32 = 0
        while waitpid(pid, &status, 0) == -1 { if errno != EINTR { return nil } }
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : nil
    }
}
