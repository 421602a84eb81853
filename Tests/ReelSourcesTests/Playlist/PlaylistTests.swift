import ReelCore
import TestKit
import Testing

@testable import ReelSources

private let list = ResourceURL("http://h/music/list.m3u?key=1")!

private func parse(_ text: String, _ format: PlaylistFormat, base: ResourceURL? = list) throws -> Playlist {
    try Playlist.parse(Array(text.utf8), format: format, base: base)
}

extension Playlist {
    /// "name → URL", one an entry.
    fileprivate var shown: [String] { entries.map { "\($0.name) → \($0.url.text)" } }
}

@Suite struct PlaylistTests {
    @Test("M3U: titles become names with the URL's extension, relative entries resolve against the list")
    func m3u() throws {
        let playlist = try parse(
            """
            #EXTM3U
            #PLAYLIST:Best of
            #EXTINF:123,Artist - Title
            songs/one.mp3
            #EXTINF:-1 tvg-name="a, b" group="c",Two.FLAC
            /two.flac
            three four.mp3

            # a comment
            #EXTINF:5,AC/DC
            https://other:8443/x.ogg?token=secret
            #EXTINF:5,
            five.mp3
            #EXTINF:nonsense
            six
            #EXTINF:1,Radio
            http://radio.example/
            ../up.mp3
            http://radio.example/
            """, .m3u)
        #expect(
            playlist.shown == [
                "Artist - Title.mp3 → http://h/music/songs/one.mp3", "Two.FLAC → http://h/two.flac",
                "three four.mp3 → http://h/music/three%20four.mp3",
                "AC%2FDC.ogg → https://other:8443/x.ogg?token=secret", "five.mp3 → http://h/music/five.mp3",
                "six → http://h/music/six", "Radio → http://radio.example/", "up.mp3 → http://h/up.mp3",
                "radio.example → http://radio.example/",
            ])
        #expect(playlist.entries.allSatisfy { !$0.isDirectory && $0.length == nil } && playlist.skipped.count == 0)
    }

    @Test(
        "M3U in any encoding and with any line end reads the same",
        arguments: [
            Array("\u{FEFF}#EXTM3U\r\n#EXTINF:1,Größe\r\nhttp://h/x.mp3\r\n".utf8),
            Array("#EXTINF:1,Größe\nhttp://h/x.mp3".utf8),
            Array("#EXTM3U\r#EXTINF:1,Größe\rhttp://h/x.mp3\r".utf8),
            Array("#extinf:1, Größe \n  http://h/x.mp3  \n".utf8),
            Array("#EXTINF:1,Gr".utf8) + [0xF6, 0xDF] + Array("e\nhttp://h/x.mp3\n".utf8),
        ])
    func encodings(_ body: [UInt8]) throws {
        #expect(try Playlist.parse(body, format: .m3u, base: nil).shown == ["Größe.mp3 → http://h/x.mp3"])
    }

    @Test("PLS: entries in the order of their numbers, in any case, titles before or after")
    func pls() throws {
        let playlist = try parse(
            "[Playlist]\r\nTitle2=Second\r\nfile2=b.mp3\r\nFILE10=http://h/c.mp3\r\nFile1=/a.mp3\r\nLength1=-1\r\n"
                + "NumberOfEntries=3\r\nFile2=other.mp3\r\nFile=x\r\nFilex=y\r\nFile3=\r\nVersion=2\r\ntitle1=a=b\r\n",
            .pls)
        #expect(
            playlist.shown == [
                "a=b.mp3 → http://h/a.mp3", "Second.mp3 → http://h/music/b.mp3", "c.mp3 → http://h/c.mp3",
            ])
    }

    @Test("XSPF: locations and titles of tracks, and of nothing else")
    func xspf() throws {
        let playlist = try parse(
            """
            <?xml version="1.0" encoding="UTF-8"?>
            <playlist version="1" xmlns="http://xspf.org/ns/0/" xmlns:v="http://example.org/">
              <title>The list</title><location>http://h/not-this</location>
              <trackList>
                <track><location> http://h/a.mp3?x=1&amp;y=2 </location><title>A &lt;1&gt;</title>
                  <extension application="x"><v:track><location>http://h/nor-this</location></v:track></extension>
                </track>
                <track><title><![CDATA[B & C]]></title><location>ftp://h/b.mp3</location>
                  <location>b.mp3</location></track>
                <track><title>Nowhere</title></track>
                <track><location>%C3%BC.flac</location></track>
              </trackList>
            </playlist>
            """, .xspf)
        #expect(
            playlist.shown == [
                "A <1>.mp3 → http://h/a.mp3?x=1&y=2", "B & C.mp3 → http://h/music/b.mp3",
                "ü.flac → http://h/music/%C3%BC.flac",
            ])
    }

    @Test("XSPF with a bare & is read all the same")
    func sloppy() throws {
        let text =
            "<playlist><trackList><track><location>http://h/a.mp3?x=1&y=2</location></track></trackList></playlist>"
        #expect(try parse(text, .xspf).entries.count == 1)
    }

    @Test(
        "XSPF that declares entities, is cut short or is no XSPF is refused",
        arguments: [
            "<!DOCTYPE p [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><playlist><trackList><track><title>&x;</title>"
                + "<location>http://h/&x;</location></track></trackList></playlist>",
            "<!DOCTYPE p [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;'>]>"
                + "<playlist><trackList><track><location>http://h/&c;</location></track></trackList></playlist>",
            "<!DOCTYPE playlist SYSTEM \"http://localhost:1/x.dtd\"><playlist/>",
            "<playlist><trackList><track><location>http://h/a</location></track>", "", "x", "<html></html>",
            String(repeating: "<playlist>", count: 100_000),
        ])
    func hostile(_ text: String) {
        #expect(throws: SourceRefusal.noXSPF) { try parse(text, .xspf) }
    }

    @Test("Plain text: a URL a line, comments and blank lines apart")
    func urls() throws {
        let playlist = try parse("\u{FEFF}# films\n\nhttp://h/a.mp4\r\n  b c.mp4\nhttp://h/a.mp4\n", .urls)
        #expect(
            playlist.shown == [
                "a.mp4 → http://h/a.mp4", "b c.mp4 → http://h/music/b%20c.mp4", "a (2).mp4 → http://h/a.mp4",
            ])
    }

    @Test("M3U without a tag: locations are entries, names of media with blanks too, prose is not")
    func untagged() throws {
        let text =
            "Service unavailable\n{\"error\": \"no. such\"}\nPlease try again.\n01 - A song.MP3\nsub/b\nc.ogg\n"
            + "http://h/d e\n"
        #expect(
            try parse(text, .m3u).entries.map(\.url.text) == [
                "http://h/music/01%20-%20A%20song.MP3", "http://h/music/sub/b", "http://h/music/c.ogg",
                "http://h/d%20e",
            ])
        #expect(try parse("#EXTM3U\nA song\n", .m3u).entries.map(\.name) == ["A song"])
        #expect(try parse("A film.VOB\nA text.doc\n", .m3u).entries.map(\.name) == ["A film.VOB"])
    }

    @Test("What cannot be fetched is counted with its reason, the rest stays")
    func skipped() throws {
        let text = "a.mp3\n/b.mp3\nC:\\c.mp3\nftp://h/d.mp3\nfile:///etc/passwd\nhttp://\nhttp://h/e.mp3\n//h/f.mp3\n"
        let local = try parse(text, .m3u, base: nil)
        #expect(local.entries.map(\.name) == ["e.mp3"])
        #expect(local.skipped.relative == 3 && local.skipped.otherScheme == 3 && local.skipped.malformed == 1)
        #expect(
            local.skipped.reason
                == "7 entries left out: 3 relative to a list that has no URL, 3 neither http nor https, 1 no URL")
        let remote = try parse(text, .m3u)
        #expect(
            remote.entries.map(\.url.text) == [
                "http://h/music/a.mp3", "http://h/b.mp3", "http://h/e.mp3", "http://h/f.mp3",
            ])
        #expect(try parse("http://h/x", .urls).skipped.reason == nil)
    }

    @Test("Credentials of the list's URL go along to its own host and to no other")
    func credentials() throws {
        let base = try #require(ResourceURL("http://u:p@h/list"))
        let entries = try parse("a\nhttp://h/b\nhttp://other/c\n", .urls, base: base).entries
        #expect(entries.map { $0.url.credentials != nil } == [true, true, false])
    }

    @Test(
        "An extension is added only where it is one and the title lacks it",
        arguments: [
            ("T", "x.mp3", "T.mp3"), ("T.mp3", "x.MP3", "T.mp3"), ("T", "x", "T"), ("T", "x.", "T"),
            ("T", "v1.2-final version", "T"),
            ("T", "a.mp3/", "T"), ("Vol. 2", "x.ogg", "Vol. 2.ogg"), ("..", "x.mp3", "...mp3"), ("..", "x", "%2E%2E"),
            ("mp3", "x.mp3", "mp3.mp3"), ("T", ".hidden", "T"),
        ])
    func extensions(_ title: String, _ location: String, _ name: String) throws {
        #expect(try parse("#EXTINF:1,\(title)\n\(location)\n", .m3u).entries.map(\.name) == [name])
    }

    @Test("A line over 64 KiB is no location, and makes no list of a file that has one")
    func longLine() throws {
        let noise = String(repeating: "a.", count: 40_000)
        #expect(PlaylistFormat.detect(Array(noise.utf8), mediaType: nil, fileExtension: "txt") == nil)
        #expect(PlaylistFormat.detect(Array("http://h/\(noise)".utf8), mediaType: nil, fileExtension: nil) == nil)
        for format in [PlaylistFormat.m3u, .urls] {
            let playlist = try parse("#EXTM3U\n# \(noise)\n\(noise)\nb.mp3\n", format)
            #expect(playlist.entries.map(\.name) == ["b.mp3"] && playlist.skipped.malformed == 1)
        }
        #expect(try parse("[playlist]\nFile1=\(noise)\nFile2=b.mp3\n", .pls).entries.map(\.name) == ["b.mp3"])
        // A picture in the attributes.
        let tagged = try parse("#EXTINF:1 tvg-logo=\"data:,\(noise)\",Title\na.mp3\n", .m3u)
        #expect(tagged.entries.map(\.name) == ["Title.mp3"])
        // A URL has 8 KiB.
        let url = "http://h/" + String(repeating: "a", count: 8192)
        #expect(try parse("\(url)\nhttp://h/b\n", .urls).skipped.malformed == 1)
    }

    @Test(
        "Once its deadline has passed a list is read no further", arguments: [PlaylistFormat.urls, .m3u, .pls, .xspf])
    func stopped(_ format: PlaylistFormat) {
        let rows = (0..<1000).map {
            format == .xspf ? "<track><location>a</location></track>" : "File\($0)=http://h/a.b\n"
        }
        let body = Array((format == .xspf ? "<playlist><trackList>" : "").utf8) + Array(rows.joined().utf8)
        #expect(throws: SourceRefusal.stopped) { try Playlist.parse(body, format: format, base: list) { true } }
    }

    @Test("XSPF in Latin-1 is read as M3U in it is")
    func latin1XSPF() throws {
        let body =
            Array("<playlist><trackList><track><location>http://h/a.mp3</location><title>Gr".utf8) + [0xF6, 0xDF]
            + Array("e</title></track></trackList></playlist>".utf8)
        #expect(try Playlist.parse(body, format: .xspf, base: nil).shown == ["Größe.mp3 → http://h/a.mp3"])
    }

    @Test("A line that is no UTF-8 is Latin-1, whatever the others are")
    func mixedEncodings() throws {
        let body =
            Array("#EXTM3U\n#EXTINF:1,日本\nhttp://h/a.mp3\n#EXTINF:1,Gr".utf8) + [0xF6, 0xDF]
            + Array("e\nhttp://h/b.mp3\n".utf8)
        #expect(try Playlist.parse(body, format: .m3u, base: nil).entries.map(\.name) == ["日本.mp3", "Größe.mp3"])
    }

    @Test("An HLS playlist is refused as a stream")
    func stream() {
        #expect(throws: SourceRefusal.isStream) {
            try parse("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\na.ts\n", .m3u)
        }
    }

    @Test("Random lists give safe names, all different", arguments: [UInt64(3), .random(in: 0...(.max))])
    func random(_ seed: UInt64) throws {
        var randomness = SeededGenerator(seed: seed)
        let tokens =
            [
                "#EXTM3U", "#EXTINF:1,", "\n", "\r", "File1=", "Title1=", "[playlist]", "http://h/", "..", "/", "a.mp3",
                "%00", "\0",
                "%2F", "<playlist>", "<trackList>", "<track>", "<location>", "</location>", "</track>", "<title>",
                "</title>",
                "</trackList>", "</playlist>", "<![CDATA[", "]]>", "&#0;", "&amp;", "ü", "C:\\", "?", "#", " ", "\"",
                ",", "=",
            ].map { Array($0.utf8) } + [[0xFF], [0xC3]]
        for format in [PlaylistFormat.urls, .m3u, .pls, .xspf] {
            for _ in 0..<400 {
                var body = format == .xspf ? Array("<playlist><trackList><track><location>http://h/".utf8) : []
                for _ in 0..<Int.random(in: 0..<40, using: &randomness) {
                    body += tokens.randomElement(using: &randomness)!
                }
                if format == .xspf { body += Array("</location></track></trackList></playlist>".utf8) }
                _ = PlaylistFormat.detect(body, mediaType: nil, fileExtension: "txt")
                guard let entries = try? Playlist.parse(body, format: format, base: list).entries else { continue }
                #expect(
                    entries.allSatisfy { isSafe($0.name) } && Set(entries.map(\.name)).count == entries.count,
                    "seed \(seed): \(body)")
            }
        }
    }
}

