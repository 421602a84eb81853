import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// How a mount ends, and what it leaves.
    @Suite struct EndingTests {
        @Test("Open, read, unmount, again and again: the daemon is gone and the cache free each time")
        func again() throws {
            let film = FileOrigin(length: 8 << 20)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
                for round in 0..<5 {
                    let mount = try scene.mount(server.address)
                    let bytes = try OpenDescriptor(mount.file("film.mkv")).bytes(at: Int64(round) << 20, count: 4096)
                    #expect(
                        bytes.elementsEqual(
                            film.expectedBytes(ByteRange(Int64(round) << 20, Int64(round) << 20 + 4096))))
                    try mount.unmount()
                    try expectGone(mount, scene)
                }
            }
        }

        @Test("A plain umount(2) ends the daemon as well")
        func plainUnmount() throws {
            try withMount(of: FileOrigin(length: 1000)) { scene, server, mount in
                _ = try readWhole(mount.file("film.mkv"))
                waitForStartingChildren()
                #expect(unmount(mount.path))
                try expectGone(mount, scene)
            }
        }

        @Test("A mount with a waiting read is busy; unmounted lazily it ends with its reader")
        func busy() throws {
            let film = FileOrigin(length: 20 << 20)
            try withMount(of: film) { scene, server, mount in
                let reader = try stalledReader(mount, film, scene)
                let refused = try ChildProcess.run([program, "umount", mount.path])
                #expect(refused.status == 32)
                #expect(refused.errors.contains("busy"), "\(refused.errors)")
                #expect(try ChildProcess.run([program, "umount", "--lazy", mount.path]).status == 0)
                #expect(!mountTable().contains { $0.mountpoint == mount.path })
                reader.signal(SIGKILL)
                _ = try reader.wait()
                try expectGone(mount, scene)
            }
        }

        @Test("A mount that somebody looks at for a moment is unmounted")
        func lookedAt() throws {
            try withMount(of: FileOrigin(length: 1 << 20)) { scene, server, mount in
                var isSeen = false
                for _ in 0..<10 where !isSeen {
                    let look = open(mount.path, O_RDONLY | O_CLOEXEC)
                    let umount = try ChildProcess([program, "umount", mount.path])
                    var end: ChildProcess.End?
                    // Once it has been refused, it tries again a little later, for a second, which a busy machine may
                    // take to look.
                    eventually {
                        isSeen = contents("/proc/\(umount.pid)/wchan")?.contains("nanosleep") == true
                        if !isSeen { end = umount.poll() }
                        return isSeen || end != nil
                    }
                    close(look)
                    guard isSeen else { continue }
                    let last = try umount.wait()
                    #expect(last.status == 0, "\(last)")
                }
                #expect(isSeen)
                try expectGone(mount, scene)
            }
        }

        @Test(
            "A signal ends the daemon although somebody reads; the reader gets an error", arguments: [SIGTERM, SIGINT])
        func signalled(_ number: Int32) throws {
            let film = FileOrigin(length: 20 << 20)
            try withMount(of: film) { scene, server, mount in
                let reader = try stalledReader(mount, film, scene)
                kill(mount.pid, number)
                #expect(try reader.wait(within: .seconds(5)).status == 1)
                try expectGone(mount, scene)
            }
        }

        @Test("A second mount of the same source on the same cache with another limit names the first")
        func sameSource() throws {
            try withMount(of: FileOrigin(length: 1000)) { scene, server, mount in
                let second = try scene.tryMount(server.address, ["--limit-rate", "1G"], on: "second")
                #expect(second.status == 32)
                #expect(second.errors.contains(mount.path), "\(second.errors)")
                #expect(second.errors.split(separator: "\n").count == 1, "\(second.errors)")
                // The first is none the worse for it.
                #expect(try readWhole(mount.file("film.mkv")).count == 1000)
            }
        }

        @Test("A cache whose owner is no mount any more is waited for")
        func ending() throws {
            let server = try filmServer(FileOrigin(length: 1000))
            defer { server.stop() }
            try withScene { scene in
                try scene.mount(server.address).unmount()
                let path = scene.cache + "/" + (try #require(names(in: scene.cache).first)) + "/lock"
                let lock = open(path, O_RDWR | O_CLOEXEC)
                defer { close(lock) }
                try #require(flock(lock, LOCK_EX | LOCK_NB) == 0)
                try writeFile(path, "1\n/nowhere\n".utf8)
                let watch = inotify_init1(Int32(IN_CLOEXEC))
                defer { close(watch) }
                try #require(inotify_add_watch(watch, path, UInt32(IN_OPEN)) >= 0)
                let words = [program, "mount", server.address, scene.mountpoint, "--cache-dir", scene.cache]
                let child = try ChildProcess(words, environment: ["no_proxy": "127.0.0.1"])
                #expect(isOpenedTwice(watch))
                flock(lock, LOCK_UN)
                let end = try child.wait()
                #expect(end.status == 0, "\(end)")
                #expect(try names(in: scene.mountpoint) == ["film.mkv"])
            }
        }

        /// Whether the file is opened twice within ten seconds: the first time brought nothing.
        private func isOpenedTwice(_ watch: Int32) -> Bool {
            // inotify(7): an event without a name is four numbers of 32 bits.
            var bytes = [UInt8](repeating: 0, count: 4096)
            var opened = 0
            return eventually {
                var poller = pollfd(fd: watch, events: Int16(POLLIN), revents: 0)
                if poll(&poller, 1, 100) == 1 { opened += read(watch, &bytes, bytes.count) / 16 }
                return opened >= 2
            }
        }

        @Test("A second mount on the same mount point is refused, it does not stack")
        func samePlace() throws {
            try withMount(of: FileOrigin(length: 1000)) { scene, server, mount in
                let second = try scene.tryMount(server.address + "other/")
                #expect(second.status == 32)
                #expect(second.errors.contains("already mounted"), "\(second.errors)")
                #expect(mountTable().filter { $0.mountpoint == mount.path }.count == 1)
            }
        }

        @Test("The background form lets go of its caller's output")
        func backgroundLetsGo() throws {
            let server = try filmServer(FileOrigin(length: 1000))
            defer { server.stop() }
            try withScene { scene in
                let line = "\"$0\" mount \"$1\" \"$2\" --cache-dir \"$3\" 2>&1 | cat"
                let words = ["sh", "-c", line, program, server.address, scene.mountpoint, scene.cache]
                let end = try ChildProcess.run(words, within: .seconds(10))
                #expect(end.status == 0)
                #expect(end.output.isEmpty, "\(end.output)")
                let pid = try #require(daemon(of: scene.mountpoint))
                try Mounted(path: scene.mountpoint, pid: pid).unmount()
            }
        }

        /// A child that waits for bytes which do not come.
        private func stalledReader(_ mount: Mounted, _ film: FileOrigin, _ scene: Scene) throws -> ChildProcess {
            film.fault = .stallAfter(300_000)
            return try startReader(of: mount.file("film.mkv"), into: scene.work("read"), atLeast: 100_000)
        }

        private func expectGone(_ mount: Mounted, _ scene: Scene) throws {
            #expect(eventually { !isRunning(mount.pid) }, "the daemon is still there")
            #expect(!mountTable().contains { $0.mountpoint == mount.path })
            for name in try names(in: scene.cache) {
                let lock = open(scene.cache + "/" + name + "/lock", O_RDONLY | O_CLOEXEC)
                defer { close(lock) }
                #expect(flock(lock, LOCK_EX | LOCK_NB) == 0, "the cache is still locked")
            }
        }
    }
}
