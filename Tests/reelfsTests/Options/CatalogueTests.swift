import Glibc
import TestKit
import Testing

@testable import reelfs

@Suite("Catalogues")
struct CatalogueTests {
    private func read(_ text: String, _ options: MountOptions = MountOptions()) throws -> Catalogue {
        try Catalogue(parsing: text, path: "/srv/all.toml", options)
    }

    @Test("A source has the options of the mount, of [defaults] and its own, the later ones before the earlier")
    func options() throws {
        var options = MountOptions()
        options.refresh = 7
        options.userAgent = "mount"
        let catalogue = try read(
            """
            # All of it.
            [[source]]   # the first
            path = "Films/Old films"
            source = 'https://host/a b/'
            timeout = 1_0
            header = [
                "X-One: a, \\"b\\"",  # with a comma
                'X-Two: \\n',
            ]

            [defaults]
            refresh = "1h"
            header = "X-All: 1"
            credentials = "secrets/all"

            [[source]]
            "path" = "Pods"
            source = "lists/pods.opml"
            header = "@keys"\r
            user_agent = "\\u00e9 \\U0001F600"
            token-command = "/bin/print films"
            resolver = "bin/find films"
            """, options)
        let (films, pods) = (catalogue.sources[0], catalogue.sources[1])
        #expect(films.path == ["Films", "Old films"] && films.source == "https://host/a b/")
        #expect(films.options.timeout == 10 && films.options.refresh == 3600 && films.options.userAgent == "mount")
        #expect(
            films.options.headers == [
                .field(HeaderField(name: "X-One", value: "a, \"b\"")),
                .field(HeaderField(name: "X-Two", value: "\\n")),
            ])
        #expect(films.options.credentialsFile == "/srv/secrets/all")
        #expect(pods.source == "/srv/lists/pods.opml" && pods.options.headers == [.file("/srv/keys")])
        #expect(pods.options.tokenCommand?.words == ["/bin/print", "films"])
        #expect(pods.options.resolver?.words == ["/srv/bin/find", "films"])
        #expect(pods.options.timeout == 30 && pods.options.userAgent == "é 😀" && films.line == 2)
    }

    private static let source = "[[source]]\npath = \"a\"\nsource = \"http://h/\"\n"

    @Test(
        "A mistake names file, line and word",
        arguments: [
            ("path = 1", 1, "\"path\""),
            ("\n[sources]\n", 2, "[sources]"),
            ("[[sources]]", 1, "[[sources]]"),
            ("[defaults]\n[defaults]", 2, "[defaults]"),
            ("[[source]]\nsource = \"http://h/\"", 1, "`path`"),
            ("[[source]]\npath = \"a\"\n", 1, "`source`"),
            ("[[source]]\npath = 3\nsource = \"http://h/\"", 2, "`path`"),
            (source + "refesh = 3", 4, "\"refesh\""),
            (source + "refresh = \"soon\"", 4, "refresh"),
            (source + "refresh = 1.5", 4, "\"refresh\""),
            (source + "refresh = 2026-01-01", 4, "\"refresh\""),
            (source + "refresh = [\"1\"]", 4, "\"refresh\""),
            (source + "refresh = true", 4, "refresh"),
            (source + "refresh =", 4, "\"refresh\""),
            (source + "refresh 3", 4, "\"refresh\""),
            (source + "refresh = 3 4", 4, "behind"),
            (source + "refresh = 3\nrefresh = 4", 5, "\"refresh\""),
            (source + "cache-size = \"1G\"", 4, "cache-size"),
            (source + "password = \"x\"", 4, "password"),
            (source + "a.b = 1", 4, "\"a.b\""),
            (source + "header = \"no colon\"", 4, "header"),
            (source + "header = [\"A: b\" \"C: d\"]", 4, "\"header\""),
            (source + "header = [\"A: b\",\n 3]", 5, "\"header\""),
            (source + "header = [[\"A: b\"]]", 4, "\"header\""),
            (source + "header = [\"A: b\"", 4, "\"header\""),
            (source + "header = \"A: b", 4, "\"header\""),
            (source + "header = \"A: \\q\"", 4, "\"header\""),
            (source + "header = \"\"\"A: b\"\"\"", 4, "\"header\""),
            (source + "= 3", 4, "="),
            (source + "{}", 4, "{}"),
            ("[[source]\npath = \"a\"", 1, "[[source]]"),
            ("[[source]]\npath = \"/a\"\nsource = \"http://h/\"", 2, "\"/a\""),
            ("[[source]]\npath = \"a/../b\"\nsource = \"http://h/\"", 2, "\"a/../b\""),
            ("[[source]]\npath = \"a\"\nsource = \"http:/h/\"", 3, "`source`"),
            ("[[source]]\npath = \"a\"\nsource = \"other.toml\"", 3, "`source`"),
            (source + source, 4, "\"a\""),
            (source + "[[source]]\npath = \"a/b\"\nsource = \"http://h/\"", 4, "\"a/b\""),
            ("[[source]]\npath = \"a/b\"\nsource = \"http://h/\"\n" + source, 4, "\"a\""),
        ])
    func mistakes(_ text: String, _ line: Int, _ word: String) {
        do {
            _ = try read(text)
            Issue.record("it was read")
        } catch {
            let sentence = (error as? Failure)?.sentence ?? "\(error)"
            #expect(sentence.hasPrefix("/srv/all.toml, line \(line): ") && sentence.contains(word), "\(sentence)")
        }
    }

    @Test("Sources with one address have caches of their own, and a new name for a folder keeps the cache")
    func scopes() throws {
        func scopes(_ text: String) throws -> [String] { try read(text).entries().map(\.scope) }
        let table = { (path: String, rest: String) in
            "[[source]]\npath = \"\(path)\"\nsource = \"http://h/\"\n\(rest)\n"
        }
        let one = try scopes(table("a", "user-agent = \"x\""))
        #expect(try scopes(table("b", "user-agent = \"y\"")) == one)
        let two = try scopes(table("a", "") + table("b", "header = \"X: y\""))
        #expect(Set(two + one).count == 3)
        #expect(
            try read(table("a", "")).entries()[0].fingerprint
                != read(table("a", "timeout = 3")).entries()[0].fingerprint)
        let mirrors = (0..<6).map { "\"http://m\($0)/\"" }.joined(separator: ", ")
        // Sets that live at the same time have orders of their own.
        let same = try (0..<20).map { _ in try read(table("a", "mirror = [\(mirrors)]")).entries()[0] }
        #expect(Set(same.map(\.fingerprint)).count == 1)
    }

    @Test("A catalogue with a secret is closed to others, and none may be written by others")
    func trust() throws {
        try withTemporaryDirectory { folder in
            let path = folder + "/all.toml"
            defer { unlink(path) }
            try trust(path)
        }
    }

    private func trust(_ path: String) throws {
        func load(_ text: String, _ mode: mode_t) throws {
            Array(text.utf8).withUnsafeBytes { bytes in
                let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
                defer { close(descriptor) }
                #expect(write(descriptor, bytes.baseAddress, bytes.count) == bytes.count)
                fchmod(descriptor, mode)
            }
            _ = try Catalogue.load(path, MountOptions())
        }
        try load(Self.source, 0o644)
        #expect(throws: Failure.self) { try load(Self.source, 0o664) }
        let secrets = [
            Self.source + "header = \"Authorization: Bearer sesame\"",
            "[[source]]\npath = \"a\"\nsource = \"http://me:sesame@h/\"",
        ]
        for text in secrets {
            let failure = #expect(throws: Failure.self) { try load(text, 0o644) }
            #expect(failure?.sentence.contains("chmod 600") == true && failure?.sentence.contains("sesame") == false)
            try load(text, 0o600)
        }
        var options = MountOptions()
        options.credentialsFile = "/x"
        #expect(throws: Failure.self) { try Catalogue.load(path, options) }
    }
}
