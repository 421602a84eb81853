import ReelCore
import TestKit
import Testing

@testable import ReelSources

/// A document that holds `unit` again and again.
struct Hostile: Sendable, CustomTestStringConvertible {
    var start = ""
    var unit: String
    var end = ""
    var testDescription: String { (start + unit + "…" + end).debugDescription }

    func bytes(_ size: Int) -> [UInt8] {
        let unit = Array(unit.utf8)
        var result = Array(start.utf8)
        while result.count < size { result += unit }
        return result + Array(end.utf8)
    }

    /// The unit with a number of its own each time.
    func numbered(_ size: Int) -> [UInt8] {
        var result = Array(start.utf8)
        var number = size
        while result.count < size {
            result += unit.replacing("#", with: "\(number)").utf8
            number -= 1
        }
        return result + Array(end.utf8)
    }
}

@Suite("Work grows with the page, not with its square", .serialized) struct WorkTests {
    private static let size: Int = 4 << 10

    static let pages: [Hostile] = [
        Hostile(start: "<title>Index of</title><a href='", unit: "./", end: "x'>x</a>"),
        Hostile(start: "<title>Index of</title><a href='http://", unit: "🇩🇪", end: "/x'>x</a>"),
        Hostile(start: "<title>Index of</title><a href='x?", unit: "\u{301}", end: "'>x</a>"),
        Hostile(start: "<title>Index of</title><a href='/odd/", unit: "%2e/", end: "x'>x</a>"),
        Hostile(start: "<a ", unit: "a# ", end: "href=x>x</a>"), Hostile(start: "<a ", unit: "a#=# ", end: ">"),
        Hostile(start: "<a ", unit: "a ", end: ">"), Hostile(start: "<a ", unit: "/ ", end: ">"),
        Hostile(start: "<a ", unit: "= ", end: ">"), Hostile(start: "<a ", unit: "a='' ", end: ">"),
        Hostile(unit: "<"), Hostile(unit: "</"), Hostile(unit: "<a"), Hostile(unit: "<a "), Hostile(unit: "<a href='"),
        Hostile(unit: "<!--"), Hostile(unit: "<!-- --"), Hostile(unit: "<!"), Hostile(unit: "<?"),
        Hostile(unit: "<!-->"),
        Hostile(unit: "<script>"), Hostile(start: "<script>", unit: "</scrip "), Hostile(start: "<script>", unit: "</"),
        Hostile(start: "<style>", unit: "<"), Hostile(unit: "&"), Hostile(unit: "&#"), Hostile(unit: "&#x1"),
        Hostile(unit: "&amp"), Hostile(unit: "&nbsp;"), Hostile(unit: "<div>"), Hostile(unit: "<b><a href=x>"),
        Hostile(unit: "<table><tr><td>"), Hostile(unit: "</table>"), Hostile(unit: "<title>"), Hostile(unit: "\0"),
        Hostile(unit: "<pre>\n"), Hostile(start: "<pre>", unit: "<a href=a#>x</a> 06-May-2024 07:08 #\n"),
        Hostile(start: "<a href=x>x</a>", unit: "<td>2024-05-06"), Hostile(start: "<a href=x>x</a>", unit: "2"),
        Hostile(unit: "<a href=a%2Fb>x</a><a href=a%252Fb>x</a>"), Hostile(unit: "<a href=x/><a href=x>"),
        Hostile(unit: "<a href='?#'>"), Hostile(start: "<a href='?", unit: "a;&", end: "'>"),
        Hostile(unit: "<a href='#%FC\u{301}ü'>"), Hostile(start: "<a data-size='", unit: "9", end: "'>"),
    ]

    @Test(arguments: pages) func html(_ page: Hostile) {
        let work = Work(size: Self.size, input: page.numbered) {
            _ = try? Listing.parse($0, mediaType: "text/html", url: Corpus.base)
        }
        #expect(work.isLinear, "\(work)")
    }

    static let arrays: [Hostile] = [
        Hostile(unit: "["), Hostile(start: "[", unit: "{\"a\":"), Hostile(start: "[{\"a\":", unit: "["),
        Hostile(start: "[", unit: "{},"), Hostile(start: "[{\"a\":[", unit: "1,"),
        Hostile(start: "[\"", unit: "\\u0041"),
        Hostile(start: "[{\"", unit: "a"), Hostile(start: "[{\"name\":\"", unit: "a"),
        Hostile(start: "[{\"size\":", unit: "9"),
        Hostile(start: "[{\"name\":\"", unit: "\\ud83d\\ude00"), Hostile(unit: " "), Hostile(start: "[", unit: "\""),
        Hostile(start: "[", unit: "{\"name\":\"a#\",\"type\":\"file\",\"size\":#},"),
        Hostile(start: "[", unit: "{\"name\":\"/\",\"type\":\"file\"},{\"name\":\"%2F\",\"type\":\"file\"},"),
        Hostile(start: "[{", unit: "\"name\":\"a\","), Hostile(start: "[{\"mtime\":\"", unit: "Sun, "),
    ]

