import ReelFuse
import Testing

@Suite struct MountTests {
    /// Composed and decomposed letters are two directories.
    @Test func aMountIsOnTheDirectoryWithTheSameBytes() throws {
        let line = "36 35 0:40 / /mnt/caf\u{E9} rw,noatime shared:1 - fuse.reelfs http://h/ rw"
        let mount = try #require(Mount(line: line))
        #expect(mount.isOn("/mnt/caf\u{E9}") && !mount.isOn("/mnt/cafe\u{301}"))
    }
}
