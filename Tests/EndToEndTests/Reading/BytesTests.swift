import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Promise 1 and 3: right bytes by every way of reading, each fetched once.
    @Suite struct BytesTests {
        /// Neither a multiple of a block nor of a page, and more than two extents.
        static let length: Int64 = 20 << 20 + 12_345

        enum Way: CaseIterable {
            case sequential, random, mapped, direct, sendfile, copyFileRange, cp, backwards
        }

        @Test("Every way of reading gives the origin's bytes", arguments: Way.allCases)
        func everyWay(_ way: Way) throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film) { scene, server, mount in
                try read(way, mount.file("film.mkv"), scene.work("copy"), film)
            }
        }

        private func read(_ way: Way, _ path: String, _ copy: String, _ film: FileOrigin) throws {
            switch way {
            case .sequential: #expect(film.difference(inFile: path) == nil)
            case .random:
                var random = SeededGenerator()
                let file = try OpenDescriptor(path)
                for _ in 0..<200 {
                    let offset = Int64.random(in: 0..<Self.length, using: &random)
                    let count = Int.random(in: 1...(300 << 10), using: &random)
                    let bytes = try file.bytes(at: offset, count: count)
                    let expected = film.expectedBytes(ByteRange(offset, offset + Int64(count)))
                    #expect(bytes.elementsEqual(expected), "at \(offset), \(count) bytes, seed \(random.seed)")
                }
            case .mapped:
                try OpenDescriptor(path).mapped { bytes in
                    #expect(film.version.bytes.firstDifference(in: bytes, from: 0) == nil)
                }
            case .direct: try copied(["dd", "if=\(path)", "of=\(copy)", "bs=1M", "iflag=direct"], copy, film)
            case .sendfile:
                try copied(["python3", "-c", Self.loop("os.sendfile(b, a, None, 1 << 20)"), path, copy], copy, film)
            case .copyFileRange:
                // The kernel refuses between filesystems of different kinds, as cp knows: then it is read and write.
                let call = "os.copy_file_range(a, b, 1 << 20)"
                try copied(["python3", "-c", Self.loop(call), path, copy], copy, film)
            case .cp: try copied(["cp", path, copy], copy, film)
            case .backwards:
                let file = try OpenDescriptor(path)
                for offset in stride(from: Self.length / 1_000_000 * 1_000_000, through: 0, by: -1_000_000) {
                    let expected = film.expectedBytes(ByteRange(offset, offset + 1_000_000))
                    #expect(try file.bytes(at: offset, count: 1_000_000) == expected, "at \(offset)")
                }
            }
        }

        private static func loop(_ call: String) -> String {
            """
            import errno, os, sys
            a = os.open(sys.argv[1], os.O_RDONLY)
            b = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
            try:
                while \(call): pass
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL): raise
                while chunk := os.read(a, 1 << 20): os.write(b, chunk)
            """
        }

        private func copied(_ words: [String], _ copy: String, _ film: FileOrigin) throws {
            let end = try ChildProcess.run(words)
            #expect(end.status == 0, "\(end.errors)")
            #expect(film.difference(inFile: copy) == nil)
        }

        /// tar looks for holes in what has fewer blocks than bytes: by SEEK_HOLE, or for zeros in what it reads.
        @Test(
            "A file is archived whole by tar -S, cached, in part or not at all",
            arguments: ["seek", "raw"], [0, 1 << 20, length] as [Int64])
        func archived(_ detection: String, _ cached: Int64) throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film) { scene, _, mount in
                let path = mount.file("film.mkv")
                if cached > 0 { _ = try OpenDescriptor(path).bytes(at: 0, count: Int(cached)) }
                let tar = ["tar", "-S", "--hole-detection=\(detection)", "-cf", scene.work("films.tar"), "film.mkv"]
                let end = try ChildProcess.run(tar, directory: mount.path)
                #expect(end.status == 0, "\(end.errors)")
                try copied(["tar", "-xf", scene.work("films.tar"), "-C", scene.work("")], scene.work("film.mkv"), film)
                let file = try OpenDescriptor(path)
                let (data, hole): (Int32, Int32) = (3, 4)
                #expect(lseek(file.number, 0, data) == 0 && lseek(file.number, 0, hole) == film.length)
            }
        }

        @Test("Eight processes at once cost the origin the file's length, once")
        func eightProcesses() throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film) { scene, server, mount in
                try writeFile(scene.work("same"), film.whole)
                _ = try names(in: mount.path)
                let before = server.bodyBytesSent
                let readers = try (0..<8).map { _ in
                    try ChildProcess(["cmp", scene.work("same"), mount.file("film.mkv")])
                }
                for reader in readers {
                    let end = try reader.wait()
                    #expect(end.status == 0, "\(end.output)\(end.errors)")
                }
                let sent = server.bodyBytesSent(atLeast: before + film.length) - before - film.length
                #expect((0...server.bytesAskedTwice(of: film.length)).contains(sent), "\(sent)")
            }
        }

        @Test("What was read is not fetched again: without pages, after a remount", .plainAndEncrypted)
        func readAgain() throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film) { scene, server, mount in
                var mount = mount
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                let before = server.bytesAsked(of: Self.length)
                mount.dropPages("film.mkv")
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                // A confirmation of the version may cost the one byte of a one-byte range.
                #expect(server.bytesAsked(of: Self.length) - before <= 1)
                try mount.unmount()
                mount = try scene.mount(server.address)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                #expect(server.bytesAsked(of: Self.length) - before <= 2)
            }
        }

        @Test("After kill -9 the next mount heals the place, and reads on from what was there", .plainAndEncrypted)
        func killed() throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film) { scene, server, mount in
                var mount = mount
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                // What is not committed is lost.
                let cache = CacheFolder(path: scene.cache)
                let blocks = Self.length / BlockSize.block
                #expect(eventually { cache.committedBlocks >= blocks })
                mount.crash()
                #expect(eventually { !mountTable().contains { $0.mountpoint == mount.path } })
                let before = server.bytesAsked(of: Self.length)
                mount = try scene.mount(server.address)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                // The version is confirmed by one byte.
                #expect(server.bytesAsked(of: Self.length) - before <= BlockSize.block + 1)
            }
        }
    }
}
