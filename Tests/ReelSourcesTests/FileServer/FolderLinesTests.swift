import ReelCore
import TestKit
import Testing

@testable import ReelSources

/// Listings of folders as file servers send them.
@Suite struct FolderLinesTests {
    private static let folder = ResourceURL(trusted: "ftp://host/films/")!
    /// 2024-05-06 12:00:00 UTC.
    private static let now: Int64 = 1_714_996_800

    private func listed(
        _ text: String, _ form: FolderLines.Form = .text, of folder: ResourceURL = folder, piece: Int = .max
    ) throws(SourceRefusal) -> [SourceEntry] {
        var lines = FolderLines(of: folder, form, now: Self.now)
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: min(piece, max(1, bytes.count))) {
            try lines.take(Array(bytes[start...].prefix(piece)))
        }
        try lines.finish()
        return Array(lines.list())
    }

    @Test(
        "A line of ls -l is read as servers write it",
        arguments: [
            // vsftpd, proftpd, pure-ftpd, OpenSSH
            ("-rw-r--r--    1 0        0         3000000 Apr 22 20:18 film.mkv", 1_713_817_080, 3_000_000),
            ("-rw-r--r--   1 me   users     1024 Jan  1  2020 film.mkv", 1_577_836_800, 1024),
            ("-rw-r--r--+  1 me   domain users     1024 Jan  1  2020 film.mkv", 1_577_836_800, 1024),
            ("-rw-r--r-- 1 me 1024 Jan 1 2020 film.mkv", 1_577_836_800, 1024),
            ("-rw-r--r-- 1 me us 1024 1 Jan 2020 film.mkv", 1_577_836_800, 1024),
            // Later in the year than now, so of the year before; tomorrow, in a zone further east.
            ("-rw-r--r-- 1 me us 7 Dec 31 23:59 film.mkv", 1_704_067_140, 7),
            ("-rw-r--r-- 1 me us 7 May 07 08:00 film.mkv", 1_715_068_800, 7),
            ("-rw-r--r-- 1 me us 7 Feb 29 00:00 film.mkv", 1_709_164_800, 7),
            ("05-06-24  07:08PM              1024 film.mkv", 1_715_022_480, 1024),
            ("05-06-2024  12:08AM 1024 film.mkv", 1_714_954_080, 1024),
        ] as [(String, Int64, Int64)])
    func files(_ line: String, _ modified: Int64, _ length: Int64) throws {
        let url = ResourceURL(trusted: "ftp://host/films/film.mkv")!
        let expected = SourceEntry(name: "film.mkv", url: url, isDirectory: false, length: length, modified: modified)
        for end in ["\n", "\r\n", ""] { #expect(try listed("total 8\r\n" + line + end) == [expected]) }
    }

    @Test("Names keep their blanks, and are escaped where FTP could take them for something else")
    func names() throws {
        let names = [" leading", "two  blanks ", "x;type=a", "what?", "a#b", "50%25", "-rf", "Füße"]
        let text = names.map { "-rw-r--r-- 1 me us 7 Jan  1 2020 \($0)\r\n" }.joined()
        let entries = try listed(text)
        #expect(entries.map(\.name) == names)
        #expect(entries[2].url.text == "ftp://host/films/x%3Btype%3Da")
        #expect(entries[3].url.text == "ftp://host/films/what%3F")
        for (entry, name) in zip(entries, names) {
            #expect(percentDecoded(String(entry.url.path.dropFirst("/films/".count))) == Array(name.utf8))
        }
    }

    @Test("Facts of MLSD are read in any order and case")
    func facts() throws {
        let entries = try listed(
            """
            type=cdir;modify=20240506070809; .\r
            Type=pdir;modify=20240506070809; ..\r
            modify=20240506070809.123;size=1024;type=file;UNIX.mode=0644; a; b.mkv\r
            sizd=4096;TYPE=dir;modify=20240506070809;  leading\r
            type=OS.unix=symlink;size=7; symlink\r
            type=OS.unix=slink:/target; slink\r
            type=OS.unix=chr-13/29; device\r
            modify=20241306070809;type=file;size=x; odd\r

            """, .facts)
        #expect(entries.map(\.name) == ["a; b.mkv", " leading", "odd", "symlink", "slink"])
        #expect(entries.map(\.isDirectory) == [false, true, false, false, false])
        #expect(entries.map(\.length) == [1024, nil, nil, nil, nil])
        #expect(entries[0].modified == 1_714_979_289 && entries[2].modified == nil)
    }

    @Test("A name with a line end, a slash or a control character is no entry, nor is the folder itself")
    func refused() throws {
        let start = "-rw-r--r-- 1 me us 7 Jan  1 2020 "
        let text = ["ok", "a\rb", "a/b", "a\u{1}b", "..", ".", "ok"].map { start + $0 + "\r\n" }.joined()
        #expect(try listed(text).map(\.name) == ["ok"])
        // libcurl asks an SFTP server for any byte but NUL.
        let server = ResourceURL(trusted: "sftp://host/films/")!
        #expect(try listed(text, of: server).count == 2)
        #expect(try listed("drwxr-xr-x 2 me us 7 Jan  1 2020 sub\n").map(\.url.path) == ["/films/sub/"])
    }

    @Test("Text that is no listing is refused, and an empty one is an empty folder")
    func noListing() throws {
        #expect(throws: SourceRefusal.self) { try listed("<html><body>Log in</body></html>\n") }
        #expect(throws: SourceRefusal.self) { try listed("total\n" + String(repeating: "x", count: 100_000)) }
        #expect(try listed("").isEmpty)
        #expect(try listed("total 0\n").isEmpty)
        // A name with a line end splits its line.
        #expect(try listed("-rw-r--r-- 1 me us 7 Jan  1 2020 a\nb\n").map(\.name) == ["a"])
    }

    @Test(
        "Links, and names that are too long for a URL, count as entries do",
        arguments: [1, 1000])
    func bounded(_ letters: Int) throws {
        func take(_ number: Int) throws -> Int {
            var lines = FolderLines(of: Self.folder, .facts, now: Self.now, limit: 3)
            // Each letter is nine bytes of a URL.
            let name = String(repeating: "€", count: letters)
            for index in 0..<number { try lines.take(Array("type=OS.unix=slink; \(name)\(index)\n".utf8)) }
            try lines.finish()
            return lines.list().count
        }
        #expect(try take(3) == (letters == 1 ? 3 : 0))
        #expect(throws: SourceRefusal.tooManyEntries) { try take(4) }
    }

    @Test("Thousands of lines are the same however they come", arguments: [1, 7, 4096])
    func pieces(piece: Int) throws {
        let count = LongTests.many(10_000, elseOnly: 2000)
        let text = (0..<count).map { "-rw-r--r-- 1 me us \($0) Jan  1 2020 file \($0).mkv\r\n" }.joined()
        let entries = try listed(text, piece: piece)
        #expect(entries.count == count && entries[count - 1].length == Int64(count - 1))
    }

    @Test("An address of a file server is read with each byte of its path as one of a name")
    func addresses() throws {
        func root(_ address: String) -> String? { FileServerSource.recognise(address: address)?.root.url?.text }
        #expect(root("ftp://Host") == "ftp://host/")
        #expect(root("ftp://me:x@host:21/a b/c?d;e") == "ftp://host/a%20b/c%3Fd%3Be/")
        #expect(root("ftps://host:990/%2Fsrv//films/") == "ftps://host/%2Fsrv/films/")
        #expect(root("ftpes://host/") == "ftpes://host/" && root("sftp://host:2222/~/x") == "sftp://host:2222/~/x/")
        func file(_ address: String) -> String? { FileServerSource.recognise(address: address)?.file?.text }
        #expect(file("sftp://host/a b/c.mkv") == "sftp://host/a%20b/c.mkv" && file("ftp://host/~") == "ftp://host/~")
        #expect(file("ftp://host/c/") == nil && file("ftp://host") == nil)
        #expect(root("http://host/") == nil && root("ftp:/host/") == nil && root("/ftp") == nil)
    }

    @Test("No list, page or redirect leads to a file server")
    func strangers() throws {
        let page = ResourceURL("http://host/films/")!
        for text in ["ftp://host/x", "sftp://127.0.0.1/x", "FTPS://host/x", "ftpes://host/x"] {
            #expect(ResourceURL(text) == nil && page.resolve(text) == nil)
            #expect(Self.folder.resolve("sftp://host/x") == nil)
        }
        #expect(Self.folder.resolve("ftp://host/x")?.text == "ftp://host/x")
        #expect(Self.folder.resolve("ftp://other/x") == nil)
    }
}
