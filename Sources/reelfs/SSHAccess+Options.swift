import Glibc
import ReelHTTP

extension SSHAccess {
    /// As ssh(1) has it, where the options say nothing else.
    /// - Parameter host: of the source.
    init(_ options: MountOptions, host: String) {
        self.init()
        let home = SourceDirectory.homeDirectory()
        knownHosts = options.sshKnownHosts.map { absolute($0) } ?? home.map { $0 + "/.ssh/known_hosts" }
        // curl itself looks for RSA keys alone, which OpenSSH refuses with the signatures that libssh2 1.10 makes.
        let usual = home.map { $0 + "/.ssh/id_ed25519" }
        privateKey = options.sshKey.map { absolute($0) } ?? usual.flatMap { access($0, R_OK) == 0 ? $0 : nil }
        // With a user of its own curl would not take the one of `.netrc`.
        let netrc = home.flatMap { textOfFile($0 + "/.netrc") } ?? ""
        if !netrc.split(whereSeparator: \.isWhitespace).contains(where: { $0 == host || $0 == "default" }) {
            user = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) }
        }
    }
}
