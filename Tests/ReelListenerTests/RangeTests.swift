import ReelCore
import ReelListener
import Testing

@Suite struct RangeTests {
    @Test(
        "A Range header is read as nginx reads it",
        arguments: [
            (nil, .whole), ("bytes=", .whole), ("items=0-1", .whole), ("", .whole),
            ("bytes=0-0", .parts([ByteRange(0, 1)])), ("BYTES=2-4", .parts([ByteRange(2, 5)])),
            ("bytes=5-", .parts([ByteRange(5, 10)])), ("bytes=-3", .parts([ByteRange(7, 10)])),
            ("bytes=-30", .parts([ByteRange(0, 10)])), ("bytes=0-99", .parts([ByteRange(0, 10)])),
            ("bytes= 1 - 2 , 4 - ", .parts([ByteRange(1, 3), ByteRange(4, 10)])),
            ("bytes=9-9,0-0", .parts([ByteRange(9, 10), ByteRange(0, 1)])),
            ("bytes=0-4,20-30", .parts([ByteRange(0, 5)])),
            // Together longer than the file, and backwards from its beginning.
            ("bytes=0-9,0-9", .whole), ("bytes=0-,-1", .whole), ("bytes=3-2,0-1", .parts([ByteRange(0, 2)])),
            ("bytes=10-", .unsatisfiable), ("bytes=10-20", .unsatisfiable), ("bytes=-0", .unsatisfiable),
            ("bytes=4-2", .unsatisfiable), ("bytes=a-b", .unsatisfiable), ("bytes=1", .unsatisfiable),
            ("bytes=1-2x", .unsatisfiable), ("bytes=--1", .unsatisfiable), ("bytes=,", .unsatisfiable),
            ("bytes=1-2,", .unsatisfiable), ("bytes=99999999999999999999-", .unsatisfiable),
            ("bytes=0-99999999999999999999", .unsatisfiable),
            ("bytes=-9223372036854775807", .parts([ByteRange(0, 10)])),
            ("bytes=0-9223372036854775807", .parts([ByteRange(0, 10)])),
        ] as [(String?, RangeRequest)])
    func table(header: String?, expected: RangeRequest) {
        #expect(RangeRequest(header, length: 10) == expected)
    }

    @Test("An empty file has no range")
    func empty() {
        #expect(RangeRequest("bytes=0-", length: 0) == .whole)
        #expect(RangeRequest("bytes=5-", length: 0) == .unsatisfiable)
    }

    @Test("More ranges than a client has a reason for are answered with the whole file")
    func many() {
        func header(_ count: Int) -> String {
            "bytes=" + (0..<count).map { "\($0 * 2)-\($0 * 2)" }.joined(separator: ",")
        }
        #expect(RangeRequest(header(64), length: 1000) == .parts((0..<64).map { ByteRange($0 * 2, $0 * 2 + 1) }))
        #expect(RangeRequest(header(65), length: 1000) == .whole)
    }
}
