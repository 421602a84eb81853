import ReelCore
import TestKit
import Testing

@testable import ReelSources

private let place = "http://h/show/feed"

/// Reads the feed at `place`, with the documents that it asks for.
/// - Parameter known: of the last time.
private func read(
    _ documents: [String: String], known: EntryList? = nil, type: String? = nil,
    beginnings: [String: FileBeginning] = [:]
) throws -> (entries: EntryList, asked: [String]) {
    let root = ResourceURL(place)!
    var reader = FeedSource(root: .url(root)).list(.url(root), known: known)
    var asked: [String] = []
    var step = try reader.start()
    while case .ask(let request) = step {
        guard case .document(.url(let url)) = request, let text = documents[url.text] else {
            throw SourceRefusal.cutShort
        }
        asked.append(url.text)
        let headers = [(name: "Content-Length", value: "\(text.utf8.count)"), ("Content-Type", type ?? "text/xml")]
        try reader.head(ResponseHead(status: 200, headers: headers, url: url))
        for piece in text.utf8.split(separator: UInt8(ascii: ">"), omittingEmptySubsequences: false) {
            try reader.take(Array(piece) + (piece.endIndex == text.utf8.endIndex ? [] : [UInt8(ascii: ">")]))
        }
        step = try reader.end { false }
    }
    if case .beginnings(let urls, let then) = step {
        asked += urls.map(\.text)
        step = then(beginnings)
    }
    guard case .entries(let entries, _) = step else { throw SourceRefusal.cutShort }
    return (entries, asked)
}

private func read(_ document: String, known: EntryList? = nil) throws -> EntryList {
    try read([place: document], known: known).entries
}

extension EntryList {
    /// "name → URL" an entry, a folder's name with a slash.
    fileprivate var shown: [String] { map { "\($0.name)\($0.isDirectory ? "/" : "") → \($0.url.text)" } }
}

