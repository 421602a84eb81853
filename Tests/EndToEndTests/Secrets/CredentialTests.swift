import Glibc
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// `credentials=FILE`.
    @Suite(.enabled(if: geteuid() == 0, "needs root")) struct CredentialTests {
        static let film = FileOrigin(length: 100_000)

        @Test("Secrets of a file go to the source's origin, to no other, and are nowhere to be seen")
        func kept() throws {
            let film = Self.film
            let other = try ScriptedServer { film.answer($0) }
            defer { other.stop() }
            let server = try ScriptedServer { request in
                switch request.path {
                case "/films.m3u":
                    ServerStep.answer(body: "here.mkv\nmoved.mkv\nhttp://localhost:\(other.port)/there.mkv\n")
                case "/logged.m3u":
                    ServerStep.answer(
                        body: "moved.mkv\ngone.mkv?token=sesame\nhttp://joe:hunter2@127.0.0.1:\(other.port)/there.mkv\n"
                    )
                case "/moved.mkv": ServerStep.answer(302, [("Location", "http://127.0.0.1:\(other.port)/film.mkv")])
                case "/gone.mkv": ServerStep.answer(404)
                default: film.answer(request)
                }
            }
            defer { server.stop() }
            try withScene { scene in
                let file = scene.work("secret")
                try writeFile(file, "# mine\nusername=joe\npassword=hunter2\nheader=X-Key: sesame\n".utf8)
                chmod(file, 0o600)
                let options = ["-o", "credentials=\(file)", "--log-level", "trace"]
                let mount = try scene.mount(server.address + "films.m3u", options)
                for name in ["here.mkv", "moved.mkv", "there.mkv"] {
                    #expect(film.difference(inFile: mount.file(name)) == nil, "\(name)")
                }
                for request in server.requests {
                    #expect(request["authorization"] == "Basic am9lOmh1bnRlcjI=" && request["x-key"] == "sesame")
                }
                #expect(other.requests.count >= 2)
                for request in other.requests { #expect(request["authorization"] == nil && request["x-key"] == nil) }
                try mount.unmount()
                let again = try scene.mount(server.address + "films.m3u", options)
                var seen = ["mountinfo": contents("/proc/self/mountinfo")]
                for name in ["cmdline", "environ"] { seen[name] = contents("/proc/\(again.pid)/\(name)") }
                seen["status"] = try ChildProcess.run([program, "status", "--json", again.path]).output
                for (name, text) in seen {
                    for secret in ["hunter2", "sesame", "am9lOmh1bnRlcjI"] {
                        #expect(text?.contains(secret) == false, "\(name)")
                    }
                }
                try again.unmount()
                let found = try ChildProcess.run(["grep", "-rlaE", "hunter2|sesame|am9lOmh1bnRlcjI", scene.cache])
                #expect(found.status == 1 && found.output.isEmpty, "\(found)")
                let log = try log(
                    scene, server.address + "logged.m3u", options, ["moved.mkv", "there.mkv", "gone.mkv"])
                #expect(log.contains("/moved.mkv: asks for") && log.contains("/gone.mkv?…: "), "\(log)")
                for secret in ["hunter2", "sesame", "am9lOmh1bnRlcjI", "joe"] {
                    #expect(!log.contains(secret), "\(log)")
                }
            }
        }

        /// What a daemon logs of which each of these files is read.
        private func log(_ scene: Scene, _ source: String, _ options: [String], _ names: [String]) throws -> String {
            let path = scene.folder + "/logged"
            mkdir(path, 0o755)
            let child = try ChildProcess(
                [program, "mount", source, path, "--foreground", "--cache-dir", scene.work("logged")] + options,
                environment: ["no_proxy": "127.0.0.1,localhost"])
            guard eventually(within: .seconds(20), { mountTable().contains { $0.mountpoint == path } }) else {
                throw Unmounted(sentence: child.said.errors)
            }
            for name in names { _ = try? readWhole(path + "/" + name) }
            #expect(try ChildProcess.run([program, "umount", path]).status == 0)
            return try child.wait().errors
        }

        @Test("What .netrc says of a name goes to the source's origin alone, and where a list of the user's own says")
        func netrc() throws {
            let film = Self.film
            let other = try ScriptedServer(folderScript(["there.mkv": film, "film.mkv": film]))
            defer { other.stop() }
            let server = try ScriptedServer { request in
                switch request.path {
                case "/films.m3u": ServerStep.answer(body: "here.mkv\n\(other.url("/there.mkv").text)\n")
                case "/moved/": ServerStep.answer(302, [("Location", other.url("/").text)])
                default: film.answer(request)
                }
            }
            defer { server.stop() }
            try withScene { scene in
                try writeFile(scene.work(".netrc"), "machine 127.0.0.1 login joe password hunter2\n".utf8)
                chmod(scene.work(".netrc"), 0o600)
                let home = ["HOME": scene.folder + "/work"]
                func isSent(_ server: ScriptedServer) -> Set<Bool> {
                    Set(server.requests.map { $0["authorization"] == "Basic am9lOmh1bnRlcjI=" })
                }
                let list = try scene.mount(server.address + "films.m3u", environment: home)
                for name in ["here.mkv", "there.mkv"] { #expect(film.difference(inFile: list.file(name)) == nil) }
                try list.unmount()
                let listing = try scene.mount(server.address + "moved/", environment: home)
                #expect(film.difference(inFile: listing.file("film.mkv")) == nil)
                try listing.unmount()
                #expect(isSent(server) == [true] && isSent(other) == [false])
                let before = other.requests.count
                try writeFile(scene.work("own.m3u"), "\(other.url("/there.mkv").text)\n".utf8)
                let own = try scene.mount(scene.work("own.m3u"), environment: home)
                #expect(film.difference(inFile: own.file("there.mkv")) == nil)
                try own.unmount()
                #expect(other.requests.dropFirst(before).allSatisfy { $0["authorization"] != nil })
            }
        }

        /// Documents that the user's own list leads to, at the origin that it names and at another one.
        enum OwnList: CaseIterable {
            case resolved, feeds, segments

            /// - Parameters:
            ///   - first: the address that the list names.
            ///   - other: the address that only the resolver, or a document at the first, names.
            func documents(_ first: String, _ other: String) -> (list: String, name: String, remote: [String: String]) {
                switch self {
                case .resolved: ("\(first)film.mkv\n\(first)moved.mkv\n", "own.m3u", [:])
                case .feeds:
                    (
                        "<opml><body><outline text='a' xmlUrl='\(first)feed.xml'/></body></opml>", "own.opml",
                        [
                            "/feed.xml": "<rss><channel>"
                                + [first + "film.mkv", other + "moved.mkv"].map {
                                    "<item><title>\($0.suffix(8))</title><enclosure url='\($0)'/></item>"
                                }.joined() + "</channel></rss>"
                        ]
                    )
                case .segments:
                    (
                        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000\n\(first)variant.m3u8\n", "own.m3u8",
                        [
                            "/variant.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n\(first)film.ts\n"
                                + "#EXTINF:9,\n\(other)moved.ts\n#EXT-X-ENDLIST\n"
                        ]
                    )
                }
            }
        }

        @Test(
            "Secrets for a list of the user's own go to the origins that it names, and to no other",
            arguments: OwnList.allCases, [false, true])
        func ownList(_ kind: OwnList, isRestarted: Bool) throws {
            let film = Self.film
            let other = try ScriptedServer { film.answer($0) }
            defer { other.stop() }
            let remote = Mutex<[String: String]>([:])
            let first = try ScriptedServer { request in
                let document = remote.withLock { $0[request.path] }
                return document.map { ServerStep.answer(200, [("Content-Type", "text/plain")], body: $0) }
                    ?? film.answer(request)
            }
            defer { first.stop() }
            let (list, name, documents) = kind.documents(first.address, other.address)
            remote.withLock { $0 = documents }
            try withScene { scene in
                let secrets = [
                    ".netrc": "machine 127.0.0.1 login joe password hunter2\n",
                    "cookies": "127.0.0.1\tFALSE\t/\tFALSE\t0\tname\tsesame\n",
                ]
                for (name, text) in secrets {
                    try writeFile(scene.work(name), text.utf8)
                    chmod(scene.work(name), 0o600)
                }
                try writeFile(scene.work(name), list.utf8)
                let script = """
                    read question
                    case $question in
                    *moved.*) echo '{"url": "\(other.address)moved.mkv"}' ;;
                    *) echo '{"url": "\(first.address)film.mkv"}' ;;
                    esac
                    """
                try writeFile(scene.work("resolver"), script.utf8)
                var options = ["--header", "X-Key: sesame", "--cookies", scene.work("cookies")]
                if kind == .resolved { options += ["--resolver", "/bin/sh " + scene.work("resolver")] }
                let home = ["HOME": scene.folder + "/work"]
                var mount = try scene.mount(scene.work(name), options, environment: home)
                if isRestarted {
                    #expect(try ChildProcess.run(["find", mount.path]).status == 0)
                    mount = try scene.restart(mount, environment: home)
                }
                let copy = try ChildProcess.run(["sh", "-c", "find $0 -type f -exec cat {} + | wc -c", mount.path])
                #expect(copy.output == "\(2 * film.version.length)\n", "\(copy)")
                #expect(first.requests.count > 0 && other.requests.count > 0)
                for request in first.requests {
                    #expect(request["authorization"] == "Basic am9lOmh1bnRlcjI=" && request["x-key"] == "sesame")
                    #expect(request["cookie"] == "name=sesame")
                }
                for request in other.requests {
                    #expect(
                        ["authorization", "x-key", "cookie"].allSatisfy { request[$0] == nil }, "\(request.target)")
                }
                try mount.unmount()
            }
        }

        @Test("A token is sent as Bearer")
        func token() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                try writeFile(scene.work("secret"), "token=abc.def\n".utf8)
                chmod(scene.work("secret"), 0o400)
                _ = try scene.mount(server.address, ["--credentials", scene.work("secret")])
                #expect(server.requests.allSatisfy { $0["authorization"] == "Bearer abc.def" })
            }
        }

        @Test(
            "A file that others may read or that is none is refused, and nothing of it repeated",
            arguments: [
                ("chmod 644", "chmod 600"), ("chmod 640", "chmod 600"), ("chmod 602", "chmod 600"),
                ("chown 61234", "belongs neither"), ("rm -f", "No such file"),
                ("sh -c 'rm $0; mkdir $0'", "regular file"),
                ("sh -c 'rm $0; mkfifo -m 600 $0'", "regular file"), ("sh -c 'echo domain=sesame > $0'", "line 1"),
                ("sh -c 'echo; echo sesame >> $0'", "line 2"), ("sh -c 'echo username=a:b > $0'", "colon"),
                ("sh -c 'echo header=sesame > $0'", "line 1"),
            ])
        func refused(command: String, named: String) throws {
            try withScene { scene in
                let file = scene.work("secret")
                try writeFile(file, "password=sesame\n".utf8)
                chmod(file, 0o600)
                #expect(try ChildProcess.run(["sh", "-c", command + " " + file]).status == 0)
                let end = try scene.tryMount("http://127.0.0.1:1/", ["--credentials", file])
                #expect(end.status == 1 && end.errors.contains(named), "\(end)")
                #expect(end.errors.contains(file) && !end.errors.contains("sesame"), "\(end)")
                #expect(end.errors.split(separator: "\n").count == 1)
            }
        }

        @Test("A local list has no origin for them")
        func localList() throws {
            try withScene { scene in
                try writeFile(scene.work("list.m3u"), "http://127.0.0.1:1/a.mp3\n".utf8)
                let end = try scene.tryMount(scene.work("list.m3u"), ["-o", "credentials=/none"])
                #expect(end.status == 1 && end.errors.contains("URL as source"), "\(end)")
            }
        }
    }
}
