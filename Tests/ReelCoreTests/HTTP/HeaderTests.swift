import Testing

@testable import ReelCore

@Suite struct HeaderTests {
    private func head(_ status: Int, _ headers: [(String, String)], url: String = "http://h/film.mkv") -> ResponseHead {
        ResponseHead(status: status, headers: headers.map { (name: $0.0, value: $0.1) }, url: ResourceURL(url)!)
    }

    @Test(arguments: [
        ("bytes 0-499/1234", ContentRange(range: ByteRange(0, 500), total: 1234)),
        ("Bytes 0-0/1", ContentRange(range: ByteRange(0, 1), total: 1)),
        ("bytes 5-9/*", ContentRange(range: ByteRange(5, 10), total: nil)),
        ("bytes */47", ContentRange(range: nil, total: 47)),
        ("bytes 9-5/100", nil), ("bytes 0-100/100", nil), ("bytes 0-/100", nil), ("bytes -5/100", nil), ("0-4/10", nil),
        ("bytes 0-4", nil), ("bytes 0-9223372036854775807/*", nil), ("bytes 0-99999999999999999999/1", nil), ("", nil),
        ("bytes +1-4/10", nil), ("bytes 0x1-4/10", nil),
    ])
    func contentRangeIsReadOrRefused(_ text: String, _ expected: ContentRange?) {
        #expect(ContentRange(text) == expected)
    }

    /// 2^62 would be taken for an end that is not known (`BlockSize.openEnd`).
    @Test(arguments: [BlockSize.longestFile, BlockSize.longestFile + 1, BlockSize.openEnd, Int64.max - 1])
    func aLengthBeyondTheLongestFileIsNoAnswer(_ length: Int64) {
        let answers: [(Int, [(String, String)], ByteRange?)] = [
            (206, [("Content-Range", "bytes 0-9/\(length)")], ByteRange(0, 10)),
            (200, [("Content-Length", "\(length)")], ByteRange(0, 10)),
            (200, [("Content-Length", "\(length)")], nil),
            (200, [("Content-Range", "bytes 0-9/\(length)"), ("Content-Length", "10")], ByteRange(0, 10)),
        ]
        for (status, headers, asked) in answers {
            let head = head(status, headers)
            let verdict = judge(head, to: head.url, asked: asked, isConditional: false, known: nil)
            let isRefused = if case .failure(.wrongAnswer) = verdict { true } else { false }
            #expect(isRefused == (length > BlockSize.longestFile), "\(verdict)")
        }
    }

