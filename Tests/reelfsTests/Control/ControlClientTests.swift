import Glibc
import TestKit
import Testing

@testable import reelfs

/// Commands against a daemon that a test plays.
@Suite("Clients of the control socket")
struct ControlClientTests {
    /// A socket that listens, as a daemon's does.
    private static func listening(_ path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try #require(UnixAddress.reaching(path, { $0.bind(descriptor) == 0 }) ?? false && listen(descriptor, 4) == 0)
        return descriptor
    }

    @Test(
        "Only a daemon of root or of the asking user is trusted, none of another user's mount, and by root its alone",
        arguments: [
            (0, 0, nil, true), (0, 1000, nil, true), (1000, 1000, nil, true), (1000, 0, nil, false),
            (0, 0, 0, true), (1000, 0, 1000, true), (1000, 0, 1001, false), (0, 0, 1000, false),
            (1000, 1000, 1000, true), (0, 1000, 1000, true), (0, 1000, 0, true), (1000, 1000, 0, true),
            (1000, 1001, 1000, false), (0, 1001, 1000, false), (1001, 1001, 1000, false),
        ] as [(uid_t, uid_t, uid_t?, Bool)])
    func trusted(owner: uid_t, user: uid_t, mounter: uid_t?, expected: Bool) {
        #expect(ControlClient.isTrusted(owner, by: user, mounter: mounter) == expected)
    }

    /// Listens as the user `$2`, and reports any mount as well.
    private static let impostor = """
        import os, socket, sys
        server = socket.socket(socket.AF_UNIX)
        server.bind(sys.argv[1])
        os.seteuid(int(sys.argv[2]))
        server.listen()
        print("ready", flush=True)
        while True:
            client = server.accept()[0]
            client.sendall(b'{"version":1,"mount":{"source":"http://h/","mountpoint":"/m","pid":1}}\\n')
        """

    @Test(
        "A daemon of another user is not asked", .enabled(if: geteuid() == 0, "needs root to become another user"),
        arguments: [(61_234, false), (0, true)])
    func impostor(user: uid_t, isBelieved: Bool) throws {
        try withTemporaryDirectory { folder in
            let path = folder + "/control"
            let daemon = try ChildProcess(["python3", "-c", Self.impostor, path, "\(user)"])
            defer {
                daemon.signal(SIGKILL)
                _ = try? daemon.wait()
                unlink(path)
            }
            try #require(eventually { daemon.said.output == "ready\n" })
            if isBelieved {
                #expect(try ControlClient(path: path).status()?.mountpoint == "/m")
            } else {
                let refusal = #expect(throws: Failure.self) { try ControlClient(path: path) }
                #expect(refusal?.sentence.contains("another user (uid \(user))") == true)
            }
        }
    }

    @Test("SIGIO, which a lease on a data file may bring, does not end a command")
    func lease() throws {
        try withTemporaryDirectory { cache in
            let source = cache + "/" + String(repeating: "0a", count: 16)
            mkdir(source, 0o700)
            close(open(source + "/index.sqlite", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600))
            let listener = try Self.listening(source + "/control")
            defer {
                close(listener)
                removeTree(cache)
                mkdir(cache, 0o700)
            }
            let command = try ChildProcess([CommandTests.program, "cache", "prune", "--cache-dir", cache])
            var poller = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
            try #require(poll(&poller, 1, 20_000) == 1)
            // The command now waits for an answer.
            let client = accept(listener, nil, nil)
            command.signal(SIGIO)
            close(client)
            let end = try command.wait()
            #expect(end.status == 32 && end.errors.contains("does not answer"), "\(end)")
        }
    }
}
