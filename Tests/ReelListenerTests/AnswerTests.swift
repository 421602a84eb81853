import ReelCore
import ReelListener
import Testing

@Suite struct AnswerTests {
    private static let date = "Tue, 14 Nov 2023 22:13:20 GMT"

    private func answer(
        _ headers: [(name: String, value: String)], tag: String? = "\"v1\"", modified: Int64? = 1_700_000_000,
        length: Int64? = 10
    ) -> ServedAnswer {
        ServedFile(name: "film.mkv", length: length, entityTag: tag.flatMap { EntityTag($0) }, modified: modified)
            .answer(ServedRequest(method: "GET", target: "/files/film.mkv", headers: headers))
    }

    @Test(
        "Conditions are judged in the order of RFC 9110",
        arguments: [
            ([("If-None-Match", "\"v1\"")], 304), ([("If-None-Match", "W/\"v1\"")], 304),
            ([("If-None-Match", "\"v0\", \"v1\"")], 304), ([("If-None-Match", "*")], 304),
            ([("If-None-Match", "\"v0\"")], 200), ([("If-None-Match", "\"v0\""), ("If-Modified-Since", date)], 200),
            ([("If-Modified-Since", date)], 304), ([("If-Modified-Since", "Tue, 14 Nov 2023 22:13:19 GMT")], 200),
            ([("If-Modified-Since", "yesterday")], 200),
            ([("If-Match", "\"v1\"")], 200), ([("If-Match", "*")], 200), ([("If-Match", "\"v0\"")], 412),
            ([("If-Match", "W/\"v1\"")], 412), ([("If-Unmodified-Since", date)], 200),
            ([("If-Unmodified-Since", "Tue, 14 Nov 2023 22:13:19 GMT")], 412),
            ([("Range", "bytes=0-1")], 206), ([("Range", "bytes=0-1"), ("If-Range", "\"v1\"")], 206),
            ([("Range", "bytes=0-1"), ("If-Range", date)], 206),
            ([("Range", "bytes=0-1"), ("If-Range", "\"v0\"")], 200),
            ([("Range", "bytes=0-1"), ("If-Range", "W/\"v1\"")], 200),
            ([("Range", "bytes=0-1"), ("If-Range", "Tue, 14 Nov 2023 22:13:21 GMT")], 200),
            ([("Range", "bytes=10-")], 416), ([("Range", "bytes=10-"), ("If-Range", "\"v0\"")], 200),
            ([("Range", "bytes=0-1"), ("If-None-Match", "\"v1\"")], 304),
        ] as [([(name: String, value: String)], Int)])
    func conditions(headers: [(name: String, value: String)], status: Int) {
        #expect(answer(headers).status == status)
    }

    @Test("A version that the origin does not name matches no condition")
    func unnamed() {
        let none = { (headers: [(name: String, value: String)]) in answer(headers, tag: nil, modified: nil).status }
        #expect(none([("If-None-Match", "\"v1\"")]) == 200)
        #expect(none([("If-Modified-Since", Self.date)]) == 200)
        #expect(none([("Range", "bytes=0-1"), ("If-Range", "\"v1\"")]) == 200)
        #expect(none([("Range", "bytes=0-1"), ("If-Range", Self.date)]) == 200)
        #expect(none([("Range", "bytes=0-1")]) == 206)
        // A weak tag allows no part of another answer.
        #expect(answer([("Range", "bytes=0-1"), ("If-Range", "W/\"v1\"")], tag: "W/\"v1\"").status == 200)
    }

    @Test("Several ranges are answered with the whole file")
    func severalRanges() throws {
        let answer = answer([("Range", "bytes=0-1,-2")])
        guard case .file(let range) = answer.body else { throw Unexpected() }
        #expect((answer.status, range) == (200, ByteRange(0, 10)))
    }

    @Test("A file without a length has neither length nor ranges")
    func growing() {
        let answer = answer([("Range", "bytes=0-1")], length: nil)
        #expect(answer.status == 200)
        #expect(!answer.headers.contains { ["Content-Length", "Accept-Ranges"].contains($0.name) })
    }

