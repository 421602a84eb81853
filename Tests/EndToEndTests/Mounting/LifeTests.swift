import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// What a dead daemon leaves, and how a mount point comes back.
    @Suite(.enabled(if: geteuid() == 0, "needs root")) struct LifeTests {
        static let film = FileOrigin(length: 100_000)

        @Test("After kill -9 the mount point is free by itself, for root and for a user", arguments: [false, true])
        func heals(asUser: Bool) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = asUser ? space.theirs : space.scene.mountpoint
                try space.fstab("\(server.address) \(place) reelfs ro,noauto,user 0 0")
                for round in 0..<5 {
                    let end = try space.run(["mount", place], asUser: asUser)
                    #expect(end.status == 0, "round \(round): \(end)")
                    kill(try #require(space.process("daemon", of: place)), SIGKILL)
                    #expect(eventually(within: .seconds(5)) { space.mounts.isEmpty }, "round \(round)")
                    #expect(eventually { space.process("watch", of: place) == nil })
                }
                #expect(try names(in: space.outside(place)).isEmpty)
            }
        }

        @Test("Killed with its watcher, it is healed by the next mount or by umount", arguments: [false, true])
        func nextMount(asUser: Bool) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = asUser ? space.theirs : space.scene.mountpoint
                try space.fstab("\(server.address) \(place) reelfs ro,noauto,user 0 0")
                for command in ["mount", "umount"] {
                    #expect(try space.run(["mount", place], asUser: asUser).status == 0)
                    for kind in ["watch", "daemon"] {
                        // Its words are there once it runs.
                        try #require(eventually { space.process(kind, of: place) != nil })
                        let pid = try #require(space.process(kind, of: place))
                        kill(pid, SIGKILL)
                        #expect(eventually { !isRunning(pid) })
                    }
                    #expect(space.mounts.count == 1, "who healed it?")
                    let end = try space.run([command, place], asUser: asUser)
                    #expect(end.status == 0, "\(command): \(end)")
                    #expect(space.mounts.count == (command == "mount" ? 1 : 0))
                    if command == "mount" {
                        #expect(try space.run(["ls", place], asUser: asUser).output == "film.mkv\n")
                        #expect(try space.run(["umount", place], asUser: asUser).status == 0)
                    }
                }
            }
        }

        @Test("A watcher leaves alone what was mounted at its place later")
        func notMine() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                #expect(try space.run(["mount", "-t", "reelfs", server.address, place]).status == 0)
                let first = try #require(space.process("daemon", of: place))
                try #require(eventually { space.process("watch", of: place) != nil })
                let watcher = try #require(space.process("watch", of: place))
                // Held open, the first daemon outlives its mount point.
                let reader = try space.start(["sh", "-c", "exec 3< \(place)/film.mkv; echo open; exec sleep 60"])
                #expect(eventually(within: .seconds(60)) { reader.said.output == "open\n" })
                #expect(try space.run(["umount", "-l", place]).status == 0)
                #expect(try space.run(["mount", "-t", "reelfs", server.address + "other/", place]).status == 0)
                kill(first, SIGKILL)
                #expect(eventually { !isRunning(watcher) })
                #expect(space.mounts.count == 1)
                #expect(try names(in: space.outside(place)) == ["film.mkv"])
                reader.signal(SIGKILL)
                _ = try reader.wait()
            }
        }

        @Test("A second mount is refused by name, a busy one is not unmounted, and umount -l waits for the last reader")
        func busy() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                #expect(try space.run(["mount", "-t", "reelfs", server.address, place]).status == 0)
                let second = try space.run(["mount", "-t", "reelfs", server.address + "other/", place])
                #expect(second.status == 32 && second.errors.contains("already mounted"), "\(second)")
                let daemon = try #require(space.process("daemon", of: place))
                let reader = try space.start(["sh", "-c", "exec 3< \(place)/film.mkv; echo open; exec sleep 60"])
                #expect(eventually { reader.said.output == "open\n" })
                let hold = try space.start(["sh", "-c", "cd \(place) && echo in && exec sleep 60"])
                #expect(eventually { hold.said.output == "in\n" })
                #expect(try space.run(["umount", place]).status == 32)
                #expect(space.mounts.count == 1)
                #expect(try space.run(["umount", "-l", place]).status == 0)
                #expect(space.mounts.isEmpty && isRunning(daemon))
                for child in [reader, hold] {
                    child.signal(SIGKILL)
                    _ = try child.wait()
                }
                #expect(eventually { !isRunning(daemon) })
            }
        }
    }
}
