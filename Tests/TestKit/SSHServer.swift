import Glibc
import ReelCore
import ReelThreads
import Testing

/// OpenSSH's server on loopback, with a folder of its own and keys made for it.
package final class SSHServer: Sendable {
    /// What the test puts there is removed with it.
    package let directory: String
    package let port: UInt16
    private let process: ChildProcess
    private let isStopped = Shared(false)

    /// Cancels the test where the machine lacks the server.
    /// - Parameter lines: of its configuration, beside those that it needs.
    package init(_ lines: String = "") throws {
        let program = "/usr/sbin/sshd"
        guard access(program, X_OK) == 0 else { try Test.cancel("\(program) is not installed") }
        // Where it drops its privileges.
        mkdir("/run/sshd", 0o755)
        var template = Array("/tmp/reelfs-ssh-XXXXXX".utf8CString)
        let directory = try #require(mkdtemp(&template).map { String(cString: $0) })
        self.directory = directory
        do {
            for key in ["host", "user"] {
                let words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "\(directory)/\(key)"]
                let end = try ChildProcess.run(words)
                try #require(end.status == 0, "\(end.errors)")
            }
            let text = """
                ListenAddress 127.0.0.1
                HostKey \(directory)/host
                PidFile none
                AuthorizedKeysFile \(directory)/user.pub
                StrictModes no
                UsePAM no
                Subsystem sftp internal-sftp
                \(lines)

                """
            try replaceFile(directory + "/configuration", with: Array(text.utf8))
            (process, port) = try Self.start([program, "-D", "-e", "-f", directory + "/configuration", "-p"])
        } catch {
            removeTree(directory)
            throw error
        }
    }

    /// It takes no port of the kernel's choice, so another program may have taken this one meanwhile: then it says so,
    /// and ends.
    private static func start(_ words: [String]) throws -> (ChildProcess, UInt16) {
        for _ in 0..<20 {
            let unused = try ScriptedServer { _ in [] }
            unused.stop()
            let process = try ChildProcess(words + ["\(unused.port)"])
            var said = ""
            let isSettled = eventually(within: .seconds(15)) {
                said = process.said.errors
                return said.contains("Server listening on") || said.contains("Cannot bind any address")
            }
            if isSettled, !said.contains("Cannot bind any address") { return (process, unused.port) }
            process.signal(SIGTERM)
            _ = try? process.wait(within: .seconds(5))
            try #require(isSettled, "\(said)")
        }
        throw ChildError(words: words, reason: "no port is free")
    }

    /// - Parameter path: below `directory`.
    package func url(_ path: String) -> ResourceURL {
        ResourceURL(trusted: "sftp://127.0.0.1:\(port)\(directory)/\(path)")!
    }

    /// Type and base64 of a public key: `host` or `user`.
    package func key(_ name: String) -> String {
        contents(of: "\(directory)/\(name).pub").split(separator: " ").prefix(2).joined(separator: " ")
    }

    /// Writes the file of known hosts. - Parameter lines: in front of that of the server.
    /// - Returns: its path.
    package func knownHosts(_ lines: String = "") throws -> String {
        let path = directory + "/known_hosts"
        try replaceFile(path, with: Array("\(lines)[127.0.0.1]:\(port) \(key("host"))\n".utf8))
        return path
    }

    package var userKey: String { directory + "/user" }
    package let user = Account.own?.name

    package func stop() {
        var mine = false
        isStopped.change { (mine, $0) = (!$0, true) }
        guard mine else { return }
        // Sessions outlive the server that has accepted them.
        let sessions = Self.children(of: process.pid)
        process.signal(SIGTERM)
        _ = try? process.wait(within: .seconds(5))
        for session in sessions { kill(session, SIGKILL) }
        removeTree(directory)
    }

    private static func children(of pid: pid_t) -> [pid_t] {
        contents(of: "/proc/\(pid)/task/\(pid)/children").split(separator: " ").compactMap { pid_t($0) }
            .flatMap { [$0] + children(of: $0) }
    }
}

/// Writes a file, in one step for those who read it.
package func replaceFile(_ path: String, with bytes: [UInt8]) throws {
    guard let stream = fopen(path + ".new", "we") else { throw ChildError(words: [path], reason: "not written") }
    let isWritten = fwrite(bytes, 1, bytes.count, stream) == bytes.count
    guard fclose(stream) == 0, isWritten, rename(path + ".new", path) == 0 else {
        throw ChildError(words: [path], reason: "not written")
    }
}
