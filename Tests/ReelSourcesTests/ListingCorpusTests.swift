import ReelCore
import TestKit
import Testing

@testable import ReelSources

/// How one server's page differs from what is in the directory.
struct CorpusPage: Sendable, CustomTestStringConvertible {
    enum Lengths { case exact, none, below(Int64) }

    var name: String
    var lengths: Lengths
    var modified: Int64?
    var hidesDotFiles = false
    /// Entries whose length the page does not give, whatever `lengths` says.
    var unknown: Set<String> = []
    /// Names that this server itself writes in another way.
    var renamed: [String: String] = [:]
    var mediaType = "text/html"
    var testDescription: String { name }

    func length(of file: Corpus.File) -> Int64? {
        if unknown.contains(file.name) { return nil }
        return switch lengths {
        case .exact: file.length
        case .none: nil
        case .below(let limit): file.length < limit ? file.length : nil
        }
    }
}

private let second = Corpus.moment
private let minute = Corpus.minute
private let pages: [CorpusPage] = [
    CorpusPage(name: "nginx-odd.html", lengths: .exact, modified: minute, hidesDotFiles: true),
    CorpusPage(name: "nginx-rounded-odd.html", lengths: .below(10_000), modified: minute, hidesDotFiles: true),
    CorpusPage(
        name: "nginx-odd.json", lengths: .exact, modified: second, hidesDotFiles: true, mediaType: "application/json"),
    CorpusPage(name: "fancyindex-odd.html", lengths: .exact, modified: minute),
    CorpusPage(name: "fancyindex-rounded-odd.html", lengths: .below(1024), modified: minute, hidesDotFiles: true),
    CorpusPage(name: "apache-plain-odd.html", lengths: .none),
    CorpusPage(name: "apache-fancy-odd.html", lengths: .below(973), modified: minute),
    CorpusPage(name: "apache-sorted-odd.html", lengths: .below(973), modified: minute),
    CorpusPage(name: "apache-table-odd.html", lengths: .below(973), modified: minute),
    CorpusPage(name: "apache-bare-odd.html", lengths: .none),
    CorpusPage(name: "lighttpd-odd.html", lengths: .none, modified: second, hidesDotFiles: true),
    CorpusPage(name: "caddy-odd.html", lengths: .exact, modified: second),
    // Python encodes its own stand-in for a broken byte; the file cannot be fetched from it at all.
    CorpusPage(
        name: "python-odd.html", lengths: .none, renamed: ["latin1-%FC.txt": "latin1-%ED%B3%BC.txt"]),
    // rclone shows pictures of control characters, and serves the files under those names.
    CorpusPage(
        name: "rclone-odd.html", lengths: .exact, modified: second,
        renamed: ["tab%09here.txt": "tab\u{2409}here.txt", "new%0Aline.txt": "new\u{240A}line.txt"]),
]

@Suite struct ListingCorpusTests {
    @Test("A server's page gives exactly the names, kinds, lengths and dates of its directory", arguments: pages)
    func directory(_ page: CorpusPage) throws {
        let entries = try Listing.parse(Corpus.page(page.name), mediaType: page.mediaType, url: Corpus.base)
        var expected: [String: SourceEntry] = [:]
        for file in Corpus.files where !(page.hidesDotFiles && file.name.hasPrefix(".")) {
            let name = page.renamed[file.name] ?? file.name
            let bytes = page.renamed[file.name].map { percentDecoded($0) } ?? file.bytes
            let url = try #require(ResourceURL(Corpus.base.text + percentEncodedSegment(bytes)))
            expected[name] = SourceEntry(
                name: name, url: url, isDirectory: false, length: page.length(of: file), modified: page.modified)
        }
        for folder in Corpus.folders {
            let url = try #require(ResourceURL(Corpus.base.text + percentEncodedSegment(folder.utf8) + "/"))
            expected[folder] = SourceEntry(name: folder, url: url, isDirectory: true, modified: page.modified)
        }
        #expect(Set(entries.map(\.name)) == Set(expected.keys))
        #expect(entries.count == expected.count)
        for entry in entries {
            guard let wanted = expected[entry.name] else { continue }
            #expect(percentDecoded(entry.url.text) == percentDecoded(wanted.url.text))
            var entry = entry
            entry.url = wanted.url
            #expect(entry == wanted)
        }
    }