/// A list of which only the end of the connection shows the end, as HTTP/1.0 sends it.
@Suite struct PlaylistEndTests {
    private let source = PlaylistSource(root: .url(list))

    /// - Returns: the entries, nil for a list that is not believed.
    private func read(_ lines: String, known: EntryList?) throws -> EntryList? {
        var reader = source.list(source.root, known: known)
        let head = ResponseHead(status: 200, headers: [("Content-Type", "audio/x-mpegurl")], url: list)
        do throws(SourceRefusal) {
            guard
                case .entries(let entries, _)? = try reader.read(
                    SourceAnswer(source.root, head, Array(lines.utf8)), { false })
            else { throw .foreign("it asks for more") }
            return entries
        } catch .cutShort {
            return nil
        }
    }

    @Test(
        "Half of a list takes nothing away before as much of it comes again",
        arguments: ["http://h/1.mp3\nhttp://h/2.mp3\n", "http://h/1.mp3\nhttp://h/2.mp3\nhttp://h/3.m"])
    func half(_ half: String) throws {
        let whole = "http://h/1.mp3\nhttp://h/2.mp3\nhttp://h/3.mp3"
        let known = try #require(try read(whole, known: nil))
        #expect(try read(half, known: known) == nil)
        // Others in between, and a half of another length, are no second time.
        #expect(try read(whole + "\nhttp://h/4.mp3", known: known)?.count == 4)
        #expect(try read(half, known: known) == nil)
        #expect(try read("http://h/1.mp3", known: known) == nil)
        #expect(try read(half, known: known) == nil)
        let believed = try #require(try read(half, known: known))
        #expect(believed.count == half.split(separator: "\n").count)
        #expect(try read(half, known: believed) == believed)
        // Of one without entries the volume has its own doubt.
        #expect(try read("#EXTM3U\n", known: believed)?.isEmpty == true)
    }

