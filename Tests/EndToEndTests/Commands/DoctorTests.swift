import Glibc
import ReelThreads
import TestKit
import Testing

extension EndToEnd {
    /// `reelfs doctor`, the program itself.
    struct DoctorTests {
        static let film = FileOrigin(length: 100_000)
        static let ranged = "ok    ranges work: 206 with exactly the requested bytes; 97.7 KiB,"

        /// The lines of an answer that fits a screen.
        private func lines(_ end: ChildProcess.End) -> [String] {
            let lines = end.output.split(separator: "\n").map { String($0) }
            #expect(lines.count <= 24 && lines.allSatisfy { $0.count <= 80 }, "\(end)")
            return lines
        }

        /// What it says, a line a fact and a remedy.
        private func sentences(_ end: ChildProcess.End) -> String {
            lines(end).joined(separator: "\n").replacing("\n      ", with: " ")
        }

        private func doctor(_ words: [String]) throws -> ChildProcess.End {
            try ChildProcess.run([program, "doctor"] + words, environment: ["no_proxy": "127.0.0.1,localhost"])
        }

        @Test("A URL whose secrets are in a file, in itself and in a redirect is looked at, and none of them shown")
        func secrets() throws {
            let film = Self.film
            let other = try ScriptedServer { film.answer($0) }
            defer { other.stop() }
            let server = try ScriptedServer { request in
                request["x-key"] == "sesame" && request["authorization"] == "Basic am9lOmh1bnRlcjI="
                    ? ServerStep.answer(302, [("Location", "http://localhost:\(other.port)/hunter2?sesame")])
                    : ServerStep.answer(401)
            }
            defer { server.stop() }
            try withScene { scene in
                try writeFile(scene.work("secret"), "username=joe\npassword=hunter2\n".utf8)
                chmod(scene.work("secret"), 0o600)
                let url = "http://joe:sesame@127.0.0.1:\(server.port)/hunter2/film.mkv?key=sesame"
                let words = ["--cache-dir", scene.cache, "--credentials", scene.work("secret"), "--header"]
                let end = try doctor(words + ["X-Key: sesame", url])
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(lines(end).contains(Self.ranged), "\(end)")
                #expect(
                    sentences(end).contains("redirects to http://localhost:\(other.port), which gets no credentials"))
                #expect(server.requests.count == 1 && other.requests.count == 2)
                let refused = try doctor(words + ["X-Key: wrong", url])
                #expect(refused.status == 1 && refused.output.contains("the origin answers 401"), "\(refused)")
                let json = try doctor(["--json"] + words + ["X-Key: sesame", url])
                #expect(json.status == 0 && json.output.hasPrefix("{\"findings\":[{"))
                for end in [end, refused, json] {
                    for secret in ["hunter2", "sesame", "joe", "am9l"] { #expect(!end.output.contains(secret)) }
                }
                #expect(try ChildProcess.run(["ls", "-A", scene.cache]).output.isEmpty)
            }
        }

        @Test("A password in ~/.netrc is used")
        func netrc() throws {
            let film = Self.film
            let server = try ScriptedServer { request in
                request["authorization"] == nil ? ServerStep.answer(401) : film.answer(request)
            }
            defer { server.stop() }
            try withScene { scene in
                try writeFile(scene.work(".netrc"), "machine 127.0.0.1 login joe password hunter2\n".utf8)
                let words = [program, "doctor", "--cache-dir", scene.cache, server.address + "film.mkv"]
                let home = ["HOME": scene.folder + "/work", "no_proxy": "127.0.0.1"]
                let end = try ChildProcess.run(words, environment: home)
                #expect(end.status == 0 && lines(end).contains(Self.ranged), "\(end)")
                #expect(!end.output.contains("hunter2") && !end.output.contains("joe"))
            }
        }

        @Test("A mount is asked how it is, and its source looked at; a dead one is reported with the remedy")
        func mountpoint() throws {
            try withMount(of: Self.film) { scene, server, mount in
                let end = try doctor([mount.path])
                #expect(end.status == 0, "\(end)")
                let told = lines(end)
                let place = "ok    \(mount.path) is mounted, its daemon (pid \(mount.pid)) answers"
                #expect(told.first == place, "\(end)")
                #expect(told.contains { $0.hasPrefix("ok    passthrough: ") || $0.hasPrefix("note  no passthrough, ") })
                #expect(told.contains("ok    a directory listing (HTML), 1 entry; examined: film.mkv"), "\(end)")
                #expect(told.contains(Self.ranged))
                server.stop()
                let away = try doctor([mount.path])
                #expect(away.status == 1 && sentences(away).contains("cannot be reached"), "\(away)")
                // Without its watcher it stays as it is.
                let children = contents("/proc/\(mount.pid)/task/\(mount.pid)/children") ?? ""
                for child in children.split(separator: " ").compactMap({ pid_t($0) }) { kill(child, SIGKILL) }
                mount.crash()
                let dead = try doctor([mount.path])
                #expect(dead.status == 1 && lines(dead).count <= 4, "\(dead)")
                #expect(sentences(dead).contains("the mount is dead (ENOTCONN)"))
                #expect(sentences(dead).contains("`reelfs umount"))
            }
        }

