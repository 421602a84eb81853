import Glibc
import TestKit
import Testing

@testable import reelfs

/// A mark that combines with a delimiter hides it from a comparison of Characters; the kernel and HTTP see bytes.
@Suite("Delimiters before a mark that combines with them")
struct ByteTests {
    @Test(
        "A path is cut at its last slash",
        arguments: [
            ("/a/\u{301}b", "/a", "\u{301}b"), ("/\u{301}", "", "\u{301}"), ("a/", "a", ""), ("/a/b", "/a", "b"),
            ("a\u{301}", nil, nil),
        ] as [(String, String?, String?)])
    func cut(path: String, above: String?, name: String?) {
        let parts = cutAtLastSlash(path)
        #expect(parts?.above == above && parts?.name == name)
    }

    @Test(
        "A header is cut at its colon",
        arguments: [
            ("X-Key:\u{301}a", "\u{301}a"), ("X-Key: \u{301}a:b", "\u{301}a:b"), ("X-Key: \t a", "a"),
            ("X\u{301}: a", nil),
        ] as [(String, String?)])
    func header(line: String, value: String?) {
        #expect(HeaderField(parsing: line) == value.map { HeaderField(name: "X-Key", value: $0) })
    }

    @Test("A catalogue's files lie beside it, and a mount point in its directory")
    func folders() throws {
        let text = "[[source]]\npath = \"a\"\nsource = \"lists/b\"\ncredentials = \"/\u{301}c\"\n"
        let source = try #require(Catalogue(parsing: text, path: "/srv/\u{301}a.toml", MountOptions()).sources.first)
        #expect(source.source == "/srv/lists/b" && source.options.credentialsFile == "/\u{301}c")
        try withTemporaryDirectory { root in
            let folder = try #require(realPath(root))
            for name in ["\u{301}m", "m/", "m//"] {
                let trimmed = name.split(separator: "/")[0]
                #expect(Mountpoint.resolveAbove("\(root)/\(name)") == "\(folder)/\(trimmed)")
            }
        }
    }

    @Test("A socket's name begins with its first byte")
    func socketNames() {
        #expect(UnixAddress(socketName: "@\u{301}s") != nil && UnixAddress(socketName: "/\u{301}s") != nil)
        #expect(UnixAddress(socketName: "s") == nil)
    }
}
