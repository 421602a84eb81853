import Glibc
import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import reelfs

extension EndToEnd {
    /// A daemon that takes the place of another one while programs have files open.
    @Suite struct RestartTests {
        private static let length: Int64 = 12 << 20
        private static let piece: Int64 = 128 << 10

        /// Reads pieces of one open file, until `finish` is called.
        private final class Player: Sendable {
            private let isOver = Atomic(false)
            private let state = Mutex<(reads: Int, longest: Duration, error: String?)>((0, .zero, nil))
            private let thread = Mutex<Thread?>(nil)

            /// - Parameter seed: of the places of its pieces, nil for one after the other, and again.
            init(_ film: FileOrigin, _ path: String, seed: UInt64?) {
                let thread = startThread { [self] in
                    do {
                        try play(film, path, seed)
                    } catch {
                        state.withLock { $0.error = "\(error)" }
                    }
                }
                self.thread.withLock { $0 = thread }
            }

            private func play(_ film: FileOrigin, _ path: String, _ seed: UInt64?) throws {
                let file = try OpenDescriptor(path)
                var random = seed.map { SeededGenerator(seed: $0) }
                let pieces = film.version.length / piece
                var number: Int64 = 0
                while !isOver.load(ordering: .relaxed) {
                    let offset = number * piece
                    let start = now()
                    let bytes = try file.bytes(at: offset, count: Int(piece))
                    let time = now() - start
                    let isRight = bytes == film.expectedBytes(ByteRange(offset, offset + piece))
                    state.withLock { state in
                        state.reads += 1
                        state.longest = max(state.longest, time)
                        if !isRight { state.error = "wrong bytes at \(offset)" }
                    }
                    // Not from the page cache the next time.
                    posix_fadvise(file.number, off_t(offset), off_t(piece), POSIX_FADV_DONTNEED)
                    number = random.map { _ in Int64.random(in: 0..<pieces, using: &random!) } ?? (number + 1) % pieces
                    usleep(5000)
                }
            }

            var reads: Int { state.withLock { $0.reads } }

            /// - Returns: what went wrong, nil if nothing did.
            func finish() -> String? {
                isOver.store(true, ordering: .relaxed)
                thread.withLock { $0 }?.join()
                return state.withLock { $0.error }
            }

            var longest: Duration { state.withLock { $0.longest } }
        }

