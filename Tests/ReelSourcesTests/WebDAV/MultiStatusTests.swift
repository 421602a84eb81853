import ReelCore
import TestKit
import Testing

@testable import ReelSources

/// Answers to PROPFIND as servers write them, and as none should.
@Suite struct MultiStatusTests {
    /// What an entry is expected to be: `name`, `name/` of a collection, its length, its date, its URL's path.
    struct Entry: Equatable, CustomStringConvertible {
        var name: String
        var length: Int64?
        var modified: Int64?
        var path: String

        init(_ name: String, _ length: Int64? = nil, _ modified: Int64? = Corpus.moment, _ path: String? = nil) {
            (self.name, self.length, self.modified) = (name, length, modified)
            self.path = path ?? "/dav/" + name
        }

        fileprivate init(_ entry: SourceEntry) {
            name = entry.name + (entry.isDirectory ? "/" : "")
            (length, modified, path) = (entry.length, entry.modified, entry.url.path)
        }

        var description: String { "\(name) \(length ?? -1) \(modified ?? -1) \(path)" }
    }

    private static let folder = ResourceURL("http://me:secret@host:8080/dav/")!
    static let date: String = "Mon, 06 May 2024 07:08:09 GMT"

    /// - Parameter size: of the pieces in which it comes, nil for one.
    static func read(
        _ text: some Sequence<UInt8>, of folder: ResourceURL = folder, known: EntryList? = nil, pieces size: Int? = nil,
        limit: Int = 100
    ) throws(SourceRefusal) -> EntryList {
        var answer = MultiStatus(of: folder, known: known, limit: limit)
        var rest = Array(text)[...]
        repeat {
            try answer.take(Array(rest.prefix(size ?? rest.count)))
            rest = rest.dropFirst(size ?? rest.count)
        } while !rest.isEmpty
        return try answer.finish()
    }

    private static func document(_ responses: String) -> String {
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\(responses)</D:multistatus>\n"
    }

    private static func file(_ href: String, _ length: String = "7") -> String {
        "<D:response><D:href>\(href)</D:href><D:propstat><D:prop><D:resourcetype/>"
            + "<D:getcontentlength>\(length)</D:getcontentlength></D:prop>"
            + "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
    }

    private static let own: String =
        "<D:response><D:href>/dav/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype>"
        + "</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"

    struct Server: CustomTestStringConvertible {
        var testDescription: String
        var text: String
        var entries: [Entry]
    }

