import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// `reelfs cache`, `pin`, `unpin` and `evict`, beside a running mount and without one.
    @Suite struct MaintenanceTests {
        private static let length: Int64 = 6 << 20 + 7

        private func withFilms(
            _ options: [String] = [], _ body: (Scene, ScriptedServer, [String: FileOrigin], Mounted) throws -> Void
        ) throws {
            try withThreeFilms(of: Self.length, options, body)
        }

        /// - Parameter on: the scene whose cache the command is about.
        private func run(
            _ words: String..., on scene: Scene? = nil, in directory: String? = nil
        ) throws -> ChildProcess.End {
            let cache = scene.map { ["--cache-dir", $0.cache] + $0.keyOptions } ?? []
            return try ChildProcess.run([program] + words + cache, directory: directory)
        }

        // MARK: Looking

        @Test("The list is the same beside a mount and without one, and has no password or query")
        func list() throws {
            try withFilms { scene, _, films, mount in
                for name in ["a.mkv", "b.mkv"] { #expect(films[name]!.difference(inFile: mount.file(name)) == nil) }
                #expect(try run("pin", mount.file("a.mkv"), mount.file("c.mkv")).output == "2 files pinned.\n")
                let beside = try run("cache", "list", on: scene)
                #expect(beside.status == 0 && beside.output.contains(" on \(mount.path)\n"), "\(beside)")
                try mount.unmount()
                let without = try run("cache", "list", on: scene)
                #expect(without.status == 0 && without.output.contains("(not mounted)"), "\(without)")
                for output in [beside.output, without.output] {
                    let rows = output.split(separator: "\n").map { $0.split(separator: " ").map { String($0) } }
                    #expect(rows.first { $0.last == "a.mkv" }?.suffix(3) == ["yes", "-", "a.mkv"], "\(output)")
                    #expect(rows.first { $0.last == "b.mkv" }?.suffix(3) == ["-", "-", "b.mkv"], "\(output)")
                    #expect(rows.first { $0.last == "c.mkv" }?.prefix(2) == ["0", "B"], "\(output)")
                    #expect(rows.first { $0.last == "a.mkv" }?.prefix(5) == ["6.0", "MiB", "6.0", "MiB", "100"])
                }
                let json = try run("cache", "list", "--json", on: scene).output
                #expect(json.contains("\"path\":\"a.mkv\"") && json.contains("\"isPinned\":true"))
                #expect(json.hasPrefix("[{") && json.hasSuffix("}]\n"))
            }
        }

        @Test("A daemon that holds its cache and does not answer is reported, and nobody waits for it")
        func silentDaemon() throws {
            try withFilms { scene, _, films, mount in
                #expect(films["a.mkv"]!.difference(inFile: mount.file("a.mkv")) == nil)
                mount.freeze()
                defer { kill(mount.pid, SIGCONT) }
                #expect(try run("pin", mount.file("a.mkv")).errors.contains("does not answer"))
                for command in [["list"], ["prune"], ["verify"]] {
                    let end = try ChildProcess.run(
                        [program, "cache"] + command + ["--cache-dir", scene.cache], within: .seconds(10))
                    #expect(end.status == 32 && end.errors.contains("does not answer"), "\(end)")
                }
            }
        }

        @Test("After kill -9 the cache is looked after without the daemon; strangers' directories are left alone")
        func afterCrash() throws {
            try withFilms { scene, _, films, mount in
                #expect(films["a.mkv"]!.difference(inFile: mount.file("a.mkv")) == nil)
                try waitUntilCommitted(scene)
                mount.crash()
                mkdir(scene.cache + "/holiday", 0o700)
                mkdir(scene.cache + "/0123456789abcdef0123456789abcdef", 0o700)
                let end = try run("cache", "verify", on: scene)
                #expect(end.status == 0 && end.output.contains("6.0 MiB in 1 file verified: no damage."), "\(end)")
                #expect(try names(in: scene.cache + "/0123456789abcdef0123456789abcdef").isEmpty)
            }
        }

        // MARK: By path

        @Test("Paths may be relative, symbolic links and whole directories; others are a sentence")
        func paths() throws {
            try withFilms { scene, _, films, mount in
                for name in films.keys { #expect(films[name]!.difference(inFile: mount.file(name)) == nil) }
                symlink(mount.file("b.mkv"), scene.work("link"))
                #expect(try run("pin", "./a.mkv", in: mount.path).output == "1 file pinned.\n")
                #expect(try run("pin", scene.work("link")).status == 0)
                let pruned = try run("cache", "prune", on: scene)
                #expect(pruned.status == 0 && pruned.output == "6.0 MiB freed.\n", "\(pruned)")
                #expect(try run("unpin", mount.path).output == "3 files unpinned.\n")
                #expect(try run("evict", mount.path + "/").output == "12.0 MiB of 2 files freed.\n")
                #expect(try run("cache", "list", "--json", on: scene).output.contains("\"files\":[]"))

                for path in [scene.work("link2"), "/etc/passwd", scene.folder, mount.file("x.mkv")] {
                    let end = try run("pin", path)
                    #expect(end.status == 32 && end.errors.hasPrefix("reelfs: "), "\(end)")
                    #expect(end.errors.split(separator: "\n").count == 1 && end.output.isEmpty, "\(end)")
                }
                #expect(try run("pin").status == 1)
            }
        }

        @Test("A reader goes on while its file is evicted, and what is pinned is offline", .plainAndEncrypted)
        func evictBesideReader() throws {
            try withFilms { scene, server, films, mount in
                let film = films["a.mkv"]!
                let file = try OpenDescriptor(mount.file("a.mkv"))
                for index: Int64 in 0..<6 {
                    let bytes = try file.bytes(at: index << 20, count: 1 << 20)
                    #expect(bytes.elementsEqual(film.expectedBytes(ByteRange(index << 20, (index + 1) << 20))))
                    #expect(try run("evict", mount.file("a.mkv")).status == 0)
                }
                #expect(films["b.mkv"]!.difference(inFile: mount.file("b.mkv")) == nil)
                #expect(try run("pin", mount.file("b.mkv")).status == 0)
                #expect(try run("cache", "prune", "--quiet", on: scene).output == "")
                server.stop()
                mount.dropPages("b.mkv")
                #expect(films["b.mkv"]!.difference(inFile: mount.file("b.mkv")) == nil)
            }
        }

        @Test("Prune to a size removes what was used longest ago, whichever source it is of", .plainAndEncrypted)
        func pruneTo() throws {
            try withFilms { scene, server, films, mount in
                let other = try folderServer(["z.mkv": FileOrigin(length: Self.length, seed: 9)])
                defer { other.stop() }
                let second = try scene.mount(other.address, on: "second")
                #expect(films["a.mkv"]!.difference(inFile: mount.file("a.mkv")) == nil)
                _ = try readWhole(second.file("z.mkv"))
                #expect(films["b.mkv"]!.difference(inFile: mount.file("b.mkv")) == nil)
                try second.unmount()
                // Three films, and two indexes of half a megabyte at most.
                let end = try run("cache", "prune", "--to", "8M", on: scene)
                #expect(end.status == 0 && end.output.hasPrefix("12.0 MiB"), "\(end)")
                let left = try run("cache", "list", on: scene).output
                #expect(left.contains("b.mkv") && !left.contains("a.mkv") && !left.contains("z.mkv"), "\(left)")
            }
        }

        // MARK: Verifying

        @Test(
            "Beside a mount a flipped block is found, reported, and fetched again alone; then the file plays offline",
            .plainAndEncrypted)
        func repair() throws {
            try withFilms { scene, server, films, mount in
                let film = films["a.mkv"]!
                #expect(film.difference(inFile: mount.file("a.mkv")) == nil)
                try waitUntilCommitted(scene)
                #expect(try run("cache", "verify", on: scene).status == 0)
                try flip(scene, at: 3 * BlockSize.block + 1)

                let found = try run("cache", "verify", mount.path)
                #expect(found.status == 32 && found.output.contains("1 damaged block in\n  a.mkv\n"), "\(found)")
                // And others before it, where that takes a while.
                let lines = found.errors.split(separator: "\n")
                #expect(
                    lines.last == "verifying: 6.0 MiB of 6.0 MiB, 100 %" && found.errors.hasSuffix("\n"), "\(found)")
                #expect(lines.allSatisfy { $0.hasPrefix("verifying: ") }, "\(found)")
                let requests = server.fileRequests.count
                let repaired = try run("cache", "verify", "--repair", "--quiet", mount.file("a.mkv"))
                #expect(repaired.status == 0 && repaired.output.contains("1 block fetched again."), "\(repaired)")
                #expect(repaired.errors == "")
                // One, and one more where it was silent for long.
                #expect(Set(server.fileRequests[requests...].map { $0["range"] }) == ["bytes=393216-524287"])
                server.stop()
                mount.dropPages("a.mkv")
                #expect(film.difference(inFile: mount.file("a.mkv")) == nil)
                let again = try run("cache", "verify", "--json", on: scene)
                #expect(again.status == 0 && again.output.contains("\"damagedBlocks\":0"), "\(again)")
            }
        }

        @Test("Without a mount a bad block is taken out, and the next read fetches it alone", .plainAndEncrypted)
        func repairWithoutMount() throws {
            try withFilms { scene, server, films, mount in
                let film = films["a.mkv"]!
                #expect(film.difference(inFile: mount.file("a.mkv")) == nil)
                try mount.unmount()
                try flip(scene, at: 5 * BlockSize.block)
                #expect(try run("cache", "verify", on: scene).status == 32)
                let repaired = try run("cache", "verify", "--repair", on: scene)
                #expect(
                    repaired.status == 0 && repaired.output.contains("1 block removed: not mounted"), "\(repaired)")
                #expect(try run("cache", "verify", on: scene).status == 0)
                let bytes = server.bodyBytesSent
                let again = try scene.mount(server.address)
                #expect(film.difference(inFile: again.file("a.mkv")) == nil)
                #expect(server.fileRequests.last?["range"] == "bytes=655360-786431")
                #expect(server.bodyBytesSent - bytes < 2 * BlockSize.block)
            }
        }

        @Test("While a repair waits for its origin, status answers; and the repair ends with its client")
        func status() throws {
            try withFilms(["--timeout", "60"]) { scene, server, films, mount in
                let film = films["a.mkv"]!
                let repair = try repairThatWaits(scene, server, film, mount, ["--repair", mount.path])
                #expect(maintenanceThreads(of: mount.pid) == 1)
                let status = try run("status", mount.path)
                #expect(status.status == 0 && status.output.contains("a.mkv"), "\(status)")
                #expect(try run("cache", "list", on: scene).status == 0)
                #expect(films["b.mkv"]!.difference(inFile: mount.file("b.mkv")) == nil)
                repair.signal(SIGKILL)
                _ = try repair.wait()
                #expect(eventually { maintenanceThreads(of: mount.pid) == 0 })
                film.fault = nil
                try mount.unmount()
            }
        }

        @Test("A mount that ends does not wait for a repair")
        func endWhileRepairing() throws {
            try withFilms(["--timeout", "60"]) { scene, server, films, mount in
                let repair = try repairThatWaits(
                    scene, server, films["a.mkv"]!, mount, ["--repair", "--cache-dir", scene.cache])
                try mount.unmount()
                let end = try repair.wait()
                #expect(end.status == 32 && end.errors.contains("reelfs: "), "\(end)")
            }
        }

        private func maintenanceThreads(of pid: pid_t) -> Int {
            let threads = (try? names(in: "/proc/\(pid)/task")) ?? []
            return threads.count { contents("/proc/\(pid)/task/\($0)/comm") == "maintenance\n" }
        }

        /// A verify with repair whose one damaged block the origin has been asked for, and does not answer.
        private func repairThatWaits(
            _ scene: Scene, _ server: ScriptedServer, _ film: FileOrigin, _ mount: Mounted, _ words: [String]
        ) throws -> ChildProcess {
            #expect(film.difference(inFile: mount.file("a.mkv")) == nil)
            try waitUntilCommitted(scene)
            try flip(scene, at: 0)
            film.fault = .silent
            let requests = server.fileRequests.count
            let repair = try ChildProcess([program, "cache", "verify"] + words)
            #expect(eventually { server.fileRequests.count > requests })
            return repair
        }

        /// Waits until the index has all blocks of the one film that was read.
        private func waitUntilCommitted(_ scene: Scene) throws {
            let blocks = Int((Self.length + BlockSize.block - 1) / BlockSize.block)
            try #require(eventually { CacheFolder(path: scene.cache).committedBlocks >= blocks }, "not committed")
        }

        /// Turns a bit of the one data file, all of which is on the disk by then.
        private func flip(_ scene: Scene, at offset: Int64) throws {
            let files = CacheFolder(path: scene.cache).dataFiles
            try #require(files.count == 1, "\(files)")
            let descriptor = open(files[0], O_RDWR | O_CLOEXEC)
            defer { close(descriptor) }
            var byte: UInt8 = 0
            try #require(pread(descriptor, &byte, 1, off_t(offset)) == 1)
            byte ^= 4
            try #require(pwrite(descriptor, &byte, 1, off_t(offset)) == 1)
        }
    }
}
