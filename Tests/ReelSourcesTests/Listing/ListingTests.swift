import ReelCore
import Testing

@testable import ReelSources

private func html(_ links: String, title: String = "Index of /odd/") -> [UInt8] {
    Array("<html><head><title>\(title)</title></head><body><pre>\(links)</pre></body></html>".utf8)
}

private func names(_ links: String, at url: ResourceURL = Corpus.base) throws -> [String] {
    try Listing.parse(html(links), mediaType: "text/html", url: url).map { $0.name + ($0.isDirectory ? "/" : "") }
}

@Suite struct ListingTests {
    @Test(
        "A link is an entry only where it leads to a direct child of the directory",
        arguments: [
            ("x", "x"), ("./x", "x"), ("././x", "x"), ("x/", "x/"), ("%2e/x", "x"), ("x?a=b", "x"), ("x#top", "x"),
            (" x ", "x"), ("/odd/x", "x"), ("/%6fdd/x/", "x/"), ("http://localhost/odd/x", "x"), ("x?a=/../y", "x"),
            ("HTTP://LOCALHOST:80/odd/x", "x"), ("//localhost/odd/x", "x"), ("a:b", "a:b"),
            ("./javascript:x", "javascript:x"),
            ("a%2Fb", "a%2Fb"), ("..%2F..%2Fx", "..%2F..%2Fx"), ("a%00b", "a%00b"), ("a%", "a%"), ("a%zz", "a%zz"),
            ("a%252Fb", "a%2Fb"), ("%2E%2E%2Fx", "..%2Fx"), ("ü", "ü"), ("a\\b", "a\\b"), ("x&amp;y", "x&y"),
            ("a\n\tb", "ab"),
            ("", nil), ("?", nil), ("?C=N;O=D", nil), ("#x", nil), (".", nil), ("./", nil), ("..", nil), ("../", nil),
            ("../x", nil), ("%2e%2e/", nil), (".%2E/x", nil), ("/", nil), ("/odd/", nil), ("/odd", nil), ("/x", nil),
            ("/odd/../x", nil), ("/odd/sub/x", nil), ("sub/x", nil), ("sub//", nil), ("//evil/odd/x", nil),
            ("//localhost:81/odd/x", nil), ("http://localhost", nil), ("https://localhost/odd/x", nil),
            ("http:x", nil), ("http:/odd/x", nil), ("javascript:void(0)", nil), ("JavaScript:x", nil),
            ("mailto:a@b", nil),
            ("data:text/html,x", nil), ("file:///odd/x", nil), ("http://user@evil/odd/x", nil), ("/oddities/x", nil),
            ("http://localhost\\@evil/odd/x", nil), ("//", nil), ("///odd/x", nil), ("/odd//x", nil),
        ] as [(String, String?)])
    func link(_ reference: String, _ name: String?) throws {
        #expect(try names("<a href=\"\(reference)\">text</a>\n") == (name.map { [$0] } ?? []))
    }