        @Test("Players read on over ten restarts, and a directory and a working directory stay", .plainAndEncrypted)
        func players() throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film, ["--timeout", "120"]) { scene, server, mount in
                let path = mount.file("film.mkv")
                let folder = open(mount.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                let players = [nil, 1, 2].map { Player(film, path, seed: $0) }
                var mount = mount
                #expect(try ChildProcess.run([program, "limit-rate", "00:00,1G 12:00,2G", mount.path]).status == 0)
                for _ in 0..<10 {
                    let before = players.map(\.reads)
                    let old = mount.pid
                    mount = try scene.restart(mount)
                    #expect(mount.pid != old && !isRunning(old))
                    // While other handles are open, which the kernel may read by itself.
                    #expect(film.difference(inFile: path) == nil)
                    #expect(eventually { zip(players, before).allSatisfy { $0.reads > $1 + 3 } })
                }
                for player in players { #expect(player.finish() == nil) }
                let status = try ChildProcess.run([program, "status", "--json", mount.path])
                #expect(status.output.contains("00:00,1G 12:00,2G"), "\(status)")
                // A read that was lost would wait for its deadline.
                let longest = players.map(\.longest).max() ?? .zero
                #expect(longest < .seconds(40), "\(longest)")
                #expect(faccessat(folder, "film.mkv", R_OK, 0) == 0)
                #expect(try names(in: "/proc/self/fd/\(folder)") == ["film.mkv"])
                close(folder)
                #expect(film.difference(inFile: path) == nil)
                #expect(film.difference(inFile: path) == nil)
                #expect(eventually { watcher(of: mount.path) != nil })
                try mount.unmount()
                #expect(watcher(of: mount.path) == nil || eventually { watcher(of: mount.path) == nil })
            }
        }

        @Test("A read that waits for the origin goes on, and what is cached is not fetched again")
        func waiting() throws {
            // Far behind what is read ahead of the beginning.
            let (film, place) = (FileOrigin(length: 64 << 20), Int64(40 << 20))
            let (isAsked, gate) = (Gate(), Gate())
            let good = folderScript(["film.mkv": film])
            let server = try ScriptedServer { request in
                guard request.range(of: film.length)?.contains(place) == true else { return good(request) }
                isAsked.open()
                return [.wait(gate)] + good(request)
            }
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address)
                let begin = film.expectedBytes(ByteRange(0, 1 << 20))
                #expect(try OpenDescriptor(mount.file("film.mkv")).bytes(at: 0, count: 1 << 20) == begin)
                let file = open(mount.file("film.mkv"), O_RDONLY | O_CLOEXEC)
                defer { close(file) }
                let answer = Monitor<Int?>(nil)
                let reader = startThread {
                    var bytes = [UInt8](repeating: 0, count: 4096)
                    let count = pread(file, &bytes, 4096, off_t(place))
                    let isRight = bytes == film.expectedBytes(ByteRange(place, place + 4096))
                    answer.withLock { $0 = isRight ? count : -1 }
                }
                defer { reader.join() }
                #expect(isAsked.wait())
                let next = try scene.restart(mount)
                #expect(answer.withLock { $0 } == nil)
                gate.open()
                #expect(answer.wait(atMost: .seconds(20)) { $0 } == 4096)
                let requests = server.requests.count
                #expect(try OpenDescriptor(next.file("film.mkv")).bytes(at: 0, count: 1 << 20) == begin)
                // Both readers may be read ahead of, and the open may ask whether the file is still the same.
                let more = server.requests.dropFirst(requests).compactMap { $0.range(of: film.length) }
                #expect(more.allSatisfy { $0.lower >= 1 << 20 || $0.count == 1 }, "\(more)")
            }
        }

        @Test("Offline by command a restart takes nothing from those that have a file open, or work in a folder")
        func offline() throws {
            // Far behind what is read ahead of the beginning.
            let (film, place) = (FileOrigin(length: 64 << 20), Int64(40 << 20))
            let files = folderScript(["film.mkv": film])
            let server = try ScriptedServer { request in
                if request.path == "/" {
                    let page = "<html><title>Index of /</title><pre><a href=\"sub/\">sub/</a>\n</pre></html>"
                    return ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
                }
                var inner = request
                inner.target = String(request.target.dropFirst("/sub".count))
                return files(inner)
            }
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address)
                let folder = open(mount.file("sub"), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                defer { close(folder) }
                let file = try OpenDescriptor(mount.file("sub/film.mkv"))
                let begin = film.expectedBytes(ByteRange(0, 1 << 20))
                #expect(try file.bytes(at: 0, count: 1 << 20) == begin)
                #expect(try ChildProcess.run([program, "offline", "on", mount.path]).status == 0)
                _ = try scene.restart(mount)
                let requests = server.requests.count
                posix_fadvise(file.number, 0, 0, POSIX_FADV_DONTNEED)
                #expect(try file.bytes(at: 0, count: 1 << 20) == begin)
                #expect(throws: SystemFailure("pread", ENETUNREACH)) { try file.bytes(at: place, count: 4096) }
                // Neither the file nor its folder is shown.
                var status = stat()
                #expect(fstat(folder, &status) == 0)
                #expect(try names(in: mount.path) == [])
                #expect(server.requests.count == requests)
                #expect(try ChildProcess.run([program, "offline", "off", mount.path]).status == 0)
                let bytes = film.expectedBytes(ByteRange(place, place + 4096))
                #expect(try file.bytes(at: place, count: 4096) == bytes)
                #expect(eventually { faccessat(folder, "film.mkv", R_OK, 0) == 0 })
            }
        }

        @Test("A file that has changed since is stale where it was open, and new where it is opened")
        func changed() throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film, ["--refresh", "0"]) { scene, server, mount in
                let path = mount.file("film.mkv")
                let file = try OpenDescriptor(path)
                #expect(try file.bytes(at: 0, count: 4096) == film.expectedBytes(ByteRange(0, 4096)))
                film.change(to: .init(seed: 9, length: Self.length, entityTag: "\"v2\""))
                let next = try scene.restart(mount)
                #expect(throws: SystemFailure("pread", ESTALE)) { try file.bytes(at: 4 << 20, count: 4096) }
                #expect(film.difference(inFile: next.file("film.mkv")) == nil)
            }
        }

        @Test(
            "A file whose name leads to another resource is stale where it was open, whatever the origin says of versions"
        )
        func moved() throws {
            let films = [1, 2].map {
                FileOrigin(.init(seed: $0, length: Self.length, entityTag: nil, lastModified: nil))
            }
            let server = try ScriptedServer(folderScript(["one.mkv": films[0], "two.mkv": films[1]]))
            defer { server.stop() }
            try withScene { scene in
                let list = scene.work("list.m3u")
                func write(_ name: String) throws {
                    try writeFile(list, "#EXTM3U\n#EXTINF:1,film\n\(server.url("/\(name).mkv").text)\n".utf8)
                }
                try write("one")
                let mount = try scene.mount(list)
                let file = try OpenDescriptor(mount.file("film.mkv"))
                #expect(try file.bytes(at: 0, count: 4096) == films[0].expectedBytes(ByteRange(0, 4096)))
                try write("two")
                let next = try scene.restart(mount)
                #expect(throws: SystemFailure("pread", ESTALE)) { try file.bytes(at: 8 << 20, count: 4096) }
                #expect(films[1].difference(inFile: next.file("film.mkv")) == nil)
            }
        }

        @Test("A list that cannot be read at a restart takes nothing from those that have its files open")
        func listAway() throws {
            let film = FileOrigin(length: Self.length)
            let server = try ScriptedServer(folderScript(["one.mkv": film]))
            defer { server.stop() }
            try withScene { scene in
                let list = scene.work("list.m3u")
                try writeFile(list, "#EXTM3U\n#EXTINF:1,film\n\(server.url("/one.mkv").text)\n".utf8)
                let mount = try scene.mount(list)
                let file = try OpenDescriptor(mount.file("film.mkv"))
                #expect(try file.bytes(at: 0, count: 4096) == film.expectedBytes(ByteRange(0, 4096)))
                #expect(rename(list, list + ".away") == 0)
                let next = try scene.restart(mount, mayWarn: true)
                let last = ByteRange(8 << 20, 8 << 20 + 4096)
                #expect(try file.bytes(at: last.lower, count: 4096) == film.expectedBytes(last))
                #expect(film.difference(inFile: next.file("film.mkv")) == nil)
            }
        }

        @Test("All mount points of a daemon go with it, each with its owner, and end one by one")
        func several() throws {
            let film = FileOrigin(length: 1 << 20)
            // Of a caller such as automount(8), which has unknown options ignored.
            try withMount(of: film, ["--as-mount-helper", "-s", "-o", "frobnicate=7"]) { scene, server, mount in
                let second = scene.folder + "/second"
                #expect(try scene.tryMount(server.address, ["-o", "uid=7"], on: "second").status == 0)
                let files = try [mount.path, second].map { try OpenFile($0 + "/film.mkv") }
                var next = try scene.restart(mount)
                let count = try descriptors(of: next.pid).count
                for _ in 0..<3 { next = try scene.restart(next) }
                // One more: a client that was there a moment ago.
                #expect(try descriptors(of: next.pid).count <= count + 1)
                for file in files { #expect(file.first == film.expectedBytes(ByteRange(0, 10))) }
                var status = stat()
                #expect(stat(second + "/film.mkv", &status) == 0 && status.st_uid == 7)
                #expect(stat(mount.file("film.mkv"), &status) == 0 && status.st_uid != 7)
                for file in files { file.close() }
                #expect(try ChildProcess.run([program, "umount", second], within: .seconds(10)).status == 0)
                #expect(film.difference(inFile: next.file("film.mkv")) == nil && isRunning(next.pid))
                try next.unmount()
            }
        }

        /// The descriptors that a daemon has open, of which no program that it starts gets a device or a pipe.
        private func descriptors(of daemon: pid_t) throws -> [String] {
            let all = try names(in: "/proc/\(daemon)/fd")
            var pipes = 0
            for name in all where !["0", "1", "2"].contains(name) {
                var target = [UInt8](repeating: 0, count: 256)
                let count = target.withUnsafeMutableBytes {
                    readlink("/proc/\(daemon)/fd/\(name)", $0.bindMemory(to: CChar.self).baseAddress!, $0.count)
                }
                // Those by which libcurl wakes its loop lack the flag.
                let kind = target[..<max(0, count)]
                if ["socket:", "anon_inode:[eventfd]"].contains(where: { kind.starts(with: $0.utf8) }) { continue }
                // One that was closed meanwhile has no flags.
                guard let text = try? readWhole("/proc/\(daemon)/fdinfo/\(name)") else { continue }
                let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("flags:") }
                let flags = line.flatMap { Int32($0.dropFirst(6).drop { $0 == "\t" }, radix: 8) } ?? 0
                // And so do the two ends of the pipe that libcurl 8.5 has for it.
                if flags & O_CLOEXEC == 0, kind.starts(with: "pipe:".utf8) {
                    pipes += 1
                } else {
                    #expect(flags & O_CLOEXEC != 0, "\(name)")
                }
            }
            #expect(pipes <= 2)
            return all
        }

        @Test("The files and folders of a catalogue stay open")
        func catalogue() throws {
            // Of one that is whole the kernel reads the bytes by itself.
            let (film, long) = (FileOrigin(length: 1 << 20), FileOrigin(length: Self.length, seed: 2))
            let server = try ScriptedServer(folderScript(["film.mkv": film, "long.mkv": long]))
            defer { server.stop() }
            try withScene { scene in
                let list = scene.work("all.toml")
                try writeFile(list, "[[source]]\npath = \"a/b\"\nsource = \"\(server.address)\"\n".utf8)
                var mount = try scene.mount(list)
                let file = try OpenFile(mount.file("a/b/film.mkv"))
                let folder = Glibc.open(mount.file("a"), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                for _ in 0..<2 {
                    mount = try scene.restart(mount)
                    #expect(file.first == film.expectedBytes(ByteRange(0, 10)))
                    #expect(faccessat(folder, "b/film.mkv", R_OK, 0) == 0)
                    #expect(film.difference(inFile: mount.file("a/b/film.mkv")) == nil)
                }
                // Another source for the catalogue, while a file of the first is open.
                do {
                    let open = try OpenDescriptor(mount.file("a/b/long.mkv"))
                    let source = "source = \"\(server.address)\"\n"
                    let other = "[[source]]\npath = \"a/b\"\ntimeout = \"41s\"\n\(source)"
                    try writeFile(list, "\(other)[[source]]\npath = \"c\"\n\(source)".utf8)
                    kill(mount.pid, SIGHUP)
                    #expect(eventually { (try? names(in: mount.path).contains("c")) == true })
                    mount = try scene.restart(mount)
                    let middle = ByteRange(8 << 20, 8 << 20 + 4096)
                    #expect(try open.bytes(at: middle.lower, count: 4096) == long.expectedBytes(middle))
                    #expect(film.difference(inFile: mount.file("a/b/film.mkv")) == nil)
                }
                file.close()
                close(folder)
                try mount.unmount()
            }
        }

        @Test("A new daemon that dies leaves no mount behind, and one in the foreground says who has to restart it")
        func ends() throws {
            let film = FileOrigin(length: 1 << 20)
            try withMount(of: film) { scene, server, mount in
                let next = try scene.restart(mount)
                next.crash()
                #expect(eventually { !mountTable().contains { $0.mountpoint == mount.path } })
                let words = [program, "mount", server.address, mount.path, "--cache-dir", scene.cache, "--foreground"]
                let child = try ChildProcess(words + scene.keyOptions, environment: ["no_proxy": "127.0.0.1"])
                #expect(eventually { (try? names(in: mount.path)) == ["film.mkv"] })
                let end = try ChildProcess.run([program, "restart", mount.path])
                #expect(end.status == 32 && end.errors.contains("its caller has to restart it"), "\(end)")
                child.signal(SIGTERM)
                #expect(try child.wait().status == 0)
            }
        }

        @Test("What is wrong with a file for the HTTP server ends a restart, and no mount")
        func secrets() throws {
            let film = FileOrigin(length: 1 << 20)
            let server = try filmServer(film)
            defer { server.stop() }
            for isLogin in [true, false] {
                try withScene { scene in
                    let login = scene.work("login")
                    try writeFile(login, "username=ann\npassword=open sesame\n".utf8)
                    chmod(login, 0o600)
                    let mount = try scene.mount(
                        server.address, ["--listen", "127.0.0.1:0"] + (isLogin ? ["--listen-credentials", login] : []))
                    let secret = isLogin ? login : scene.cache + "/listen.token"
                    let file = try OpenFile(mount.file("film.mkv"))
                    chmod(secret, 0o644)
                    let end = try ChildProcess.run([program, "restart", mount.path])
                    #expect(end.status != 0 && end.errors.contains(secret), "\(end)")
                    #expect(isRunning(mount.pid) && daemon(of: mount.path) == mount.pid)
                    #expect(file.first == film.expectedBytes(ByteRange(0, 10)))
                    #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                    chmod(secret, 0o600)
                    let next = try scene.restart(mount)
                    #expect(file.first == film.expectedBytes(ByteRange(0, 10)))
                    file.close()
                    try next.unmount()
                }
            }
        }

        @Test("A new daemon that cannot have the address of the HTTP server says so, and the mount goes on without")
        func address() throws {
            let film = FileOrigin(length: 1 << 20)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
                let folder = scene.work("sockets")
                mkdir(folder, 0o700)
                let mount = try scene.mount(server.address, ["--listen", "unix:" + folder + "/http"])
                let file = try OpenFile(mount.file("film.mkv"))
                rename(folder, folder + "-moved")
                let end = try ChildProcess.run([program, "restart", mount.path])
                #expect(end.status == 0 && end.errors.contains("goes on without its HTTP server"), "\(end)")
                #expect(eventually { !isRunning(mount.pid) })
                #expect(file.first == film.expectedBytes(ByteRange(0, 10)))
                let status = { try ChildProcess.run([program, "status", "--json", mount.path]).output }
                #expect(try !status().contains("\"listening\""))
                // The next one listens again, where it can.
                rename(folder + "-moved", folder)
                let next = try scene.restart(Mounted(path: mount.path, pid: try #require(daemon(of: mount.path))))
                #expect(try status().contains("\"listening\""))
                file.close()
                try next.unmount()
            }
        }

        @Test("A service that reloads is another process then, and its manager hears which before the first ends")
        func service() throws {
            let film = FileOrigin(length: Self.length)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
                let manager = try ManagerSocket("@" + scene.folder)
                let words =
                    [program, "mount", server.address, scene.mountpoint, "--cache-dir", scene.cache]
                    + ["--foreground"] + scene.keyOptions
                let environment = ["NOTIFY_SOCKET": "@" + scene.folder, "no_proxy": "127.0.0.1"]
                let first = try ChildProcess(words, environment: environment)
                try #require(manager.wait { $0.hasPrefix("READY=1") } != nil)
                let path = scene.mountpoint + "/film.mkv"
                let player = Player(film, path, seed: 3)
                #expect(eventually { player.reads > 3 })
                var processes = [first.pid]
                for _ in 0..<2 {
                    let reload = try ChildProcess.run([program, "restart", scene.mountpoint])
                    #expect(reload.status == 0, "\(reload)")
                    let name = try #require(manager.wait { $0.hasPrefix("MAINPID=") })
                    let process = try #require(pid_t(name.dropFirst("MAINPID=".count)))
                    #expect(isRunning(process) && !processes.contains(process))
                    // The daemon before says no more, as the service does not stop.
                    let rest = try #require(manager.wait { $0.hasPrefix("READY=1") || $0.hasPrefix("STOPPING=1") })
                    #expect(rest.hasPrefix("READY=1"))
                    processes.append(process)
                    let reads = player.reads
                    #expect(eventually { player.reads > reads + 3 })
                }
                #expect(try first.wait().status == 0)
                #expect(player.finish() == nil)
                #expect(film.difference(inFile: path) == nil)
                kill(processes.last!, SIGTERM)
                #expect(manager.wait { $0.hasPrefix("STOPPING=1") } != nil)
                #expect(eventually { !isRunning(processes.last!) })
                #expect(!mountTable().contains { $0.mountpoint == scene.mountpoint })
            }
        }
    }
}

/// An open file of a test that closes it itself.
private final class OpenFile {
    private let descriptor: Int32

    init(_ path: String) throws {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
    }

    var first: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 10)
        return pread(descriptor, &bytes, 10, 0) == 10 ? bytes : []
    }

    func close() { Glibc.close(descriptor) }
}

/// A service manager that listens: sd_notify(3).
private final class ManagerSocket {
    private let descriptor: Int32

    init(_ name: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try #require(try #require(UnixAddress(socketName: name)).bind(descriptor) == 0)
    }

    deinit { close(descriptor) }

    /// Takes messages until one is wanted. - Returns: that one; nil if none came in time.
    func wait(_ isWanted: (String) -> Bool) -> String? {
        var found: String?
        _ = eventually {
            while found == nil, let text = next() { if isWanted(text) { found = text } }
            return found != nil
        }
        return found
    }

    private func next() -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
    }
}
