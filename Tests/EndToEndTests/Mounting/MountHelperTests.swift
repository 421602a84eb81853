import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// `mount.reelfs` as its callers call it.
    @Suite(.enabled(if: geteuid() == 0, "needs root")) struct MountHelperTests {
        static let film = FileOrigin(length: 100_000)

        @Test(
            "The flags of mount(8) may stand anywhere",
            arguments: [
                ["S", "D"], ["S", "D", "-o", "rw"], ["-o", "rw,_netdev", "S", "D"], ["S", "-n", "D", "-o", "ro"],
                ["S", "D", "-s", "-n", "-o", "ro,colour=red", "-t", "reelfs"], ["-sn", "-t", "fuse.reelfs", "S", "D"],
            ])
        func flags(_ words: [String]) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                let words = words.map { $0 == "S" ? server.address : $0 == "D" ? place : $0 }
                let end = try space.run(["/sbin/mount.reelfs"] + words)
                #expect(end.status == 0 && (end.output + end.errors).isEmpty, "\(end)")
                #expect(space.mounts.count == 1)
            }
        }

        @Test("-f pretends, -v reports in one line without secrets")
        func fake() throws {
            try withNamespace { space in
                let place = space.scene.mountpoint
                let source = "http://joe:sesame@127.0.0.1:1/?key=sesame"
                let end = try space.run([
                    "/sbin/mount.reelfs", source, place, "-fv", "-o", "ro,header=X-Key: sesame,timeout=5",
                ])
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(
                    end.output
                        == "reelfs: http://127.0.0.1:1/?… mounted on \(place) (header=X-Key: …, timeout=5)\n")
                let quiet = try space.run(["mount", "-f", "-t", "reelfs", "http://127.0.0.1:1/", place])
                #expect(quiet.status == 0 && (quiet.output + quiet.errors).isEmpty, "\(quiet)")
                #expect(space.mounts.isEmpty)
            }
        }

        @Test("Linked as mount.fuse.reelfs it gets the flags that mount.fuse3 keeps to itself")
        func fuseForm() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { (space) throws -> Void in
                let place = space.scene.mountpoint
                #expect(try space.run(["ln", "-s", "mount.reelfs", "/usr/sbin/mount.fuse.reelfs"]).status == 0)
                let words = ["-t", "fuse.reelfs", server.address, place]
                #expect(try space.run(["mount", "-f"] + words).status == 0)
                #expect(space.mounts.isEmpty)
                #expect(try space.run(["mount", "-s", "-o", "colour=red"] + words).status == 0)
                #expect(try space.run(["mount", "-o", "remount", place]).status == 0)
                #expect(space.mounts.map(\.type) == ["fuse.reelfs"])
            }
        }

        @Test("-N mounts in another namespace")
        func namespace() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                let words = [server.address, place, "--cache-dir", "/var/cache/reelfs", "-N", space.path]
                let end = try ChildProcess.run([program] + words)
                #expect(end.status == 0, "\(end)")
                #expect(space.mounts.count == 1)
                #expect(!mountTable().contains { $0.mountpoint == place })
                #expect(Self.film.difference(inFile: space.outside(place + "/film.mkv")) == nil)
            }
        }

        @Test(
            "Exit statuses are those of mount(8), with one sentence",
            arguments: [
                (["-o", "colour=red"], 1, "colour"), (["-o", "timeout=x"], 1, "timeout"),
                (["-o", "cache_dir=here"], 1, "absolute"), (["-o", "config=here"], 1, "absolute"),
                (["-o", "header=@here"], 1, "absolute"), (["-o", "credentials=here"], 1, "absolute"),
                (["-o", "password=x"], 1, "credentials=FILE"), (["-o", "config=/none"], 1, "/none"),
                ([], 32, "nothing is remembered"),
            ] as [([String], Int32, String)])
        func statuses(options: [String], status: Int32, named: String) throws {
            try withNamespace { space in
                for type in ["reelfs", "fuse.reelfs"] {
                    let words = ["mount", "-t", type, "http://127.0.0.1:1/", space.scene.mountpoint]
                    let end = try space.run(words + options)
                    #expect(end.status == status && end.errors.contains(named), "\(type): \(end)")
                    #expect(end.errors.split(separator: "\n").count == 1, "\(end.errors)")
                }
                #expect(space.mounts.isEmpty)
            }
        }

        @Test("A signal before the mount answers leaves nothing, and is 8")
        func interrupted() throws {
            let server = try ScriptedServer { _ in [.stall] }
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                let child = try space.start(["/sbin/mount.reelfs", server.address, place])
                #expect(eventually { !server.requests.isEmpty })
                child.signal(SIGINT)
                let end = try child.wait(within: .seconds(5))
                #expect(end.status == 8 && end.errors.contains("interrupted"), "\(end)")
                #expect(eventually { space.process("daemon", of: place) == nil })
                #expect(space.mounts.isEmpty)
            }
        }

        @Test("The caller's pipe ends when the mount answers, and who calls may sit in the mount point's parent")
        func letsGo() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let line = "cd \(space.scene.folder) && mount -t reelfs \(server.address) mount 2>&1 | cat"
                let end = try space.run(["sh", "-c", line], within: .seconds(10))
                #expect(end.status == 0 && end.output.isEmpty, "\(end)")
                #expect(space.mounts.map(\.mountpoint) == [space.scene.mountpoint])
            }
        }
    }
}