    static let servers = [
        Server(
            testDescription: "Apache: prefixes a response, 404 for the length of a collection, small hex digits",
            text: """
                <?xml version="1.0" encoding="utf-8"?>
                <D:multistatus xmlns:D="DAV:" xmlns:ns0="DAV:">
                <D:response xmlns:lp1="DAV:" xmlns:lp2="http://apache.org/dav/props/">
                <D:href>/dav/</D:href>
                <D:propstat><D:prop><lp1:resourcetype><D:collection/></lp1:resourcetype>
                <lp1:getlastmodified>\(date)</lp1:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
                <D:propstat><D:prop><ns0:getcontentlength/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>
                </D:response>
                <D:response xmlns:lp1="DAV:">
                <D:href>/dav/F%c3%bc%c3%9fe%20&amp;%20mehr.mkv</D:href>
                <D:propstat><D:prop><lp1:resourcetype/><lp1:getcontentlength>5000000001</lp1:getcontentlength>
                <lp1:getlastmodified>\(date)</lp1:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
                </D:response>
                <D:response xmlns:lp1="DAV:"><D:href>/dav/sub/</D:href>
                <D:propstat><D:prop><lp1:resourcetype><D:collection/></lp1:resourcetype>
                <lp1:getlastmodified>\(date)</lp1:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
                <D:propstat><D:prop><ns0:getcontentlength/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>
                </D:response>
                </D:multistatus>
                """,
            entries: [
                Entry("Füße & mehr.mkv", 5_000_000_001, Corpus.moment, "/dav/F%c3%bc%c3%9fe%20&%20mehr.mkv"),
                Entry("sub/"),
            ]),
        Server(
            testDescription: "lighttpd: the length of a collection is 4096, no blanks between elements",
            text: "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\" "
                + "xmlns:ns0=\"urn:uuid:c2f41010-65b3-11d1-a29f-00aa00c14882/\">"
                + ["", "sub/"].map { name in
                    "<D:response><D:href>/dav/\(name)</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>"
                        + "</D:resourcetype><D:getcontentlength>4096</D:getcontentlength><D:getlastmodified "
                        + "ns0:dt=\"dateTime.rfc1123\">\(date)</D:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK"
                        + "</D:status></D:propstat></D:response>"
                }.joined() + "</D:multistatus>",
            entries: [Entry("sub/")]),
        Server(
            testDescription: "nginx: raw brackets, its own name without a slash, nothing of what is missing",
            text: """
                <?xml version="1.0" encoding="utf-8" ?>
                <D:multistatus xmlns:D="DAV:">
                <D:response>
                <D:href>/dav</D:href>
                <D:propstat>
                <D:prop>
                <D:getlastmodified>\(date)</D:getlastmodified>
                <D:resourcetype><D:collection/></D:resourcetype>
                </D:prop>
                <D:status>HTTP/1.1 200 OK</D:status>
                </D:propstat>
                </D:response>
                <D:response>
                <D:href>/dav/[b] {c}.txt</D:href>
                <D:propstat>
                <D:prop>
                <D:getcontentlength>0</D:getcontentlength>
                <D:getlastmodified>\(date)</D:getlastmodified>
                <D:resourcetype></D:resourcetype>
                </D:prop>
                <D:status>HTTP/1.1 200 OK</D:status>
                </D:propstat>
                </D:response>
                </D:multistatus>
                """,
            entries: [Entry("[b] {c}.txt", 0, Corpus.moment, "/dav/%5Bb%5D%20%7Bc%7D.txt")]),
        Server(
            testDescription: "WsgiDAV: a prefix of its own, an escaped everything",
            text: """
                <?xml version='1.0' encoding='UTF-8'?>
                <ns0:multistatus xmlns:ns0="DAV:"><ns0:response><ns0:href>/dav/</ns0:href><ns0:propstat><ns0:prop>\
                <ns0:resourcetype><ns0:collection /></ns0:resourcetype></ns0:prop><ns0:status>HTTP/1.1 200 OK</ns0:status>\
                </ns0:propstat></ns0:response><ns0:response><ns0:href>/dav/%61%2Bb%3B%20%40%27.txt</ns0:href>\
                <ns0:propstat><ns0:prop><ns0:resourcetype/><ns0:getcontentlength>3</ns0:getcontentlength>\
                <ns0:getlastmodified>\(date)</ns0:getlastmodified></ns0:prop><ns0:status>HTTP/1.1 200 OK</ns0:status>\
                </ns0:propstat></ns0:response></ns0:multistatus>
                """,
            entries: [Entry("a+b; @'.txt", 3, Corpus.moment, "/dav/%61%2Bb%3B%20%40%27.txt")]),
        Server(
            testDescription: "rclone: a plus is a plus",
            text: document(
                own + file("/dav/a+b%20c.mkv")
                    + "<D:response><D:href>/dav/s/</D:href><D:propstat><D:prop><D:resourcetype><D:collection "
                    + "xmlns:D=\"DAV:\"/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>"
                    + "<D:propstat><D:prop><D:getcontentlength></D:getcontentlength></D:prop>"
                    + "<D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>"),
            entries: [Entry("a+b c.mkv", 7, nil, "/dav/a+b%20c.mkv"), Entry("s/", nil, nil)]),
        Server(
            testDescription: "sabre: small prefixes, a name that is not UTF-8 is the folder's",
            text: """
                <?xml version="1.0"?>
                <d:multistatus xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns">
                <d:response><d:href>/dav/</d:href><d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>\
                </d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>
                <d:response><d:href>/dav/</d:href><d:propstat><d:prop><d:resourcetype/></d:prop>\
                <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>
                <d:response><d:href>/dav/n%c3%ab.mp3</d:href><d:propstat><d:prop><d:resourcetype/>\
                <d:getcontentlength>9</d:getcontentlength><d:getlastmodified>\(date)</d:getlastmodified></d:prop>\
                <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>
                </d:multistatus>
                """,
            entries: [Entry("në.mp3", 9, Corpus.moment, "/dav/n%c3%ab.mp3")]),
        Server(
            testDescription:
                "phodav: whole URLs, raw signs, ISO 8601, no slashes, itself last, an empty href, broken XML",
            text: document(
                ["100%.txt", "a#b.txt", "what?.txt", "<tag>.txt", "x\u{1}y.txt"].map {
                    file("http://host:8080/dav/\($0)")
                }
                .joined()
                    + "<D:response><D:href>http://host:8080/dav/sub</D:href><D:propstat><D:prop><D:resourcetype>"
                    + "<D:collection/></D:resourcetype><D:getcontentlength>4096</D:getcontentlength><D:getlastmodified>"
                    + "2024-05-06T09:08:09.123+02:00</D:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status>"
                    + "</D:propstat></D:response><D:response><D:href/></D:response>"
                    + "<D:response><D:href>http://host:8080/dav</D:href></D:response>"),
            entries: [
                Entry("100%.txt", 7, nil, "/dav/100%25.txt"), Entry("a#b.txt", 7, nil, "/dav/a%23b.txt"),
                Entry("what?.txt", 7, nil, "/dav/what%3F.txt"), Entry("x%01y.txt", 7, nil, "/dav/x%01y.txt"),
                Entry("sub/"),
            ]),
        Server(
            testDescription: "Nextcloud: more properties than were asked for, of other namespaces with the same names",
            text: """
                <?xml version="1.0"?>
                <d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns">\
                <d:response><d:href>/dav/</d:href><d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>\
                <oc:size>1</oc:size></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>\
                <d:response><d:href>/dav/a.mkv</d:href><d:propstat><d:prop><d:getlastmodified>\(date)</d:getlastmodified>\
                <d:getetag>&quot;5f&quot;</d:getetag><oc:getcontentlength>1</oc:getcontentlength><d:resourcetype/>\
                <nc:response><d:href>/dav/evil</d:href></nc:response><oc:collection><d:collection/></oc:collection>\
                <d:getcontentlength>70</d:getcontentlength></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>\
                <d:propstat><d:prop><oc:size/></d:prop><d:status>HTTP/1.1 404 Not Found</d:status></d:propstat>\
                </d:response></d:multistatus>
                """,
            entries: [Entry("a.mkv", 70)]),
        Server(
            testDescription: "ownCloud: an empty length of a collection with 404, a tag of letters, an id for a user",
            text: """
                <?xml version="1.0"?>
                <d:multistatus xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns" xmlns:oc="http://owncloud.org/ns">\
                <d:response><d:href>/dav/</d:href><d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>\
                <d:getlastmodified>\(date)</d:getlastmodified><d:getetag>&quot;663881a9&quot;</d:getetag></d:prop>\
                <d:status>HTTP/1.1 200 OK</d:status></d:propstat><d:propstat><d:prop><d:getcontentlength/></d:prop>\
                <d:status>HTTP/1.1 404 Not Found</d:status></d:propstat></d:response>\
                <d:response><d:href>/dav/1284d238%24f7fb/</d:href><d:propstat><d:prop><d:resourcetype><d:collection/>\
                </d:resourcetype><d:getlastmodified>\(date)</d:getlastmodified></d:prop><d:status>HTTP/1.1 200 OK\
                </d:status></d:propstat><d:propstat><d:prop><d:getcontentlength/></d:prop><d:status>HTTP/1.1 404 Not Found\
                </d:status></d:propstat></d:response>\
                <d:response><d:href>/dav/%c3%84.mp4</d:href><d:propstat><d:prop><d:resourcetype/><d:getcontentlength>0\
                </d:getcontentlength><d:getlastmodified>\(date)</d:getlastmodified></d:prop><d:status>HTTP/1.1 200 OK\
                </d:status></d:propstat></d:response></d:multistatus>
                """,
            entries: [
                Entry("1284d238$f7fb/", nil, Corpus.moment, "/dav/1284d238%24f7fb/"),
                Entry("Ä.mp4", 0, Corpus.moment, "/dav/%c3%84.mp4"),
            ]),
        Server(
            testDescription: "Yandex.Disk: the status before the properties, a title that is not the name, raw letters",
            text: """
                <?xml version='1.0' encoding='UTF-8'?><d:multistatus xmlns:d="DAV:"><d:response><d:href>/dav/</d:href>\
                <d:propstat><d:status>HTTP/1.1 200 OK</d:status><d:prop><d:creationdate>2012-04-04T20:00:00Z</d:creationdate>\
                <d:displayname>disk</d:displayname><d:getlastmodified>\(date)</d:getlastmodified><d:resourcetype>\
                <d:collection/></d:resourcetype></d:prop></d:propstat></d:response><d:response><d:href>/dav/Кино/</d:href>\
                <d:propstat><d:status>HTTP/1.1 200 OK</d:status><d:prop><d:displayname>Films</d:displayname>\
                <d:getlastmodified>\(date)</d:getlastmodified><d:resourcetype><d:collection/></d:resourcetype></d:prop>\
                </d:propstat></d:response><d:response><d:href>/dav/a%20b.mkv</d:href><d:propstat><d:status>HTTP/1.1 200 OK\
                </d:status><d:prop><d:getetag>d41d8cd98f00b204e9800998ecf8427e</d:getetag><d:getcontenttype>video/x-matroska\
                </d:getcontenttype><d:getcontentlength>6000000000</d:getcontentlength><d:displayname>a b.mkv</d:displayname>\
                <d:getlastmodified>\(date)</d:getlastmodified><d:resourcetype/></d:prop></d:propstat></d:response>\
                </d:multistatus>
                """,
            entries: [
                Entry("Кино/", nil, Corpus.moment, "/dav/%D0%9A%D0%B8%D0%BD%D0%BE/"),
                Entry("a b.mkv", 6_000_000_000, Corpus.moment, "/dav/a%20b.mkv"),
            ]),
        Server(
            testDescription: "SharePoint and IIS: whole URLs of another host, iscollection, the default namespace",
            text: """
                \u{FEFF}<?xml version="1.0" encoding="utf-8"?><multistatus xmlns:Z="urn:schemas-microsoft-com:" \
                xmlns="DAV:"><response><href>https://inner.example/dav//</href><propstat><status>HTTP/1.1 200 OK</status>\
                <prop><iscollection xmlns:b="urn:uuid" b:dt="boolean">1</iscollection></prop></propstat></response>\
                <response><href>https://inner.example/dav//Shared%20Documents</href><propstat>\
                <status>HTTP/1.1 200 OK</status><prop><iscollection>1</iscollection><getlastmodified>\(date)\
                </getlastmodified></prop></propstat></response><response><href>https://inner.example/dav//a%20b.mp4</href>\
                <propstat><status>HTTP/1.1 200 OK</status><prop><iscollection>0</iscollection><getcontentlength> 8 \
                </getcontentlength><getlastmodified><![CDATA[\(date)]]></getlastmodified></prop></propstat></response>\
                </multistatus>
                """,
            entries: [
                Entry("Shared Documents/", nil, Corpus.moment, "/dav/Shared%20Documents/"),
                Entry("a b.mp4", 8, Corpus.moment, "/dav/a%20b.mp4"),
            ]),
    ]

