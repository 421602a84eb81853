import ReelCore
import ReelListener
import Testing

@Suite struct RangeTests {
    @Test(
        "A Range header is read as nginx reads it",
        arguments: [
            (nil, .whole), ("bytes=", .whole), ("items=0-1", .whole), ("", .whole),
            ("bytes=0-0", .part(ByteRange(0, 1))), ("BYTES=2-4", .part(ByteRange(2, 5))),
            ("bytes=5-", .part(ByteRange(5, 10))), ("bytes=-3", .part(ByteRange(7, 10))),
            ("bytes=-30", .part(ByteRange(0, 10))), ("bytes=0-99", .part(ByteRange(0, 10))),
            ("bytes= 1 - 2 ", .part(ByteRange(1, 3))), ("bytes= 4 - ", .part(ByteRange(4, 10))),
            // Several.
            ("bytes=9-9,0-0", .whole), ("bytes=0-4,20-30", .whole), ("bytes=,", .whole), ("bytes=1-2,", .whole),
            ("bytes=10-", .unsatisfiable), ("bytes=10-20", .unsatisfiable), ("bytes=-0", .unsatisfiable),
            ("bytes=4-2", .unsatisfiable), ("bytes=a-b", .unsatisfiable), ("bytes=1", .unsatisfiable),
            ("bytes=1-2x", .unsatisfiable), ("bytes=--1", .unsatisfiable),
            ("bytes=99999999999999999999-", .unsatisfiable),
            ("bytes=0-99999999999999999999", .unsatisfiable),
            ("bytes=-9223372036854775807", .part(ByteRange(0, 10))),
            ("bytes=0-9223372036854775807", .part(ByteRange(0, 10))),
        ] as [(String?, RangeRequest)])
    func table(header: String?, expected: RangeRequest) {
        #expect(RangeRequest(header, length: 10) == expected)
    }

    @Test("An empty file has no range")
    func empty() {
        #expect(RangeRequest("bytes=0-", length: 0) == .whole)
        #expect(RangeRequest("bytes=5-", length: 0) == .unsatisfiable)
    }
}