        @Test(
            "A mount is looked at with its own login, which is shown nowhere, also if the origin refuses it since",
            arguments: [true, false])
        func ownLogin(isForeground: Bool) throws {
            let film = Self.film
            let login = Lock("Basic am9lOmh1bnRlcjI=")
            let server = try ScriptedServer { request in
                request["authorization"] == login.withLock { $0 } ? film.answer(request) : ServerStep.answer(401)
            }
            defer { server.stop() }
            try withScene { scene in
                let source = "http://joe:hunter2@127.0.0.1:\(server.port)/film.mkv"
                let child = isForeground ? try ForegroundMount(scene, source).child : nil
                defer { child?.signal(SIGTERM) }
                if child == nil { try scene.mount(source) }
                let end = try doctor([scene.mountpoint])
                #expect(end.status == 0 && lines(end).contains(Self.ranged), "\(end)")
                #expect(!end.output.contains("hunter2"))
                login.withLock { $0 = "" }
                let refused = try doctor([scene.mountpoint])
                #expect(refused.status == 1, "\(refused)")
                #expect(sentences(refused).contains("The origin refused user and password"), "\(refused)")
            }
        }

        @Test("Of a feed whose media have no extension a film is looked at, and not the feed")
        func feed() throws {
            let film = Self.film
            let server = try ScriptedServer { request in
                if request.path == "/episode" { return film.answer(request) }
                let item = "<item><title>One</title><enclosure url=\"episode\"/></item>"
                return ServerStep.answer(
                    200, [("Content-Type", "application/rss+xml")],
                    body: "<rss version=\"2.0\"><channel><title>Pod</title>\(item)</channel></rss>")
            }
            defer { server.stop() }
            let end = try doctor([server.address + "feed.xml"])
            #expect(end.status == 0 && sentences(end).contains("a feed (RSS), 1 entry; examined: "), "\(end)")
            #expect(lines(end).contains(Self.ranged), "\(end)")
        }

        @Test("The mount of a list on this machine is described by what its daemon says")
        func localList() throws {
            let server = try filmServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                try writeFile(scene.work("list.m3u"), (server.address + "film.mkv\n").utf8)
                let mount = try scene.mount(scene.work("list.m3u"))
                let end = try doctor([mount.path])
                #expect(end.status == 0 && lines(end).first?.hasPrefix("ok    \(mount.path)") == true, "\(end)")
                #expect(
                    sentences(end).contains("a list on this machine Run `reelfs doctor URL` to check one of its URLs."))
                #expect(server.requests.isEmpty)
            }
        }

        @Test("Wrong words are one sentence, without what may be a secret")
        func mistakes() throws {
            try withScene { scene in
                let wrong: [([String], Int32, String)] = [
                    (["gopher://joe:hunter2@h/"], 1, "no source is at gopher://"),
                    ([scene.cache], 32, "neither a URL nor"),
                    ([scene.cache + "/none"], 32, "does not exist"), (["http://h/", "x"], 1, "x"),
                    (["--duration", "long", "http://h/"], 1, "duration"), (["-o", "colour=red"], 1, "colour"),
                    (["--credentials", "/none", "http://h/"], 1, "/none"),
                ]
                for (words, status, named) in wrong {
                    let end = try doctor(words)
                    #expect(end.status == status && end.errors.contains(named), "\(words): \(end)")
                    #expect(end.errors.split(separator: "\n").count == 1 && !end.errors.contains("hunter2"))
                }
            }
        }

        @Test(
            "An ordinary user is told what is missing, or that nothing is",
            .enabled(if: geteuid() == 0, "needs root to become somebody else"))
        func ordinaryUser() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let words = [space.scene.folder + "/layer/bin/reelfs", "doctor"]
                let well = try space.run(words + [server.address], asUser: true)
                #expect(well.status == 0, "\(well)")
                let told = lines(well)
                #expect(told.first == "ok    this user can mount, through fusermount3; other users have no access")
                #expect(told.contains { $0.hasPrefix("note  no passthrough") } && told.contains(Self.ranged), "\(well)")
                #expect(well.output.contains("/home/.cache/reelfs"))
                try space.write("user_allow_other\n", to: "/etc/fuse.conf")
                #expect(sentences(try space.run(words, asUser: true)).contains("allow_other gives other users access"))
                // A mount of somebody else, of which its daemon says nothing.
                let place = space.scene.mountpoint
                #expect(try space.run([words[0], "mount", server.address, place]).status == 0)
                let foreign = try space.run(words + [place], asUser: true)
                #expect(sentences(foreign).contains("its daemon answers only the user who mounted it"), "\(foreign)")
                #expect(try space.run(words + ["--cache-dir", "/root/cache"], asUser: true).status == 1)
                #expect(try space.run(["chmod", "600", "/dev/fuse"]).status == 0)
                let ill = try space.run(words, asUser: true)
                #expect(ill.status == 1 && ill.output.hasPrefix("bad   /dev/fuse cannot be opened"), "\(ill)")
            }
        }
    }
}