    @Test(arguments: servers, [nil, 1, 7] as [Int?])
    func aServersAnswerIsReadHoweverItComes(_ server: Server, _ size: Int?) throws {
        let entries = try Self.read(server.text.utf8, pieces: size)
        #expect(entries.map(Entry.init) == server.entries)
        #expect(entries.allSatisfy { $0.url.origin == "http://host:8080" && $0.url.credentials?.user == "me" })
    }

    @Test(
        arguments: [
            // Not below the folder, or not right below it.
            ("/", nil), ("/other/a", nil), ("/dav/sub/a", nil), ("/dav/sub/../../a", nil), ("/davos/a", nil),
            ("../a", nil),
            ("/dav/..", nil), ("/dav/%2e%2E/", nil), ("/dav/.", nil), ("/DAV/a", nil), ("dav://host/dav/a", nil),
            ("/dav/" + String(repeating: "a", count: 9000), nil),
            // The folder itself.
            ("", nil), ("/dav", nil), ("//dav//", nil), ("http://x/%64av/", nil), ("/dav/?", "?"),
            // Members in all forms.
            ("/dav/a", "a"), ("//dav//a", "a"), ("a", "a"), ("http://host:8080/dav/a", "a"), ("HTTPS://x/dav/a", "a"),
            ("/%64%61v/a", "a"), ("/dav/%2F", "%2F"), ("/dav/a%2Fb", "a%2Fb"), ("/dav/%252e", "%2e"),
            ("/dav/...", "..."),
            ("/dav/a&lt;b", "a<b"), ("/dav/a%00b", "a%00b"), ("/dav/%FC", "%FC"), ("/dav/a:b", "a:b"), ("c:d", "c:d"),
            ("  /dav/a\n", "a"),
        ] as [(String, String?)])
    func anEntryIsADirectMemberOfTheFolderOrNone(_ href: String, _ name: String?) throws {
        let entries = try Self.read(Self.document(Self.own + Self.file(href)).utf8)
        #expect(entries.map(\.name) == (name.map { [$0] } ?? []))
        #expect(entries.allSatisfy { $0.url.path.hasPrefix("/dav/") && $0.length == 7 })
    }

