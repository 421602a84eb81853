import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Catalogues as mounts.
    @Suite struct CatalogueMountTests {
        private func write(_ text: String, _ scene: Scene) throws -> String {
            let path = scene.work("all.toml")
            try writeFile(path, text.utf8)
            chmod(path, 0o600)
            return path
        }

        private func source(_ path: String, _ source: String, _ rest: String = "") -> String {
            "[[source]]\npath = \"\(path)\"\nsource = \"\(source)\"\n\(rest)\n"
        }

        /// A server that answers only requests with this header.
        private func guarded(_ word: String, _ files: [String: FileOrigin]) throws -> ScriptedServer {
            let script = folderScript(files)
            return try ScriptedServer { $0["x-word"] == word ? script($0) : ServerStep.answer(403) }
        }

        @Test("Each source of a catalogue gets its own header, a dead one holds up none, and all play offline")
        func kinds() throws {
            let films = (1...2).map { FileOrigin(length: 300_000, seed: UInt64($0)) }
            let listing = try guarded("one", ["a.mkv": films[0]])
            defer { listing.stop() }
            let linked = try guarded("two", ["b.mkv": films[1]])
            defer { linked.stop() }
            let closed = try ScriptedServer { _ in [] }
            closed.stop()
            try withScene { scene in
                try writeFile(scene.work("list.m3u"), "\(linked.address)b.mkv\n".utf8)
                let path = try write(
                    "[defaults]\nrefresh = \"1h\"\n" + source("films/new", listing.address, "header = \"X-Word: one\"")
                        + source("lists/mine", "list.m3u", "header = \"X-Word: two\"")
                        + source("dead", "http://127.0.0.1:\(closed.port)/", "timeout = 1"), scene)
                var mount = try scene.mount(path)
                #expect(try names(in: mount.path) == ["dead", "films", "lists"])
                func look() throws {
                    #expect(try names(in: mount.file("films/new")) == ["a.mkv"])
                    #expect(films[0].difference(inFile: mount.file("films/new/a.mkv")) == nil)
                    #expect(films[1].difference(inFile: mount.file("lists/mine/b.mkv")) == nil)
                }
                try look()
                #expect(listing.requests.allSatisfy { $0["x-word"] == "one" })
                #expect(linked.requests.allSatisfy { $0["x-word"] == "two" })
                #expect(throws: SystemFailure.self) { try names(in: mount.file("dead")) }
                let status = try ChildProcess.run([program, "status", mount.path]).output
                #expect(status.contains("closed  dead: ") && status.contains("films/new/a.mkv"), "\(status)")
                let pinned = try ChildProcess.run([program, "pin", mount.file("films")])
                #expect(pinned.output == "1 file pinned.\n", "\(pinned.output)\(pinned.errors)")
                let url = try extendedAttribute("user.reelfs.url", of: mount.file("films/new/a.mkv"))
                #expect(url == listing.address + "a.mkv")
                let inode = try attributes(mount.file("films/new/a.mkv")).st_ino
                try mount.unmount()
                let list = try ChildProcess.run([program, "cache", "list", "--cache-dir", scene.cache]).output
                #expect(list.contains("films/new/a.mkv"), "\(list)")
                listing.stop()
                linked.stop()
                mount = try scene.mount(path)
                try look()
                #expect(try attributes(mount.file("films/new/a.mkv")).st_ino == inode)
            }
        }

        @Test("SIGHUP adds and removes sources while a file is open, and a mistake changes nothing")
        func hangup() throws {
            let films = (1...2).map { FileOrigin(length: 2 << 20, seed: UInt64($0)) }
            let (first, second) = (try filmServer(films[0]), try filmServer(films[1]))
            defer { for server in [first, second] { server.stop() } }
            try withScene { scene in
                let path = try write(source("one", first.address) + source("same", second.address), scene)
                let mount = try scene.mount(path)
                let descriptor = open(mount.file("one/film.mkv"), O_RDONLY | O_CLOEXEC)
                defer { close(descriptor) }
                #expect(descriptor >= 0)
                #expect(try names(in: mount.file("same")) == ["film.mkv"])
                _ = try write(source("two/new", first.address) + source("same", second.address), scene)
                kill(mount.pid, SIGHUP)
                #expect(eventually { (try? names(in: mount.path)) == ["same", "two"] })
                #expect(films[0].difference(inFile: mount.file("two/new/film.mkv")) == nil)
                // The open file goes on to its end.
                var bytes = [UInt8](repeating: 0, count: 2 << 20)
                var filled = 0
                while case let count = pread(descriptor, &bytes[filled], bytes.count - filled, off_t(filled)), count > 0
                {
                    filled += count
                    if filled == bytes.count { break }
                }
                #expect(bytes == films[0].expectedBytes(ByteRange(0, 2 << 20)))
                _ = try write(source("three", first.address) + "refesh = 3\n", scene)
                kill(mount.pid, SIGHUP)
                #expect(films[1].difference(inFile: mount.file("same/film.mkv")) == nil)
                #expect(try names(in: mount.path) == ["same", "two"])
                #expect(isRunning(mount.pid))
            }
        }

        @Test("A mistake in a catalogue is told with its line, and doctor tells of each source")
        func mistakes() throws {
            let server = try filmServer(FileOrigin(length: 1000))
            defer { server.stop() }
            try withScene { scene in
                var path = try write(source("one", server.address, "refesh = 3"), scene)
                let end = try scene.tryMount(path)
                #expect(end.status == 1 && end.errors.contains("all.toml, line 4: ") && end.errors.contains("refesh"))
                path = try write(source("one", server.address) + source("gone", server.address + "gone/"), scene)
                let doctor = try ChildProcess.run([program, "doctor", path, "--cache-dir", scene.cache])
                #expect(doctor.status == 1, "\(doctor.errors)")
                #expect(doctor.output.contains("one: directory listing (HTML), 1 entry"), "\(doctor.output)")
                #expect(doctor.output.contains("gone: the origin answers 404"), "\(doctor.output)")
            }
        }

        @Test("A WebDAV collection of a real server, with a password of its own, stands beside other sources")
        func collection() throws {
            try WebDAVServer.apache2.require()
            let film = FileOrigin(length: 100_000)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                mkdir(root + "/Ü", 0o755)
                try writeFile(root + "/Ü/x y.mkv", film.expectedBytes(ByteRange(0, 100_000)))
                let dav = try WebDAVServer.apache2.start(root: root, place: scene.work("dav"))
                defer { dav.stop() }
                try writeFile(scene.work("login"), "username=me\npassword=sesame\n".utf8)
                chmod(scene.work("login"), 0o600)
                let address = "dav://" + dav.url.dropFirst("http://".count)
                let mount = try scene.mount(
                    try write(
                        source("web/dav", address, "credentials = \"login\"") + source("web/list", server.address),
                        scene)
                )
                #expect(film.difference(inFile: mount.file("web/dav/Ü/x y.mkv")) == nil)
                #expect(film.difference(inFile: mount.file("web/list/film.mkv")) == nil)
                #expect(server.requests.allSatisfy { $0["authorization"] == nil })
            }
        }
    }
}
