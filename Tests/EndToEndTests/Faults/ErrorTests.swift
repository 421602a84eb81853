import CFuse
import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// The table of the page Errors, through the kernel.
    @Suite struct ErrorTests {
        @Test("Whatever would change the tree is EROFS")
        func changes() throws {
            try withMount(of: FileOrigin(length: 1000)) { scene, server, mount in
                let film = mount.file("film.mkv")
                let new = mount.file("new")
                var times = [timespec(), timespec()]
                let calls: [(String, () -> Int)] = [
                    ("open to write", { Int(open(film, O_WRONLY)) }), ("open for both", { Int(open(film, O_RDWR)) }),
                    ("open to truncate", { Int(open(film, O_RDONLY | O_TRUNC)) }),
                    ("create", { Int(open(new, O_WRONLY | O_CREAT, 0o644)) }), ("mkdir", { Int(mkdir(new, 0o755)) }),
                    ("mkfifo", { Int(mkfifo(new, 0o644)) }), ("symlink", { Int(symlink("x", new)) }),
                    ("link", { Int(link(film, new)) }), ("rename", { Int(rename(film, new)) }),
                    ("unlink", { Int(unlink(film)) }), ("chmod", { Int(chmod(film, 0o600)) }),
                    ("chown", { Int(chown(film, 1, 1)) }), ("truncate", { Int(truncate(film, 1)) }),
                    ("utimensat", { Int(utimensat(AT_FDCWD, film, &times, 0)) }),
                    ("setxattr", { Int(setxattr(film, "user.x", "y", 1, 0)) }),
                    ("removexattr", { Int(removexattr(film, "user.mime_type")) }),
                ]
                for (name, call) in calls { #expect(code(call) == EROFS, "\(name)") }
                #expect(code { access(film, W_OK) == 0 ? 0 : -1 } == EROFS)
            }
        }

        @Test("Names and attributes that are not there say so, and a name that is too long as well")
        func missing() throws {
            try withMount(of: FileOrigin(length: 1000)) { scene, server, mount in
                #expect(readingCode(mount.file("none.mkv")) == ENOENT)
                #expect(readingCode(mount.file("film.mkv/below")) == ENOTDIR)
                #expect(readingCode(mount.path) == EISDIR)
                #expect(readingCode(mount.file(String(repeating: "n", count: 255))) == ENOENT)
                #expect(readingCode(mount.file(String(repeating: "n", count: 256))) == ENAMETOOLONG)
                let film = mount.file("film.mkv")
                #expect(code { getxattr(film, "user.none", nil, 0) } == ENODATA)
                #expect([ENODATA, EOPNOTSUPP].contains(code { getxattr(film, "system.posix_acl_access", nil, 0) }))
                #expect([ENODATA, EOPNOTSUPP].contains(code { getxattr(film, "security.capability", nil, 0) }))
            }
        }

        struct Trouble: CustomTestStringConvertible, Sendable {
            var testDescription: String
            var fault: FileOrigin.Fault
            var number: Int32

            /// Whether it lasts as long as its readers have patience, which is short then; else it takes no time, and
            /// the patience is so long that nothing else does.
            var takesAllTime: Bool {
                switch fault {
                case .silent, .stallAfter, .status(500, _): true
                default: false
                }
            }

            init(_ name: String, _ fault: FileOrigin.Fault, _ number: Int32) {
                (testDescription, self.fault, self.number) = (name, fault, number)
            }

            static let all = [
                Trouble("401", .status(401, retryAfter: nil), EACCES),
                Trouble("403", .status(403, retryAfter: nil), EACCES),
                Trouble("404 of a known name", .status(404, retryAfter: nil), ESTALE),
                Trouble("410 of a known name", .status(410, retryAfter: nil), ESTALE),
                Trouble("500 for ever", .status(500, retryAfter: nil), EIO),
                Trouble("a wrong Content-Range", .wrongContentRange, EIO),
                Trouble("a wrong total", .wrongTotal, EIO),
                Trouble("no Content-Range", .noContentRange, EIO),
                Trouble("a portal's page", .htmlWith200, EIO),
                Trouble("silence", .silent, ETIMEDOUT),
                Trouble("a stall", .stallAfter(1), ETIMEDOUT),
            ]
        }

        @Test("An origin in trouble is the right errno, at the deadline or before it", arguments: Trouble.all)
        func trouble(_ trouble: Trouble) throws {
            let (first, later) = (FileOrigin(length: 3 << 20), FileOrigin(length: 20 << 20))
            let server = try folderServer(["first.mkv": first, "later.mkv": later])
            defer { server.stop() }
            try withScene { scene in
                let patience = trouble.takesAllTime ? 6 : 120
                let mount = try scene.mount(server.address, ["--timeout", "\(patience)"])
                let file = try OpenDescriptor(mount.file("later.mkv"))
                #expect(try file.bytes(at: 0, count: 1000) == later.expectedBytes(ByteRange(0, 1000)))
                (first.fault, later.fault) = (trouble.fault, trouble.fault)
                let start = ContinuousClock.now
                #expect(throws: SystemFailure("pread", trouble.number)) {
                    let bytes = try file.bytes(at: 10 << 20, count: 200_000)
                    Issue.record("\(bytes.count) bytes were read")
                }
                let half = ContinuousClock.now
                #expect(readingCode(mount.file("first.mkv")) == trouble.number, "at the first open")
                let end = ContinuousClock.now
                // The kernel asks twice: in advance, and when that failed once more for what is wanted. And an open and
                // a read have a deadline each. So both take two of them at most, or a third of one.
                let most = Duration.seconds(trouble.takesAllTime ? 3 * patience : patience / 3)
                #expect(half - start < most && end - half < most, "\(half - start), \(end - half)")
                // What is there stays readable.
                #expect(try file.bytes(at: 0, count: 1000) == later.expectedBytes(ByteRange(0, 1000)))
            }
        }

        @Test("A killed reader of a stalled file ends at once", arguments: ["open", "read"])
        func killedReader(_ stage: String) throws {
            let film = FileOrigin(length: 20 << 20)
            try withMount(of: film, ["--timeout", "120"]) { scene, server, mount in
                film.fault = stage == "open" ? .silent : .stallAfter(300_000)
                let count: Int64 = stage == "read" ? 100_000 : 0
                let reader = try startReader(of: mount.file("film.mkv"), into: scene.work("read"), atLeast: count)
                #expect(eventually { !server.fileRequests.isEmpty })
                reader.signal(SIGKILL)
                #expect(try reader.wait(within: .seconds(40)).status == 128 + SIGKILL)
            }
        }
    }
}