    @Test(arguments: [
        "", "<", "<html><body>Log in</body></html>", "{\"error\":1}", "<multistatus/>", "<multistatus xmlns='DAV'/>",
        "<D:multistatus xmlns='DAV:'></D:multistatus>", "<D:multistatus xmlns:D='DAV:'/>",
        document(file("/other/a") + file("/")), document(file("/dav/")), document("<D:response/>"),
    ])
    func whatIsNoAnswerIsForeign(_ text: String) {
        #expect { try Self.read(text.utf8) } throws: { if case SourceRefusal.foreign = $0 { true } else { false } }
    }

    @Test func anAnswerThatDoesNotEndIsCutShortWhereverItEnds() throws {
        let bytes = Array(Self.document(Self.own + Self.file("/dav/a")).utf8)
        let start = try #require(bytes.firstRange(of: Array("<D:multistatus".utf8)))
        let end = try #require(bytes.lastIndex(of: 0x3E))
        for count in bytes.indices where count > start.upperBound + 20 && count <= end {
            #expect(throws: SourceRefusal.cutShort) { try Self.read(bytes[..<count]) }
        }
        #expect(try Self.read(bytes[...end]).count == 1)
        // Nothing behind the end counts.
        #expect(try Self.read(bytes + Array(Self.document(Self.file("/dav/b")).utf8)).map(\.name) == ["a"])
    }

