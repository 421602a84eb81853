import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Several mount points of one source and cache.
    @Suite struct SharedMountTests {
        static let film = FileOrigin(length: 3_000_000)

        /// Makes the second mount of a scene, and returns its path.
        private func share(_ scene: Scene, _ source: String, _ options: [String] = [], on name: String = "second")
            throws -> String
        {
            let end = try scene.tryMount(source, options, on: name)
            try #require(end.status == 0 && end.errors.isEmpty, "\(end)")
            return scene.folder + "/" + name
        }

        /// Starts a second mount in the foreground.
        private func stayingMount(_ scene: Scene, _ source: String) throws -> (path: String, child: ChildProcess) {
            let path = scene.folder + "/second"
            mkdir(path, 0o755)
            let words = [program, "mount", source, path, "--cache-dir", scene.cache, "--foreground"]
            return (path, try ChildProcess(words + scene.keyOptions, environment: ["no_proxy": "127.0.0.1"]))
        }

        /// The errno of a read of ten bytes; 0: it succeeds.
        private func readCode(_ file: Int32, at offset: off_t) -> Int32 {
            var bytes = [UInt8](repeating: 0, count: 10)
            return pread(file, &bytes, 10, offset) == 10 ? 0 : errno
        }

        private func isMounted(_ path: String) -> Bool { mountTable().contains { $0.mountpoint == path } }

        @Test(
            "Two mount points of one source have one daemon, share bytes, and end in either order",
            arguments: [true, false])
        func shared(firstEndsFirst: Bool) throws {
            try withMount(of: Self.film) { scene, server, mount in
                let second = try share(scene, server.address)
                #expect(eventually { daemon(of: second) == nil }, "a second daemon runs")
                #expect(try names(in: second) == ["film.mkv"])
                #expect(Self.film.difference(inFile: second + "/film.mkv") == nil)
                let before = server.bodyBytesSent(atLeast: Self.film.version.length)
                mount.dropPages("film.mkv")
                #expect(Self.film.difference(inFile: mount.file("film.mkv")) == nil)
                // The version may be confirmed.
                let again = server.bodyBytesSent - before - server.bytesAskedTwice(of: Self.film.version.length)
                #expect(again < 16, "the same bytes were fetched twice")
                let (gone, left) = firstEndsFirst ? (mount.path, second) : (second, mount.path)
                let file = open(left + "/film.mkv", O_RDONLY | O_CLOEXEC)
                let end = try ChildProcess.run([program, "umount", gone], within: .seconds(5))
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(!isMounted(gone) && isMounted(left) && isRunning(mount.pid))
                #expect(watcher(of: gone) == nil || eventually { watcher(of: gone) == nil })
                #expect(readCode(file, at: 5000) == 0)
                close(file)
                #expect(Self.film.difference(inFile: left + "/film.mkv") == nil)
                try Mounted(path: left, pid: mount.pid).unmount()
                #expect(watcher(of: left) == nil || eventually { watcher(of: left) == nil })
            }
        }

        @Test("Status shows each mount point with the others, and commands find the daemon through any of them")
        func commands() throws {
            try withMount(of: Self.film) { scene, server, mount in
                let second = try share(scene, server.address)
                for (one, other) in [(mount.path, second), (second, mount.path)] {
                    let text = try ChildProcess.run([program, "status", one]).output
                    #expect(text.contains(" on \(one) (pid \(mount.pid))"), "\(text)")
                    #expect(text.contains("shared  with \(other)\n"), "\(text)")
                    #expect(try ChildProcess.run([program, "prefetch", one + "/film.mkv"]).status == 0)
                    #expect(try ChildProcess.run([program, "evict", one + "/film.mkv"]).status == 0)
                }
                #expect(try ChildProcess.run([program, "umount", mount.path]).status == 0)
                let text = try ChildProcess.run([program, "status", second]).output
                #expect(text.contains(" on \(second) ") && !text.contains("shared"), "\(text)")
            }
        }

        @Test("Owner, mode and access are each mount's own")
        func ownership() throws {
            try withMount(of: Self.film, ["-o", "uid=1234,umask=027,no_allow_other"]) { scene, server, mount in
                let second = try share(scene, server.address, ["-o", "uid=2345,gid=77,umask=0,allow_other"])
                let first = try attributes(mount.file("film.mkv"))
                let other = try attributes(second + "/film.mkv")
                #expect((first.st_uid, first.st_mode) == (1234, S_IFREG | 0o440))
                #expect((other.st_uid, other.st_gid, other.st_mode) == (2345, 77, S_IFREG | 0o444))
                #expect(first.st_ino == other.st_ino && first.st_size == other.st_size)
                let shared = mountTable().filter { $0.line.contains("allow_other") }.map(\.mountpoint)
                #expect(shared.contains(second) && !shared.contains(mount.path))
            }
        }

        @Test(
            "Options that contradict the running daemon's are refused by name; equal ones and none are not",
            arguments: [
                (["--cache-size", "1G"], "cache-size"), (["-o", "timeout=7,warm"], "timeout, warm"),
                (["--header", "X-Key: sesame"], "header"),
            ])
        func contradiction(_ options: [String], names: String) throws {
            try withMount(of: Self.film, ["--cache-size", "2G", "--refresh", "60s"]) { scene, server, mount in
                let refused = try scene.tryMount(server.address, options, on: "second")
                #expect(refused.status == 32)
                #expect(refused.errors.contains(mount.path) && refused.errors.contains(names), "\(refused.errors)")
                #expect(!refused.errors.contains("sesame"))
                #expect(!isMounted(scene.folder + "/second"))
                _ = try share(scene, server.address, ["-o", "cache_size=2048M,refresh=1m"])
            }
        }

        @Test("News of the origin reach both mounts")
        func news() throws {
            try withChangingFolder(["a.mkv"], length: 70_000) { server, change in
                try withScene { scene in
                    let mount = try scene.mount(server.address, ["--refresh", "1d"])
                    let second = try share(scene, server.address)
                    for path in [mount.path, second] {
                        #expect(try names(in: path) == ["a.mkv"])
                        #expect(try attributes(path + "/a.mkv").st_size == 70_000)
                    }
                    change { $0.names = ["b.mkv"] }
                    #expect(try ChildProcess.run([program, "refresh", second]).status == 0)
                    for path in [mount.path, second] {
                        #expect(eventually { (try? names(in: path)) == ["b.mkv"] })
                        #expect(eventually { access(path + "/a.mkv", F_OK) != 0 })
                    }
                }
            }
        }

        @Test("A killed daemon takes both mounts with it, and each can be mounted again")
        func crash() throws {
            try withMount(of: Self.film) { scene, server, mount in
                let second = try share(scene, server.address)
                let file = open(second + "/film.mkv", O_RDONLY | O_CLOEXEC)
                mount.crash()
                #expect(readCode(file, at: 0) == ENOTCONN)
                close(file)
                #expect(eventually { !isMounted(mount.path) && !isMounted(second) })
                let again = try scene.mount(server.address, on: "second")
                #expect(try share(scene, server.address, on: "mount") == mount.path)
                for path in [second, mount.path] { #expect(Self.film.difference(inFile: path + "/film.mkv") == nil) }
                try again.unmountAll([mount.path])
            }
        }

        @Test("SIGTERM ends all mounts of the daemon, with a file open on each")
        func signalled() throws {
            try withMount(of: Self.film) { scene, server, mount in
                let second = try share(scene, server.address)
                let files = [mount.path, second].map { open($0 + "/film.mkv", O_RDONLY | O_CLOEXEC) }
                kill(mount.pid, SIGTERM)
                #expect(eventually { !isRunning(mount.pid) && !isMounted(mount.path) && !isMounted(second) })
                for file in files { close(file) }
            }
        }

        @Test(
            "In the foreground a second mount stays until its own end, which SIGTERM brings, over a restart as well",
            arguments: [true, false], [true, false])
        func foreground(isSignalled: Bool, isRestarted: Bool) throws {
            try withMount(of: Self.film) { scene, server, mount in
                let (second, child) = try stayingMount(scene, server.address)
                #expect(eventually { isMounted(second) })
                #expect(eventually { Self.film.difference(inFile: second + "/film.mkv") == nil })
                let mount = isRestarted ? try scene.restart(mount) : mount
                #expect(Self.film.difference(inFile: second + "/film.mkv") == nil)
                #expect(child.poll() == nil)
                if isSignalled {
                    // The kernel neither keeps what it reads so nor reads it without the daemon.
                    let file = try OpenDescriptor(second + "/film.mkv", flags: directFlag)
                    child.signal(SIGTERM)
                    #expect(try child.wait().status == 0)
                    #expect(readCode(file.number, at: 2_000_000) != 0)
                } else {
                    waitForStartingChildren()
                    #expect(unmount(second))
                    #expect(try child.wait().status == 0)
                }
                #expect(!isMounted(second) && isMounted(mount.path) && isRunning(mount.pid))
                #expect(Self.film.difference(inFile: mount.file("film.mkv")) == nil)
            }
        }

        @Test("In the foreground a second mount fails when the daemon is killed")
        func foregroundCrash() throws {
            try withMount(of: Self.film) { scene, server, mount in
                let (second, child) = try stayingMount(scene, server.address)
                #expect(eventually { (try? names(in: second)) == ["film.mkv"] })
                mount.crash()
                let end = try child.wait()
                // It may not know yet that its mount is served.
                let isSaid = ["died", "does not answer"].contains { end.errors.contains($0) }
                #expect(end.status == 32 && isSaid, "\(end)")
                #expect(eventually { !isMounted(second) })
            }
        }

        @Test("`--only-cached` is each mount's own, whichever came first", arguments: [true, false])
        func onlyCached(viewIsFirst: Bool) throws {
            let films = ["a.mkv": Self.film, "b.mkv": FileOrigin(length: 3_000_000, seed: 2)]
            let server = try folderServer(films)
            defer { server.stop() }
            try withScene { scene in
                let known = try scene.mount(server.address)
                #expect(Self.film.difference(inFile: known.file("a.mkv")) == nil)
                try known.unmount()
                let only = ["--only-cached"]
                let first = try scene.mount(server.address, viewIsFirst ? only : [])
                let second = try share(scene, server.address, viewIsFirst ? [] : only)
                let (view, plain) = viewIsFirst ? (first.path, second) : (second, first.path)
                #expect(try names(in: plain) == ["a.mkv", "b.mkv"])
                let before = server.fileRequests.count
                #expect(try names(in: view) == ["a.mkv"])
                #expect(readingCode(view + "/b.mkv") == ENOENT)
                #expect(Self.film.difference(inFile: view + "/a.mkv") == nil)
                #expect(server.fileRequests.count == before)
                #expect(films["b.mkv"]!.difference(inFile: plain + "/b.mkv") == nil)
                let text = try ChildProcess.run([program, "status", plain]).output
                #expect(text.contains("only-cached on \(view): shows only what is cached whole"), "\(text)")
                let refusal = "does not end the option --only-cached of \(view)"
                func offline(_ word: String, _ path: String) throws -> ChildProcess.End {
                    try ChildProcess.run([program, "offline", word, path])
                }
                let refused = try offline("off", view)
                #expect(refused.status == 32 && refused.errors.contains(refusal), "\(refused)")
                #expect(try offline("off", plain).status == 0 && names(in: view) == ["a.mkv"])
                #expect(try ChildProcess.run([program, "umount", plain]).status == 0)
                // What is left asks for nothing, whatever a command says.
                for word in ["off", "on", "off"] {
                    #expect(try offline(word, view).status == (word == "on" ? 0 : 32))
                    let left = try ChildProcess.run([program, "status", view]).output
                    #expect(left.contains("only-cached on \(view)"), "\(left)")
                    #expect(left.contains("offline by command") == (word == "on"), "\(left)")
                }
                let requests = server.requests.count
                #expect(eventually { (try? names(in: view)) == ["a.mkv", "b.mkv"] })
                #expect(server.requests.count == requests)
                try Mounted(path: view, pid: first.pid).unmount()
            }
        }

        @Test(
            "Players of two users, one on each mount of a daemon, get right pictures, and one mount fetches nothing",
            .enabled(if: geteuid() == 0, "needs root to become other users"))
        func players() throws {
            try withScene { scene in
                let root = scene.work("root")
                for folder in [scene.folder, root] {
                    mkdir(folder, 0o755)
                    chmod(folder, 0o755)
                }
                let picture = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=4"]
                for name in ["a.mkv", "b.mkv"] {
                    let end = try ChildProcess.run(
                        ["ffmpeg", "-v", "error"] + picture + ["-c:v", "mpeg4", "-b:v", "4M", root + "/" + name])
                    try #require(end.status == 0, "\(end)")
                }
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                let mount = try scene.mount(server.url)
                #expect(try readWhole(mount.file("a.mkv")) == readWhole(root + "/a.mkv"))
                let view = try share(scene, server.url, ["--only-cached"])
                let before = server.requests.filter { $0.contains("a.mkv") }.count
                func player(_ user: Int, _ words: [String]) throws -> ChildProcess {
                    try ChildProcess(
                        ["setpriv", "--reuid", "\(user)", "--regid", "\(user)", "--clear-groups"] + words,
                        environment: ["HOME": "/nonexistent"])
                }
                let frames = ["ffmpeg", "-v", "error", "-i"]
                let mpv = ["mpv", "--no-config", "--vo=null", "--ao=null", "--untimed", "--no-terminal"]
                for (program, rest) in [(frames, ["-f", "framemd5", "-"]), (mpv, [])] {
                    let local = try player(61_235, program + [root + "/a.mkv"] + rest)
                    let one = try player(61_235, program + [mount.file("b.mkv")] + rest)
                    let other = try player(61_236, program + [view + "/a.mkv"] + rest)
                    let ends = try [local, one, other].map { try $0.wait() }
                    #expect(ends.allSatisfy { $0.status == 0 }, "\(ends)")
                    if !rest.isEmpty { #expect(ends[0].output.count > 1000 && Set(ends.map(\.output)).count == 1) }
                }
                #expect(server.requests.filter { $0.contains("a.mkv") }.count == before)
                try mount.unmountAll([view])
            }
        }

        @Test(
            "Two lines of fstab with one source are two mounts of one daemon, for root and for a user",
            .enabled(if: geteuid() == 0, "needs root"), arguments: [false, true])
        func fstab(asUser: Bool) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let places = ["one", "two"].map { space.theirs + "/" + $0 }
                for place in places {
                    mkdir(space.outside(place), 0o755)
                    chown(space.outside(place), MountNamespace.userID, MountNamespace.userID)
                }
                try space.fstab(
                    "\(server.address) \(places[0]) reelfs ro,noauto,user 0 0",
                    "\(server.address) \(places[1]) reelfs ro,noauto,user,umask=077,only_cached 0 0")
                for place in places {
                    let end = try space.run(["mount", place], asUser: asUser)
                    #expect(end.status == 0 && (end.output + end.errors).isEmpty, "\(end)")
                }
                #expect(space.mounts.map(\.mountpoint) == places)
                #expect(space.mounts.allSatisfy { $0.source == server.address })
                // The process that handed the second one over ends.
                #expect(eventually { space.process("daemon", of: places[1]) == nil })
                for place in places {
                    let end = try space.run(["sh", "-c", "cat \(place)/film.mkv | wc -c"], asUser: asUser)
                    #expect(end.output == "\(Self.film.length)\n", "\(end)")
                }
                let daemon = try #require(space.process("daemon", of: places[0]))
                #expect(try space.run(["umount", places[0]], asUser: asUser).status == 0)
                #expect(space.mounts.map(\.mountpoint) == [places[1]] && isRunning(daemon))
                kill(daemon, SIGTERM)
                #expect(eventually { !isRunning(daemon) })
                #expect(eventually { space.mounts.isEmpty })
            }
        }

        @Test(
            "A mount made in another mount namespace is served, and its end there leaves the first",
            .enabled(if: geteuid() == 0, "needs root"))
        func otherNamespace() throws {
            try withMount(of: Self.film) { scene, server, mount in
                let second = scene.folder + "/second"
                mkdir(second, 0o755)
                let script = """
                    "$0" mount "$1" "$2" --cache-dir "$3" $4 && wc -c < "$2/film.mkv"
                    """
                let end = try ChildProcess.run(
                    ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, program, server.address]
                        + [second, scene.cache, scene.keyOptions.joined(separator: " ")],
                    environment: ["no_proxy": "127.0.0.1"])
                #expect(end.status == 0 && end.output == "\(Self.film.length)\n", "\(end)")
                #expect(!isMounted(second))
                // The watcher of the second lives in that namespace, and keeps its mount until it ends.
                if let watcher = watcher(of: second) { kill(watcher, SIGKILL) }
                #expect(
                    eventually {
                        (try? ChildProcess.run([program, "status", mount.path]))?.output.contains("shared") == false
                    })
                #expect(Self.film.difference(inFile: mount.file("film.mkv")) == nil)
            }
        }
    }
}

extension Mounted {
    /// Unmounts other mount points of the daemon, and then this one.
    fileprivate func unmountAll(_ others: [String]) throws {
        for path in others { #expect(try ChildProcess.run([program, "umount", path]).status == 0) }
        try unmount()
    }
}