    @Test(arguments: arrays) func json(_ page: Hostile) {
        let work = Work(size: Self.size, input: page.numbered) {
            _ = try? Listing.parse($0, mediaType: "application/json", url: Corpus.base)
        }
        #expect(work.isLinear, "\(work)")
    }

    static let lists: [Hostile] = [
        Hostile(unit: "a"), Hostile(unit: "\n"), Hostile(unit: "\r\n"), Hostile(unit: "# \n"), Hostile(unit: " "),
        Hostile(unit: "🇩🇪"), Hostile(start: "http://", unit: "🇩🇪"), Hostile(start: "http://h/", unit: "./"),
        Hostile(start: "#EXTM3U\n", unit: "\u{301}"), Hostile(unit: "http://h/a#\n"), Hostile(unit: "http://h/a\n"),
        Hostile(unit: "http://🇩🇪🇩🇪/\n"), Hostile(unit: "#EXTINF:1,T\nhttp://h/a\n"),
        Hostile(start: "#EXTINF:", unit: "\""),
        Hostile(start: "#EXTINF:1,", unit: "🇩🇪", end: "\na.mp3\n"), Hostile(unit: "#EXTINF:1,🇩🇪\na\n"),
        Hostile(unit: "#EXTINF:1,x (2)\na\n#EXTINF:1,x\na\n"), Hostile(start: "[playlist]\n", unit: "File#=a\n"),
        Hostile(start: "[playlist]\n", unit: "File#=a\nTitle#=T\n"), Hostile(start: "[playlist]\nFile", unit: "9"),
        Hostile(start: "[playlist]\n", unit: "File1=a\n"), Hostile(start: "[playlist]\n", unit: "="),
        Hostile(unit: "."), Hostile(unit: "a b.mp3\n"), Hostile(unit: ":"), Hostile(unit: "\u{FC}"),
    ]

    @Test(arguments: lists) func list(_ list: Hostile) {
        for format in [PlaylistFormat.urls, .m3u, .pls] {
            let work = Work(size: Self.size, input: list.numbered) {
                _ = PlaylistFormat.detect($0, mediaType: nil, fileExtension: "txt")
                _ = PlaylistFormat.detect($0, mediaType: nil, fileExtension: "m3u")
                _ = try? Playlist.parse($0, format: format, base: Corpus.base)
            }
            #expect(work.isLinear, "\(format): \(work)")
        }
    }

    private static let track: String = "<playlist><trackList><track><location>"
    static let documents: [Hostile] = [
        Hostile(unit: "<a>"), Hostile(unit: "<playlist>"), Hostile(start: "<playlist ", unit: "a#='' ", end: "/>"),
        Hostile(start: "<playlist ", unit: "xmlns:a#='#' ", end: "/>"), Hostile(start: track, unit: "&"),
        Hostile(start: track, unit: "&amp;"), Hostile(start: track, unit: "a"),
        Hostile(start: track, unit: "<![CDATA["),
        Hostile(start: track + "<![CDATA[", unit: "]]"), Hostile(start: track, unit: "<![CDATA[]]>"),
        Hostile(start: track, unit: "<!--"), Hostile(start: track, unit: "<?"), Hostile(start: track, unit: "</"),
        Hostile(start: "<!DOCTYPE ", unit: "["), Hostile(start: track, unit: "🇩🇪", end: "</location></track>"),
        Hostile(start: "<playlist><trackList>", unit: "<track><location>a#</location><title>T</title></track>"),
        Hostile(start: "<playlist><trackList><track>", unit: "<location>ftp://h</location>", end: "</track>"),
        Hostile(start: "<playlist><trackList><track>", unit: "<x/>"), Hostile(start: "<playlist>", unit: "</x>"),
    ]

    @Test(arguments: documents) func xspf(_ document: Hostile) {
        let work = Work(size: Self.size, input: document.numbered) {
            _ = PlaylistFormat.detect($0, mediaType: nil, fileExtension: "xspf")
            _ = try? Playlist.parse($0, format: .xspf, base: Corpus.base)
        }
        #expect(work.isLinear, "\(work)")
    }