    /// An error inside of the answer takes nothing away.
    @Test func aMemberOfWhichOnlyAnErrorIsToldStaysAsItWas() throws {
        func member(_ name: String, _ status: String) -> String {
            "<D:response><D:href>/dav/\(name)</D:href><D:status>HTTP/1.1 \(status)</D:status></D:response>"
        }
        func properties(_ name: String, _ status: String) -> String {
            Self.file("/dav/" + name, "1").replacing("200 OK", with: status)
        }
        let text = Self.document(
            Self.own + member("a", "403 Forbidden") + member("gone", "404 Not Found") + member("dir", "423 Locked")
                + properties("b", "500 Oops") + properties("new", "500 Oops") + properties("new/", "403 No"))
        let known = EntryList([
            SourceEntry(name: "a", url: ResourceURL("http://h/dav/a")!, isDirectory: false, length: 5, modified: 6),
            SourceEntry(name: "gone", url: ResourceURL("http://h/dav/gone")!, isDirectory: false),
            SourceEntry(name: "dir", url: ResourceURL("http://h/dav/dir/")!, isDirectory: true),
            SourceEntry(name: "b", url: ResourceURL("http://h/dav/b")!, isDirectory: false, length: 8),
        ])
        #expect(
            try Self.read(text.utf8, known: known).map(Entry.init) == [
                Entry("a", 5, 6), Entry("dir/", nil, nil), Entry("b", 8, nil), Entry("new", nil, nil),
                Entry("new (2)/", nil, nil, "/dav/new/"),
            ])
        #expect { try Self.read(Self.document(member("", "507 Full")).utf8) } throws: {
            if case SourceRefusal.useless = $0 { true } else { false }
        }
    }

    /// Quoted or not, weak or strong: Apache's is weak while the file is fresh, WsgiDAV's has no quotes.
    @Test(
        arguments: [
            ("\"a1\"", true), ("&quot;a1&quot;", true), ("a1", true), ("W/\"a1\"", true), (" W/&quot;a1&quot;\n", true),
            ("<![CDATA[\"a1\"]]>", true), ("\"a2\"", false), ("\"A1\"", false), ("\"a1-gzip\"", false), ("", nil),
            ("\"\"", nil), ("a b", nil), (String(repeating: "a", count: 2000), nil),
        ] as [(String, Bool?)])
    func anEntryHasTheEntityTagOfTheAnswerInAnySpelling(_ text: String, _ isSame: Bool?) throws {
        func tag(_ text: String, status: String = "200 OK") throws -> EntryTag? {
            let property =
                "<D:propstat><D:prop><D:getetag>\(text)</D:getetag></D:prop><D:status>HTTP/1.1 \(status)"
                + "</D:status></D:propstat></D:response>"
            let member = Self.file("/dav/a").replacing("</D:response>", with: property)
            return try Self.read(Self.document(Self.own + member).utf8).tag(at: 0)
        }
        let known = try #require(try tag("\"a1\""))
        #expect(try tag(text).map { $0 == known } == isSame)
        #expect(try tag(text, status: "404 Not Found") == nil)
    }

    /// A name that it cannot write as a URL becomes the folder's with sabre, and the folder is empty otherwise.
    @Test func aFolderThatIsNamedTwiceIsACollection() throws {
        #expect(try Self.read(Self.document(Self.own + Self.file("/dav/")).utf8).isEmpty)
        #expect(try Self.read(Self.document(Self.file("/dav/") + Self.own).utf8).isEmpty)
    }

    @Test func moreEntriesThanAFolderMayHaveAreRefused() {
        let text = Self.document(Self.own + (0..<11).map { Self.file("/dav/\($0)") }.joined())
        #expect(throws: SourceRefusal.tooManyEntries) { try Self.read(text.utf8, limit: 10) }
        #expect(throws: Never.self) { try Self.read(text.utf8, limit: 11) }
    }

    @Test func aResponseThatNamesMembersWithoutEndIsRefused() {
        let text = "<multistatus xmlns='DAV:'><response>" + String(repeating: "<href>/dav/a</href>", count: 1001)
        #expect(throws: SourceRefusal.useless("a response of the WebDAV answer names too many members")) {
            try Self.read(text.utf8, limit: 10)
        }
    }

    /// Neither kept until the end, nor read at the end.
    @Test func entriesAreReadAsTheirBytesComeAndTheTextIsNotKept() throws {
        var answer = MultiStatus(of: Self.folder, known: nil)
        try answer.take(Array("<D:multistatus xmlns:D='DAV:'>\(Self.own)".utf8))
        for number in 1...2000 {
            try answer.take(Array(Self.file("/dav/film%20\(number).mkv", "\(number)").utf8))
            #expect(answer.count == number)
        }
        #expect(answer.unread < 100)
        #expect(throws: SourceRefusal.useless("the WebDAV answer has an element that is too long")) {
            for _ in 0..<3 { try answer.take([UInt8](repeating: 0x61, count: 1 << 19)) }
        }
    }

    /// However a document is cut, and however broken it is.
    @Test func aStreamTellsWhatTheWholeDocumentTells() {
        var random = SeededGenerator()
        let parts = [
            "<", ">", "/", "</", "<a", "<D:b ", "=", "'", "\"", " ", "x='>'", "y=1", "<!--", "-->", "--", "-",
            "<![CDATA[",
            "]]>", "]", "<?", "?>", "?", "<!DOCTYPE d [", "&lt;", "text", "é", "\n", "<!", "!", "_", "<_",
        ]
        var ends = 0
        for _ in 0..<2000 {
            let text = (0..<Int.random(in: 1...40, using: &random)).map { _ in parts.randomElement(using: &random)! }
            let bytes = Array(text.joined().utf8)
            var (whole, pieces) = (Recording(), Recording())
            var reader = MarkupReader(bytes[...], .prefixedXML, StopCheck { false })
            _ = reader.read(&whole)
            ends += whole.events.count
            var stream = MarkupStream(.prefixedXML)
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...8, using: &random)
                let fits = stream.take(Array(rest.prefix(count)), &pieces)
                #expect(fits)
                rest = rest.dropFirst(count)
            }
            stream.finish(&pieces)
            ends -= pieces.events.count
            // A tag that does not end, and what stands before it, wait forever.
            #expect(whole.events.starts(with: pieces.events), "seed \(random.seed): \(text.joined())")
        }
        #expect(ends < 20_000, "\(ends) of what was told was not told in pieces")
    }

    private struct Recording: MarkupHandler {
        var events: [String] = []
        var isDone: Bool { false }

        mutating func start(_ name: String, _ attributes: MarkupAttributes) {
            events.append("<\(name) \(attributes["x"] ?? []) \(attributes["y"] ?? [])")
        }

        mutating func end(_ name: String) { events.append("/\(name)") }
        mutating func text(_ bytes: ArraySlice<UInt8>) { events.append(String(decoding: bytes, as: UTF8.self)) }
    }
}

