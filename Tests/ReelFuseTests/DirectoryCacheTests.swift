import Glibc
import ReelFilesystem
import TestKit
import Testing

@testable import ReelFuse

@Suite("What the kernel keeps of a directory", .serialized, .enabled(if: fuseIsUsable))
struct DirectoryCacheTests {
    private static let count = 2000

    /// Does what `ls -l` does: each name, then its attributes. - Returns: how many there were.
    private func listLong(_ path: String) -> Int {
        guard let directory = opendir(path) else { return -1 }
        defer { closedir(directory) }
        var found = 0
        while let item = readdir(directory) {
            let name = withUnsafeBytes(of: &item.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            var status = stat()
            if fstatat(dirfd(directory), name, &status, AT_SYMLINK_NOFOLLOW) == 0 { found += 1 }
        }
        return found
    }

    private func withFiles(isHeld: Bool, _ body: (MountFixture) throws -> Void) throws {
        let files = (0..<Self.count).map { ("film \($0).mkv", MemoryFile(node: NodeID($0 + 2), length: 10)) }
        try withMount(Dictionary(uniqueKeysWithValues: files)) { mount in
            mount.filesystem.state.withLock { state in
                state.tellsAll = true
                state.isHeldByKernel = isHeld
            }
            try body(mount)
        }
    }

    private func reset(_ mount: MountFixture) {
        mount.filesystem.state.withLock { state in
            (state.lookups, state.attributeCalls, state.listings, state.extendedAttributeCalls) = (0, 0, 0, 0)
        }
    }

    @Test("The first listing brings the attributes along, the second asks for nothing")
    func second() throws {
        try withFiles(isHeld: true) { mount in
            #expect(listLong(mount.path) == Self.count)
            mount.filesystem.state.withLock { state in
                #expect(state.lookups == 0 && state.listings < Self.count / 20)
            }
            reset(mount)
            #expect(listLong(mount.path) == Self.count)
            mount.filesystem.state.withLock { state in
                #expect(state.lookups == 0 && state.attributeCalls == 0 && state.listings == 0)
            }
        }
    }

    @Test("What the volume does not take for held is read anew, and all at once")
    func notHeld() throws {
        try withFiles(isHeld: false) { mount in
            #expect(listLong(mount.path) == Self.count)
            reset(mount)
            #expect(listLong(mount.path) == Self.count)
            mount.filesystem.state.withLock { state in
                #expect(state.lookups == 0 && state.listings > 0 && state.listings < Self.count / 20)
            }
        }
    }

    @Test("Two programs that read two listings of one directory get each their own")
    func twoListings() throws {
        let names = (1000..<1500).map { "film \($0).mkv" }
        func files(_ names: [String]) -> [String: MemoryFile] {
            Dictionary(
                uniqueKeysWithValues: names.enumerated().map { ($1, MemoryFile(node: 2 + UInt64($0), length: 10)) })
        }
        try withMount(files(names)) { mount in
            func opened() -> Int32 { open(mount.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
            func rest(_ folder: Int32) throws -> [String] {
                var seen: [String] = []
                while case let more = try nextNames(folder), !more.isEmpty { seen += more }
                return seen
            }
            let first = opened()
            defer { close(first) }
            mount.filesystem.state.withLock { $0.files = files(names.reversed()) }
            let second = opened()
            defer { close(second) }
            let begun = try nextNames(second)
            #expect(try rest(first) == names)
            #expect(try begun + rest(second) == names.reversed())
            let third = opened()
            defer { close(third) }
            #expect(try rest(third) == names.reversed())
        }
    }

    @Test("A directory that is revoked is read anew")
    func revoked() throws {
        try withFiles(isHeld: true) { mount in
            #expect(listLong(mount.path) == Self.count)
            mount.filesystem.state.withLock { $0.files["film 7.mkv"] = nil }
            reset(mount)
            let before = listLong(mount.path)
            // What the kernel has dropped of its own accord it asks for.
            mount.filesystem.state.withLock { #expect(before == Self.count || $0.lookups + $0.listings > 0) }
            mount.session.kernelCache.forgetEntry("film 7.mkv", in: rootNode)
            mount.session.kernelCache.forgetDirectory(rootNode)
            #expect(eventually { listLong(mount.path) == Self.count - 1 })
        }
    }
}
