import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// SFTP with OpenSSH's server: host keys, and bodies without a byte.
@Suite struct SFTPTests {
    private static let film = GeneratedBytes(seed: 5).bytes(ByteRange(0, 300_000))

    /// A server of a folder with `film.mkv` and `empty`.
    private struct Server {
        let directory: String
        var port: UInt16

        func url(_ name: String) -> ResourceURL {
            ResourceURL(trusted: "sftp://127.0.0.1:\(port)\(directory)/root/\(name)")!
        }

        /// Type and base64 of a public key.
        func key(_ name: String) -> String {
            contents(of: "\(directory)/\(name).pub").split(separator: " ").prefix(2).joined(separator: " ")
        }

        /// - Parameter lines: of the file of known hosts, in front of that of the server.
        func origin(_ lines: String = "") throws -> CurlOrigin {
            let path = directory + "/known_hosts"
            try write(Array("\(lines)[127.0.0.1]:\(port) \(key("host"))\n".utf8), to: path)
            var configuration = TransportConfiguration(version: "test")
            configuration.usesProxies = false
            configuration.netrcFile = "/dev/null"
            configuration.ssh.knownHosts = path
            configuration.ssh.privateKey = directory + "/user"
            configuration.ssh.user = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) }
            return try CurlOrigin(configuration)
        }

        func write(_ bytes: [UInt8], to path: String) throws {
            let stream = try #require(fopen(path, "we"))
            defer { fclose(stream) }
            #expect(fwrite(bytes, 1, bytes.count, stream) == bytes.count)
        }
    }

    private func withServer(_ body: (Server) throws -> Void) throws {
        let program = "/usr/sbin/sshd"
        guard access(program, X_OK) == 0 else { try Test.cancel("\(program) is not installed") }
        // Where it drops its privileges.
        mkdir("/run/sshd", 0o755)
        try withTemporaryDirectory { directory in
            defer { removeTree(directory) }
            var server = Server(directory: directory, port: 0)
            mkdir(directory + "/root", 0o755)
            try server.write(Self.film, to: directory + "/root/film.mkv")
            try server.write([], to: directory + "/root/empty")
            for key in ["host", "user"] {
                let end = try ChildProcess.run([
                    "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "\(directory)/\(key)",
                ])
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

                """
            try server.write(Array(text.utf8), to: directory + "/configuration")
            let words = [program, "-D", "-e", "-f", directory + "/configuration", "-p"]
            // It takes no port of the kernel's choice, so another program may have taken this one meanwhile: then it
            // says so, and ends.
            for _ in 0..<20 {
                let unused = try ScriptedServer { _ in [] }
                unused.stop()
                server.port = unused.port
                let process = try ChildProcess(words + ["\(server.port)"])
                defer {
                    process.signal(SIGTERM)
                    _ = try? process.wait(within: .seconds(5))
                }
                var said = ""
                let isSettled = eventually(within: .seconds(15)) {
                    said = process.said.errors
                    return said.contains("Server listening on") || said.contains("Cannot bind any address")
                }
                try #require(isSettled, "\(said)")
                if said.contains("Cannot bind any address") { continue }
                return try body(server)
            }
            Issue.record("no port is free")
        }
    }

    /// curl takes a body without a byte on a connection that was in use before for one that has died.
    @Test func anEmptyFileIsReadOnAConnectionThatWasInUseBefore() throws {
        try withServer { server in
            let origin = try server.origin()
            defer { origin.shutdown() }
            for _ in 0..<2 {
                let range = ByteRange(100_000, 200_000)
                #expect(origin.fetch(server.url("film.mkv"), range).bytes == Array(Self.film[100_000..<200_000]))
                let whole = origin.fetch(server.url("empty"))
                #expect(whole.failure == nil && whole.heads.map(\.status) == [200] && whole.bytes.isEmpty)
                #expect(origin.fetch(server.url("empty"), range).failure == .status(416, retryAfter: nil))
            }
        }
    }

    @Test func aKeyThatIsMarkedAsRevokedIsRefusedAndAnotherOneThatIsDoesNoHarm() throws {
        try withServer { server in
            let key = server.key("host")
            for lines in ["@revoked * \(key)\r\n", " @revoked\tother,[127.0.0.2]:22 \(key) of a laptop\r\n"] {
                let origin = try server.origin("# of yesterday\n" + lines)
                defer { origin.shutdown() }
                let failure = origin.fetch(server.url("film.mkv")).failure
                guard case .hostKey(let reason)? = failure else { throw Unexpected(failure) }
                #expect(reason.contains("revoked"))
            }
            let origin = try server.origin("@revoked * \(server.key("user"))\n# @revoked * \(key)\n")
            defer { origin.shutdown() }
            #expect(origin.fetch(server.url("film.mkv")).bytes == Self.film)
        }
    }
}
