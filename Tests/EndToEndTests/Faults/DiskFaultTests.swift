import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// The fault matrix, the cache's disk: while the origin is good, no read fails because the cache cannot be written.
    @Suite(.enabled(if: geteuid() == 0, "only root can mount a disk")) struct DiskFaultTests {
        /// Larger than what the small disks hold, so that blocks are wanted all the time.
        private static let length: Int64 = 20 << 20 + 77

        enum Trouble: CaseIterable {
            /// Filled by somebody else while reading, and freed again.
            case fullTmpfs, fullExt4
            /// Every change is EPERM for a while.
            case immutable
            /// The disk is smaller than it says: `fdatasync` fails, the filesystem goes read-only by itself.
            case failingWrites
            /// Read-only for good, whatever is open.
            case aborted
            /// What is cached cannot be read.
            case failingReads

            var disk: (kind: SmallDisk.Kind, megabytes: Int, backed: Int?) {
                switch self {
                case .fullTmpfs: (.tmpfs, 16, nil)
                case .fullExt4, .immutable, .aborted, .failingReads: (.ext4, 48, nil)
                case .failingWrites: (.ext4, 48, 12)
                }
            }

            /// A file that is cached as a whole is the kernel's to read: an error of the disk is then the reader's.
            var cap: String { self == .failingReads ? "16M" : "1G" }

            var isMended: Bool { self == .fullTmpfs || self == .fullExt4 || self == .immutable }

            func begin(_ disk: SmallDisk, _ cache: CacheFolder) throws {
                switch self {
                case .fullTmpfs, .fullExt4: disk.fill()
                case .immutable:
                    cache.syncIndex()
                    try disk.setImmutable(true)
                case .failingWrites: break
                case .aborted:
                    cache.syncIndex()
                    try disk.abort()
                case .failingReads:
                    cache.dropPages()
                    // First of all no writing: it would let the image grow again, and what was lost read as zeros.
                    try disk.abort()
                    disk.loseBlocks(after: 1)
                }
            }

            func mend(_ disk: SmallDisk) throws {
                disk.free()
                if self == .immutable { try disk.setImmutable(false) }
            }
        }

        @Test(
            "A sick disk fails no read, and is used again when it is well", .plainAndEncrypted,
            arguments: Trouble.allCases,
            Shape.tried)
        func sick(_ trouble: Trouble, _ shape: Shape) throws {
            // How the blocks are kept is below all shapes, and nearly all troubles.
            let isAlways = LongTests.areRun || [.failingWrites, .aborted].contains(trouble)
            if CacheKind.isEncrypted, shape != .twoAtOnce || !isAlways { return }
            let film = FileOrigin(length: Self.length, seed: 1)
            let short = FileOrigin(length: 1 << 20, seed: 2)
            let server = try folderServer(["film.mkv": film, "short.mkv": short])
            defer { server.stop() }
            try withScene { scene in
                let (kind, megabytes, backed) = trouble.disk
                let disk = try SmallDisk(kind, megabytes: megabytes, backed: backed, at: scene.cache)
                defer { scene.endMounts(); disk.end() }
                let mount = try scene.mount(server.address, FaultReaders.patient + ["--cache-size", trouble.cap])
                let readers = FaultReaders(shape, mount.file("film.mkv"), film.version)
                readers.start()
                defer { readers.stop() }
                #expect(readers.read(100))
                try trouble.begin(disk, CacheFolder(path: scene.cache))
                #expect(readers.read(trouble == .failingWrites ? 1000 : 300), "reading does not go on")
                // A file that was never seen, while the disk is sick.
                #expect(short.difference(inFile: mount.file("short.mkv")) == nil, "a new file")
                try trouble.mend(disk)
                #expect(readers.read(100), "reading does not go on")
                readers.finish().expectRight()
                guard trouble.isMended else { return }
                #expect(eventually(within: .seconds(15)) { isCached("short.mkv", short, mount, server) }, "not cached")
            }
        }

        /// SQLite's readers write a mark into the mapped -shm when a commit has come since they last looked; on a disk
        /// that refuses, that is SIGBUS.
        @Test(
            "A first look into the index after its disk began to refuse does not end the daemon",
            arguments: [
                Trouble.immutable, .aborted,
            ])
        func firstLook(_ trouble: Trouble) throws {
            let film = FileOrigin(length: 8 << 20, seed: 1)
            let short = FileOrigin(length: 1 << 20, seed: 2)
            let server = try folderServer(["film.mkv": film, "short.mkv": short])
            defer { server.stop() }
            try withScene { scene in
                let disk = try SmallDisk(.ext4, megabytes: 48, at: scene.cache)
                defer { scene.endMounts(); disk.end() }
                let mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.inOrder, mount.file("film.mkv"), film.version).expectRight()
                let cache = CacheFolder(path: scene.cache)
                #expect(eventually { cache.committedBlocks == 64 }, "not committed")
                try trouble.begin(disk, cache)
                #expect(short.difference(inFile: mount.file("short.mkv")) == nil, "a new file")
                FaultReaders.onePass(.twoAtOnce, mount.file("film.mkv"), film.version).expectRight("refusing:")
                #expect(isRunning(mount.pid), "the daemon has ended")
                try trouble.mend(disk)
            }
        }

        @Test("A disk that is full from the start is no reason to fail", arguments: SmallDisk.Kind.allCases)
        func fullFromTheStart(_ kind: SmallDisk.Kind) throws {
            let film = FileOrigin(length: 3 << 20, seed: 1)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
                let disk = try SmallDisk(kind, megabytes: 16, at: scene.cache)
                defer { scene.endMounts(); disk.end() }
                disk.fill()
                let mount = try scene.mount(server.address, FaultReaders.patient)
                for shape in Shape.allCases {
                    FaultReaders.onePass(shape, mount.file("film.mkv"), film.version).expectRight("\(shape):")
                }
                disk.free()
                #expect(eventually(within: .seconds(15)) { isCached("film.mkv", film, mount, server) }, "not cached")
            }
        }

        @Test("After a disk has failed, its repaired cache is used: right bytes, and kept again", .plainAndEncrypted)
        func repaired() throws {
            let film = FileOrigin(length: 3 << 20, seed: 1)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
                let disk = try SmallDisk(.ext4, megabytes: 32, at: scene.cache)
                defer { scene.endMounts(); disk.end() }
                var mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.inOrder, mount.file("film.mkv"), film.version).expectRight()
                try disk.abort()
                FaultReaders.onePass(.twoAtOnce, mount.file("film.mkv"), film.version).expectRight("read-only:")
                // The daemon ends although its last commit cannot be written.
                _ = try ChildProcess.run([program, "umount", mount.path])
                #expect(eventually { !isRunning(mount.pid) }, "the daemon stays")
                try disk.mountAgain()
                mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.twoAtOnce, mount.file("film.mkv"), film.version).expectRight("mounted again:")
                #expect(isCached("film.mkv", film, mount, server))
            }
        }

        enum Loss: CaseIterable { case emptied, sourceRenamed, cacheRenamed, replacedByFile }

        @Test("A cache directory that vanishes fails no read", arguments: Loss.allCases, Shape.tried)
        func vanished(_ loss: Loss, _ shape: Shape) throws {
            let film = FileOrigin(length: 6 << 20 + 7, seed: 1)
            let short = FileOrigin(length: 1 << 20, seed: 2)
            let server = try folderServer(["film.mkv": film, "short.mkv": short])
            defer { server.stop() }
            try withScene { scene in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                let readers = FaultReaders(shape, mount.file("film.mkv"), film.version)
                readers.start()
                defer { readers.stop() }
                #expect(readers.read(30))
                let source = try #require(CacheFolder(path: scene.cache).sources.first)
                switch loss {
                case .emptied: _ = try ChildProcess.run(["rm", "-rf", source])
                case .sourceRenamed: rename(source, source + ".away")
                case .cacheRenamed: rename(scene.cache, scene.cache + ".away")
                case .replacedByFile:
                    rename(source, scene.work("away"))
                    try writeFile(source, [1, 2, 3])
                }
                #expect(readers.read(200), "reading does not go on")
                #expect(short.difference(inFile: mount.file("short.mkv")) == nil, "a new file")
                readers.finish().expectRight()
                if loss == .replacedByFile { unlink(source) }
                _ = try ChildProcess.run([program, "umount", mount.path])
                #expect(eventually { !isRunning(mount.pid) }, "the daemon stays")
                mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(shape, mount.file("film.mkv"), film.version).expectRight("mounted again:")
            }
        }

        /// Reads a file twice. - Returns: whether the second time cost no more than a confirmation.
        private func isCached(_ name: String, _ file: FileOrigin, _ mount: Mounted, _ server: ScriptedServer) -> Bool {
            guard file.difference(inFile: mount.file(name)) == nil else { return false }
            mount.dropPages(name)
            let before = server.bytesAsked(of: file.length)
            return file.difference(inFile: mount.file(name)) == nil && server.bytesAsked(of: file.length) <= before + 1
        }
    }
}