    @Test(
        "The base is the given URL: its query does not count, credentials go along, the last segment is no directory"
    )
    func base() throws {
        let secret = try #require(ResourceURL("http://user:pass@host:8080/a%20b/list?token=1"))
        let body = html("<a href='x%2Fy'>x</a>\n<a href='/a%20b/sub/'>sub</a>\n<a href='/a b/z?t=2'>z</a>")
        let entries = try Listing.parse(body, mediaType: nil, url: secret)
        #expect(
            entries.map(\.url.text) == [
                "http://host:8080/a%20b/x%2Fy", "http://host:8080/a%20b/sub/", "http://host:8080/a%20b/z?t=2",
            ])
        #expect(entries.allSatisfy { $0.url.credentials == secret.credentials })
    }

    @Test("Icon and name, or links in two spellings, are one entry; a file and a directory of one name are two")
    func duplicates() throws {
        #expect(
            try names("<a href=x><img></a> <a href=./x>x</a>\n<a href=%78>x</a>\n<a href=x/>x</a>") == ["x", "x (2)/"])
        #expect(try names("<a href=a%2Fb>1</a>\n<a href=a%252Fb>2</a>") == ["a%2Fb", "a%2Fb (2)"])
    }

    @Test("Links in a row's description are no entries")
    func descriptions() throws {
        #expect(
            try names("<a href=x>x</a> 2024-05-06 07:08  1.2K see <a href=y>y</a>\n<a href=z>z</a> ") == ["x", "z"])
    }

    @Test(
        "A size is believed only beside a date, and only without a unit",
        arguments: [
            ("06-May-2024 07:08    1234", 1234, Corpus.minute), ("06-May-2024 07:08    -", nil, Corpus.minute),
            ("06-May-2024 07:08    12K", nil, Corpus.minute), ("2024-05-06 07:08  1.2K  note", nil, Corpus.minute),
            ("2024-05-06 07:08  1999 remaster", nil, Corpus.minute), ("2024-May-06 07:08:09 77", 77, Corpus.moment),
            ("1234", nil, nil), ("31-Feb-2024 07:08 12", nil, nil), ("06-May-2024 27:08 12", nil, nil),
            ("06-May-2024 07:08 99999999999999999999", nil, Corpus.minute),
            ("06-May-2024 07:08 12 B", 12, Corpus.minute),
            ("2024-05-06T09:08:09+02:00 5", nil, Corpus.moment), ("", nil, nil),
            ("2024-05-06 07:08:09.5 +0000 UTC", nil, Corpus.moment), ("2024-05-06T07:08:09Z 5", 5, Corpus.moment),
            ("2024-05-06 05:38:09 -01:30", nil, Corpus.moment), ("06-may-2024 07:08 -12", nil, Corpus.minute),
        ] as [(String, Int64?, Int64?)])
    func facts(_ tail: String, _ length: Int64?, _ modified: Int64?) throws {
        let entry = try #require(
            try Listing.parse(html("<a href=x>x</a>  \(tail)\n"), mediaType: nil, url: Corpus.base).first)
        #expect(entry.length == length && entry.modified == modified)
    }

    @Test(
        "In a table the size stands beside the date; of two numbers there neither is believed",
        arguments: [
            ("<td>12</td><td>2024-05-06 07:08</td>", 12), ("<td>2024-05-06 07:08</td><td>12</td>", 12),
            ("<td>1.2K</td><td>2024-05-06 07:08</td><td>17</td>", nil),
            ("<td>12</td><td>2024-05-06 07:08</td><td>17</td>", nil), ("<td>12</td><td>-</td>", nil),
            ("<td>2024-05-06 07:08</td><td>note</td><td>17</td>", nil),
            ("<td>2024-05-06 07:08</td><td>12</td><td>17</td>", 12), ("<td data-order=-1>12</td>", nil),
        ] as [(String, Int64?)])
    func cells(_ cells: String, _ length: Int64?) throws {
        let page = html("<table><tr><td><a href=x>x</a></td>\(cells)</tr></table>")
        #expect(try Listing.parse(page, mediaType: nil, url: Corpus.base).map(\.length) == [length])
    }

    @Test(
        "Other listings are taken too",
        arguments: [
            // Go's file server.
            "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n"
                + "<a href=\"x\">x</a>\n</pre>\n",
            "<pre>\n<a href=\"x\">x</a>\n</pre>\n",
            // Caddy's grid.
            """
            <html><head><title>odd</title></head><body><a href="?layout=list&sort=name&order=asc">List</a>
            <div class="entry"><a href="./x" title="May 6"><div class="name">x</div><div class="size">2 B</div></a>
            </div>
            """,
            // Jetty, IIS and many others.
            "<title>Directory: /odd/</title><table><tr><td><a href=\"/odd/x\">x</a></td></tr></table>",
            "<body><ul><li><a href='../'>Up</a></li><li><a href=x>x</a></li></ul>",
        ])
    func others(_ page: String) throws {
        #expect(try Listing.parse(Array(page.utf8), mediaType: "text/html", url: Corpus.base).map(\.name) == ["x"])
    }

    @Test("lighttpd 1.4.74 ends each reference with a slash: what has a media type is a file all the same")
    func lighttpd() throws {
        func row(_ name: String, _ size: String, _ type: String) -> String {
            "<tr><td class=\"n\"><a href=\"\(name)/\">\(name)</a>/</td><td class=\"m\">2024-May-06 07:08:09</td>"
                + "<td class=\"s\">\(size)</td><td class=\"t\">\(type)</td></tr>"
        }
        let rows =
            row("sub", "- &nbsp;", "Directory") + row("x.mkv", "0.1K", "video/x-matroska") + row("y", "1", "a/b/c")
        let page = html("<table summary=\"Directory Listing\">\(rows)</table>")
        let entries = try Listing.parse(page, mediaType: "text/html", url: Corpus.base)
        #expect(entries.map { $0.url.path } == ["/odd/sub/", "/odd/x.mkv", "/odd/y/"])
        #expect(entries.map(\.isDirectory) == [true, false, true])
    }

    @Test("Newer Caddy gives the size in bytes beside the human one")
    func caddy() throws {
        let page = """
            <title>Folder</title><h1>x</h1><table aria-describedby="summary"><thead><tr><th>
            <a href="?sort=name&order=asc">Name</a></th></tr></thead><tbody><tr class="file"><td></td><td>
            <a href="./x.mp4"><svg></svg><span class="name">x.mp4</span></a></td>
            <td class="size" data-size="1536"><div class="sizebar"><div class="sizebar-text">1.5 KiB</div></div></td>
            <td class="timestamp hideable">
            <time datetime="2024-05-06T07:08:09Z">05/06/2024 07:08:09 AM +00:00</time></td>
            </tr></tbody></table>
            """
        let entries = try Listing.parse(Array(page.utf8), mediaType: "text/html", url: Corpus.base)
        #expect(entries.map(\.length) == [1536] && entries.map(\.modified) == [Corpus.moment])
    }

    @Test(
        "A page that is no listing is said to be none",
        arguments: [
            "", "   ", "hello", "<html></html>",
            "<title>Sign in</title><form><input name=u><a href=forgot>?</a></form>",
            "<title>Index of /odd/</title><pre><a href=x>x</a></pre><form><input type=Password></form>",
            "<title>My films</title><h1>Films</h1><p><a href='film.mp4'>film</a> <a href='../'>up</a>",
            "<title>Welcome to the hotel</title><ul><li><a href='/login'>Log in</a><li><a href=terms>Terms</a></ul>",
            "<h1>502 Bad Gateway</h1><hr><center>nginx</center>", "<pre>Error: <a href=x>x</a></pre>",
            "<title>Redirecting</title><pre></pre>", "<script>'<title>Index of</title>'</script><a href=x>x</a>",
        ])
    func noListing(_ page: String) {
        #expect(throws: SourceRefusal.notAListing) {
            try Listing.parse(Array(page.utf8), mediaType: "text/html", url: Corpus.base)
        }
    }

    @Test(
        "What is sent as anything but a page is no listing", arguments: ["text/plain", "video/mp4", "application/xml"])
    func mediaType(_ type: String) {
        #expect(throws: SourceRefusal.notAListing) {
            try Listing.parse(html("<a href=x>x</a>"), mediaType: type, url: Corpus.base)
        }
    }

    @Test(
        "JSON of another shape, or cut short, is refused",
        arguments: [
            "[", "{}", "[1]", "[{\"name\":\"x\"}]", "", "<html>", "[]]", "[] x", "[,]", "[{}]", "null",
            "[{\"name\":1}]",
            "[{\"name\":\"x\",\"type\":\"file\"},]", "[{\"name\":\"x\",\"type\":\"file\",}]",
            "[{\"name\":\"x\",\"type\":\"file\",\"size\":1.5}]", "[{\"name\":\"x\",\"type\":\"file\",\"size\":\"1\"}]",
            "[{\"name\":\"\\x\",\"type\":\"file\"}]", "[{\"name\":\"\\ud800\",\"type\":\"file\"}]",
            "[{\"name\":\"a\nb\",\"type\":\"file\"}]", "[{\"name\":\"x\",\"type\":\"file\",\"more\":[}]}]",
            "[{\"a\":" + String(repeating: "[", count: 100) + String(repeating: "]", count: 100) + "}]",
            "[{\"name\":\"x\\",
        ])
    func badJSON(_ text: String) {
        #expect(throws: SourceRefusal.cutShort) {
            try Listing.parse(Array(text.utf8), mediaType: "application/json", url: Corpus.base)
        }
    }

    @Test("JSON names are bytes: nothing in them is a path or an escape")
    func namesInJSON() throws {
        let items = ["..", ".", "", "../x", "a%2Fb", "a/b", "?q", "#f"].map {
            "{\"name\":\"\($0)\",\"type\":\"file\",\"size\":-1}"
        }
        let body = Array("[\(items.joined(separator: ",")),{\"name\":\"fifo\",\"type\":\"other\"}]".utf8)
        let entries = try Listing.parse(body, mediaType: "application/json", url: Corpus.base)
        #expect(entries.map(\.name) == ["..%2Fx", "a%2Fb", "a%2Fb (2)", "?q", "#f"])
        #expect(entries.map { $0.url.path.dropFirst(5) } == ["..%2Fx", "a%252Fb", "a%2Fb", "%3Fq", "%23f"])
        #expect(entries.allSatisfy { $0.length == nil })
    }

    @Test("JSON is read with its escapes, whatever else it holds, and a length only where it is one")
    func fullJSON() throws {
        let items = [
            #"{"name":"\u00fc\ud83d\ude00\n\\\"\/","type":"file","mtime":"Mon, 06 May 2024 07:08:09 GMT","size":12}"#,
            #" { "more" : [1, {"a": "]"}, -1.5e3, true, null] , "size":-1, "type" : "file" , "name" : "b" } "#,
            #"{"name":"c","type":"file","size":99999999999999999999}"#,
            #"{"type":"directory","size":5,"name":"d","mtime":null}"#, #"{"name":"e","type":"file","size":null}"#,
            "{\"name\":\"\(String(repeating: "f", count: 20_000))\",\"type\":\"file\"}",
        ]
        let body = Array("\n[\(items.joined(separator: ",\n"))]\n".utf8)
        let entries = try Listing.parse(body, mediaType: "application/json", url: Corpus.base)
        #expect(entries.map(\.name) == ["ü😀%0A\\\"%2F", "b", "c", "d", "e"])
        #expect(entries.map(\.length) == [12, nil, nil, nil, nil] && entries.first?.modified == Corpus.moment)
        #expect(entries.map(\.isDirectory) == [false, false, false, true, false])
    }

    @Test("Raw bytes in links survive: NUL, controls, Latin-1; a declared character set does not change them")
    func rawBytes() throws {
        var body = Array("<meta charset='iso-8859-1'><title>Index of</title><a href='a".utf8)
        body += [0x00, 0x62, 0xFC, 0x01, 0x63]
        body += Array("ü'>x</a><a href=last>x</a>".utf8)
        let entries = try Listing.parse(body, mediaType: "text/html", url: Corpus.base)
        #expect(entries.map(\.name) == ["a%00b%FC%01cü", "last"])
        #expect(entries.first?.url.path == "/odd/a%00b%FC%01c%C3%BC")
    }

    @Test(
        "Tags need no end, however many they are",
        arguments: [
            String(repeating: "<div>", count: 20_000), String(repeating: "<table><tr><td>", count: 5000),
            String(repeating: "<b><a href=x>", count: 2000),
        ])
    func deep(_ tags: String) throws {
        let page = "<title>Index of</title>" + tags + "<a href=x>x</a>"
        #expect(try Listing.parse(Array(page.utf8), mediaType: nil, url: Corpus.base).map(\.name) == ["x"])
    }

    @Test("A link over 8 KiB is no entry, and neither is one that a hundred attributes stand before")
    func longLink() throws {
        for length in [ResourceURL.longest + 1, 100_000] {
            #expect(try names("<a href='\(String(repeating: "a", count: length))'>x</a>\n<a href=y>y</a>") == ["y"])
            #expect(try names("<a href='y\(String(repeating: "?", count: length))'>x</a>\n") == [])
        }
        // Once escaped it is too long.
        #expect(try names("<a href='\(String(repeating: "ü", count: 2000))'>x</a>\n<a href=y>y</a>") == ["y"])
        let most = (1..<MarkupAttributes.most).map { "a\($0) " }.joined()
        #expect(try names("<a \(most) href=x>x</a>\n<a \(most) one-more href=y>y</a>") == ["x"])
        #expect(try names("<a a='\(String(repeating: "a", count: 1 << 17))' href=x>x</a>") == ["x"])
    }

    @Test(
        "A mark that combines with a delimiter hides none",
        arguments: [
            ("x?\u{301}/../../y", "http://localhost/odd/x?%CC%81/../../y"),
            ("x?\u{301}", "http://localhost/odd/x?%CC%81"),
            ("x#\u{301}/y", "http://localhost/odd/x"), ("\u{301}x", "http://localhost/odd/%CC%81x"),
            ("/odd/\u{301}", "http://localhost/odd/%CC%81"), ("http://localhost/\u{301}odd/x", nil),
            ("//localhost\u{301}/odd/x", nil), ("http://localhost/odd\u{301}/x", nil),
            ("http:\u{301}//localhost/odd/x", nil), ("x/\u{301}", nil), ("..\u{301}", "http://localhost/odd/..%CC%81"),
        ] as [(String, String?)])
    func combining(_ reference: String, _ url: String?) throws {
        let entries = try Listing.parse(html("<a href=\"\(reference)\">x</a>\n"), mediaType: nil, url: Corpus.base)
        #expect(entries.map(\.url.text) == (url.map { [$0] } ?? []))
    }

    @Test("Text that follows a link which nobody closed still gives its size")
    func unclosed() throws {
        let page = html("<table><tr><td><a href=x>x<td>2024-05-06 07:08<td>12<tr><td><a href=y>y</table>")
        #expect(try Listing.parse(page, mediaType: nil, url: Corpus.base).map(\.length) == [12, nil])
        #expect(try names("<a href=x>x", at: Corpus.base) == ["x"])
    }

    @Test(
        "References are replaced once, and what is none stays",
        arguments: [
            ("a&amp;amp;b", "a&amp;b"), ("a&#38;b", "a&b"), ("a&#x26;b", "a&b"), ("a&#38b", "a&b"), ("&eacute;", "é"),
            ("a&copy=1", "a&copy=1"), ("a&b", "a&b"), ("a&", "a&"), ("a&;b", "a&;b"), ("&#128512;", "😀"),
            ("&quot;&apos;&lt;", "\"'<"), ("a&unknown;", "a&unknown;"), ("a&nbsp;b", "a\u{A0}b"),
        ])
    func references(_ reference: String, _ name: String) throws {
        #expect(try names("<a href='\(reference)'>x</a>\n") == [name])
    }

    @Test("Once its deadline has passed a page is read no further", arguments: ["text/html", "application/json"])
    func stopped(_ type: String) {
        let rows = (0..<1000).map {
            type == "text/html" ? "<a href=a\($0)>x</a>\n" : "{\"name\":\"a\($0)\",\"type\":\"file\"},"
        }
        let body = type == "text/html" ? html(rows.joined()) : Array("[\(rows.joined())]".utf8)
        var asked = 0
        #expect(throws: SourceRefusal.stopped) {
            try Listing.parse(body, mediaType: type, url: Corpus.base) {
                asked += 1
                return true
            }
        }
        #expect(asked == 1)
        // Inside of one tag too.
        let tag = Array(("<a " + String(repeating: "b ", count: 1000)).utf8)
        #expect(throws: SourceRefusal.stopped) {
            try Listing.parse(tag, mediaType: "text/html", url: Corpus.base) { true }
        }
    }

    @Test("More entries than the cap are refused, not cut off")
    func cap() throws {
        let body = html((0..<500).map { "<a href=\"\($0)\">x</a>\n" }.joined())
        #expect(try Listing.parse(body, mediaType: nil, url: Corpus.base, mostEntries: 500).count == 500)
        #expect(throws: SourceRefusal.tooManyEntries) {
            try Listing.parse(body, mediaType: nil, url: Corpus.base, mostEntries: 499)
        }
    }

    @Test("A second link to the one entry too many, which got another name, is refused like the first")
    func capOfRenamed() throws {
        // Behind 2 entries a file and a directory of one name: the second gets a name of its own.
        let names = ["a", "b", "x", "x/", "x/", "x"]
        let page = html(names.map { "<a href=\"\($0)\">x</a>\n" }.joined())
        let items = names.map { name in
            let isDirectory = name.hasSuffix("/")
            return "{\"name\":\"\(name.prefix(1))\",\"type\":\"\(isDirectory ? "directory" : "file")\"}"
        }
        let json = Array("[\(items.joined(separator: ","))]".utf8)
        for body in [page, json] {
            #expect(try Listing.parse(body, mediaType: nil, url: Corpus.base, mostEntries: 4).count == 4)
            #expect(throws: SourceRefusal.tooManyEntries) {
                try Listing.parse(body, mediaType: nil, url: Corpus.base, mostEntries: 3)
            }
        }
        var merge = ListingMerge(of: Corpus.base, limit: 3)
        for name in names {
            let isDirectory = name.hasSuffix("/")
            let link = ListingLink(
                name: Array(name.utf8.prefix(1)), isDirectory: isDirectory, suffix: Array(name.utf8))
            merge.add(link, ListingFacts())
        }
        #expect(merge.isTooLarge && merge.list().map(\.name) == ["a", "b", "x"])
    }

    @Test("Ten thousand entries keep their order, names and sizes")
    func many() throws {
        let lines = (0..<10_000).map { "<a href=\"film%20\($0).mkv\">film</a>   06-May-2024 07:08    \($0)\n" }
        let entries = try Listing.parse(html(lines.joined()), mediaType: "text/html", url: Corpus.base)
        #expect(entries.map(\.name) == (0..<10_000).map { "film \($0).mkv" })
        #expect(entries.map(\.length) == (0..<10_000).map { Int64($0) })
    }
}
