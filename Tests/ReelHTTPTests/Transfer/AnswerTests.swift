import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// What a receiver sees of good answers and of each way in which an origin misbehaves.
@Suite struct AnswerTests {
    static let length: Int64 = 3_000_000
    static let asked = ByteRange(1_000_000, 2_000_000)

    private func withFile(
        _ fault: FileOrigin.Fault? = nil, _ body: (CurlOrigin, ScriptedServer, FileOrigin) throws -> Void
    ) throws {
        let file = FileOrigin(length: Self.length)
        file.fault = fault
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { try body($0, server, file) }
    }

    @Test func aRangeComesWholeAndExact() throws {
        try withFile { origin, server, file in
            let record = origin.fetch(server.url("/film"), Self.asked)
            #expect(record.failure == nil)
            #expect(record.heads[0].status == 206)
            #expect(record.heads[0].contentRange == ContentRange(range: Self.asked, total: Self.length))
            #expect(record.bytes.elementsEqual(file.expectedBytes(Self.asked)))
            let request = server.requests[0]
            #expect(request["range"] == "bytes=1000000-1999999")
            #expect(request["accept-encoding"] == "identity")
            #expect(request["user-agent"] == "reelfs/test")
            #expect(origin.counters == TransportCounters(bodyBytes: 1_000_000, requests: 1, connections: 1))
        }
    }

    @Test(arguments: [ByteRange(0, 1), ByteRange(2_999_999, 3_000_000), ByteRange(0, 3_000_000)])
    func rangesAtTheEdgesComeWhole(range: ByteRange) throws {
        try withFile { origin, server, file in
            #expect(origin.fetch(server.url("/film"), range).bytes.elementsEqual(file.expectedBytes(range)))
        }
    }

    @Test func conditionsAreSentAndAnswered() throws {
        try withFile { origin, server, file in
            let url = server.url("/film")
            let unchanged = origin.fetch(url, if: .ifChanged(entityTag: "\"v1\"", lastModified: nil))
            #expect(unchanged.failure == nil && unchanged.heads[0].status == 304 && unchanged.bytes.isEmpty)
            #expect(origin.fetch(url, Self.asked, if: .ifRange("\"v1\"")).heads[0].status == 206)
            file.fault = .changedETag
            #expect(origin.fetch(url, Self.asked, if: .ifRange("\"v1\"")).heads[0].status == 200)
            _ = origin.fetch(url, if: .ifChanged(entityTag: "\"a\"", lastModified: httpDateText(5)))
            #expect(server.requests.last?["if-none-match"] == "\"a\"")
            #expect(server.requests.last?["if-modified-since"] == "Thu, 01 Jan 1970 00:00:05 GMT")
        }
    }

    /// The transport shows these heads as they are: whether they answer the request is the receiver's to judge.
    @Test(arguments: [
        (FileOrigin.Fault.noRanges, 200), (.wholeToRange, 200), (.chunkedWithoutLength, 200), (.untilClose, 200),
    ])
    func aWholeBodyComesWhole(fault: FileOrigin.Fault, status: Int) throws {
        try withFile(fault) { origin, server, file in
            let record = origin.fetch(server.url("/film"), Self.asked)
            #expect(record.failure == nil && record.heads[0].status == status)
            #expect(record.bytes.elementsEqual(file.expectedBytes(ByteRange(0, Self.length))))
        }
    }

    @Test func wrongRangesAndTotalsAreShownInTheHead() throws {
        try withFile(.wrongContentRange) { origin, server, file in
            let moved = origin.fetch(server.url("/film"), Self.asked)
            #expect(moved.heads[0].contentRange?.range == ByteRange(1_000_001, 2_000_001))
            file.fault = .wrongTotal
            #expect(origin.fetch(server.url("/film"), Self.asked).heads[0].contentRange?.total == Self.length + 1)
            file.fault = .noContentRange
            #expect(origin.fetch(server.url("/film"), Self.asked).heads[0].contentRange == nil)
            file.fault = .gzip
            #expect(origin.fetch(server.url("/film"), Self.asked).heads[0].isEncoded)
            file.fault = .htmlWith200
            #expect(origin.fetch(server.url("/film"), Self.asked).heads[0].mediaType == "text/html")
            file.fault = .headRefused
            let bytes = origin.fetch(server.url("/film"), Self.asked).bytes
            #expect(bytes.elementsEqual(file.expectedBytes(Self.asked)))
        }
    }

    @Test(arguments: [OriginFailure.changed, .wrongAnswer("not what was asked for")])
    func aRefusedHeadEndsTheRequestBeforeAnyByte(failure: OriginFailure) throws {
        try withFile(.endlessBody) { origin, server, _ in
            let record = origin.fetch(server.url("/film"), into: Recorder(judge: { _ in failure }))
            #expect(record.failure == failure && record.bytes.isEmpty)
            #expect(eventually { server.openConnectionCount == 0 }, "the body goes on")
        }
    }

    @Test func neverMoreBytesThanTheAskedRange() throws {
        try withFile(.tooLongBody) { origin, server, file in
            let record = origin.fetch(server.url("/film"), Self.asked)
            #expect(record.bytes.elementsEqual(file.expectedBytes(Self.asked)))
            guard case .wrongAnswer = record.failure else { throw Unexpected(record.failure) }
        }
    }

