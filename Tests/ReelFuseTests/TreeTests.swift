import CFuse
import CLinux
import Glibc
import ReelCore
import ReelFilesystem
import TestKit
import Testing

@testable import ReelFuse

@Suite("Names and attributes through the kernel", .serialized, .enabled(if: fuseIsUsable))
struct TreeTests {
    @Test("stat shows what the volume says, and the mounter as owner")
    func attributes() throws {
        let file = MemoryFile(node: 2, length: 1_000_001)
        try withMount(["film": file], ownership: Ownership(user: 12, group: 34, umask: 0o027)) { mount in
            var status = stat()
            #expect(lstat(mount.file("film"), &status) == 0)
            #expect(status.st_mode == S_IFREG | 0o440)
            #expect(status.st_uid == 12 && status.st_gid == 34 && status.st_nlink == 1 && status.st_ino == 2)
            #expect(status.st_size == 1_000_001 && status.st_blocks == 1954 && status.st_mtim.tv_sec == 1_000_000_000)
            #expect(Int64(status.st_blksize) == BlockSize.block)
            #expect(lstat(mount.path, &status) == 0)
            #expect(status.st_mode == S_IFDIR | 0o550)
        }
    }

    /// What archivers go by: a file without blocks is nothing but a hole to them.
    @Test(
        "A file has the blocks of its length",
        arguments: [
            (0, 0), (1, 1), (512, 1), (513, 2), (1 << 20, 2048), (.max, 1 << 54),
        ] as [(Int64, Int)])
    func blocks(_ length: Int64, _ expected: Int) throws {
        try withMount(["film": MemoryFile(node: 2, length: length)]) { mount in
            var status = stat()
            #expect(lstat(mount.file("film"), &status) == 0)
            #expect(Int64(status.st_size) == length && status.st_blocks == expected)
        }
    }

    @Test("The source in mountinfo is byte for byte the one given")
    func source() throws {
        try withMount([:]) { mount in
            let line = Mount.on(mount.path)
            #expect(line?.source == #"http://h/a, b\c d"# && line?.isOurs == true)
        }
    }

    /// Linux asks for as much of a directory as the program does, from 6.16 on.
    @Test("A directory is listed whole however much is asked for at once", arguments: [4096, 1 << 20, 16 << 20])
    func largeListing(room: Int) throws {
        let files = (0..<5000).map { number in
            ("film \(number) " + String(repeating: "x", count: 200), MemoryFile(node: NodeID(number + 2), length: 1))
        }
        try withMount(Dictionary(uniqueKeysWithValues: files)) { mount in
            let descriptor = open(mount.path, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
            defer { close(descriptor) }
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: room, alignment: 8)
            defer { buffer.deallocate() }
            var names = Set<UInt64>()
            while true {
                let count = getdents64(descriptor, buffer.baseAddress, room)
                #expect(count >= 0)
                if count <= 0 { break }
                var offset = 0
                while offset < count {
                    names.insert(buffer.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
                    offset += Int(buffer.loadUnaligned(fromByteOffset: offset + 16, as: UInt16.self))
                }
            }
            #expect(names.isSuperset(of: (2..<5002).map { UInt64($0) }))
        }
    }

    static let readaheadIsWritable = access("/sys/class/bdi", F_OK) == 0 && geteuid() == 0

    @Test("Root's mount has its kernel readahead raised", .enabled(if: readaheadIsWritable))
    func readahead() throws {
        try withMount([:]) { mount in
            let device = try #require(Mount.on(mount.path)?.device)
            let path = "/sys/class/bdi/\(device)/read_ahead_kb"
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            // Where /sys is read-only it stays as it was.
            let expected = access(path, W_OK) == 0 ? "512\n" : "128\n"
            #expect(readFile(descriptor, at: 0, count: 20) == Array(expected.utf8))
        }
    }

    @Test("statfs answers from the capacity")
    func capacity() throws {
        try withMount([:]) { mount in
            var status = statvfs()
            #expect(statvfs(mount.path, &status) == 0)
            #expect(status.f_blocks * status.f_frsize == 1 << 30)
            #expect(status.f_bavail * status.f_frsize == 1 << 30 - 1 << 20)
            #expect(status.f_namemax == 255)
        }
    }

    @Test("A directory lists every name once", arguments: [0, 1, 2, 3000])
    func listing(count: Int) throws {
        let names = (0..<count).map { "film \($0) äöü.mkv" }
        let files = names.enumerated().map { ($1, MemoryFile(node: NodeID($0 + 2), length: 10)) }
        try withMount(Dictionary(uniqueKeysWithValues: files)) { mount in
            let directory = try #require(opendir(mount.path))
            defer { closedir(directory) }
            var listed: [String] = []
            while let item = readdir(directory) {
                listed.append(
                    withUnsafeBytes(of: &item.pointee.d_name) { bytes in
                        String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
                    })
                #expect(item.pointee.d_type == UInt8(DT_REG))
            }
            #expect(listed.sorted() == names.sorted())
        }
    }

    @Test("A name that is not there is ENOENT, one over 255 bytes ENAMETOOLONG, broken UTF-8 ENOENT")
    func names() throws {
        try withMount([:]) { mount in
            var status = stat()
            #expect(code { Int(stat(mount.file("nothing"), &status)) } == ENOENT)
            #expect(code { Int(stat(mount.file(String(repeating: "n", count: 256)), &status)) } == ENAMETOOLONG)
            #expect(code { Int(stat(mount.file(String(repeating: "n", count: 255)), &status)) } == ENOENT)
            let broken = (mount.path + "/").utf8CString.dropLast() + [-1, -2, 0]
            #expect(code { Int(stat(Array(broken), &status)) } == ENOENT)
        }
    }

    @Test("xattrs give their length and their bytes, or ERANGE and ENODATA")
    func extendedAttributes() throws {
        try withMount(["film": MemoryFile(node: 2, length: 10)]) { mount in
            let path = mount.file("film")
            var bytes = [UInt8](repeating: 0, count: 64)
            #expect(getxattr(path, "user.mime_type", nil, 0) == 9)
            #expect(getxattr(path, "user.mime_type", &bytes, 64) == 9)
            #expect(String(decoding: bytes[..<9], as: UTF8.self) == "video/mp4")
            #expect(code { getxattr(path, "user.mime_type", &bytes, 8) } == ERANGE)
            #expect(code { getxattr(path, "user.other", &bytes, 64) } == ENODATA)
            #expect(code { getxattr(path, "security.capability", &bytes, 64) } == EOPNOTSUPP)
            #expect(code { getxattr(path, "system.posix_acl_access", &bytes, 64) } == EOPNOTSUPP)
            #expect(listxattr(path, nil, 0) == 31)
            var names = [CChar](repeating: 0, count: 64)
            #expect(listxattr(path, &names, 64) == 31)
            #expect(names[..<31].map { UInt8($0) } == Array("user.mime_type\0user.reelfs.url\0".utf8))
            #expect(code { listxattr(path, &names, 30) } == ERANGE)
        }
    }

    struct Change: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// - Parameters: an existing file, a name that is free.
        var run: @Sendable (String, String) -> Int
    }

