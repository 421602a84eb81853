import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// Certificates are checked. The server is openssl's own, as a child process.
@Suite struct SecureTests {
    @Test func anUnknownCertificateIsRefusedAndAKnownOneTaken() throws {
        let server = try SecureServer()
        try withTransport(to: ScriptedServer { _ in [] }) { origin in
            let failure = origin.fetch(server.url).failure
            guard case .untrusted(let text) = failure else { throw Unexpected(failure) }
            #expect(text.contains("localhost"))
        }
        try withTransport(to: ScriptedServer { _ in [] }) {
            $0.certificateAuthorities = server.certificate
        } _: { origin in
            let record = origin.fetch(server.url)
            #expect(record.failure == nil && record.heads.first?.status == 200 && !record.bytes.isEmpty)
            // The same certificate for another name.
            let other = ResourceURL(server.url.text.replacing("localhost", with: "127.0.0.1"))!
            let failure = origin.fetch(other).failure
            guard case .untrusted = failure else { throw Unexpected(failure) }
        }
    }

    @Test func whatSpeaksNoTLSIsNotTrusted() throws {
        let server = try ScriptedServer { _ in [] }
        try withTransport(to: server) { origin in
            let url = ResourceURL("https://127.0.0.1:\(server.port)/")!
            #expect(origin.fetch(url, stallLimit: .seconds(2)).failure != nil)
        }
    }
}

/// `openssl s_server` with a fresh certificate for `localhost`, in a directory that goes with it.
private final class SecureServer {
    private let directory: String
    private var process: pid_t = 0
    private var port = 0
    /// Kept open: a server that cannot write its messages would end.
    private var output: Int32 = -1

    var url: ResourceURL { ResourceURL("https://localhost:\(port)/")! }
    var certificate: String { directory + "/cert.pem" }

    init() throws {
        var template = Array("/tmp/reelfs-test-XXXXXX".utf8CString)
        directory = String(cString: mkdtemp(&template))
        let key = directory + "/key.pem"
        let (maker, messages) = try spawn([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
            "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out",
            certificate,
        ])
        waitpid(maker, nil, 0)
        close(messages)
        (process, output) = try spawn([
            "openssl", "s_server", "-accept", "0", "-cert", certificate, "-key", key, "-www",
        ])
        // It says "ACCEPT 0.0.0.0:PORT" once it listens.
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 256)
        while !text.contains(UInt8(ascii: "\n")) || !String(decoding: text, as: UTF8.self).contains("ACCEPT") {
            let count = read(output, &chunk, chunk.count)
            guard count > 0 else { throw SpawnError(errno: errno) }
            text += chunk[..<count]
        }
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("ACCEPT") }
        let port = line.flatMap { $0.split(separator: ":").last }.flatMap { Int(trimmed($0)) }
        guard let port else { throw SpawnError(errno: 0) }
        self.port = port
    }

    deinit {
        if output >= 0 { close(output) }
        if process > 0 {
            kill(process, SIGKILL)
            waitpid(process, nil, 0)
        }
        for name in ["cert.pem", "key.pem"] { unlink(directory + "/" + name) }
        rmdir(directory)
    }
}

private struct SpawnError: Error {
    var errno: Int32
}

/// - Returns: the child and the reading end of its standard output.
private func spawn(_ arguments: [String]) throws -> (pid_t, Int32) {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw SpawnError(errno: errno) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var child = pid_t()
    let result = startingChild { posix_spawnp(&child, arguments[0], &actions, nil, &words, environ) }
    close(ends[1])
    guard result == 0 else {
        close(ends[0])
        throw SpawnError(errno: result)
    }
    return (child, ends[0])
}
