import ReelCore
import Testing

@testable import ReelSources

/// URLs that are signed in their queries.
@Suite struct QuerySignatureTests {
    @Test(
        arguments: [
            (
                "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F20240501&X-Amz-Date=20240501T123456Z"
                    + "&X-Amz-Expires=3600&X-Amz-SignedHeaders=host&versionId=7&x-id=GetObject&X-Amz-Signature=ab",
                "versionId=7&x-id=GetObject", 1_714_570_496
            ),
            ("X-Goog-Date=20240501T123456Z&X-Goog-Expires=60&X-Goog-Signature=ab", nil, 1_714_566_956),
            ("a=b&AWSAccessKeyId=A&Expires=1714566896&Signature=ab%3D", "a=b", 1_714_566_896),
            ("GoogleAccessId=me&Expires=1714566896&Signature=ab", nil, 1_714_566_896),
            ("Policy=ab&Signature=cd&Key-Pair-Id=K", nil, nil),
            ("Expires=1714566896&Signature=cd&Key-Pair-Id=K&Hash-Algorithm=SHA256", nil, 1_714_566_896),
            ("sv=2022-11-02&se=2024-05-01T12%3A34%3A56Z&sr=b&sp=r&sig=ab&snapshot=1", "snapshot=1", 1_714_566_896),
            (
                "x-oss-date=20240501T123456Z&x-oss-expires=60&x-oss-signature-version=OSS4-HMAC-SHA256"
                    + "&x-oss-credential=a%2Fb&x-oss-process=video%2Fsnapshot&x-oss-signature=ab",
                "x-oss-process=video%2Fsnapshot", 1_714_566_956
            ),
            ("OSSAccessKeyId=A&Expires=1714566896&Signature=ab&security-token=c", nil, 1_714_566_896),
            (
                "a=b&q-sign-algorithm=sha1&q-ak=A&q-sign-time=1714566000%3B1714566896&q-key-time=1714566000;1714566896"
                    + "&q-header-list=host&q-url-param-list=&q-signature=ab",
                "a=b", 1_714_566_896
            ),
            ("X-Amz-Date=x&X-Amz-Expires=99999999999999999999&X-Amz-Signature=", nil, nil),
            ("X-Amz-Date=20249999T999999Z&X-Amz-Expires=1&X-Amz-Signature", nil, nil),
        ] as [(String, String?, Int64?)])
    func aSignatureIsNoPartOfWhatAFileIsKnownBy(_ query: String, _ kept: String?, _ end: Int64?) throws {
        let url = try #require(ResourceURL("http://me:secret@h/a%20b.mkv?" + query))
        let (bare, signature) = try #require(QuerySignature.split(url))
        #expect(bare.text == "http://h/a%20b.mkv" + (kept.map { "?" + $0 } ?? ""))
        #expect(bare.credentials == url.credentials && signature.query == url.query && signature.expires == end)
        #expect(QuerySignature.split(bare) == nil)
    }

    @Test(arguments: [
        "", "?", "?a=b", "?Expires=1", "?Signature=a&Expires=1", "?sig=a&sv=b", "?X-Amz-Date=x", "?token=a",
    ])
    func otherQueriesStay(_ query: String) { #expect(QuerySignature.split(ResourceURL("http://h/a" + query)!) == nil) }

    @Test func aListAsksWithTheNewestSignatureThatItHas() throws {
        let place = SourcePlace.url(ResourceURL("http://h/list.m3u")!)
        let source = PlaylistSource(root: place)
        var known: EntryList?
        func list(_ text: String) throws -> EntryList {
            let text = Array(text.utf8)
            var reader = source.list(place, known: known)
            _ = try reader.start()
            try reader.head(
                ResponseHead(status: 200, headers: [("Content-Length", "\(text.count)")], url: place.url!))
            try reader.take(text)
            guard case .entries(let entries, nil) = try reader.end({ false }) else { throw SourceRefusal.cutShort }
            return entries
        }
        for signature in ["one", "two"] {
            let line = "/film.mkv?X-Amz-Expires=60&X-Amz-Date=20240501T123456Z&X-Amz-Signature=" + signature
            let entries = try list("#EXTM3U\n#EXTINF:1,\(signature)\n\(line)\n/plain.mkv?a\n")
            known = entries
            // The file keeps its name, too.
            #expect(entries.map(\.name) == ["one.mkv", "plain.mkv"])
            #expect(entries.map(\.url.text) == ["http://h/film.mkv", "http://h/plain.mkv?a"])
            let sent = entries.map { source.request(OriginRequest(url: $0.url)) }
            #expect(sent.map(\.url.text) == ["http://h" + line, "http://h/plain.mkv?a"])
            #expect(sent.map(\.expires) == [1_714_566_956, nil])
        }
        // The volume keeps its entries where a list has none, and opens them.
        #expect(try list("#EXTM3U\n").isEmpty)
        #expect(source.request(OriginRequest(url: known![0].url)).expires == 1_714_566_956)
    }

    @Test("A login in a URL of a list is sent with it, the newest one, also where the cache has given the URL back")
    func logins() throws {
        let place = SourcePlace.url(ResourceURL("http://me:own@h/list.m3u")!)
        let source = PlaylistSource(root: place)
        let urls = ["http://other/a.mkv", "http://h/b.mkv?c", "http://h/c.mkv", "http://plain/d.mkv"].map {
            ResourceURL($0)!
        }
        for password in ["one", "two"] {
            let text = "http://me:\(password)@other/a.mkv\nhttp://you:x@h/b.mkv?c\n/c.mkv\nhttp://plain/d.mkv\n"
            let head = ResponseHead(status: 200, headers: [("Content-Length", "1")], url: place.url!)
            var reader = source.list(place, known: nil)
            _ = try reader.read(SourceAnswer(place, head, Array(text.utf8)), { false })
            let sent = urls.map { source.request(OriginRequest(url: $0)).url }
            #expect(sent.map { $0.credentials?.password } == [password, "x", nil, nil])
            #expect(sent == urls)
        }
    }

    @Test func whereSignaturesBecomeTooLongThoseOfTheLastListAreKept() throws {
        let signatures = QuerySignatures(mostBytes: 300)
        func add(_ name: String, _ signature: String) throws -> ResourceURL {
            let url = try #require(ResourceURL("http://h/\(name)?hdnts=" + signature))
            let split = try #require(QuerySignature.split(url))
            signatures.add([split.url.text: split.signature])
            return split.url
        }
        func isSigned(_ url: ResourceURL) -> Bool { signatures.sign(OriginRequest(url: url)).url != url }
        let (one, two) = (try add("one", "1"), try add("two", "2"))
        // A new signature takes the place of the one before.
        for number in 10..<100 { _ = try add("two", "\(number)") }
        #expect(isSigned(one) && isSigned(two))
        let long = try add("three", String(repeating: "3", count: 250))
        #expect(!isSigned(one) && !isSigned(two) && isSigned(long))
        let last = try add("four", String(repeating: "4", count: 250))
        #expect(!isSigned(long) && isSigned(last))
    }
}
