import Glibc
import Testing

@testable import ReelCache

/// Paths on which nobody but root and this user can put anything.
@Suite(.enabled(if: geteuid() == 0, "needs root to give directories away")) struct TrustedPathTests {
    private static let other: uid_t = 61_234

    private func opens(_ path: String, makes: Bool = false) -> Bool {
        guard let descriptor = try? openTrusted(path, O_RDONLY | O_DIRECTORY, makesDirectories: makes) else {
            return false
        }
        close(descriptor)
        return true
    }

    @Test(arguments: [
        ("ours", mode_t(0o755), uid_t(0), gid_t(0), true), ("ours, with root's group", 0o775, 0, 0, true),
        ("open to a group", 0o775, 0, 61_234, false), ("open to all", 0o777, 0, 0, false),
        ("open to all, and sticky", 0o1777, 0, 0, true), ("another user's", 0o755, 61_234, 0, false),
        ("another user's, and sticky", 0o1777, 61_234, 0, false),
    ]) func aDirectoryAboveIsOneOfOurs(_ kind: String, mode: mode_t, user: uid_t, group: gid_t, expected: Bool) throws {
        let fixture = Fixture()
        let above = fixture.directory + "/above"
        try #require(mkdir(above, 0o700) == 0 && mkdir(above + "/cache", 0o700) == 0)
        try #require(chown(above, user, group) == 0 && chmod(above, mode) == 0)
        #expect(opens(above + "/cache") == expected)
        #expect(opens(above + "/new/deep", makes: true) == expected)
        #expect((access(above + "/new", F_OK) == 0) == expected)
        if !expected { #expect(throws: PathError.untrusted(above)) { try openTrusted(above + "/cache", O_RDONLY) } }
    }

    @Test func linksOfOursAreFollowedAndThoseOfOthersAreNot() throws {
        let fixture = Fixture()
        let root = fixture.directory
        try #require(mkdir(root + "/real", 0o700) == 0 && mkdir(root + "/real/deep", 0o700) == 0)
        for (name, target) in [
            ("absolute", root + "/real"), ("relative", "real/../real/./deep"), ("loop", "loop"), ("twice", "absolute"),
        ] { try #require(symlink(target, root + "/" + name) == 0) }
        for path in ["absolute", "absolute/deep", "relative", "twice/deep", "real/deep/..", "real//deep/"] {
            #expect(opens(root + "/" + path), "\(path)")
        }
        #expect(throws: PathError.system(root + "/loop", ELOOP)) { try openTrusted(root + "/loop", O_RDONLY) }
        try #require(lchown(root + "/absolute", Self.other, 0) == 0)
        #expect(throws: PathError.untrusted(root + "/absolute")) { try openTrusted(root + "/twice/deep", O_RDONLY) }
    }

    @Test func aLinkThatLeadsThroughAnothersDirectoryIsNotFollowed() throws {
        let fixture = Fixture()
        let root = fixture.directory
        for name in ["/theirs", "/theirs/cache"] { try #require(mkdir(root + name, 0o755) == 0) }
        try #require(chown(root + "/theirs", Self.other, 0) == 0)
        try #require(symlink("theirs/cache", root + "/ours") == 0)
        #expect(!opens(root + "/ours"))
    }

    /// A mark that combines with a slash hides it from a comparison of Characters.
    @Test(arguments: ["\u{301}x", "x"]) func everyDirectoryIsLookedAt(_ name: String) throws {
        let fixture = Fixture()
        let open = fixture.directory + "/open"
        try #require(mkdir(open, 0o700) == 0 && mkdir(open + "/" + name, 0o700) == 0 && chmod(open, 0o777) == 0)
        #expect(throws: PathError.untrusted(open)) { try openTrusted(open + "/" + name, O_RDONLY) }
        try #require(symlink("open/" + name, fixture.directory + "/link") == 0)
        #expect(throws: PathError.untrusted(open)) { try openTrusted(fixture.directory + "/link", O_RDONLY) }
        // Nor is a cache made there.
        #expect(throws: CacheError.untrusted(.untrusted(open))) { try CacheDirectory(open + "/" + name, owner: "/m") }
    }

    @Test func aLinkMayLeadToANameThatIsNoUTF8() throws {
        let fixture = Fixture()
        let name: [CChar] = [CChar(bitPattern: 0xE9), 0x78, 0]
        let directory = try Descriptor(directory: fixture.directory)
        try #require(mkdirat(directory.number, name, 0o700) == 0)
        try #require(symlinkat(name, directory.number, "link") == 0)
        #expect(opens(fixture.directory + "/link"))
    }

    @Test func aCacheBelowAnothersDirectoryIsRefusedAndNothingIsMadeThere() throws {
        let fixture = Fixture()
        try #require(mkdir(fixture.directory + "/cache", 0o755) == 0)
        try #require(chown(fixture.directory + "/cache", Self.other, 0) == 0)
        #expect(throws: CacheError.untrusted(.untrusted(fixture.directory + "/cache"))) { try fixture.open() }
        #expect(access(fixture.source, F_OK) != 0)
    }
}