    @Test("A list that has as many entries is believed at once, also where each has another URL")
    func tokens() throws {
        let lines = { (token: Int) in (1...3).map { "http://h/\(token)/\($0).mp3" }.joined(separator: "\n") }
        let known = try #require(try read(lines(1), known: nil))
        #expect(try read(lines(2), known: known)?.map(\.url.path) == ["/2/1.mp3", "/2/2.mp3", "/2/3.mp3"])
    }

    @Test("The entries that half of a list has are asked for with its signatures")
    func signatures() throws {
        let lines = { (signature: Int) in (1...2).map { "http://h/\($0).mp3?hdnts=\(signature)" } }
        let known = try #require(try read(lines(1).joined(separator: "\n"), known: nil))
        #expect(try read(lines(2)[0], known: known) == nil)
        let sent = known.map { source.request(OriginRequest(url: $0.url)).url.query }
        #expect(sent == ["hdnts=2", "hdnts=1"])
    }
}

@Suite struct PlaylistFormatTests {
    @Test(
        "A list is known by what it says, then by its type and name",
        arguments: [
            ("#EXTM3U\nhttp://h/a", nil, nil, .m3u), ("\u{FEFF}#EXTM3U\na.mp3", "text/plain", "txt", .m3u),
            ("a.mp3\nb.mp3", nil, "M3U8", .m3u), ("a.mp3", "audio/x-mpegurl", nil, .m3u),
            ("a.mp3", "application/vnd.apple.mpegurl", "m3u8", .m3u),
            ("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\na.ts", "application/vnd.apple.mpegurl", "m3u8", nil),
            ("#EXTM3U\r\n#EXT-X-STREAM-INF:BANDWIDTH=1\r\na.m3u8", nil, "m3u8", nil),
            ("[playlist]\nFile1=a", nil, nil, .pls), ("\r\n[PLAYLIST]\r\n", "audio/x-scpls", "pls", .pls),
            ("nothing", "audio/x-scpls", "pls", nil),
            ("<?xml version='1.0'?><playlist xmlns='http://xspf.org/ns/0/'>", "text/xml", nil, .xspf),
            ("<playlist version='1'>", nil, "xspf", .xspf), ("<playlist>", nil, "xml", nil),
            ("<html><title>Sign in</title>", "audio/x-mpegurl", "m3u", nil), ("<html>", nil, "txt", nil),
            ("http://h/a\n\n# x\nHTTPS://h/b\n", "text/plain", nil, .urls), ("http://h/a", nil, nil, .urls),
            ("http://h/a\nb.mp4", "text/plain", nil, nil), ("http://h/a\nb.mp4", "text/plain", "txt", .urls),
            ("films/a\n/b", "text/plain", "urls", .urls), ("a.mp4", "text/uri-list", nil, .urls),
            ("http://h/a is a fine page", "text/plain", "txt", nil), ("Read me first.\n", "text/plain", "txt", nil),
            ("hello", "text/plain", "txt", nil), ("http://h/a", "video/mp4", "mp4", nil),
            ("http://h/a", "text/html", nil, nil),
            ("", "text/plain", "txt", nil), ("# only\n", nil, "txt", nil), ("http://h/a\0", nil, "txt", nil),
        ] as [(String, String?, String?, PlaylistFormat?)])
    func detect(_ text: String, _ mediaType: String?, _ suffix: String?, _ format: PlaylistFormat?) {
        #expect(PlaylistFormat.detect(Array(text.utf8), mediaType: mediaType, fileExtension: suffix) == format)
    }
}
