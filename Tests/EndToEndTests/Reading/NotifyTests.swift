import Glibc
import TestKit
import Testing

@testable import reelfs

extension EndToEnd {
    /// What a service manager and the journal get: sd_notify(3), sd-daemon(3), systemd.exec(5).
    @Suite struct NotifyTests {
        /// A datagram socket, as systemd's.
        private final class Manager {
            private let descriptor: Int32

            init(_ name: String) throws {
                descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
                try #require(try #require(UnixAddress(socketName: name)).bind(descriptor) == 0)
                var limit = timeval(tv_sec: 20, tv_usec: 0)
                setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
            }

            deinit { close(descriptor) }

            /// The next message; nil where none comes within 20 seconds.
            func next() -> String? {
                var bytes = [UInt8](repeating: 0, count: 4096)
                let count = recv(descriptor, &bytes, bytes.count, 0)
                return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
            }
        }

        @Test(
            "In the foreground the manager hears of opening, of the mount that answers, and of the end",
            arguments: ["/", "@"])
        func life(kind: String) throws {
            let server = try filmServer(FileOrigin(length: 100_000))
            defer { server.stop() }
            try withScene { scene in
                let name = kind == "/" ? scene.work("notify") : "@" + scene.folder
                let manager = try Manager(name)
                let child = try ChildProcess(
                    [program, "mount", server.address, scene.mountpoint, "--foreground", "--cache-dir", scene.cache]
                        + ["--timeout", "100", "--header", "X: secret"],
                    environment: ["NOTIFY_SOCKET": name])
                #expect(manager.next() == "EXTEND_TIMEOUT_USEC=230000000\nSTATUS=opening \(server.address)")
                let ready = manager.next()
                #expect(ready == "READY=1\nSTATUS=\(server.address) on \(scene.mountpoint)")
                // Not a moment later: the message says that it answers.
                #expect(try names(in: scene.mountpoint) == ["film.mkv"])
                // It is started before, and is called so some milliseconds later.
                try #require(eventually { watcher(of: scene.mountpoint) != nil })
                let variables = contents("/proc/\(try #require(watcher(of: scene.mountpoint)))/environ") ?? ""
                #expect(!variables.contains("NOTIFY_SOCKET="), "others could speak for the daemon")
                child.signal(SIGTERM)
                #expect(manager.next() == "STOPPING=1\nSTATUS=writing the cache")
                #expect(try child.wait().status == 0)
            }
        }

        @Test("A mount that fails says why, once to the manager and once to stderr, and never that it is ready")
        func failure() throws {
            try withScene { scene in
                let manager = try Manager("@" + scene.folder)
                let end = try scene.tryMount(
                    "http://127.0.0.1:1/", ["--foreground"], environment: ["NOTIFY_SOCKET": "@" + scene.folder])
                #expect(manager.next()?.hasSuffix("\nSTATUS=opening http://127.0.0.1:1/") == true)
                let status = try #require(manager.next())
                #expect(status.contains("nothing is remembered") && !status.contains("\n"), "\(status)")
                let sentence = "reelfs: \(status.dropFirst("STATUS=".count))\n"
                #expect(end.status == 32 && end.errors.hasSuffix(sentence), "\(end)")
                #expect(end.errors.split(separator: "\n").filter { $0.contains("nothing is remembered") }.count == 1)
            }
        }

        @Test("Nobody who listens costs nothing", arguments: ["", "@nobody", "/nowhere/notify", "nonsense"])
        func nobody(name: String) throws {
            try withScene { scene in
                let end = try scene.tryMount(
                    "http://127.0.0.1:1/", ["--foreground"], environment: ["NOTIFY_SOCKET": name])
                #expect(end.status == 32, "\(end)")
            }
        }

        @Test("stderr has levels where it is the journal, and only there", arguments: [true, false])
        func journal(isJournal: Bool) throws {
            let server = try filmServer(FileOrigin(length: 100_000))
            defer { server.stop() }
            try withScene { scene in
                let log = scene.work("log")
                // The shell knows which file it writes to before the program starts.
                let script = """
                    exec 2> "$1"; JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/2)\(isJournal ? "" : "1")
                    export JOURNAL_STREAM; shift; exec "$@"
                    """
                func run(_ source: String, _ options: [String]) throws -> ChildProcess {
                    try ChildProcess(
                        ["sh", "-c", script, "sh", log, program, "mount", source, scene.mountpoint]
                            + ["--cache-dir", scene.cache] + options)
                }
                #expect(try run("http://127.0.0.1:1/", []).wait().status == 32)
                let sentence = contents(log) ?? ""
                #expect(sentence.hasPrefix(isJournal ? "<3>reelfs: http://" : "reelfs: http://"), "\(sentence)")

                let child = try run(server.address, ["--foreground"])
                let details = "mounted on=\(scene.mountpoint) source=\(server.address)\n"
                let line = (isJournal ? "<5>" : "reelfs: notice: ") + details
                #expect(eventually { contents(log) == line }, "\(contents(log) ?? "")")
                child.signal(SIGTERM)
                #expect(try child.wait().status == 0)
            }
        }
    }
}