/// What is WebDAV, and what is asked of it.
@Suite struct WebDAVSourceTests {
    @Test(
        arguments: [
            ("dav://h/films", "http://h/films/"), ("davs://h/films/", "https://h/films/"),
            ("DAVS://h:444", "https://h:444/"),
            ("dav://me:pw@h/a%20b/", "http://h/a%20b/"), ("http://h/", nil), ("dav:/h", nil), ("davx://h/", nil),
            ("/dav://h", nil), ("dav://", nil),
        ] as [(String, String?)])
    func aSchemeSaysIt(_ address: String, _ root: String?) {
        let source = WebDAVSource.recognise(address: address)
        #expect(source?.root.key == root)
        #expect(source?.root.url?.credentials?.user == (address.contains("@") ? "me" : nil))
        #expect(SourceKinds.url(of: address)?.text == (root ?? ResourceURL(address)?.text))
    }

    @Test func oneRequestListsAFolder() throws {
        let source = WebDAVSource(root: .url(ResourceURL("http://h/films/")!))
        var reader = source.list(source.root, known: nil)
        guard case .ask(.origin(let request)) = try reader.start() else { throw SourceRefusal.stopped }
        #expect(request.method == "PROPFIND" && request.accepted == [207] && request.isPublic)
        #expect(request.headers.first { $0.name == "Depth" }?.value == "1")
        #expect(source.hasOwnRequests && !ListingSource(root: source.root).hasOwnRequests)
        // A redirect to the folder's other name, and an attempt that broke off before.
        for (place, name) in [("http://h/films/", "old"), ("http://h/new", "a")] {
            try reader.head(ResponseHead(status: 207, headers: [], url: ResourceURL(place)!))
            let href = ResourceURL(place)!.path + "/" + name
            try reader.take(Array("<multistatus xmlns='DAV:'><response><href>\(href)</href></response>".utf8))
        }
        try reader.take(Array("</multistatus>".utf8))
        guard case .entries(let entries, nil) = try reader.end({ false }) else { throw SourceRefusal.stopped }
        #expect(entries.map(\.url.text) == ["http://h/new/a"])
    }
}