    static let changes: [Change] = [
        Change(testDescription: "open for writing") { file, _ in Int(open(file, O_WRONLY)) },
        Change(testDescription: "open for both") { file, _ in Int(open(file, O_RDWR)) },
        Change(testDescription: "open and truncate") { file, _ in Int(open(file, O_WRONLY | O_TRUNC)) },
        Change(testDescription: "create") { _, free in Int(open(free, O_CREAT | O_WRONLY, 0o644)) },
        Change(testDescription: "mkdir") { _, free in Int(mkdir(free, 0o755)) },
        Change(testDescription: "mkfifo") { _, free in Int(mkfifo(free, 0o644)) },
        Change(testDescription: "symlink") { _, free in Int(symlink("target", free)) },
        Change(testDescription: "link") { file, free in Int(link(file, free)) },
        Change(testDescription: "rename") { file, free in Int(rename(file, free)) },
        Change(testDescription: "unlink") { file, _ in Int(unlink(file)) },
        Change(testDescription: "truncate") { file, _ in Int(truncate(file, 0)) },
        Change(testDescription: "chmod") { file, _ in Int(chmod(file, 0o600)) },
        Change(testDescription: "chown") { file, _ in Int(chown(file, 1, 1)) },
        Change(testDescription: "utimes") { file, _ in Int(utimes(file, nil)) },
        Change(testDescription: "setxattr") { file, _ in Int(setxattr(file, "user.a", "b", 1, 0)) },
        Change(testDescription: "removexattr") { file, _ in Int(removexattr(file, "user.mime_type")) },
    ]

    @Test("Whatever would change the tree is EROFS", arguments: changes)
    func readOnly(_ change: Change) throws {
        try withMount(["film": MemoryFile(node: 2, length: 10)]) { mount in
            #expect(code { change.run(mount.file("film"), mount.file("free")) } == EROFS)
        }
    }

    @Test("It is EROFS also after root has remounted it for writing", .enabled(if: geteuid() == 0), arguments: changes)
    func remounted(_ change: Change) throws {
        try withMount(["film": MemoryFile(node: 2, length: 10)]) { mount in
            #expect(Glibc.mount("none", mount.path, nil, UInt(MS_REMOUNT), nil) == 0)
            #expect(code { change.run(mount.file("film"), mount.file("free")) } == EROFS)
        }
    }

    @Test("What the volume revokes is asked again: a new version under a name, and attributes")
    func revoked() throws {
        let old = MemoryFile(node: 2, length: 1000)
        let new = MemoryFile(node: 4, length: 2000, seed: 99)
        try withMount(["film": old]) { mount in
            func bytes() -> [UInt8]? {
                let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC)
                defer { close(descriptor) }
                return readFile(descriptor, at: 0, count: 3000)
            }
            func date() -> Int {
                var status = stat()
                return stat(mount.file("film"), &status) == 0 ? status.st_mtim.tv_sec : -1
            }
            #expect(bytes() == old.bytes(0..<1000))
            #expect(date() == 1_000_000_000)
            mount.filesystem.state.withLock { $0.files["film"]!.modified = 513 }
            #expect(date() == 1_000_000_000)
            mount.session.kernelCache.forgetDirectory(2)
            #expect(eventually { date() == 513 })
            mount.filesystem.state.withLock { $0.files["film"] = new }
            mount.session.kernelCache.forgetEntry("film", in: rootNode)
            #expect(eventually { bytes() == new.bytes(0..<2000) })
        }
    }
}