    @Test(
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600), ("Mon, 29 Feb 1999 12:00:00 GMT", nil),
            ("Sun, 32 Nov 1994 08:49:37 GMT", nil), ("yesterday", nil), ("", nil),
            ("Sun, 06 Nov 1994 25:00:00 GMT", nil), ("Sun, 31 Feb 2024 12:00:00 GMT", nil), ("Sun, 06 Nov 1994", nil),
        ] as [(String, Int64?)])
    func dateIsReadInAllThreeForms(_ text: String, _ expected: Int64?) { #expect(httpDate(text) == expected) }

    @Test func datesAreWrittenAsTheyAreRead() {
        for seconds in stride(from: Int64(-3_000_000_000), to: 9_000_000_000, by: 86_399 * 997) {
            #expect(httpDate(httpDateText(seconds)) == seconds)
        }
    }

    @Test(arguments: [
        ("\"abc\"", "abc", false), ("W/\"abc\"", "abc", true), ("abc", "abc", false), ("w/\"x\"", "x", true),
    ])
    func entityTagIsRead(_ text: String, _ opaque: String, _ isWeak: Bool) throws {
        let tag = try #require(EntityTag(text))
        #expect(tag.opaque == opaque && tag.isWeak == isWeak)
    }

    @Test(arguments: ["", "\"\"", "\"a\"b\"", "W/", "\"a b\""]) func brokenEntityTagIsNone(_ text: String) {
        #expect(EntityTag(text) == nil)
    }

    @Test func spellingsOfOneLetterAreTwoTags() throws {
        let (one, other) = (EntityTag("\"\u{E9}\""), EntityTag("\"e\u{301}\""))
        #expect(one != nil && other != nil && one != other)
        #expect(
            !Validator(entityTag: one, lastModified: nil).agrees(with: Validator(entityTag: other, lastModified: nil)))
    }

    @Test(arguments: [Int64.min, Int64.min + 1, -62_135_596_801, 253_402_300_800, Int64.max - 1, Int64.max])
    func anyNumberCanBeWrittenAsDate(_ seconds: Int64) { #expect(httpDateText(seconds).hasSuffix(" GMT")) }

    @Test func markHidesNoParameter() {
        #expect(head(200, [("Content-Type", "text/html;\u{301}x")]).mediaType == "text/html")
        #expect(head(200, [("Content-Type", "text/html\u{301}")]).mediaType == nil)
    }

    @Test func headerNamesAreFoundInAnyCase() {
        let head = head(206, [("CONTENT-range", "bytes 0-1/2"), ("eTaG", "\"x\""), ("content-LENGTH", "2")])
        #expect(head.contentRange?.total == 2 && head.entityTag?.opaque == "x" && head.contentLength == 2)
    }

    @Test func lengthsThatContradictEachOtherAreNone() {
        #expect(head(200, [("Content-Length", "2"), ("Content-Length", "3")]).contentLength == nil)
        #expect(head(200, [("Content-Length", "2"), ("Content-Length", "2")]).contentLength == 2)
        #expect(head(200, [("Content-Length", "-2")]).contentLength == nil)
    }

    @Test(arguments: [("120", 120), ("Sun, 06 Nov 1994 08:49:37 GMT", 37), ("Sun, 06 Nov 1994 08:00:00 GMT", 0)])
    func retryAfterIsSecondsOrADate(_ text: String, _ expected: Int) {
        #expect(head(503, [("Retry-After", text)]).retryAfter(now: 784_111_740) == .seconds(expected))
    }

    // MARK: What an answer is worth

    static let known = ContentInformation(
        length: 1000, validator: Validator(entityTag: EntityTag("\"v1\""), lastModified: 100), mediaType: "video/mp4")

    private enum Worth { case range, whole, unchanged, changed, wrong }

    private func worth(
        _ status: Int, _ headers: [(String, String)], asked: ByteRange? = ByteRange(100, 200),
        known: ContentInformation? = known, isConditional: Bool = false
    ) -> Worth? {
        let verdict = judge(
            head(status, headers), to: ResourceURL("http://h/film.mkv")!, asked: asked, isConditional: isConditional,
            known: known)
        return switch verdict {
        case .range: .range
        case .whole: .whole
        case .unchanged: .unchanged
        case .failure(.changed): .changed
        case .failure(.wrongAnswer): .wrong
        case .failure: nil
        }
    }

    /// What is kept of each version and sent again has a limit, and no moment is too far away to be written.
    @Test func whatIsKeptOfAHeadIsShort() {
        for (length, isTaken) in [(1024, true), (1025, false)] {
            let tag = String(repeating: "a", count: length)
            #expect((EntityTag(tag) != nil) == isTaken && (EntityTag("\"\(tag)\"") != nil) == isTaken)
        }
        for (length, isTaken) in [(249, true), (250, false)] {
            let type = "video/" + String(repeating: "a", count: length)
            #expect((head(200, [("Content-Type", type)]).mediaType != nil) == isTaken)
        }
        #expect(httpDateText(.min) == "Mon, 01 Jan 1601 00:00:00 GMT")
        #expect(httpDateText(.max) == "Fri, 31 Dec 9999 23:59:59 GMT")
    }

    @Test func onlyTheAskedRangeOfTheKnownVersionFillsBlocks() {
        let tag = ("ETag", "\"v1\"")
        #expect(worth(206, [("Content-Range", "bytes 100-199/1000"), tag]) == .range)
        #expect(worth(206, [("Content-Range", "bytes 100-199/1000"), ("ETag", "W/\"v1\"")]) == .range)
        #expect(worth(206, [("Content-Range", "bytes 100-199/1000"), ("ETag", "\"v2\"")]) == .changed)
        #expect(worth(206, [("Content-Range", "bytes 100-199/1001"), tag]) == .wrong)
        #expect(worth(206, [("Content-Range", "bytes 100-199/1001"), ("ETag", "\"v2\"")]) == .changed)
        #expect(worth(206, [("Content-Range", "bytes 101-200/1000"), tag]) == .wrong)
        #expect(worth(206, [("Content-Range", "bytes 100-198/1000"), tag]) == .wrong)
        #expect(worth(206, [("Content-Range", "bytes 100-199/*"), tag]) == .wrong)
        #expect(worth(206, [tag]) == .wrong)
        #expect(worth(206, [("Content-Range", "bytes 100-199/1000"), tag, ("Content-Length", "99")]) == .wrong)
        #expect(worth(206, [("Content-Range", "bytes 100-199/1000"), tag, ("Content-Encoding", "gzip")]) == .wrong)
        #expect(worth(206, [("Content-Range", "bytes 900-999/1000"), tag], asked: ByteRange(900, 2000)) == .range)
        #expect(worth(206, [("Content-Range", "bytes 0-9/1000"), tag], asked: nil) == .wrong)
    }

    @Test func aWholeAnswerIsAStreamFromZeroOfTheSameVersion() {
        #expect(worth(200, [("Content-Length", "1000"), ("ETag", "\"v1\"")]) == .whole)
        #expect(worth(200, [("Content-Length", "1000"), ("ETag", "\"v2\"")]) == .changed)
        #expect(worth(200, [("Content-Length", "999")], known: Self.known) == .changed)
        #expect(worth(200, [("Content-Length", "999"), ("ETag", "\"v1\"")]) == .wrong)
        #expect(worth(200, [("Content-Length", "1000"), ("Content-Type", "text/html")]) == .wrong)
        #expect(worth(200, [("Content-Type", "text/html")], known: nil) == .wrong)
        #expect(worth(200, [("Content-Length", "7")], known: nil) == .whole)
    }

    /// What `rclone serve s3` answers.
    @Test func aRangeThatComesWithTheStatusOfAWholeIsARange() {
        let (tag, length) = (("ETag", "\"v1\""), ("Content-Length", "100"))
        for known in [Self.known, nil] {
            #expect(worth(200, [("Content-Range", "bytes 100-199/1000"), tag, length], known: known) == .range)
            #expect(worth(200, [("Content-Range", "bytes 0-99/1000"), tag, length], known: known) == .wrong)
            #expect(worth(200, [("Content-Range", "bytes 100-199/*"), tag, length], known: known) == .wrong)
            #expect(worth(200, [("Content-Range", "bytes 100-199/1000"), tag], known: known) == .wrong)
            let part = [("Content-Range", "bytes 100-199/1000"), tag, length]
            #expect(worth(200, part, asked: nil, known: known) == .wrong)
            let whole = [("Content-Range", "bytes 0-999/1000"), tag, ("Content-Length", "1000")]
            #expect(worth(200, whole, known: known) == .whole)
            #expect(worth(200, [("Content-Range", "bytes 100-199/1000"), tag, whole[2]], known: known) == .whole)
        }
        let other = [("Content-Range", "bytes 100-199/1000"), ("ETag", "\"v2\""), length]
        #expect(worth(200, other) == .changed)
    }

    @Test func unchangedIsOnlyAnAnswerToACondition() {
        #expect(worth(304, [], isConditional: true) == .unchanged)
        #expect(worth(304, []) == .wrong)
    }

    @Test func withoutTagsTheDateDecidesAndWithoutDatesTheLength() {
        let dated = ContentInformation(length: 1000, validator: Validator(entityTag: nil, lastModified: 784_111_777))
        let bare = ContentInformation(length: 1000, validator: Validator(entityTag: nil, lastModified: nil))
        let range = ("Content-Range", "bytes 100-199/1000")
        #expect(worth(206, [range, ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")], known: dated) == .range)
        #expect(worth(206, [range, ("Last-Modified", "Sun, 06 Nov 1994 08:49:38 GMT")], known: dated) == .changed)
        #expect(worth(206, [range], known: dated) == .range)
        #expect(worth(206, [range], known: bare) == .range)
        #expect(worth(206, [("Content-Range", "bytes 100-199/1001")], known: bare) == .changed)
    }

    @Test(
        arguments: [
            ("HIT", nil, true), ("Hit from cloudfront", nil, true), ("MISS, HIT", "0", true), ("STALE", nil, true),
            ("REVALIDATED", nil, true), ("UPDATING", nil, true), ("MISS", "50", false), ("EXPIRED", nil, false),
            ("BYPASS", nil, false), ("TCP_MISS from a.net", nil, false), ("what", nil, nil), (nil, nil, nil),
            (nil, "0", nil), (nil, "3", true), (nil, "-3", nil), ("what", "9", true),
        ] as [(String?, String?, Bool?)])
    func aCacheOnTheWaySaysWhetherItHadTheAnswer(mark: String?, age: String?, expected: Bool?) {
        let headers = [mark.map { ("X-Cache", $0) }, age.map { ("Age", $0) }].compactMap { $0 }
        #expect(head(206, headers).isHit == expected)
    }
}
