import Glibc
import ReelHTTP
import ReelThreads

extension SSHAccess {
    /// What ssh(1) does, where the options say nothing else.
    /// - Parameters:
    ///   - host: of the source.
    ///   - home: the user's directory; nil if there is none.
    init(
        _ options: MountOptions, host: String, home: String? = SourceDirectory.homeDirectory()
    ) throws(Failure) {
        self.init()
        knownHosts = home.map { $0 + "/.ssh/known_hosts" }
        if let file = options.sshKnownHosts {
            // One that is missing knows no host.
            if access(file, F_OK) == 0 || errno != ENOENT {
                close(try NamedFile(file, kind: "known_hosts file", for: .options).descriptor)
            }
            (knownHosts, hasOtherKnownHosts) = (absolute(file), true)
        }
        if let file = options.sshKey {
            close(try NamedFile(file, kind: "SSH key file", for: .key).descriptor)
            privateKey = absolute(file)
        } else {
            // curl itself looks for RSA keys alone, which OpenSSH refuses with the signatures that libssh2 1.10 makes.
            let usual = home.map { $0 + "/.ssh/id_ed25519" }
            privateKey = usual.flatMap { access($0, R_OK) == 0 ? $0 : nil }
        }
        // With a user of its own curl would not take the one of `.netrc`.
        var netrc = Netrc(home.map { $0 + "/.netrc" })
        if netrc.login(for: host) == nil {
            user = Account.own?.name
        }
    }
}