    private static let item: String = "<rss><channel><item><title>"
    static let feeds: [Hostile] = [
        Hostile(start: "<rss>", unit: "<a>"), Hostile(start: "<rss>", unit: "</a>"), Hostile(unit: "<?xml?>"),
        Hostile(start: item, unit: "a"), Hostile(start: item, unit: "&amp;"), Hostile(start: item, unit: "</x>"),
        Hostile(start: item + "</title>", unit: "<enclosure url='a#'/>", end: "</item></channel></rss>"),
        Hostile(start: item + "</title>", unit: "<enclosure url='a'/>", end: "</item></channel></rss>"),
        Hostile(start: item + "x</title>", unit: "<enclosure url='a#'/>", end: "</item></channel></rss>"),
        Hostile(
            start: "<rss><channel>", unit: "<item><title>a</title><enclosure url='a#'/></item>", end: "</channel></rss>"
        ),
        Hostile(start: "<rss><channel>", unit: "<item><pubDate>6 May 2024", end: "</rss>"),
        Hostile(start: "<rss><channel><item>", unit: "<media:group><media:content url='#'/>"),
        Hostile(start: "<opml>", unit: "<outline text='a' xmlUrl='http://h/#'/>", end: "</opml>"),
        Hostile(start: "{\"version\":\"jsonfeed.org\",\"items\":[", unit: "{\"attachments\":["),
        Hostile(start: "{\"version\":\"jsonfeed.org\",\"items\":[", unit: "{\"title\":\"a\"},", end: "0]}"),
        Hostile(start: "{\"version\":\"jsonfeed.org\",\"title\":", unit: "["),
    ]

    @Test(arguments: feeds) func feed(_ document: Hostile) {
        let work = Work(size: Self.size, input: document.numbered) {
            var entries = FeedEntries()
            entries.base = Corpus.base
            _ = try? FeedFormat(of: $0, mediaType: nil)?.read($0, &entries, StopCheck { false })
            _ = entries.list()
        }
        #expect(work.isLinear, "\(work)")
    }

    private static let response: String = "<multistatus xmlns='DAV:'><response><href>"
    static let answers: [Hostile] = [
        Hostile(unit: "<a>"), Hostile(unit: "<multistatus xmlns='DAV:'>"), Hostile(unit: "<"), Hostile(unit: "</a>"),
        Hostile(start: "<multistatus ", unit: "xmlns:a#='DAV:' ", end: "/>"), Hostile(start: response, unit: "&"),
        Hostile(start: response, unit: "a"), Hostile(start: response, unit: "<![CDATA["),
        Hostile(start: response, unit: "/"),
        Hostile(start: response, unit: "<!--"), Hostile(start: response + "<!--", unit: ">"),
        Hostile(start: response, unit: "<a '"),
        Hostile(start: response + "<![CDATA[", unit: "]]"), Hostile(start: response, unit: "<x xmlns='#'></x>"),
        Hostile(start: response, unit: "</multistatus"), Hostile(start: response, unit: "<x a="),
        Hostile(start: "<multistatus xmlns='DAV:'>", unit: "<response><href>/odd/a#</href></response>"),
        Hostile(
            start: "<multistatus xmlns='DAV:'>",
            unit: "<response><href>/odd/%2F</href><href>/odd/%252F</href></response>"),
        Hostile(start: "<multistatus xmlns='DAV:'><response>", unit: "<href>/odd/a</href>", end: "</response>"),
        Hostile(start: "<multistatus xmlns='DAV:'><response>", unit: "<propstat><prop/><status>HTTP/1.1 2"),
    ]

    @Test(arguments: answers, [1, 64, 1 << 20]) func multiStatus(_ answer: Hostile, _ piece: Int) {
        let work = Work(size: Self.size, input: answer.numbered) { bytes in
            _ = try? MultiStatusTests.read(bytes, of: Corpus.base, pieces: piece, limit: 1_000_000)
        }
        #expect(work.isLinear, "\(work)")
    }

    @Test(arguments: ["a", ".", "/", "\0", "\u{301}", "🇩🇪", "👩‍👩‍👧", "e\u{301}", "%", " (2)"])
    func safeName(_ unit: String) {
        let work = Work(size: 4096, input: Hostile(unit: unit).bytes) { _ = SafeName.make($0) }
        #expect(work.isLinear, "\(work)")
    }
}