private func rss(_ items: String, channel: String = "") -> String {
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:media="http://search.yahoo.com/mrss/">
    <channel><title>A show</title><link>http://h/</link>\(channel)
    \(items)
    </channel></rss>
    """
}

private func item(_ title: String, _ url: String, _ date: String = "Mon, 06 May 2024 07:08:09 GMT") -> String {
    "<item><title>\(title)</title><pubDate>\(date)</pubDate><enclosure url='\(url)' type='audio/mpeg' length='9'/></item>"
}

@Suite struct FeedTests {
    static let contents: [(String, [UInt8], String?)] = [
        ("ID3", Array("ID3\u{3}".utf8), "mp3"), ("layer III", [0xFF, 0xFB, 0x90], "mp3"),
        ("layer III of MPEG 2", [0xFF, 0xF3, 0x40], "mp3"), ("ADTS", [0xFF, 0xF1, 0x50], "aac"),
        ("M4A", Array("\0\0\0\u{20}ftypM4A \0".utf8), "m4a"), ("M4B", Array("\0\0\0\u{20}ftypM4B \0".utf8), "m4b"),
        ("MP4", Array("\0\0\0\u{20}ftypisom\0".utf8), "mp4"), ("QuickTime", Array("\0\0\0\u{14}ftypqt  ".utf8), "mov"),
        ("Opus", Array("OggS".utf8) + [UInt8](repeating: 0, count: 24) + Array("OpusHead".utf8), "opus"),
        ("Vorbis", Array("OggS".utf8) + [UInt8](repeating: 0, count: 24) + Array("\u{1}vorbis".utf8), "ogg"),
        ("Theora", Array("OggS".utf8) + [UInt8](repeating: 0, count: 24) + Array("\u{80}theora".utf8), "ogv"),
        ("FLAC", Array("fLaC".utf8), "flac"), ("WAVE", Array("RIFF1234WAVEfmt ".utf8), "wav"),
        ("AVI", Array("RIFF1234AVI LIST".utf8), "avi"), ("RIFF", Array("RIFF1234CDDA".utf8), nil),
        ("Matroska", [0x1A, 0x45, 0xDF, 0xA3] + Array("....matroska".utf8), "mkv"),
        ("WebM", [0x1A, 0x45, 0xDF, 0xA3] + Array("....webm".utf8), "webm"),
        (
            "EPUB",
            Array("PK\u{3}\u{4}".utf8) + [UInt8](repeating: 0, count: 26) + Array("mimetypeapplication/epub+zip".utf8),
            "epub"
        ),
        ("PDF", Array("%PDF-1.7".utf8), "pdf"), ("JPEG", [0xFF, 0xD8, 0xFF, 0xE0], "jpg"),
        ("PNG", [0x89, 0x50, 0x4E, 0x47], "png"), ("text", Array("<html>".utf8), nil), ("0xFF alone", [0xFF], nil),
        ("nothing", [], nil),
    ]

    @Test("The first bytes of a file show its extension", arguments: contents)
    func content(_ name: String, _ bytes: [UInt8], _ expected: String?) {
        #expect(mediaExtension(ofContent: bytes) == expected)
        for count in bytes.indices { _ = mediaExtension(ofContent: Array(bytes[..<count])) }
    }

    @Test("An extension that neither feed nor URL gives is asked of the file: its type, its place, its bytes")
    func extensions() throws {
        func beginning(_ place: String, _ type: String?, _ bytes: String = "") -> FileBeginning {
            let headers = type.map { [(name: "Content-Type", value: $0)] } ?? []
            return FileBeginning(
                ResponseHead(status: 206, headers: headers, url: ResourceURL(place)!), Array(bytes.utf8))
        }
        let document = rss(
            ["type", "place", "bytes", "none", "silent", "page"].map {
                "<item><title>By \($0)</title><enclosure url='http://h/\($0)'/></item>"
            }.joined() + "<item><title>By bytes.mp3</title><enclosure url='http://h/other.mp3'/></item>")
        let found = [
            "http://h/type": beginning("http://cdn/a.ogg", "audio/mpeg", "fLaC"),
            "http://h/place": beginning("http://cdn/a.ogg", "application/octet-stream", "fLaC"),
            "http://h/bytes": beginning("http://cdn/a", nil, "ID3"),
            "http://h/none": beginning("http://cdn/a", nil, "???"),
            "http://h/page": beginning("http://cdn/login.php", "text/html", "<html>"),
        ]
        let first = try read([place: document], beginnings: found)
        #expect(
            Array(first.asked.dropFirst())
                == ["type", "place", "bytes", "none", "silent", "page"].map { "http://h/\($0)" })
        #expect(
            first.entries.map(\.name) == [
                "By type.mp3", "By place.ogg", "By bytes (2).mp3", "By none", "By silent", "By page", "By bytes.mp3",
            ])
        // Named once, they are not asked again and not renamed.
        let second = try read(
            [place: document], known: first.entries, beginnings: ["http://h/none": found["http://h/bytes"]!])
        #expect(second.asked.count == 1)
        #expect(second.entries.map(\.name) == first.entries.map(\.name))
    }

    static let dialects: [(String, [String])] = [
        (
            rss(
                """
                <item><title><![CDATA[One & only]]></title><itunes:title>Other</itunes:title>
                  <pubDate>Mon, 06 May 2024 23:30:00 -0100</pubDate>
                  <enclosure url="http://cdn/a.mp3?x=1&amp;y=2" length="12" type="audio/mpeg"/></item>
                <item><title>No media</title></item>
                <item><itunes:image href="http://h/one.jpg"/><enclosure url="b" type="video/mp4; codecs=x"/></item>
                """, channel: "<itunes:image href='/art.png'/><image><url>http://h/other.jpg</url></image>"),
            [
                "2024-05-07 One & only.mp3 → http://cdn/a.mp3?x=1&y=2", "b.mp4 → http://h/show/b",
                "cover.png → http://h/art.png",
            ]
        ),
        (
            """
            <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
              xmlns:enc="http://purl.oclc.org/net/rss_2.0/enc#" xmlns:dc="http://purl.org/dc/elements/1.1/">
            <channel rdf:about="x"><title>S</title></channel><image><url>c.jpg</url></image>
            <item rdf:about="1"><title>One</title><dc:date>2024-05-06T07:08:09+02:00</dc:date>
            <enc:enclosure rdf:resource="http://h/1" enc:type="audio/ogg"/></item></rdf:RDF>
            """, ["2024-05-06 One.ogg → http://h/1", "cover.jpg → http://h/show/c.jpg"]
        ),
        (
            """
            <feed xmlns="http://www.w3.org/2005/Atom"><title>S</title><icon>/i.ico</icon><logo>/l.jpg</logo>
            <entry><title type="xhtml"><div>One <b>a</b></div></title><updated>2024-06-01T00:00:00Z</updated>
              <published>2024-05-06T07:08:09Z</published><link rel="alternate" href="http://h/page"/>
              <link rel="enclosure" href="one.opus" type="audio/opus" length="3"/></entry>
            <entry><title>Two</title><updated>2024-06-01</updated><link rel="enclosure" href="two.flac"/></entry></feed>
            """,
            [
                "2024-05-06 One a.opus → http://h/show/one.opus", "2024-06-01 Two.flac → http://h/show/two.flac",
                "cover.jpg → http://h/l.jpg",
            ]
        ),
        (
            rss(
                """
                <item><title>Film</title><media:group><media:content url="/low.mp4" type="video/mp4"/>
                  <media:content url="/high.mp4" type="video/mp4" isDefault="true"/></media:group>
                  <media:content url="/still" medium="image"/><media:thumbnail url="/t.jpg"/></item>
                <item><title>Picture</title><media:content url="/p" type="image/jpeg"/></item>
                """), ["Film.mp4 → http://h/high.mp4", "Picture.jpg → http://h/p"]
        ),
        (
            #"""
            {"version":"https:\/\/jsonfeed.org\/version\/1.1","title":"S","icon":"https:\/\/h\/i.webp",
             "items":[{"id":1,"title":"One","date_published":"2024-05-06T07:08:09-07:00","tags":["a",{"b":[]}],
              "attachments":[{"url":"a.m4a","mime_type":"audio\/x-m4a; a=b","size_in_bytes":1}, null,
              {"url":""}], "content_html":"cut \ud83d"},
              {"id":"2","attachments":"none"}, 7]}
            """#, ["2024-05-06 One.m4a → http://h/show/a.m4a", "cover.webp → https://h/i.webp"]
        ),
        (
            """
            <?xml version="1.0"?><!-- mine --><opml version="2.0"><head><title>Subscriptions</title></head><body>
            <outline text="News"><outline text="A&amp;B" type="rss" xmlUrl="http://a/feed"/></outline>
            <outline title="A&amp;B" text="x" xmlUrl="https://b/feed.xml"/><outline xmlUrl="mailto:x"/>
            <outline text="Again" xmlUrl="http://a/feed"/></body></opml>
            """, ["News/ → \(place)/;groups/News/", "A&B/ → https://b/feed.xml", "Again/ → http://a/feed"]
        ),
    ]

    @Test("Every dialect: a date, a title and an extension make the name", arguments: dialects)
    func dialect(_ document: String, _ entries: [String]) throws {
        #expect(try read(document).shown == entries)
    }

    @Test("A reference counts from the innermost xml:base, which counts from the one around it")
    func bases() throws {
        let text = """
            <feed xmlns="http://www.w3.org/2005/Atom" xml:base="../media/"><logo>logo.png</logo>
            <entry xml:base="2024/"><link rel="enclosure" href="one.mp3"/></entry>
            <entry><link xml:base="http://cdn/x/" rel="enclosure" href="two.mp3"/>
            <link rel="enclosure" href="/three.mp3"/><link rel="enclosure" href="http://o/four.mp3"/></entry>
            <entry xml:base="mailto:x"><link rel="enclosure" href="five.mp3"/></entry></feed>
            """
        #expect(
            try read(text).map(\.url.text) == [
                "http://h/media/2024/one.mp3", "http://cdn/x/two.mp3", "http://h/three.mp3", "http://o/four.mp3",
                "http://h/media/five.mp3", "http://h/media/logo.png",
            ])
    }

    @Test(
        "Groups of a list of feeds are folders, those of one title one folder", arguments: [nil, "http://h/l?token=1"])
    func groups(_ address: String?) throws {
        let text = """
            <opml><body><outline text="News"><outline text="A/B"><outline text="One" xmlUrl="http://a/1"/></outline>
            <outline text="Two" xmlUrl="http://a/2"/><outline text="Empty"/></outline><outline text="">
            <outline text="Three" xmlUrl="http://a/3"/></outline><outline text="News"><outline text="Four"
            xmlUrl="http://a/4"/></outline><outline text="A/B"><outline text="Five" xmlUrl="http://a/5"/></outline>
            </body></opml>
            """
        let root = address.map { SourcePlace.url(ResourceURL($0)!) } ?? .path("/list.opml")
        let source = FeedSource(root: root)
        func tree(_ place: SourcePlace, _ path: String) throws -> [String] {
            var reader = source.list(place, known: nil)
            let head = root.url.map { ResponseHead(status: 200, headers: [("Content-Length", "1")], url: $0) }
            let answer = SourceAnswer(root, head, Array(text.utf8))
            guard case .entries(let entries, nil)? = try reader.read(answer, { false }) else {
                throw SourceRefusal.cutShort
            }
            return try entries.flatMap { entry in
                #expect(entry.isDirectory)
                let path = path + "/" + entry.name
                return entry.url.host == "a" ? [path + " " + entry.url.path] : try tree(.url(entry.url), path)
            }
        }
        #expect(
            try tree(root, "") == [
                "/News/A%2FB/One /1", "/News/Two /2", "/News/Four /4", "/Three /3", "/A%2FB/Five /5",
            ])
    }

    @Test("A signed file of a feed is known without its signature, and asked for with it; each feed has its own")
    func signatures() throws {
        let source = FeedSource(root: .url(ResourceURL("http://h/list")!))
        func list(_ place: String, _ name: String, _ signature: String) throws -> ResourceURL {
            let query = "X-Amz-Signature=\(signature)&amp;X-Amz-Expires=60"
            let text = rss("<item><title>One</title><enclosure url='http://cdn/\(name)?\(query)'/></item>")
            let place = SourcePlace.url(ResourceURL(place)!)
            let head = ResponseHead(status: 200, headers: [("Content-Length", "1")], url: place.url!)
            var reader = source.list(place, known: nil)
            guard
                case .entries(let entries, _)? = try reader.read(
                    SourceAnswer(place, head, Array(text.utf8)), { false })
            else { throw SourceRefusal.cutShort }
            return entries[0].url
        }
        let first = try list("http://h/a", "1.mp3", "aa")
        let second = try list("http://h/b", "2.mp3", "bb")
        #expect(first.text == "http://cdn/1.mp3" && second.text == "http://cdn/2.mp3")
        _ = try list("http://h/a", "1.mp3", "cc")
        let sent = [first, second].map { source.request(OriginRequest(url: $0)).url.query }
        #expect(sent == ["X-Amz-Signature=cc&X-Amz-Expires=60", "X-Amz-Signature=bb&X-Amz-Expires=60"])
    }

    @Test(
        "A login in an address of a list of feeds is that of the feed and of its files, also where the cache names it")
    func logins() throws {
        let root = SourcePlace.url(ResourceURL("http://h/list")!)
        let source = FeedSource(root: root)
        func list(_ place: SourcePlace, _ text: String) throws {
            let head = ResponseHead(status: 200, headers: [("Content-Length", "1")], url: place.url!)
            var reader = source.list(place, known: nil)
            _ = try reader.read(SourceAnswer(place, head, Array(text.utf8)), { false })
        }
        try list(root, "<opml><body><outline text='One' xmlUrl='http://me:pw@a/feed'/></body></opml>")
        // As the cache gives it back.
        let feed = ResourceURL("http://a/feed")!
        try list(.url(feed), rss(item("One", "/1.mp3") + item("Two", "http://cdn/2.mp3")))
        let urls = [feed, ResourceURL("http://a/1.mp3")!, ResourceURL("http://cdn/2.mp3")!]
        let sent = urls.map { source.request(OriginRequest(url: $0)).url.credentials?.password }
        #expect(sent == ["pw", "pw", nil])
    }

    @Test("Episodes have the date of their publication, and never a length that a feed gives")
    func facts() throws {
        let entries = try read(rss(item("One", "http://h/1", "6 May 24 07:08 GMT")))
        #expect(entries[0].modified == 1_714_979_280 && entries[0].length == nil)
    }

    @Test(
        arguments: [
            ("Mon, 06 May 2024 07:08:09 +0200", 1_714_972_089), ("6 May 2024 07:08 GMT", 1_714_979_280),
            ("Mon, 6 September 2021", 1_630_886_400), ("2024-05-06T07:08:09.123Z", 1_714_979_289),
            ("2024-05-06", 1_714_953_600), ("Mon, 06 May 2024 07:08:09 EST", 1_714_997_289),
            ("Mon, 06 May 2024 07:08:09 XYZ", 1_714_979_289), ("yesterday", nil),
            ("Mon, 31 Feb 2024 07:08:09 GMT", nil), ("", nil),
        ] as [(String, Int64?)])
    func dates(_ text: String, _ seconds: Int64?) { #expect(feedDate(text) == seconds) }

    @Test("A feed goes on at its next page, once a page; what came before is not listed twice")
    func pages() throws {
        let next = { (page: Int) in "<atom:link rel='next' href='\(page)'/>" }
        let documents = [
            place: rss(item("One", "/1.mp3"), channel: next(2)),
            "http://h/show/2": rss(item("One", "/1.mp3"), channel: next(3)),
            "http://h/show/3": rss(item("Two", "/2.mp3"), channel: next(2)),
        ]
        let (entries, asked) = try read(documents)
        #expect(entries.map(\.name) == ["2024-05-06 One.mp3", "2024-05-06 Two.mp3"])
        #expect(asked == [place, "http://h/show/2", "http://h/show/3"])
        #expect(throws: SourceRefusal.cutShort) { try read([place: rss(item("One", "/1.mp3"), channel: next(2))]) }
    }

    @Test("An episode keeps its name when its title changes and when others come before it")
    func names() throws {
        let old = try read(rss(item("One", "/1.mp3") + item("One", "/2.mp3")))
        #expect(old.map(\.name) == ["2024-05-06 One.mp3", "2024-05-06 One (2).mp3"])
        let new = try read(rss(item("One", "/3.mp3") + item("Uno", "/2.mp3") + item("One", "/1.mp3")), known: old)
        #expect(new.map(\.name) == ["2024-05-06 One (3).mp3", "2024-05-06 One (2).mp3", "2024-05-06 One.mp3"])
    }

    @Test(
        "A document that is no whole feed is refused, each with its reason",
        arguments: [
            ("<html><body>Log in</body></html>", SourceRefusal.foreign("it is no feed (RSS, Atom, JSON Feed or OPML)")),
            ("{\"items\":[]}", .foreign("it is no feed (RSS, Atom, JSON Feed or OPML)")),
            (String(rss(item("One", "/1")).dropLast(20)), .cutShort),
            ("{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{\"title\":\"x\"", .cutShort),
            (rss(""), .useless("the feed names no media")),
            (rss(String(repeating: "<a>", count: 100)), .useless("its elements are nested too deeply")),
        ])
    func refused(_ document: String, _ refusal: SourceRefusal) {
        #expect(throws: refusal) { try read(document) }
    }

    @Test("A list of feeds is the root alone, as one that names itself would have no end")
    func nested() throws {
        let root = FeedSource(root: .url(ResourceURL("http://h/list")!))
        let answer = SourceAnswer(
            .url(ResourceURL(place)!),
            ResponseHead(status: 200, headers: [("Content-Length", "1")], url: ResourceURL(place)!),
            Array("<opml><body><outline xmlUrl='http://h/list'/></body></opml>".utf8))
        var reader = root.list(.url(ResourceURL(place)!), known: nil)
        #expect(throws: SourceRefusal.useless("it is a list of feeds inside a list of feeds")) {
            try reader.read(answer, { false })
        }
    }

    @Test(
        "A list of feeds that names itself, or a group of it, leaves that out",
        arguments: [nil, "http://h/list", "http://h/list/?token=1"])
    func selfNaming(_ address: String?) throws {
        let root = address.map { SourcePlace.url(ResourceURL($0)!) } ?? .path("/list.opml")
        let source = FeedSource(root: root)
        func list(_ place: SourcePlace, naming addresses: [String]) throws -> (EntryList, remark: String?) {
            let feeds = addresses.map { "<outline text='Feed' xmlUrl='\($0)'/>" }.joined()
            let text = "<opml><body>\(feeds)<outline text='A'>\(feeds)</outline></body></opml>"
            let head = root.url.map { ResponseHead(status: 200, headers: [("Content-Length", "1")], url: $0) }
            var reader = source.list(place, known: nil)
            guard
                case .entries(let entries, let remark)? =
                    try reader.read(SourceAnswer(root, head, Array(text.utf8)), { false })
            else { throw SourceRefusal.cutShort }
            return (entries, remark)
        }
        let group = try #require(try list(root, naming: ["http://o/feed"]).0.last).url
        let own = [root.url, group, group.with(path: group.path + "A/")].compactMap { $0?.text }
        for (place, names) in [(root, ["Feed", "A"]), (.url(group), ["Feed"])] {
            let (entries, remark) = try list(place, naming: own + ["http://o/feed"])
            #expect(entries.map(\.name) == names && entries[0].url.text == "http://o/feed")
            #expect(remark?.hasPrefix("\(own.count) of") == true)
        }
    }

    @Test("A title of any length, and any number of files of one item, are cut")
    func hugeItem() throws {
        let media = (0..<5000).map { "<enclosure url='/\($0).mp3'/>" }.joined()
        let title = "<![CDATA[" + String(repeating: "x", count: 1 << 20) + "]]>"
        let entries = try read(rss("<item><title>\(title)</title>\(media)</item>"))
        #expect(entries.count == 100 && entries.allSatisfy { $0.name.utf8.count <= 255 })
    }

    @Test("What a feed names and cannot be fetched is reported")
    func skipped() throws {
        let root = SourcePlace.path("/list.xml")
        var reader = FeedSource(root: root).list(root, known: nil)
        let text = rss(item("One", "one.mp3") + item("Two", "http://h/2.mp3"))
        guard
            case .entries(let entries, let remark)? = try reader.read(
                SourceAnswer(root, nil, Array(text.utf8)), { false })
        else { throw SourceRefusal.cutShort }
        #expect(entries.count == 1 && remark?.hasPrefix("1 of the feed's addresses left out") == true)
    }

    @Test("A group that its item does not end counts for no other item")
    func openGroup() throws {
        let text =
            "<item><media:group><media:content url='/1'/></item><item><media:content url='/2' isDefault='true'/></item>"
        #expect(try read(rss(text)).map(\.url.text) == ["http://h/1", "http://h/2"])
    }

    @Test("A name is safe whatever a title holds, and a title in Latin-1 is read")
    func titles() throws {
        let entries = try read(rss(item("../a\n  b/\u{7}", "/1.mp3") + item(String(repeating: "x", count: 300), "/2")))
        #expect(entries[0].name == "2024-05-06 ..%2Fa b%2F%07.mp3".replacing("/", with: "%2F"))
        #expect(entries[1].name.utf8.count <= 255 && entries[1].name.hasSuffix(".mp3"))
        var bytes = Array(rss(item("Gr~ße", "/1.mp3")).replacing("ß", with: "~").utf8)
        for place in bytes.indices where bytes[place] == UInt8(ascii: "~") { bytes[place] = 0xDF }
        var feed = FeedEntries()
        feed.base = ResourceURL(place)
        _ = try FeedFormat.rss.read(bytes, &feed, StopCheck { false })
        #expect(feed.list()[0].name == "2024-05-06 Grßße.mp3")
    }
}
