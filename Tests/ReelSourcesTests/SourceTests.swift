import ReelCore
import Testing

@testable import ReelSources

/// Which kind an answer is of, and what a folder's reader makes of it.
@Suite struct SourceTests {
    private func answer(_ text: String, _ type: String?, at url: String, from place: String? = nil) -> SourceAnswer {
        let headers = type.map { [(name: "Content-Type", value: $0)] } ?? []
        let head = ResponseHead(
            status: 200, headers: headers + [("Content-Length", "\(text.utf8.count)")],
            url: ResourceURL(place ?? url)!)
        return SourceAnswer(.url(ResourceURL(url)!), head, Array(text.utf8))
    }

    private static let page = "<title>Index of /</title><pre><a href=\"../\">../</a>\n<a href=\"a.mkv\">a.mkv</a></pre>"
    private static let json = "[{\"name\":\"a.mkv\",\"type\":\"file\"}]"

    /// What a mount does as it goes through them: the first kind that recognises the answer and can read it.
    private func found(_ answer: SourceAnswer) -> (any Source, EntryList)? {
        for kind in SourceKinds.all {
            guard let source = kind.recognise(answer) else { continue }
            var reader = source.list(source.root, known: nil)
            if source is FileSource, case .entries(let entries, _)? = try? reader.start() { return (source, entries) }
            if case .entries(let entries, _)? = try? reader.read(answer, { false }) { return (source, entries) }
        }
        return nil
    }

    @Test(arguments: [
        (page, "text/html", "http://h/films", "directory listing (HTML)", "http://h/films/"),
        (page, nil, "http://h/films/", "directory listing (HTML)", "http://h/films/"),
        (json, "application/json", "http://h/films/", "directory listing (JSON)", "http://h/films/"),
        ("{\"of\":\"another shape\"}", "application/json", "http://h/films", "file", "http://h/films"),
        ("#EXTM3U\na.mkv\n", "audio/x-mpegurl", "http://h/films?x", "list of files (M3U)", "http://h/films?x"),
        ("http://h/a.mkv", "text/plain", "http://h/l", "list of files (a URL a line)", "http://h/l"),
        ("[playlist]\nFile1=a.mkv", nil, "http://h/l", "list of files (PLS)", "http://h/l"),
        (
            "<rss><channel><item><enclosure url='a.mp3'/></item></channel></rss>", "text/html", "http://h/f",
            "feed (RSS)", "http://h/f"
        ),
        (
            "<opml><body><outline xmlUrl='http://a/b'/></body></opml>", nil, "http://h/f.xml", "list of feeds (OPML)",
            "http://h/f.xml"
        ),
        ("A film", "video/mp4", "http://h/a.mkv", "file", "http://h/a.mkv"),
        ("<p>A page", "text/html", "http://h/a.html", "file", "http://h/a.html"),
    ])
    func anAnswerSaysWhatItIs(_ text: String, _ type: String?, _ url: String, _ kind: String, _ root: String) throws {
        let (source, entries) = try #require(found(answer(text, type, at: url)))
        #expect(source.description == kind && source.root.key == root && entries.count == 1)
    }

    /// What an address says: the kind, the spelling that it is known by, what a file of credentials is for it, and
    /// whether it may have mirrors.
    @Test(
        arguments: [
            ("s3://b/films", "s3", "s3+http://h/#b/films/", .keys, false),
            ("s3+http://other/#b/films/", "s3", "s3+http://other/#b/films/", .keys, false),
            ("dav://h/films", "webdav", "dav://h/films", .password, true),
            ("ftp://h/films/", "server", "ftp://h/films/", .password, false),
            ("sftp://h/films/", "server", "sftp://h/films/", .password, false),
            ("http://h/films/", nil, "http://h/films/", nil, nil),
            ("/films/list.m3u", nil, "/films/list.m3u", nil, nil),
        ] as [(String, String?, String, SourceCredentials?, Bool?)])
    func anAddressTells(
        _ address: String, _ kind: String?, _ spelled: String, _ credentials: SourceCredentials?, _ hasMirrors: Bool?
    ) {
        #expect(SourceKinds.spelled(address, endpoint: ResourceURL("http://h/")) == spelled)
        let own = SourceKinds.own(address)
        #expect(own.map { type(of: $0).kind } == kind)
        #expect(own?.credentials == credentials && own?.hasMirrors == hasMirrors)
        #expect(SourceKinds.mistake(in: address) == nil)
    }

    @Test(arguments: ["s3://", "S3:///films", "s3://k:y@b"])
    func aBucketWithoutAName(_ address: String) {
        #expect(SourceKinds.mistake(in: address)?.contains("names no bucket") == true)
    }

    @Test(arguments: ["<p>A page", "{\"a\":1}", ""])
    func aFolderThatListsNothingIsNoSource(_ text: String) {
        #expect(found(answer(text, "text/html", at: "http://h/films/")) == nil)
        #expect(found(SourceAnswer(.path("/films/list"), nil, Array(text.utf8))) == nil)
    }

