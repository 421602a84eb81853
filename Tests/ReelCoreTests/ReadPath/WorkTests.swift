import TestKit
import Testing

@testable import ReelCore

private func repeated(_ unit: String) -> (Int) -> String { { String(repeating: unit, count: $0 / unit.utf8.count) } }

/// What may stand in a URL, a header or a name in large numbers: delimiters, blanks, and letters that Swift joins into
/// one Character.
private let units = [
    "a", "./", "../", "/", "%2e/", "%", "%41", "@", ":", "::", "#", "?", "[", "]", ".", "-", ",", " ", "\t", "\r\n",
    "\0",
    "\u{301}", "/\u{301}", "🇩🇪", "👩‍👩‍👧", "ü", "9", "0", "\"", "=", ";", "W/", "bytes ", "GMT ",
]

@Suite("Work grows with the size, not with its square", .serialized) struct WorkTests {
    private func expectLinear(size: Int = 1024, _ unit: String, _ name: String, _ run: (String) -> Void) {
        let work = Work(size: size, input: repeated(unit), run: run)
        #expect(work.isLinear, "\(name) of \(unit.debugDescription): \(work)")
    }

    /// A URL has 8 KiB at most, so its work ends there; beyond, it is refused by its length alone.
    @Test(arguments: units) func urls(_ unit: String) {
        let base = ResourceURL("http://h/a/b?c")
        for size in [ResourceURL.longest / 8 - 16, 16 << 10] {
            for start in ["http://", "http://h/", "http://h/?", "", "http://u:"] {
                expectLinear(size: size, unit, "URL \(start)") { text in
                    _ = ResourceURL(start + text)
                    _ = base?.resolve(start + text)
                }
            }
        }
    }

    @Test(arguments: units) func percentCoding(_ unit: String) {
        expectLinear(unit, "decoding") { _ = percentDecoded($0) }
        expectLinear(unit, "encoding") { _ = percentEncodedSegment($0.utf8) }
        expectLinear(unit, "encoding what has to be") { _ = encoded(Array($0.utf8)[...], keeping: isPathByte) }
        expectLinear(unit, "dot segments") { _ = removingDotSegments(Array($0.utf8)) }
    }

    @Test(arguments: units) func headers(_ unit: String) {
        let url = ResourceURL("http://h/")!
        expectLinear(unit, "head") { text in
            let names = ["content-range", "content-length", "content-type", "etag", "last-modified", "retry-after"]
            for start in ["", "bytes ", "\"", "W/", "text/", "Sun, 06 Nov "] {
                let headers = (names + ["content-encoding"]).map { (name: $0, value: start + text) }
                let head = ResponseHead(status: 206, headers: headers, url: url)
                _ = judge(head, to: url, asked: ByteRange(0, 1), isConditional: false, known: nil)
                _ = (head.mediaType, head.isEncoded, head.contentLength, head.retryAfter(now: 0))
            }
        }
    }

    @Test(arguments: units) func names(_ unit: String) {
        expectLinear(unit, "text") { text in
            _ = trimmed(text)
            _ = fileExtension(text)
            _ = MediaName.isMedia(text)
            _ = MediaName.precedes(text, text + "a")
            _ = decimal(text)
        }
    }
}
