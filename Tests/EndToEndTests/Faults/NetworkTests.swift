import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// The network gone, in every way in which it goes: what is cached plays, what is known is shown, what is missing
    /// fails in time, and all is well again soon after the origin's return.
    @Suite(.enabled(if: Network.isPossible || isCI, "a network namespace needs root"), .serialized)
    struct NetworkTests {
        /// The deadline of all mounts here: `--timeout`.
        private static let deadline = Duration.seconds(3)

        private func withStage(_ body: (Scene, Stage, () throws -> Mounted) throws -> Void) throws {
            try withNetwork { network, scene in
                let stage = try Stage(network)
                defer { stage.stopServer() }
                // What these tests time is the network: the cache is on a disk that is never busy.
                let disk = try SmallDisk(.tmpfs, megabytes: 256, at: scene.cache)
                defer { scene.endMounts(); disk.end() }
                try body(scene, stage) {
                    try scene.mount(stage.address, ["-o", "timeout=3"], through: network.through)
                }
            }
        }

        private func took(_ body: () throws -> Void) rethrows -> Duration {
            let start = ContinuousClock.now
            try body()
            return ContinuousClock.now - start
        }

        /// What is known is shown without waiting.
        private func look(_ mount: Mounted) throws {
            let time = try took { () throws in
                #expect(try names(in: mount.path) == ["half.mkv", "whole.mkv"])
                #expect(try attributes(mount.file("half.mkv")).st_size == 96 << 20)
                var space = statvfs()
                #expect(statvfs(mount.path, &space) == 0)
                #expect(try ChildProcess.run(["ls", "-l", mount.path]).status == 0)
                #expect(try ChildProcess.run(["df", mount.path]).status == 0)
            }
            #expect(time < .seconds(2), "ls, stat and df")
        }

        /// The time of the read alone: an open may have waited for a confirmation before.
        private func timeToFail(_ path: String, at offset: Int64, _ codes: Set<Int32>) throws -> Duration {
            let file = try OpenDescriptor(path)
            return took {
                let code = code {
                    var byte: UInt8 = 0
                    return pread(file.number, &byte, 1, off_t(offset))
                }
                #expect(codes.contains(code), "errno \(code)")
            }
        }

        private func missing(_ mount: Mounted, at megabyte: Int64) -> Int32 {
            do {
                let file = try OpenDescriptor(mount.file("half.mkv"))
                _ = try file.bytes(at: megabyte << 20, count: 4096)
                return 0
            } catch { return error.number }
        }

        @Test(
            "A cut network takes nothing away but what is missing, and comes back",
            arguments: LongTests.all(Cut.all, elseOnly: [Cut.all[0], Cut.all[4]]))
        func cut(_ cut: Cut) throws {
            try withStage { _, stage, makeMount in
                let mount = try makeMount()
                #expect(stage.whole.difference(inFile: mount.file("whole.mkv")) == nil)
                #expect(missing(mount, at: 0) == 0)
                try cut.cut(stage)
                mount.dropPages("whole.mkv")
                try look(mount)
                // The last confirmation is a moment old, or an open waits for one that does not come: two seconds at
                // most.
                let first = took { #expect(stage.whole.difference(inFile: mount.file("whole.mkv")) == nil) }
                #expect(first < .seconds(3), "a cached file, first open")
                let failing = try timeToFail(mount.file("half.mkv"), at: 20 << 20, cut.codes)
                #expect(failing < cut.limit, "the first missing part")
                try look(mount)
                for megabyte in [Int64(30), 50, 70] {
                    let again = took { #expect(cut.codes.contains(missing(mount, at: megabyte))) }
                    #expect(again < .seconds(2), "a missing part, known to be away")
                }
                mount.dropPages("whole.mkv")
                let cached = took { #expect(stage.whole.difference(inFile: mount.file("whole.mkv")) == nil) }
                #expect(cached < .seconds(2), "a cached file")
                let status = try ChildProcess.run([program, "status", mount.path])
                #expect(status.output.contains("  offline http"), "\(status.output)")
                try cut.heal(stage)
                let recovery = took { #expect(eventually(within: .seconds(8)) { missing(mount, at: 20) == 0 }) }
                // The pause of a second, the probe, and a busy machine.
                #expect(recovery < .seconds(3), "recovery")
                print("\(cut.testDescription): first missing part \(failing), recovery \(recovery)")
                try mount.unmount()
            }
        }

        /// Long enough for TCP to wait for seconds before it sends a SYN again.
        @Test(
            "Within a second of the packets' return what is missing can be read, whoever asked meanwhile",
            arguments: LongTests.all(
                [
                    // Where readers wait all the time, nobody else has to ask.
                    (isAsking: true, timeout: 3), (isAsking: false, timeout: 3), (isAsking: false, timeout: 30),
                ], elseOnly: [(isAsking: false, timeout: 3)]))
        func comesBack(isAsking: Bool, timeout: Int) throws {
            try withStage { scene, stage, _ in
                let mount = try scene.mount(
                    stage.address, ["-o", "timeout=\(timeout)"], through: stage.network.through)
                #expect(missing(mount, at: 0) == 0)
                // As kernels before 6.5 do it: a SYN is sent again after one second, two, four.
                try stage.network.inClient("sysctl -qw net.ipv4.tcp_syn_linear_timeouts=0 || true")
                try stage.network.inServer("iptables -I INPUT -i server -j DROP")
                // Readers that wait, and fail where their time is short.
                let ends = Mutex<[(code: Int32, moment: ContinuousClock.Instant)]>([])
                let readers = [Int64(10), 20].map { megabyte in
                    startThread {
                        let code = missing(mount, at: megabyte)
                        ends.withLock { $0.append((code, .now)) }
                    }
                }
                let end = ContinuousClock.now + dropTime
                eventually(within: .seconds(120)) {
                    if isAsking { _ = missing(mount, at: 40) }
                    return ContinuousClock.now > end
                }
                try stage.network.inServer("iptables -F INPUT")
                let healed = ContinuousClock.now
                let time = took { #expect(eventually(within: .seconds(20)) { missing(mount, at: 60) == 0 }) }
                print("asking \(isAsking), timeout \(timeout): back after \(time)")
                #expect(time < .seconds(1))
                for reader in readers { reader.join() }
                for end in ends.withLock({ $0 }) where dropTime < .seconds(timeout) {
                    print("a reader that waited: \(end.code) after \(end.moment - healed)")
                    #expect(end.code == 0 && end.moment - healed < .seconds(1))
                }
                try mount.unmount()
            }
        }

        /// The usual one provokes pauses of four seconds.
        private var dropTime: Duration {
            .seconds(getenv("REELFS_DROP_SECONDS").flatMap { Int(String(cString: $0)) } ?? 8)
        }

        @Test("While packets vanish a mount starts from memory, and ends as ever", arguments: [false, true])
        func startAndEnd(_ isHelper: Bool) throws {
            try withStage { _, stage, makeMount in
                var mount = try makeMount()
                #expect(stage.whole.difference(inFile: mount.file("whole.mkv")) == nil)
                try mount.unmount()
                try stage.network.inServer("iptables -I INPUT -i server -j DROP")
                let starting = try took { mount = try makeMount() }
                // It asks for two seconds, and an answer has thirty.
                #expect(starting < .seconds(15), "\(starting)")
                try look(mount)
                #expect(stage.whole.difference(inFile: mount.file("whole.mkv")) == nil)
                let ending = try took { () throws in
                    if isHelper {
                        try mount.unmount()
                    } else {
                        waitForStartingChildren()
                        #expect(umount2(mount.path, 0) == 0)
                        #expect(eventually { !isRunning(mount.pid) })
                    }
                }
                #expect(ending < .seconds(3))
            }
        }

        @Test(
            "A reader that waits while packets vanish ends by its signal at once",
            arguments: [SIGINT, SIGTERM, SIGKILL])
        func signalled(_ number: Int32) throws {
            try withWaitingReader { mount, reader in
                let ending = try took { () throws in
                    reader.signal(number)
                    #expect(try reader.wait(within: .seconds(2)).status == 128 + number)
                }
                #expect(ending < .seconds(1))
            }
        }

        @Test("With reads waiting for vanished packets a mount can be left at once")
        func leave() throws {
            try withWaitingReader { mount, reader in
                let leaving = try took { () throws in
                    #expect(umount2(mount.path, 0) != 0 && errno == EBUSY)
                    #expect(try ChildProcess.run(["umount", "-l", mount.path], within: .seconds(5)).status == 0)
                }
                #expect(leaving < .seconds(2))
                #expect(!mountTable().contains { $0.mountpoint == mount.path })
                // The reader keeps its file, and its deadline.
                #expect(try reader.wait(within: Self.deadline + .seconds(2)).status == 1)
                #expect(eventually(within: .seconds(5)) { !isRunning(mount.pid) })
            }
        }

        @Test("A daemon that is told to end does so while reads wait for vanished packets")
        func terminated() throws {
            try withWaitingReader { mount, reader in
                let ending = try took { () throws in
                    kill(mount.pid, SIGTERM)
                    #expect(try reader.wait(within: .seconds(5)).status == 1)
                    #expect(eventually { !isRunning(mount.pid) })
                }
                #expect(ending < .seconds(2))
            }
        }

        /// The name was resolved by a proxy when the mount was first made; there is none any more, and no name server.
        @Test("A known source whose name cannot be resolved is mounted from memory")
        func name() throws {
            try withNetwork { network, scene in
                let film = FileOrigin(length: 3 << 20)
                let files = ["film.mkv": film, "unseen.mkv": FileOrigin(length: 5000)]
                let script = folderScript(files)
                let proxy = try network.makeServer { request in
                    var request = request
                    request.target = String(request.target.dropFirst("http://media.invalid".count))
                    return script(request)
                }
                defer { proxy.stop() }
                var mount = try scene.mount(
                    "http://media.invalid/", ["-o", "timeout=3"], through: network.through,
                    environment: ["http_proxy": "http://\(Network.serverAddress):\(proxy.port)", "no_proxy": ""])
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                try mount.unmount()
                let time = try took { () throws in
                    mount = try scene.mount("http://media.invalid/", ["-o", "timeout=3"], through: network.through)
                }
                #expect(time < .seconds(4))
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                #expect(try names(in: mount.path) == ["film.mkv", "unseen.mkv"])
                let failing = took {
                    #expect([ENETUNREACH, ETIMEDOUT].contains(readingCode(mount.file("unseen.mkv"))))
                }
                #expect(failing < Self.deadline + .seconds(1))
            }
        }

        /// A mount whose origin's packets vanish, and a child that waits for bytes of it.
        private func withWaitingReader(_ body: (Mounted, ChildProcess) throws -> Void) throws {
            try withStage { _, stage, makeMount in
                let mount = try makeMount()
                #expect(missing(mount, at: 0) == 0)
                try stage.network.inServer("iptables -I INPUT -i server -j DROP")
                try body(mount, try waitingReader(mount))
            }
        }

        /// A child that waits for bytes that do not come.
        private func waitingReader(_ mount: Mounted) throws -> ChildProcess {
            // Not the end, which came with the beginning.
            let reader = try ChildProcess(
                ["tail", "-c", "+73728001", mount.file("half.mkv")])
            #expect(eventually { isBlocked(reader.pid) }, "it does not wait")
            return reader
        }

        /// In a read: the system call's number stands first (proc(5)), and stays there.
        private func isBlocked(_ pid: pid_t) -> Bool {
            func isReading() -> Bool {
                guard let file = contents("/proc/\(pid)/wchan") else { return false }
                return !file.isEmpty && file != "0" && contents("/proc/\(pid)/cmdline")?.hasPrefix("tail") == true
                    && contents("/proc/\(pid)/syscall")?.hasPrefix("0 ") == true
            }
            return isReading()
        }
    }
}

/// Skipped tests must not look like a pass in CI.
let isCI = getenv("CI").map { String(cString: $0) } == "true"