    @Test(arguments: [0, 1, 100_000, 999_999])
    func aBodyThatIsCutIsInterruptedAndItsBytesAreKept(count: Int64) throws {
        try withFile { origin, server, file in
            for fault in [FileOrigin.Fault.shortBody(after: count), .resetAfter(count)] {
                file.fault = fault
                let record = origin.fetch(server.url("/film"), Self.asked)
                guard case .interrupted = record.failure else { throw Unexpected(record.failure) }
                let kept = Self.asked.lower + Int64(record.bytes.count)
                #expect(record.bytes.elementsEqual(file.expectedBytes(ByteRange(Self.asked.lower, kept))))
                // A reset may overtake bytes that were sent before it; the end of a connection does not.
                if case .shortBody = fault { #expect(record.bytes.count == count) }
            }
        }
    }

    @Test func aChunkedBodyThatEndsEarlyIsInterrupted() throws {
        let server = try ScriptedServer { _ in
            [.head(206, [("Content-Range", "bytes 0-9/10"), ("Transfer-Encoding", "chunked")])]
                + [.raw("5\r\nabcde\r\n0\r\n\r\n")]
        }
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/"), ByteRange(0, 10))
            guard case .interrupted = record.failure else { throw Unexpected(record.failure) }
            #expect(record.bytes == Array("abcde".utf8))
        }
    }

    @Test(arguments: [
        (400, nil), (401, nil), (403, nil), (404, nil), (410, nil), (416, nil), (429, 7), (500, nil), (503, 120),
        (204, nil), (302, nil), (305, nil),
    ])
    func otherStatusesEndWithoutAHead(status: Int, retryAfter: Int?) throws {
        try withFile(.status(status, retryAfter: retryAfter)) { origin, server, _ in
            let record = origin.fetch(server.url("/film"), Self.asked)
            #expect(record.failure == .status(status, retryAfter: retryAfter.map { .seconds($0) }))
            #expect(record.heads.isEmpty && record.bytes.isEmpty)
        }
    }

    @Test func aRangeBehindTheEndIsAStatus() throws {
        try withFile { origin, server, _ in
            let record = origin.fetch(server.url("/film"), ByteRange(Self.length, Self.length + 1))
            #expect(record.failure == .status(416, retryAfter: nil))
        }
    }

    /// Its body may be endless or never come: the failure is reported all the same, long before the time of a stall.
    @Test(arguments: [ServerStep.endless(GeneratedBytes()), .stall])
    func theBodyOfAnErrorIsNotWaitedFor(step: ServerStep) throws {
        let server = try ScriptedServer { _ in [.head(500, [("Content-Length", "1000000000")]), step] }
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/"), stallLimit: .seconds(120))
            #expect(record.failure == .status(500, retryAfter: nil))
            #expect(server.bodyBytesSent < 64 << 20)
        }
    }

    @Test func headersBeyondTheLimitAreRefused() throws {
        let long = String(repeating: "x", count: 1 << 20)
        let server = try ScriptedServer { request in
            switch request.path {
            case "/many": [.head(200, Array(repeating: ("A", "b"), count: 600) + [("Content-Length", "0")])]
            case "/long": [.head(200, [("A", long), ("Content-Length", "0")])]
            default: [.head(200, Array(repeating: ("A", "b"), count: 500) + [("Content-Length", "0")])]
            }
        }
        try withTransport(to: server) { origin in
            for path in ["/many", "/long"] {
                let record = origin.fetch(server.url(path))
                guard case .wrongAnswer = record.failure else { throw Unexpected(record.failure) }
                #expect(record.heads.isEmpty)
            }
            #expect(origin.fetch(server.url("/good")).failure == nil)
        }
        try withFile(.hugeHeader) { origin, server, _ in
            let record = origin.fetch(server.url("/film"))
            guard case .wrongAnswer = record.failure else { throw Unexpected(record.failure) }
        }
    }

    @Test(arguments: ["SSH-2.0-OpenSSH\r\n\r\n", "HTTP/0.9\r\n\r\n", "HTTP/1.1 xyz\r\n\r\n", "\r\n\r\n"])
    func whatIsNoHTTPEndsWithoutAHead(text: String) throws {
        let server = try ScriptedServer { _ in [.raw(text), .close] }
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/"))
            #expect(record.failure != nil && record.heads.isEmpty && record.bytes.isEmpty)
        }
    }

    @Test func interimAnswersAndTrailersAreNotShown() throws {
        let server = try ScriptedServer { _ in
            [.raw("HTTP/1.1 100 Continue\r\nEarly: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")]
                + [.head(200, [("Transfer-Encoding", "chunked"), ("MiXeD", " v ")])]
                + [.raw("3\r\nabc\r\n0\r\nLate: 1\r\n\r\n")]
        }
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/"))
            #expect(record.failure == nil && record.bytes == Array("abc".utf8))
            #expect(record.heads[0].headers.map(\.name) == ["transfer-encoding", "mixed"])
            #expect(record.heads[0]["mixed"] == "v")
        }
    }
}

struct Unexpected: Error, CustomStringConvertible {
    let description: String
    init(_ failure: OriginFailure?) { description = "unexpected: \(failure.map { "\($0)" } ?? "success")" }
}
