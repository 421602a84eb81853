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

        @Test(
            "Each source of a catalogue gets its own header, a dead one holds up none, and all play offline",
            .plainAndEncrypted)
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
                let words = [program, "cache", "list", "--cache-dir", scene.cache] + scene.keyOptions
                let list = try ChildProcess.run(words).output
                #expect(list.contains("films/new/a.mkv"), "\(list)")
                listing.stop()
                linked.stop()
                mount = try scene.mount(path)
                try look()
                #expect(try attributes(mount.file("films/new/a.mkv")).st_ino == inode)
            }
        }

        @Test("Prefetch and offline reach all sources of a catalogue, or the one that is named")
        func prefetch() throws {
            let films = (1...3).map { FileOrigin(length: 300_000, seed: UInt64($0)) }
            let first = try folderServer(["a.mkv": films[0], "b.mkv": films[1]])
            defer { first.stop() }
            let second = try folderServer(["c.mkv": films[2]])
            defer { second.stop() }
            try withScene { scene in
                let mount = try scene.mount(write(source("one", first.address) + source("two", second.address), scene))
                func run(_ words: String...) throws -> ChildProcess.End { try ChildProcess.run([program] + words) }
                let part = try run("prefetch", mount.file("two"))
                #expect(part.status == 0 && part.output == "1 file in the cache, 293 KiB.\n", "\(part)")
                #expect(first.fileRequests.isEmpty && !second.fileRequests.isEmpty)
                #expect(try run("offline", "on", mount.path).status == 0)
                #expect(try names(in: mount.file("two")) == ["c.mkv"] && names(in: mount.file("one")) == [])
                #expect(films[2].difference(inFile: mount.file("two/c.mkv")) == nil)
                #expect(try run("offline", "off", mount.path).status == 0)
                // The command ends when the kernel has heard of it.
                #expect(try names(in: mount.file("one")) == ["a.mkv", "b.mkv"])
                let count = second.fileRequests.count
                let whole = try run("prefetch", mount.path)
                #expect(whole.status == 0 && whole.output == "3 files in the cache, 879 KiB.\n", "\(whole)")
                #expect(second.fileRequests.count == count)
                for server in [first, second] { server.stop() }
                for (name, film) in zip(["one/a.mkv", "one/b.mkv", "two/c.mkv"], films) {
                    #expect(film.difference(inFile: mount.file(name)) == nil, "\(name)")
                }
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
                #expect(bytes.elementsEqual(films[0].expectedBytes(ByteRange(0, 2 << 20))))
                _ = try write(source("three", first.address) + "refesh = 3\n", scene)
                kill(mount.pid, SIGHUP)
                let refused = try ChildProcess.run([program, "refresh", mount.path])
                #expect(refused.status == 32 && refused.errors.contains("all.toml, line 5: "), "\(refused.errors)")
                #expect(films[1].difference(inFile: mount.file("same/film.mkv")) == nil)
                #expect(try names(in: mount.path) == ["same", "two"])
                _ = try write(source("three", first.address) + source("same", second.address), scene)
                #expect(try ChildProcess.run([program, "refresh", mount.path]).status == 0)
                #expect(try names(in: mount.path) == ["same", "three"])
                #expect(isRunning(mount.pid))
            }
        }

        @Test("A mistake in a catalogue is reported with its line, and doctor reports on each source")
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

        @Test("Each source of a catalogue logs in as its own table says, and sends nothing of it to the others")
        func logins() throws {
            let film = FileOrigin(length: 100_000)
            let script = folderScript(["film.mkv": film])
            func guarded(_ mayEnter: @escaping @Sendable (ServerRequest) -> Bool) throws -> ScriptedServer {
                try ScriptedServer { mayEnter($0) ? script($0) : ServerStep.answer(401) }
            }
            let servers = try [
                guarded { $0["authorization"] == "Basic am9lOnNlc2FtZQ==" },
                guarded { $0["authorization"] == "Bearer t1" }, guarded { $0["authorization"] == "Bearer t2" },
                guarded { $0["cookie"] == "session=sesame" }, guarded { $0["x-key"] == "sesame" },
                ScriptedServer(script),
            ]
            defer { for server in servers { server.stop() } }
            let door = try SecureDoor(before: servers[5], demandsCertificate: true)
            defer { door.stop() }
            try withScene { scene in
                func secret(_ name: String, _ text: String, mode: mode_t = 0o600) throws {
                    try writeFile(scene.work(name), text.utf8)
                    chmod(scene.work(name), mode)
                }
                try secret("login", "username=joe\npassword=sesame\n")
                try secret("token", "token=t1\n")
                try secret("print", "#!/bin/sh\necho t2\n", mode: 0o700)
                try secret("jar", "127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\tsesame\n")
                chmod(door.clientCertificate.key, 0o600)
                let options = [
                    "credentials = \"login\"", "credentials = \"token\"", "token-command = \"\(scene.work("print"))\"",
                    "cookies = \"jar\"", "header = \"X-Key: sesame\"",
                    "cert = \"\(door.clientCertificate.certificate)\"\nkey = \"\(door.clientCertificate.key)\"\n"
                        + "cacert = \"\(door.certificate)\"",
                ]
                let addresses = servers.prefix(5).map(\.address) + [door.url("/").text]
                let tables = zip(addresses, options).enumerated().map {
                    source("s\($0.offset)", $0.element.0, $0.element.1)
                }
                let mount = try scene.mount(try write(tables.joined(), scene))
                for number in options.indices {
                    #expect(film.difference(inFile: mount.file("s\(number)/film.mkv")) == nil, "\(options[number])")
                }
                for (number, server) in servers.enumerated() {
                    for request in server.requests {
                        #expect((request["authorization"] != nil) == (0...2).contains(number))
                        #expect(
                            (request["cookie"] != nil) == (number == 3) && (request["x-key"] != nil) == (number == 4))
                    }
                }
            }
        }

        @Test("A catalogue of random folders of a real server is the local tree")
        func randomTrees() throws {
            guard RealServer.Kind.nginx.isInstalled else { try Test.cancel("nginx is not installed") }
            var random = SeededGenerator()
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                for round in 0..<4 {
                    let tree = "\(root)/\(round)"
                    var paths: [[String]] = []
                    for _ in 0..<6 {
                        let path = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                            ["a", "b b", "é", "100% #1"].randomElement(using: &random)!
                        }
                        if paths.allSatisfy({ zip($0, path).contains { $0 != $1 } }) { paths.append(path) }
                    }
                    var tables: [String] = []
                    for path in paths {
                        let folder = tree + "/" + path.joined(separator: "/")
                        _ = try ChildProcess.run(["mkdir", "-p", folder + "/sub"])
                        for place in ["one.mkv", "sub/ü two.mkv"].shuffled(using: &random).prefix(
                            .random(in: 1...2, using: &random))
                        {
                            let length = Int64.random(in: 0...300_000, using: &random)
                            let bytes = GeneratedBytes(seed: random.next()).bytes(ByteRange(0, length))
                            try writeFile(folder + "/" + place, bytes)
                        }
                        let escaped = percentEncodedPath("\(round)/" + path.joined(separator: "/") + "/")
                        tables.append(source(path.joined(separator: "/"), server.url + escaped))
                    }
                    let mount = try scene.mount(try write(tables.shuffled(using: &random).joined(), scene))
                    try expectSame(tree, mount.path)
                    try mount.unmount()
                }
            }
            print("seed \(random.seed)")
        }

        private func percentEncodedPath(_ path: String) -> String {
            path.split(separator: "/", omittingEmptySubsequences: false)
                .map { percentEncodedSegment($0.utf8) }.joined(separator: "/")
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
                let dav = try WebDAVServer.apache2.start(root: root, place: scene.work("dav"), login: .basic)
                defer { dav.stop() }
                _ = try scene.secret("login", "username=joe\npassword=hunter2\n")
                let address = "dav://" + dav.url.dropFirst("http://".count)
                let refused = try scene.tryMount(address)
                #expect(refused.status == 32 && refused.errors.contains("401"), "\(refused)")
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
