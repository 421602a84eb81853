import ReelCore
import TestKit
import Testing

@testable import ReelSources

/// Buckets: their addresses, their pages, their keys as names and URLs.
@Suite struct S3Tests {
    private static let endpoint = ResourceURL("http://h:9000/")!

    private func source(_ prefix: String = "", endpoint: ResourceURL? = endpoint) throws -> S3Source {
        S3Source(try #require(S3Address("s3://films/" + prefix, endpoint: endpoint)))
    }

    // MARK: Addresses

    @Test(
        arguments: [
            ("s3://films", nil, "s3://films/", "https://films.s3.amazonaws.com/"),
            ("S3://films/a b/ü+", nil, "s3://films/a b/ü+/", "https://films.s3.amazonaws.com/a%20b/%C3%BC%2B/"),
            ("s3://my.films/a%20b?/", nil, "s3://my.films/a%20b?/", "https://s3.amazonaws.com/my.films/a%2520b%3F/"),
            ("s3://FILMS_2", nil, "s3://FILMS_2/", "https://s3.amazonaws.com/FILMS_2/"),
            ("s3://films/.././/", nil, "s3://films/.././/", "https://films.s3.amazonaws.com/..!/.!//"),
            ("s3://films/x", "http://h:9000", "s3+http://h:9000/#films/x/", "http://h:9000/films/x/"),
            (
                "s3://films/x", "https://h/storage/s3", "s3+https://h/storage/s3#films/x/",
                "https://h/storage/s3/films/x/"
            ),
        ] as [(String, String?, String, String)])
    func anAddressNamesAFolderOfAService(_ text: String, _ endpoint: String?, _ known: String, _ root: String) throws {
        let address = try #require(S3Address(text, endpoint: endpoint.flatMap { ResourceURL($0) }))
        #expect(address.text == known && address.root.text == root)
        // What names the cache is an address itself, also where another endpoint is at hand.
        #expect(S3Address(address.text)?.root.text == root)
        #expect((SourceKinds.all.lazy.compactMap { $0.recognise(address: known) }.first as? S3Source)?.root.key == root)
        // Remembered, it is the same.
        #expect(ResourceURL(address.root.text)?.text == root)
    }

    @Test(arguments: [
        "s3://", "s3:///a", "s3://key:secret@films/", "s3://..", "s3://a b/", "s3://films?x", "http://films/",
        "s3:films",
        "/films", "s3+http://h", "s3+ftp://h/#films", "s3+http://h/?q#films", "s3+http://me:secret@h/#films",
    ])
    func whatNamesNoBucketIsNoAddress(_ text: String) { #expect(S3Address(text) == nil) }

    @Test func aRequestIsSpelledAsItIsSigned() throws {
        for (url, text) in [
            ("http://h:9000/films/a%20b%2B/..!/.!/", "/films/a%20b%2B/.././"),
            ("http://h:9000/films/a%21/...!x", "/films/a%21/...!x"),
            ("http://h:9000/films?delimiter=%2F&prefix=%21", "/films?delimiter=%2F&prefix=%21"),
        ] {
            let sent = try source().request(OriginRequest(url: ResourceURL(url)!))
            #expect(sent.signed == SignedTarget(text: text, isRegional: false) && sent.url.text == url)
        }
        let sent = try source(endpoint: nil).request(
            OriginRequest(url: ResourceURL("https://films.s3.amazonaws.com/a")!))
        #expect(sent.signed == SignedTarget(text: "/a", isRegional: true))
        #expect(try source().request(OriginRequest(url: ResourceURL("http://other/films/a")!)).signed == nil)
    }

    // MARK: Pages

    /// - Parameter pages: bodies of answers.
    /// - Returns: the entries, and the targets of the requests.
    private func list(
        _ folder: String, _ pages: [String], of source: S3Source
    ) throws(SourceRefusal) -> (entries: EntryList, asked: [String]) {
        var reader = source.list(.url(ResourceURL(folder)!), known: nil)
        var step = try reader.start()
        var asked: [String] = []
        for page in pages {
            guard case .ask(.origin(let request)) = step else { throw .foreign("it asks no more") }
            asked.append(source.request(request).signed?.text ?? "")
            try reader.head(nil)
            for piece in Array(page.utf8).chunks(of: 100) { try reader.take(piece) }
            step = try reader.end({ false })
        }
        guard case .entries(let entries, nil) = step else { throw .foreign("it asks for more") }
        return (entries, asked)
    }

    private func page(
        _ keys: [(String, Int)] = [], _ prefixes: [String] = [], token: String? = nil, extra: String = ""
    ) -> String {
        "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            + "<IsTruncated>\(token != nil)</IsTruncated>"
            + (token.map { "<NextContinuationToken>\($0)</NextContinuationToken>" } ?? "") + extra
            + keys.map { "<Contents><Key>\($0.0)</Key><Size>\($0.1)</Size></Contents>" }.joined()
            + prefixes.map { "<CommonPrefixes><Prefix>\($0)</Prefix></CommonPrefixes>" }.joined()
            + "</ListBucketResult>"
    }

    @Test(arguments: ["aws", "rgw", "rclone", "moto", "minio", "garage", "wasabi", "b2", "gcs", "r2"])
    func thePageOfEachServerTellsTheSame(_ server: String) throws {
        let text = String(decoding: try Corpus.page("s3-\(server).xml"), as: UTF8.self)
        let (entries, asked) = try list("http://h:9000/films/x%20y/", [text, page()], of: source())
        #expect(entries.map(\.name) == ["a film+.mkv", "%01%0A", "%2E%2E", "unnamed", "a film+ (2).mkv"])
        #expect(entries.map(\.length) == [5_368_709_121, 7, 8, nil, nil])
        #expect(entries.map(\.isDirectory) == [false, false, false, true, true])
        #expect(entries[0].modified == 1_714_566_896 && entries[3].modified == nil)
        let ends = ["a%20film%2B.mkv", "%01%0A", "..!", "/", "a%20film%2B.mkv/"]
        #expect(entries.map(\.url.text) == ends.map { "http://h:9000/films/x%20y/" + $0 })
        #expect(asked[0] == "/films?delimiter=%2F&encoding-type=url&list-type=2&prefix=x%20y%2F")
        let token = try #require(text.split(separator: "NextContinuationToken>").dropFirst().first?.dropLast(2))
        let escaped = String(decoding: s3Escaped(Array(token.utf8)[...]), as: UTF8.self)
        #expect(asked[1] == "/films?continuation-token=\(escaped)" + asked[0].replacing("/films?", with: "&"))
    }

    @Test func onlyAnAnswerThatSaysSoIsDecoded() throws {
        for (extra, name, end) in [
            ("", "a+b%20c", "a%2Bb%2520c"), ("<EncodingType>url</EncodingType>", "a b c", "a%20b%20c"),
        ] {
            let (entries, _) = try list(
                "http://h:9000/films/", [page([("a+b%20c", 1)], extra: extra)], of: source())
            #expect(entries.map(\.name) == [name] && entries.map(\.url.text) == ["http://h:9000/films/" + end])
        }
    }

    @Test func markersAndWhatLiesElsewhereAreNoEntriesAndWhatIsDeeperIsAFolder() throws {
        let keys = [("x/", 0), ("y/a", 1), ("", 2), ("x/sub/b", 3), ("x/sub/c", 4), ("x/d", 5), ("x/d", 5), ("x", 6)]
        let (entries, _) = try list(
            "http://h:9000/films/x/", [page(keys, ["x/sub/", "x/", "z/", "x/e//", "x/f"])], of: source())
        #expect(entries.map(\.name) == ["sub", "d", "e"])
        // A key that ends in a slash and has bytes is an object of its own.
        let (odd, _) = try list("http://h:9000/films/x/", [page([("x/", 7)])], of: source())
        #expect(odd.map(\.name) == ["unnamed"] && odd[0].url.text == "http://h:9000/films/x/" && !odd[0].isDirectory)
    }

    @Test func pagesJoin() throws {
        let pages = [
            page([("a", 1)], ["b/"], token: "1"), page([], [], token: "2"), page([("c", 1)], ["b/", "c/"], token: "3"),
            page([("d", 1)]),
        ]
        let (entries, asked) = try list("http://h:9000/films/", pages, of: source())
        #expect(entries.map(\.name) == ["a", "b", "c", "c (2)", "d"] && asked.count == 4)
    }

    @Test(arguments: [("a/b=", "a%2Fb%3D"), ("a+b=", "a%2Bb%3D"), ("a b", "a%20b")])
    func theNextPageIsAskedForByTheTokenOfTheLast(_ token: String, _ escaped: String) throws {
        let pages = [page([("a", 1)], ["b/"], token: token), page([("z", 1)], ["b/"])]
        let (entries, asked) = try list("http://h:9000/films/", pages, of: source())
        #expect(entries.count == 3)
        #expect(asked[1] == asked[0].replacing("?", with: "?continuation-token=\(escaped)&"))
    }

    /// A key of a thousand bytes is too long for a URL where each is escaped.
    @Test(arguments: [1, 3000])
    func moreKeysThanAFolderMayHaveAreRefusedAlsoThoseThatNoURLCanName(_ count: Int) throws {
        let bucket = try #require(ResourceURL("http://h:9000/films/"))
        func read(_ number: Int) throws -> FolderStep {
            var reader = S3Reader(bucket, bucket: bucket, isNew: false, limit: 3)
            _ = try reader.start()
            reader.take(Array(page((0..<number).map { (String(repeating: "€", count: count) + "\($0)", 1) }).utf8))
            return try reader.end { false }
        }
        guard case .entries(let entries, _) = try read(3) else { throw SourceRefusal.cutShort }
        #expect(entries.count == (count == 1 ? 3 : 0))
        #expect(throws: SourceRefusal.tooManyEntries) { try read(4) }
    }

    @Test func pagesOfMoreBytesThanAFolderMayHaveAreRefused() throws {
        let bucket = try #require(ResourceURL("http://h:9000/films/"))
        let pages = [page([("a", 1)], token: "1"), page([("b", 1)])].map { Array($0.utf8) }
        func read(longest: Int) throws -> FolderStep {
            var reader = S3Reader(bucket, bucket: bucket, isNew: false, longest: longest)
            var step = try reader.start()
            for page in pages {
                // What broke off does not count.
                reader.head(nil)
                reader.take(page)
                reader.head(nil)
                reader.take(page)
                step = try reader.end { false }
            }
            return step
        }
        let size = pages[0].count + pages[1].count
        guard case .entries(let entries, _) = try read(longest: size) else { throw SourceRefusal.cutShort }
        #expect(entries.count == 2)
        #expect(throws: SourceRefusal.self) { try read(longest: size - 1) }
    }

    @Test(arguments: [true, false]) func theTimeOfAPageCanEndWhileItsKeysAreNamed(_ isOfObjects: Bool) throws {
        let names = (0..<600).map { "\($0)" }
        let text = Array((isOfObjects ? page(names.map { ($0, 1) }) : page([], names.map { $0 + "/" })).utf8)
        let questions = Shared(0)
        let ask = { @Sendable in
            questions.change { $0 += 1 }
            return questions.value
        }
        _ = try S3Page(text) { ask() == 0 }
        let asked = questions.value
        let bucket = try #require(ResourceURL("http://h:9000/films/"))
        var reader = S3Reader(bucket, bucket: bucket, isNew: false)
        _ = try reader.start()
        reader.take(text)
        #expect(throws: SourceRefusal.stopped) { try reader.end { ask() > 2 * asked } }
    }

    @Test func aServiceThatGivesOneTokenForEachPageIsCutShort() throws {
        let source = try source()
        let pages = [String](repeating: page([("a", 1)], token: "+"), count: 2)
        #expect(throws: SourceRefusal.cutShort) { try list("http://h:9000/films/", pages, of: source) }
    }

    @Test func aPageThatBrokeOffIsForgotten() throws {
        let source = try source()
        var reader = source.list(source.root, known: nil)
        _ = try reader.start()
        try reader.head(nil)
        try reader.take(Array(page([("old", 1)]).utf8.dropLast(20)))
        try reader.head(nil)
        try reader.take(Array(page([("new", 1)]).utf8))
        guard case .entries(let entries, nil) = try reader.end({ false }) else { throw SourceRefusal.cutShort }
        #expect(entries.map(\.name) == ["new"])
    }

    @Test func aPagingThatBreaksIsCutShort() throws {
        let source = try source()
        let truncated = page([("a", 1)]).replacing("<IsTruncated>false", with: "<IsTruncated>true")
        let cut = String(page([("a", 1)]).dropLast(3))
        for pages in [
            [truncated], [page([("a", 1)], token: "1"), truncated], [cut],
            ["<ListBucketResult><Contents></ListBucketResult>"],
            [page([("a", 1)], token: "1"), page([("b", 1)], token: "2"), page([("a", 1)], token: "1")], [""],
        ] {
            #expect(throws: SourceRefusal.cutShort) { try list("http://h:9000/films/", pages, of: source) }
        }
    }

    @Test(arguments: [
        "<Error><Code>NoSuchBucket</Code></Error>", "<html><body>Sign in</body></html>",
        "<!DOCTYPE ListBucketResult [<!ENTITY a \"b\">]><ListBucketResult></ListBucketResult>",
        "<ListBucketResult></ListBucketResult><ListBucketResult></ListBucketResult>",
    ])
    func anotherDocumentListsNothing(_ text: String) throws {
        let source = try source()
        #expect(throws: SourceRefusal.foreign("it is no listing of a bucket")) {
            try list("http://h:9000/films/", [text], of: source)
        }
    }

    @Test func whatHasNoBoundIsRefused() throws {
        let source = try source()
        let deep = String(repeating: "<a>", count: 100)
        #expect(throws: SourceRefusal.tooManyEntries) {
            try list("http://h:9000/films/", ["<ListBucketResult>" + deep], of: source)
        }
        let long = String(repeating: "a", count: 100_000)
        #expect(throws: SourceRefusal.self) { try list("http://h:9000/films/", [page([(long, 1)])], of: source) }
        #expect(throws: SourceRefusal.self) {
            try list("http://h:9000/films/", [page([], [], token: String(repeating: "é", count: 3000))], of: source)
        }
        var reader = source.list(.url(ResourceURL("http://other/films/")!), known: nil)
        #expect(throws: SourceRefusal.useless("it lies in no bucket")) { try reader.start() }
        reader = source.list(.path("/films"), known: nil)
        #expect(throws: SourceRefusal.useless("it lies in no bucket")) { try reader.start() }
    }

    @Test func aPrefixWithoutAnyKeyIsNoSourceAndAnEmptyBucketOrFolderIs() throws {
        let source = try source("x")
        #expect(throws: SourceRefusal.useless("no key of the bucket begins with that prefix")) {
            try list("http://h:9000/films/x/", [page()], of: source)
        }
        #expect(try list("http://h:9000/films/x/", [page([("x/", 0)])], of: source).entries.isEmpty)
        #expect(try list("http://h:9000/films/x/y/", [page()], of: source).entries.isEmpty)
        #expect(try list("http://h:9000/films/", [page()], of: self.source()).entries.isEmpty)
    }

    @Test(arguments: [
        ("a/.!/b/..!/", "a/./b/../"), (".!/\u{301}b/.!", "./\u{301}b/."), ("/\u{301}!/a!", "/\u{301}!/a!"),
    ]) func marksOfDotsAreLeftOutByteForByte(_ path: String, expected: String) {
        #expect(Array(withoutS3Marks(path).utf8) == Array(expected.utf8))
    }

    @Test func foldersOfDotsAreAskedForByTheirKeys() throws {
        let source = try source()
        let (entries, _) = try list("http://h:9000/films/", [page([], ["../", "./", ".../"])], of: source)
        #expect(entries.map(\.name) == ["%2E%2E", "%2E", "..."])
        let asked = try entries.map { try list($0.url.text, [page()], of: source).asked[0] }
        #expect(asked.map { $0.split(separator: "prefix=").last } == ["..%2F", ".%2F", "...%2F"])
    }
}

extension [UInt8] {
    fileprivate func chunks(of count: Int) -> [[UInt8]] {
        stride(from: 0, to: self.count, by: count).map { Array(self[$0..<Swift.min($0 + count, self.count)]) }
    }
}
