import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// The fault matrix, a damaged cache: doubt is a refetch, never a wrong byte and never a failed read.
    @Suite struct DamageTests {
        private static let length: Int64 = 3 << 20 + 5

        @Test(
            "A data file damaged between two mounts: right bytes, and whole again", .plainAndEncrypted,
            arguments: DataDamage.allCases, Shape.tried)
        func between(_ damage: DataDamage, _ shape: Shape) throws {
            // How the blocks are kept is below all shapes, and what a look at the file shows.
            if CacheKind.isEncrypted, shape != .twoAtOnce || !LongTests.areRun && !damage.isOfBytes { return }
            try withDamage { scene, film, server, random in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                try mount.unmount()
                try damage.apply(to: dataFile(scene), stranger: scene.work("stranger"), &random)
                mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(shape, mount.file("film.mkv"), film.version).expectRight("seed \(random.seed):")
                try expectWholeAgain(film, mount, server)
                try mount.unmount()
                mount = try scene.mount(server.address, FaultReaders.patient)
                let before = server.bytesAsked(of: film.length)
                FaultReaders.onePass(shape, mount.file("film.mkv"), film.version).expectRight("remounted:")
                #expect(server.bytesAsked(of: film.length) <= before + 1, "fetched again after it was mended")
            }
        }

        /// Bytes that are already checked since the start are not checked again: only what a look at the file itself
        /// shows has to be seen then.
        @Test(
            "A data file damaged under an open file: right bytes, no error", arguments: DataDamage.allCases,
            [false, true])
        func underneath(_ damage: DataDamage, _ wasRead: Bool) throws {
            if damage.isSilent, wasRead { return }
            let few: [DataDamage] =
                wasRead
                ? [.shortened, .punched, .linkInPlace] : [.shortened, .flipped, .replaced, .deleted, .pipeInPlace]
            guard LongTests.all(DataDamage.allCases, elseOnly: few).contains(damage) else { return }
            try withDamage { scene, film, server, random in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                try mount.unmount()
                mount = try scene.mount(server.address, FaultReaders.patient)
                let path = mount.file("film.mkv")
                try damageOpenFile(damage, wasRead, scene, mount, film, &random)
                for shape in Shape.tried {
                    FaultReaders.onePass(shape, path, film.version).expectRight("\(shape), seed \(random.seed):")
                }
                try mount.unmount()
                mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.inOrder, path, film.version).expectRight("remounted:")
                try expectWholeAgain(film, mount, server)
            }
        }

        private func damageOpenFile(
            _ damage: DataDamage, _ wasRead: Bool, _ scene: Scene, _ mount: Mounted, _ film: FileOrigin,
            _ random: inout SeededGenerator
        ) throws {
            let path = mount.file("film.mkv")
            let handle = try OpenDescriptor(path)
            _ = try handle.bytes(at: 0, count: 4096)
            if wasRead { FaultReaders.onePass(.inOrder, path, film.version).expectRight("before:") }
            // What the kernel read ahead is no longer asked for.
            mount.dropPages("film.mkv")
            try damage.apply(to: dataFile(scene), stranger: scene.work("stranger"), &random)
            FaultReaders.onePass(.twoAtOnce, path, film.version, handle: handle.number)
                .expectRight("open handle, seed \(random.seed):")
        }

        @Test(
            "An index damaged between two mounts: right bytes, and a cache again", .plainAndSeldomEncrypted,
            arguments: LongTests.all(IndexDamage.allCases, elseOnly: IndexDamage.oneOfEachKind))
        func index(_ damage: IndexDamage) throws {
            try withDamage { scene, film, server, random in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                let cache = CacheFolder(path: scene.cache)
                if damage.needsCrash {
                    #expect(eventually { cache.committedBlocks == Int((film.length + 131_071) / 131_072) })
                    mount.crash()
                } else {
                    try mount.unmount()
                }
                try damage.apply(to: cache.index, stranger: scene.work("stranger"), &random)
                mount = try scene.mount(server.address, FaultReaders.patient)
                for shape in Shape.tried {
                    FaultReaders.onePass(shape, mount.file("film.mkv"), film.version)
                        .expectRight("\(shape), seed \(random.seed):")
                }
                try expectWholeAgain(film, mount, server)
                // What is found damaged in the middle of things is set aside at the next start only.
                for _ in 0..<2 {
                    try mount.unmount()
                    mount = try scene.mount(server.address, FaultReaders.patient)
                    FaultReaders.onePass(.inOrder, mount.file("film.mkv"), film.version).expectRight("remounted:")
                }
                mount.dropPages("film.mkv")
                let before = server.bytesAsked(of: film.length)
                FaultReaders.onePass(.inOrder, mount.file("film.mkv"), film.version).expectRight("once more:")
                #expect(server.bytesAsked(of: film.length) <= before + 1, "fetched again after it was mended")
            }
        }

        enum LiveIndexDamage: CaseIterable { case deleted, noise, noiseInLog, shortened, locked }

        @Test(
            "An index damaged under a running mount: right bytes, no error", arguments: LiveIndexDamage.allCases,
            Shape.tried)
        func liveIndex(_ damage: LiveIndexDamage, _ shape: Shape) throws {
            try withDamage { scene, film, server, random in
                let short = FileOrigin(length: 500_000, seed: 3)
                let both = try folderServer(["film.mkv": film, "short.mkv": short])
                defer { both.stop() }
                var mount = try scene.mount(both.address, FaultReaders.patient)
                let readers = FaultReaders(shape, mount.file("film.mkv"), film.version)
                readers.start()
                defer { readers.stop() }
                #expect(readers.read(20))
                let index = CacheFolder(path: scene.cache).index
                switch damage {
                case .deleted: for end in ["", "-wal", "-shm"] { unlink(index + end) }
                case .noise: try scribble(index, 0, Int64(attributes(index).st_size), &random)
                case .noiseInLog: try scribble(index + "-wal", 0, Int64(attributes(index + "-wal").st_size), &random)
                case .shortened: truncate(index, 4096)
                // A running daemon has it to itself.
                case .locked: #expect(try ChildProcess.run(["sqlite3", index, "BEGIN EXCLUSIVE"]).status != 0)
                }
                #expect(readers.read(200), "reading does not go on")
                #expect(short.difference(inFile: mount.file("short.mkv")) == nil, "a new file")
                // Beyond the next commit.
                #expect(readers.read(200), "reading does not go on")
                readers.finish().expectRight("seed \(random.seed):")
                _ = try ChildProcess.run([program, "umount", mount.path])
                #expect(eventually { !isRunning(mount.pid) }, "the daemon stays")
                mount = try scene.mount(both.address, FaultReaders.patient)
                FaultReaders.onePass(shape, mount.file("film.mkv"), film.version).expectRight("remounted:")
                #expect(short.difference(inFile: mount.file("short.mkv")) == nil, "remounted")
            }
        }

        @Test("An index that another process holds locked for a while delays nothing but itself")
        func lockedAtStart() throws {
            try withDamage { scene, film, server, _ in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                try mount.unmount()
                let holder = try lockHolder(CacheFolder(path: scene.cache).index)
                defer {
                    holder.signal(SIGKILL)
                    _ = try? holder.wait()
                }
                mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.twoAtOnce, mount.file("film.mkv"), film.version).expectRight("locked:")
                holder.signal(SIGKILL)
                FaultReaders.onePass(.twoAtOnce, mount.file("film.mkv"), film.version).expectRight("free:")
            }
        }

        @Test("An index of a newer version is not destroyed: refused with a sentence, or set aside")
        func newerIndex() throws {
            try withDamage { scene, film, server, _ in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                try mount.unmount()
                let index = CacheFolder(path: scene.cache).index
                let words = ["sqlite3", index, "PRAGMA user_version=99"]
                #expect(try ChildProcess.run(words).status == 0)
                let end = try scene.tryMount(server.address)
                if end.status == 0 {
                    mount = Mounted(path: scene.mountpoint, pid: try #require(daemon(of: scene.mountpoint)))
                    FaultReaders.onePass(.inOrder, mount.file("film.mkv"), film.version).expectRight()
                    try mount.unmount()
                } else {
                    #expect(end.status == 32)
                    #expect(end.errors.split(separator: "\n").count == 1, "\(end.errors)")
                    #expect(end.errors.contains("newer"), "\(end.errors)")
                }
                let source = try #require(CacheFolder(path: scene.cache).sources.first)
                let indexes = try names(in: source).filter { name in
                    name.hasPrefix("index.sqlite") && !["-wal", "-shm", "-damaged"].contains { name.hasSuffix($0) }
                }
                let versions = try indexes.map {
                    try ChildProcess.run(["sqlite3", "\(source)/\($0)", "PRAGMA user_version"]).output
                }
                #expect(versions.contains("99\n"), "\(indexes) \(versions)")
            }
        }

        @Test("Leftovers of a crash go, strangers' files stay")
        func strangers() throws {
            try withDamage { scene, film, server, random in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                let cache = CacheFolder(path: scene.cache)
                let file = try dataFile(scene)
                #expect(eventually { cache.committedBlocks > 0 })
                mount.crash()
                let source = try #require(cache.sources.first)
                let folder = String(file[..<file.lastIndex(of: "/")!])
                let strangers =
                    [scene.cache, source, cache.objects, folder].map { $0 + "/notes.txt" }
                    + [cache.objects + "/zz", scene.cache + "/other/film.mkv"]
                mkdir(scene.cache + "/other", 0o755)
                for path in strangers { try writeFile(path, Array("mine".utf8)) }
                // The film's own name is random, and may end so, too.
                let left = ["a1", "b2", "c3"].map { "\(file.dropLast(2))\($0)" }.filter { $0 != file }
                for path in left { try writeFile(path, [UInt8](repeating: 7, count: 100_000)) }
                mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.twoAtOnce, mount.file("film.mkv"), film.version).expectRight()
                try mount.unmount()
                for path in left { #expect(access(path, F_OK) != 0, "a leftover is there: \(path.suffix(40))") }
                for path in strangers { #expect(contents(path) == "mine", "\(path) is gone or changed") }
            }
        }

        private func withDamage(
            _ body: (Scene, FileOrigin, ScriptedServer, inout SeededGenerator) throws -> Void
        ) throws {
            let film = FileOrigin(length: Self.length)
            let server = try filmServer(film)
            defer { server.stop() }
            var random = SeededGenerator()
            try withScene { scene in
                let stranger = GeneratedBytes(seed: 99).bytes(ByteRange(0, Self.length))
                try writeFile(scene.work("stranger"), stranger)
                try body(scene, film, server, &random)
                #expect(try readWhole(scene.work("stranger")) == stranger, "a stranger's file was changed")
            }
        }

        private func dataFile(_ scene: Scene) throws -> String {
            let files = CacheFolder(path: scene.cache).dataFiles
            return try #require(files.first { (try? attributes($0))?.st_size == off_t(Self.length) })
        }

        /// Everything once, and then nothing is asked for any more.
        private func expectWholeAgain(_ film: FileOrigin, _ mount: Mounted, _ server: ScriptedServer) throws {
            // By the daemon: what the kernel still has may be lost in the cache.
            mount.dropPages("film.mkv")
            #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
            mount.dropPages("film.mkv")
            let before = server.bytesAsked(of: film.length)
            #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
            #expect(server.bytesAsked(of: film.length) <= before + 1, "not kept")
        }

        /// Another program that writes in the index and does not come to an end.
        private func lockHolder(_ index: String) throws -> ChildProcess {
            let script = """
                import sqlite3, sys, time
                database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
                database.execute("BEGIN EXCLUSIVE")
                print("locked", flush=True)
                time.sleep(120)
                """
            let holder = try ChildProcess(["python3", "-c", script, index])
            #expect(eventually(within: .seconds(25)) { holder.said.output == "locked\n" }, "\(holder.said.errors)")
            return holder
        }
    }
}
