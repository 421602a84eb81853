import CFuse
import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Listings that change while they are mounted, as programs see them through the kernel's caches.
    @Suite struct RefreshTests {
        private func withLibrary(
            _ options: [String], _ body: (Mounted, @escaping ((inout ChangingFolder) -> Void) -> Void) throws -> Void
        ) throws {
            try withChangingFolder(["one.mkv", "two.mkv"], length: 5000) { (server, change) throws in
                try withScene { (scene) throws in try body(try scene.mount(server.address, options), change) }
            }
        }

        @Test("After a refresh a new file is seen by ls and by stat, and a removed one by neither")
        func changes() throws {
            try withLibrary(["-o", "refresh=1s"]) { (mount, change) throws in
                #expect(try names(in: mount.path) == ["one.mkv", "two.mkv"])
                #expect(try attributes(mount.file("one.mkv")).st_size == 5000)
                // The kernel keeps in mind that there is no such name.
                #expect(code { Int(access(mount.file("new.mkv"), F_OK)) } == ENOENT)
                change { $0.names = ["new.mkv", "two.mkv"] }
                #expect(eventually { (try? names(in: mount.path)) == ["new.mkv", "two.mkv"] })
                #expect(eventually { code { Int(access(mount.file("new.mkv"), F_OK)) } == 0 })
                #expect(eventually { code { Int(access(mount.file("one.mkv"), F_OK)) } == ENOENT })
                #expect(try readWhole(mount.file("new.mkv")).count == 5000)
            }
        }

        @Test("reelfs refresh lists again at once and says nothing, or one sentence for each folder in trouble")
        func command() throws {
            try withLibrary(["-o", "refresh=1h,timeout=30"]) { (mount, change) throws in
                #expect(try names(in: mount.path) == ["one.mkv", "two.mkv"])
                #expect(code { Int(access(mount.file("new.mkv"), F_OK)) } == ENOENT)
                change { $0.names = ["new.mkv", "two.mkv"] }
                let end = try ChildProcess.run([program, "refresh", mount.path])
                #expect((end.status, end.output, end.errors) == (0, "", ""))
                #expect(try names(in: mount.path) == ["new.mkv", "two.mkv"])
                #expect(code { Int(access(mount.file("new.mkv"), F_OK)) } == 0)
                #expect(code { Int(access(mount.file("one.mkv"), F_OK)) } == ENOENT)
                change { $0.status = 403 }
                let failed = try ChildProcess.run([program, "refresh", "-r", mount.path])
                #expect(failed.status == 32)
                let sentence = "reelfs: / could not be listed: status-403; it keeps what it had\n"
                #expect(failed.output + failed.errors == sentence)
                #expect(try names(in: mount.path) == ["new.mkv", "two.mkv"])
            }
        }

        @Test("A scan of a library whose server is in trouble finds all of it, marked")
        func trouble() throws {
            try withLibrary(["-o", "refresh=0,timeout=10"]) { (mount, change) throws in
                #expect(try names(in: mount.path) == ["one.mkv", "two.mkv"])
                #expect(code { getxattr(mount.path, "user.reelfs.stale", nil, 0) } == ENODATA)
                for status in [500, 404, 503, 410] {
                    change { $0.status = status }
                    #expect(
                        eventually(within: .seconds(60)) {
                            if (try? names(in: mount.path)) != ["one.mkv", "two.mkv"] { Issue.record("it shrank") }
                            let mark = try? extendedAttribute("user.reelfs.stale", of: mount.path)
                            return mark?.hasPrefix("status-\(status) ") == true
                        }, "\(status)")
                }
                let status = try ChildProcess.run([program, "status", mount.path]).output
                #expect(status.contains("stale   1 directory: / (status-410)"), "\(status)")
                change { $0.status = 200 }
                #expect(
                    eventually {
                        _ = try? names(in: mount.path)
                        return code { getxattr(mount.path, "user.reelfs.stale", nil, 0) } == ENODATA
                    })
            }
        }

        @Test("A list that is edited while it is mounted shows what it names now, under the names from before")
        func editedList() throws {
            let films = [FileOrigin(length: 5000, seed: 1), FileOrigin(length: 6000, seed: 2)]
            let server = try ScriptedServer(["/a.mkv": films[0], "/b.mkv": films[1]])
            defer { server.stop() }
            try withScene { scene in
                let list = scene.work("list.m3u")
                try writeFile(list, "#EXTM3U\n#EXTINF:1,A film\n\(server.address)a.mkv\n".utf8)
                let mount = try scene.mount(list)
                #expect(try names(in: mount.path) == ["A film.mkv"])
                #expect(code { Int(access(mount.file("b.mkv"), F_OK)) } == ENOENT)
                try writeFile(list, "\(server.address)b.mkv\n\(server.address)a.mkv\n".utf8)
                #expect(eventually { (try? names(in: mount.path).sorted()) == ["A film.mkv", "b.mkv"] })
                #expect(eventually { code { Int(access(mount.file("b.mkv"), F_OK)) } == 0 })
                #expect(films[1].difference(inFile: mount.file("b.mkv")) == nil)
                #expect(films[0].difference(inFile: mount.file("A film.mkv")) == nil)
            }
        }

        @Test("A list that its own mount covers stays what it was")
        func coveredList() throws {
            let server = try ScriptedServer(["/list.txt": FileOrigin(length: 5000)])
            defer { server.stop() }
            try withScene { scene in
                let list = scene.mountpoint + "/list.txt"
                try writeFile(list, "\(server.address)list.txt\n".utf8)
                let mount = try scene.mount(list, ["-o", "refresh=0"])
                #expect(
                    eventually {
                        if (try? names(in: mount.path)) != ["list.txt"] { Issue.record("it is another list") }
                        let mark = try? extendedAttribute("user.reelfs.stale", of: mount.path)
                        return mark?.hasPrefix("unreachable ") == true
                    })
            }
        }

        @Test("A daemon that hangs holds up neither status nor umount")
        func hangingDaemon() throws {
            try withLibrary([]) { (mount, _) throws in
                #expect(try names(in: mount.path) == ["one.mkv", "two.mkv"])
                mount.freeze()
                defer { kill(mount.pid, SIGCONT) }
                let status = try ChildProcess.run([program, "status", mount.path], within: .seconds(10))
                #expect(status.status == 32)
                let end = try ChildProcess.run([program, "umount", mount.path], within: .seconds(15))
                #expect(end.status == 0, "\(end.errors)")
                #expect(!mountTable().contains { $0.mountpoint == mount.path })
            }
        }
    }
}