    @Test(
        "An empty directory is a listing without entries",
        arguments: [
            "nginx-empty.html", "nginx-rounded-empty.html", "nginx-empty.json", "fancyindex-empty.html",
            "fancyindex-rounded-empty.html", "apache-plain-empty.html", "apache-fancy-empty.html",
            "apache-table-empty.html", "apache-bare-empty.html", "lighttpd-empty.html", "caddy-empty.html",
            "python-empty.html", "rclone-empty.html",
        ])
    func empty(_ page: String) throws {
        let url = try #require(ResourceURL("http://localhost/empty/"))
        #expect(try Listing.parse(Corpus.page(page), mediaType: nil, url: url).isEmpty)
    }

    @Test(
        "Neither names nor URLs leave the directory, whatever is done to a page",
        arguments: [UInt64(20_240_506), .random(in: 0...(.max))])
    func mutations(_ seed: UInt64) throws {
        var randomness = SeededGenerator(seed: seed)
        let tokens = [
            "<a href=\"../../etc/passwd\">", "<a href='%2e%2e/x'>", "<a href=//evil/odd/x>", "<a href='..%2F..%2Fx'>",
            "<a href='http://localhost/odd/%2e%2e/x'>", "<a href='http://localhost:81/odd/x'>", "<a href='a%00b'>",
            "\0",
            "<pre>", "</a>", "<table><tr><td>", "\u{85}", "&#0;", "&#x110000;", "<!--", "<![CDATA[", "<script>", "%",
            "\"",
            "<a href='.%2f'>", "<a href='\\\\evil\\x'>", "<a href='x//y'>", "<a href='?a#b'>", "<a href='/odd//'>",
            "<a href='javascript:alert(1)'>", "\"name\":\"..\"", "\"name\":\"../x\"",
        ].map { Array($0.utf8) }
        var parsed = 0
        for page in pages {
            let original = try Corpus.page(page.name)
            for _ in 0..<12 {
                var body = original
                for _ in 0..<Int.random(in: 1...20, using: &randomness) {
                    let at = Int.random(in: 0..<body.count, using: &randomness)
                    switch Int.random(in: 0..<4, using: &randomness) {
                    case 0: body[at] = .random(in: 0...255, using: &randomness)
                    case 1: body.insert(contentsOf: tokens.randomElement(using: &randomness)!, at: at)
                    case 2: body.removeSubrange(at..<min(body.count, at + Int.random(in: 1...40, using: &randomness)))
                    default: body.insert(contentsOf: body[at..<min(body.count, at + 200)], at: body.count / 2)
                    }
                }
                guard let entries = try? Listing.parse(body, mediaType: page.mediaType, url: Corpus.base) else {
                    continue
                }
                parsed += 1
                expectContained(entries, seed: seed, page: page.name)
            }
        }
        #expect(parsed > 100, "seed \(seed): hardly a page was still a listing, so hardly anything was tested")
    }

    private func expectContained(_ entries: some Collection<SourceEntry>, seed: UInt64, page: String) {
        #expect(Set(entries.map(\.name)).count == entries.count, "seed \(seed), \(page)")
        let base = Corpus.base
        for entry in entries {
            #expect(isSafe(entry.name), "seed \(seed), \(page): \(entry.name)")
            let path = entry.url.path
            let rest = path.dropFirst(base.path.count)
            let segment = entry.isDirectory ? rest.dropLast() : rest
            let isInside =
                entry.url.origin == base.origin && path.hasPrefix(base.path) && !segment.contains("/")
                && !segment.isEmpty && entry.isDirectory == rest.hasSuffix("/")
            // As any client would read the URL: no dot segment may move it.
            #expect(isInside && ResourceURL(entry.url.text)?.path == path, "seed \(seed), \(page): \(entry.url.text)")
        }
    }
}
