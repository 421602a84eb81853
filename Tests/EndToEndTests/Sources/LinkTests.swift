import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// Symbolic links, which a server has as files.
    @Suite struct LinkTests {
        private static let links = [
            ("best.mkv", "films/one.mkv"), ("films/up.mkv", "../best.mkv"), ("folder", "./films"),
            ("two.mkv", "films/one.mkv"), ("gone.mkv", "films/none.mkv"), ("outside", "../outside"),
            ("films/outside", "../../outside"), ("absolute", "/etc/hostname"), ("winding", "films/../../outside"),
            ("empty", ""), ("zero", "a\0b"), ("longest", String(repeating: "x", count: 4095)),
            ("long", String(repeating: "x", count: 4096)),
        ]
        private static let refused = ["outside", "films/outside", "absolute", "winding", "empty", "zero"]

        /// A real server over a folder with links, as rclone writes them.
        private func withLinks(_ body: (Scene, RealServer) throws -> Void) throws {
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                mkdir(root + "/films", 0o755)
                try writeFile(root + "/films/one.mkv", Array("one".utf8))
                try writeFile(root + "/two.mkv", Array("two".utf8))
                for (name, target) in Self.links { try writeFile(root + "/\(name).rclonelink", Array(target.utf8)) }
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                try body(scene, server)
            }
        }

        private func target(_ path: String) -> String? {
            var bytes = [UInt8](repeating: 0, count: 8192)
            let count = bytes.withUnsafeMutableBytes {
                readlink(path, $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
            }
            return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
        }

        @Test("Files of links are shown as links, which lead only to what is in the mount")
        func shown() throws {
            try withLinks { scene, server in
                let mount = try scene.mount(server.url, ["--links"])
                let expected = [
                    "absolute", "best.mkv", "empty", "films", "folder", "gone.mkv", "long.rclonelink", "longest",
                    "outside", "two.mkv", "two.mkv.rclonelink", "winding", "zero",
                ]
                #expect(try names(in: mount.path) == expected)
                for name in ["best.mkv", "films/up.mkv", "folder", "gone.mkv", "longest"] {
                    var status = stat()
                    #expect(lstat(mount.file(name), &status) == 0 && status.st_mode & S_IFMT == S_IFLNK, "\(name)")
                    #expect(target(mount.file(name)) == Self.links.first { $0.0 == name }?.1, "\(name)")
                }
                for name in ["best.mkv", "films/up.mkv", "folder/one.mkv", "folder/up.mkv"] {
                    #expect(try readWhole(mount.file(name)) == Array("one".utf8), "\(name)")
                }
                // A file that is there keeps its name, and so does one that is too long for a link.
                #expect(try readWhole(mount.file("two.mkv")) == Array("two".utf8))
                #expect(try readWhole(mount.file("two.mkv.rclonelink")) == Array("films/one.mkv".utf8))
                #expect(try readWhole(mount.file("long.rclonelink")).count == 4096)
                #expect(access(mount.file("gone.mkv"), F_OK) != 0 && errno == ENOENT)
                #expect(access(mount.file("best.mkv.rclonelink"), F_OK) != 0 && errno == ENOENT)
                for name in Self.refused {
                    #expect(target(mount.file(name)) == nil && errno == EXDEV, "\(name)")
                    #expect(open(mount.file(name), O_RDONLY | O_CLOEXEC) < 0 && errno == EXDEV, "\(name)")
                }
                try mount.unmount()
                // The cache remembers what the server has, whatever it was shown as.
                let plain = try scene.mount(server.url)
                #expect(try readWhole(plain.file("best.mkv.rclonelink")) == Array("films/one.mkv".utf8))
                #expect(access(plain.file("best.mkv"), F_OK) != 0 && errno == ENOENT)
                try plain.unmount()
                let again = try scene.mount(server.url, ["-o", "links"])
                #expect(try names(in: again.path) == expected)
                #expect(target(again.file("best.mkv")) == "films/one.mkv")
            }
        }

        @Test("A link of a server's folder leads its clients on, and never out of the tree")
        func served() throws {
            try withLinks { scene, server in
                try withServing(server.url, cache: scene.cache, ["--links"]) { serving in
                    for (path, location) in [
                        ("best.mkv", "/files/films/one.mkv"), ("films/up.mkv", "/files/best.mkv"),
                        ("folder", "/files/films"), ("folder?m3u", "/files/films?m3u"),
                    ] {
                        let answer = try RawAnswer(serving.port, "GET", "/files/" + path)
                        #expect(answer.status == 307 && answer.headers["location"] == location, "\(path): \(answer)")
                    }
                    for name in Self.refused {
                        #expect(try RawAnswer(serving.port, "GET", "/files/" + name).status == 403, "\(name)")
                    }
                    let end = try ChildProcess.run(["curl", "-fsSL", serving.files + "films/up.mkv"])
                    #expect(end.status == 0 && end.output == "one", "\(end)")
                }
            }
        }
    }
}