    /// A document, the origins that it names on the disk, and one from the network that it leads to.
    @Test(arguments: [
        ("http://a/x?token=s\nhttps://a:8443/y\n", ["http://a", "https://a:8443"], ""),
        (
            "<opml><body><outline text='Group'><outline xmlUrl='http://a/1'/></outline><outline xmlUrl='http://b/2'/>"
                + "</body></opml>",
            ["http://a", "http://b"], ""
        ),
        (
            "<rss><channel><link rel='next' href='http://b/2'/><image href='http://c/i.png'/>"
                + "<item><enclosure url='http://a/1.mp3'/></item></channel></rss>",
            ["http://a", "http://b", "http://c"],
            "<rss><channel><item><enclosure url='http://else/2.mp3'/></item></channel></rss>"
        ),
        (
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttp://a/1\n#EXT-X-STREAM-INF:BANDWIDTH=2\nhttp://b/2\n",
            ["http://a", "http://b"],
            "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nhttp://else/1.ts\n#EXT-X-ENDLIST\n"
        ),
        (
            "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-KEY:METHOD=AES-128,URI=\"http://k/1\"\n#EXTINF:2,\nhttp://a/1.ts\n"
                + "#EXTINF:2,\nhttp://b/2.ts\n#EXT-X-ENDLIST\n",
            ["http://a", "http://b", "http://k"], ""
        ),
    ])
    func onlyADocumentOnTheDiskNamesOrigins(_ text: String, _ origins: [String], _ next: String) throws {
        for place in [SourcePlace.path("/films/list"), .url(ResourceURL("http://h/films/list")!)] {
            let head = place.url.map {
                ResponseHead(status: 200, headers: [("Content-Length", "\(text.utf8.count)")], url: $0)
            }
            let answer = SourceAnswer(place, head, Array(text.utf8))
            let sources = SourceKinds.all.compactMap { $0.recognise(answer) as (any Source)? }
            let source = try #require(sources.first)
            var reader = source.list(place, known: nil)
            var step = try reader.read(answer, { false })
            while case .ask(let request)? = step, let url = request.sent?.url {
                try reader.head(
                    ResponseHead(status: 200, headers: [("Content-Length", "\(next.utf8.count)")], url: url))
                try reader.take(Array(next.utf8))
                step = try reader.end { false }
            }
            #expect(source.namedOrigins.sorted() == (place.url == nil ? origins : []), "\(place)")
        }
    }

    @Test func theRootIsWhereARedirectHasLedAndKeepsCredentialsInsideItsOrigin() throws {
        for (place, user) in [("http://h/new", "me" as String?), ("http://other/new", nil)] {
            let (source, entries) = try #require(
                found(answer(Self.page, "text/html", at: "http://me:secret@h/old", from: place)))
            #expect(source.root.key == place + "/" && source.root.url?.credentials?.user == user)
            #expect(entries[0].url.text == place + "/a.mkv" && entries[0].url.credentials?.user == user)
        }
    }

    @Test func aReaderForgetsAnAnswerThatBrokeOff() throws {
        var reader = ListingSource(root: .url(ResourceURL("http://h/")!)).list(
            .url(ResourceURL("http://h/")!), known: nil)
        let head = answer(Self.page, "text/html", at: "http://h/").head
        _ = try reader.start()
        try reader.head(head)
        try reader.take(Array("<pre><a href=\"b.mkv\">b.mkv</a>".utf8))
        try reader.head(head)
        for byte in Self.page.utf8 { try reader.take([byte]) }
        guard case .entries(let entries, nil) = try reader.end({ false }) else { throw SourceRefusal.cutShort }
        #expect(entries.map(\.name) == ["a.mkv"])
    }

    @Test func aPageWithNeitherLengthNorEndIsCutShort() throws {
        let url = ResourceURL("http://h/")!
        let head = ResponseHead(status: 200, headers: [("Content-Type", "text/html")], url: url)
        var reader = ListingSource(root: .url(url)).list(.url(url), known: nil)
        #expect(throws: SourceRefusal.cutShort) {
            _ = try reader.read(SourceAnswer(.url(url), head, Array(Self.page.utf8)), { false })
        }
    }

    private func list(_ entries: [(String, String)]) -> EntryList {
        EntryList(entries.map { SourceEntry(name: $0.0, url: ResourceURL("http://h/\($0.1)")!, isDirectory: false) })
    }

    @Test(
        arguments: [
            // What is there as it was.
            ([("a", "1"), ("b", "2")], [("x", "1"), ("y", "2")], ["a", "b"]),
            // Moved; gone; new.
            ([("a", "1"), ("b", "2")], [("c", "3"), ("b", "2"), ("a", "1")], ["c", "b", "a"]),
            // A new one that would take a name that is given.
            ([("a", "1"), ("a (2)", "2")], [("a", "3"), ("a (2)", "2"), ("a (3)", "1")], ["a (3)", "a (2)", "a"]),
            // A URL that is listed twice.
            ([("a", "1"), ("b", "1")], [("x", "1"), ("y", "1"), ("z", "1")], ["a", "b", "z"]),
            // A name that is free again.
            ([("a", "1")], [("a", "2")], ["a"]),
        ] as [([(String, String)], [(String, String)], [String])])
    func aNameStaysWithItsURL(_ old: [(String, String)], _ new: [(String, String)], _ names: [String]) {
        let named = list(new).named(as: list(old))
        #expect(named.map(\.name) == names)
        #expect(named.map(\.url) == list(new).map(\.url))
    }
}
