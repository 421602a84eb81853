import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Promise 10: a file looks the same while it is the same. What a library scanner compares with its last scan.
    @Suite struct LookTests {
        private struct Look: Equatable {
            var size: UInt
            var modified: UInt
            var changed: UInt
            var inode: UInt
            var blocks: UInt

            /// - Parameter isAsked: past what the kernel has kept.
            init(_ path: String, isAsked: Bool = true) throws {
                let cached = isAsked ? "never" : "always"
                let end = try ChildProcess.run(["stat", "--cached=\(cached)", "--format=%s %Y %Z %i %b", path])
                let fields = end.output.split(whereSeparator: \.isWhitespace).compactMap { UInt($0) }
                try #require(fields.count == 5, "\(end.output)\(end.errors)")
                (size, modified, changed, inode, blocks) = (fields[0], fields[1], fields[2], fields[3], fields[4])
            }
        }

        @Test(
            "Size, blocks, dates and number are those of the first look, through reads, remounts and without the server; what has changed looks other",
            arguments: LongTests.all(RealServer.Kind.allCases, elseOnly: [.nginx]))
        func same(_ kind: RealServer.Kind) throws {
            guard kind.isInstalled else { try Test.cancel("\(kind.rawValue) is not installed") }
            try withScene { scene in
                let film = FileOrigin(length: 1 << 20 + 77)
                mkdir(scene.work("root"), 0o755)
                try put(film, scene.work("root/film.mkv"), at: 1_700_000_035)
                let server = try RealServer(kind, root: scene.work("root"), place: scene.work("server"))
                var isStopped = false
                defer { if !isStopped { server.stop() } }
                var mount = try scene.mount(server.url)
                let first = try Look(mount.file("film.mkv"))
                #expect(Int64(first.size) == film.length && first.changed == first.modified)
                #expect(Int64(first.blocks) == (film.length + 511) / 512)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                #expect(try Look(mount.file("film.mkv")) == first, "read")
                try mount.unmount()
                mount = try scene.mount(server.url)
                #expect(try Look(mount.file("film.mkv"), isAsked: false) == first, "mounted again")
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                #expect(try Look(mount.file("film.mkv")) == first, "mounted again and read")

                // It keeps in mind for five minutes what its files were.
                if kind == .rclone { return }
                film.change(to: .init(seed: 2, length: 700_000))
                try put(film, scene.work("root/film.mkv"), at: 1_700_009_015)
                // An open believes for 5 s what the server confirmed. Until then it costs nothing but the look.
                let isNew = eventually(within: .seconds(20)) {
                    (try? OpenDescriptor(mount.file("film.mkv")).attributes().st_size) == 700_000
                }
                #expect(isNew && film.difference(inFile: mount.file("film.mkv")) == nil)
                let second = try Look(mount.file("film.mkv"))
                #expect(second.size == 700_000 && second.modified > first.modified && second.inode == first.inode)
                try mount.unmount()
                server.stop()
                isStopped = true
                mount = try scene.mount(server.url)
                #expect(try Look(mount.file("film.mkv")) == second, "offline")
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                #expect(try Look(mount.file("film.mkv")) == second, "offline and read")
            }
        }

        private func put(_ film: FileOrigin, _ path: String, at date: Int) throws {
            try writeFile(path, film.whole)
            var times = [timespec(tv_sec: date, tv_nsec: 0), timespec(tv_sec: date, tv_nsec: 0)]
            #expect(utimensat(AT_FDCWD, path, &times, 0) == 0)
        }
    }
}