    @Test(
        "The type comes from the name, else from the origin, and else it is only bytes",
        arguments: [
            ("a.MKV", nil, "video/x-matroska"), ("a.mp4", "text/html", "video/mp4"), ("a.jpg", nil, "image/jpeg"),
            ("a", "image/x-foo", "image/x-foo"), ("a", nil, "application/octet-stream"),
            ("a", "bad type", "application/octet-stream"),
        ] as [(String, String?, String)])
    func types(name: String, told: String?, expected: String) {
        let answer = ServedFile(name: name, length: 1, entityTag: nil, modified: nil, originType: told)
            .answer(ServedRequest(method: "GET", target: "/", headers: []))
        #expect(answer.headers.first { $0.name == "Content-Type" }?.value == expected)
    }

    @Test(
        "Only a document of a type that holds no scripts is shown as it is, and none as what holds other documents",
        arguments: [
            ("a.mp4", nil, "video/mp4", false), ("a.jpg", "text/html", "image/jpeg", false),
            ("a.pdf", nil, "application/pdf", false), ("a.json", nil, "application/json", false),
            ("a.srt", nil, "application/x-subrip", false), ("a.ass", nil, "text/x-ssa; charset=utf-8", false),
            ("a.vtt", nil, "text/vtt; charset=utf-8", false), ("a.nfo", nil, "text/plain; charset=utf-8", false),
            ("a.m3u8", nil, "application/vnd.apple.mpegurl", false), ("a", nil, "application/octet-stream", false),
            ("a", "image/x-foo", "image/x-foo", false), ("a", "AUDIO/ogg", "audio/ogg", false),
            ("a", "text/plain", "text/plain", false),
            ("a.html", nil, "text/html; charset=utf-8", true), ("a.svg", nil, "image/svg+xml", true),
            ("a.xml", nil, "text/xml", true), ("a", "TEXT/HTML", "text/html", true),
            ("a", "image/SVG+XML", "image/svg+xml", true),
            ("a", "application/xhtml+xml", "application/xhtml+xml", true),
            ("a", "video/x+xml", "video/x+xml", true), ("a", "text/css", "text/css", true),
            ("a", "text/javascript", "text/javascript", true), ("a", "application/x-foo", "application/x-foo", true),
            ("a", "application/wasm", "application/wasm", true), ("a", "x-world/x-vrml", "x-world/x-vrml", true),
            ("a", "text/xsl", "application/octet-stream", false),
            ("a", "application/xslt+xml", "application/octet-stream", false),
            ("a", "message/rfc822", "application/octet-stream", false),
            ("a", "multipart/x-mixed-replace", "application/octet-stream", false),
            ("a", "multipart/related", "application/octet-stream", false),
            // A browser takes the last one of a list.
            ("a", "image/png,text/css", "application/octet-stream", false),
            ("a", "image/png;x", "application/octet-stream", false), ("a", "image", "application/octet-stream", false),
            ("a", "image/", "application/octet-stream", false), ("a", "a/b/c", "application/octet-stream", false),
            ("a", "image/\u{e9}", "application/octet-stream", false), ("a", "", "application/octet-stream", false),
        ] as [(String, String?, String, Bool)])
    func sandbox(name: String, told: String?, type: String, isSandboxed: Bool) {
        let answer = ServedFile(name: name, length: 1, entityTag: nil, modified: nil, originType: told)
            .answer(ServedRequest(method: "GET", target: "/", headers: []))
        #expect(answer.headers.first { $0.name == "Content-Type" }?.value == type)
        let policy = answer.headers.first { $0.name == "Content-Security-Policy" }?.value
        #expect(policy == (isSandboxed ? "sandbox" : nil))
        #expect(answer.headers.contains { $0.name == "X-Content-Type-Options" && $0.value == "nosniff" })
    }
}

private struct Unexpected: Error {}
