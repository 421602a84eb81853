import Glibc
import ReelFuse
import TestKit
import Testing

@testable import reelfs

@Suite("A mount handed over to a daemon", .serialized, .enabled(if: fuseIsUsable))
struct HandoverTests {
    /// Calls with a mount, its daemon, and what a second mount of it would hand over.
    private func withDaemon(_ body: (CommandTests.Place, ControlClient, Handover) throws -> Void) throws {
        try CommandTests.withPlace { place in
            let words = ["mount", place.source, place.mountpoint, "--cache-dir", place.cache, "--refresh", "60"]
            #expect(try CommandTests.run(words).status == 0)
            let handover = Handover(
                source: place.source, mountpoint: place.mountpoint + "2", device: nil, user: 0, group: 0, umask: 0,
                options: [["refresh", "1m"]])
            try body(place, try ControlClient(path: place.control), handover)
            #expect(contents(of: place.mountpoint + "/hello.txt") == CommandTests.text)
            #expect(try CommandTests.run(["umount", place.mountpoint]).status == 0)
        }
    }

    @Test("No descriptor but that of a mounted device is taken, and the daemon stays as it was")
    func descriptors() throws {
        try withDaemon { place, daemon, handover in
            #expect(daemon.ask(.attach(handover))?.error == nil)
            for path in ["/dev/null", "/proc/self/exe", "/tmp", "/dev/fuse"] {
                let descriptor = open(path, (path == "/dev/fuse" ? O_RDWR : O_RDONLY) | O_CLOEXEC)
                defer { close(descriptor) }
                #expect(daemon.ask(.attach(handover), [descriptor])?.error != nil, "\(path)")
            }
            let pid = try #require(daemon.status()?.pid)
            let open = try FileDescriptors(of: pid)
            for _ in 0..<20 { #expect(daemon.ask(.attach(handover), [0, 1])?.error != nil) }
            // Closed before the next request is answered.
            #expect(daemon.status()?.mountpoints == nil)
            #expect(try FileDescriptors(of: pid).count <= open.count + 1)
        }
    }

    @Test("Another version, user or option is refused with a sentence, and no secret is shown")
    func refusals() throws {
        try withDaemon { place, daemon, handover in
            let changes: [(String, (inout Handover) -> Void)] = [
                ("another version", { $0.program = "0.0" }),
                ("user, password", { $0.source = $0.source.replacing("secret", with: "other1") }),
                ("query", { $0.source = $0.source.replacing("hidden", with: "other2") }),
                ("values of refresh", { $0.options = [["refresh", "5m"]] }),
                ("values of header", { $0.options = [["header", "X-Key: other3"]] }),
                ("values of cache-size, warm", { $0.options = [["cache_size", "1G"], ["warm"], ["uid", "7"]] }),
            ]
            for (sentence, change) in changes {
                var changed = handover
                change(&changed)
                let refusal: String = try daemon.result(of: .attach(changed))
                #expect(refusal.contains(sentence) && refusal.contains(place.mountpoint), "\(refusal)")
                for secret in ["secret", "hidden", "other1", "other2", "other3"] {
                    #expect(!refusal.contains(secret), "\(refusal)")
                }
            }
        }
    }

    @Test("A command that dies with the mount made and not handed over leaves neither mount nor harm")
    func died() throws {
        try withDaemon { place, daemon, handover in
            mkdir(handover.mountpoint, 0o755)
            defer { rmdir(handover.mountpoint) }
            let options = FuseSession.Options(
                source: "http://h/", mountpoint: handover.mountpoint, ownership: Ownership(user: 0, group: 0))
            let device = try MountDevice.make(options)
            let number = try #require(device.number)
            // As at its end: nothing holds the device, nor the watcher's pipe.
            close(device.descriptor)
            let words = ["sh", "-c", "true | \"$0\" watch \"$1\" \"$2\""]
            #expect(try ChildProcess.run(words + [CommandTests.program, handover.mountpoint, number]).status == 0)
            #expect(Mount.on(handover.mountpoint) == nil)
            #expect(daemon.status()?.mountpoints == nil)
        }
    }

    private static let stranger = """
        import array, os, socket, sys
        os.setgroups([])
        os.setgid(61234)
        os.setuid(61234)
        client = socket.socket(socket.AF_UNIX)
        client.connect(sys.argv[1])
        device = os.open("/dev/null", os.O_RDWR)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [device]))
        client.sendmsg([sys.argv[2].encode() + b"\\n"], [rights])
        print(client.makefile().readline(), end="")
        """

    @Test(
        "Another user gives no mount, gets none, and learns no option, even where the socket is open to all",
        .enabled(if: geteuid() == 0, "needs root to become another user"))
    func stranger() throws {
        try withDaemon { place, daemon, handover in
            // Up to the temporary directory of the test.
            var folder = place.control
            chmod(folder, 0o666)
            for _ in 0..<3 {
                folder = String(folder[..<(folder.lastIndex(of: "/") ?? folder.startIndex)])
                chmod(folder, 0o755)
            }
            for request in [.attach(handover), .describe, .leave()] as [ControlRequest] {
                let line = String(decoding: encodeLine(request).dropLast(), as: UTF8.self)
                let end = try ChildProcess.run(["python3", "-c", Self.stranger, place.control, line])
                #expect(end.output.contains("another user (uid 0)"), "\(end)")
                #expect(!end.output.contains("secret"), "\(end)")
            }
        }
    }

    @Test("A daemon leaves its mounts to no version that would not know them")
    func otherFormat() throws {
        try withDaemon { _, daemon, _ in
            for format in [nil, 0, LeftMount.format + 1] {
                #expect(daemon.ask(.leave(format: format))?.error?.contains("another version") == true)
            }
        }
    }

    @Test(
        "Options agree where they mean the same, and where a second mount leaves them out",
        arguments: [
            (["cache-size=1G"], ["cache_size=1024M"], []), (["cache-size=10G"], [], []), ([], ["cache-size=9G"], []),
            (["cache-size=1G"], ["cache-size=2G"], ["cache-size"]), (["warm"], [], ["warm"]), (["warm"], ["warm"], []),
            (["refresh=1m", "timeout=9"], ["timeout=8"], ["refresh", "timeout"]),
            (["header=A: 1", "header=B: 2"], ["header=A: 1"], ["header"]),
            (["uid=1", "umask=7", "log-level=debug", "foreground", "cache-dir=/a", "config=/b"], [], []),
            (["only-cached"], [], []), ([], ["only-cached"], []),
        ] as [([String], [String], [String])])
    func agreement(_ given: [String], _ daemons: [String], _ names: [String]) {
        func options(_ words: [String]) -> [GivenOption] {
            words.map { word in
                let pair = word.split(separator: "=", maxSplits: 1).map { String($0) }
                return GivenOption(pair[0], pair.count > 1 ? pair[1] : nil)
            }
        }
        #expect(contradictions(options(given), options(daemons)) == names)
    }
}

/// The descriptors that a process has open.
private struct FileDescriptors {
    let count: Int

    init(of process: pid_t) throws {
        let folder = try #require(opendir("/proc/\(process)/fd"))
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        self.count = count
    }
}
