import CCurl
import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// Whatever an answer can repeat or stretch has an end, in bytes and in time.
@Suite struct EndlessTests {
    struct Part: CustomTestStringConvertible, Sendable {
        var testDescription: String
        /// Sent first.
        var beginning: String
        /// Sent after it forever.
        var text: String

        private static let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

        static let all = [
            Part(testDescription: "headers", beginning: "HTTP/1.1 200 OK\r\n", text: "X-A: b\r\n"),
            Part(testDescription: "cookies", beginning: "HTTP/1.1 200 OK\r\n", text: "Set-Cookie: a=b\r\n"),
            Part(
                testDescription: "lines that go on with a header", beginning: "HTTP/1.1 200 OK\r\nX-A: b\r\n",
                text: " c\r\n"),
            Part(testDescription: "one header line", beginning: "HTTP/1.1 200 OK\r\nX-A: ", text: "b"),
            Part(testDescription: "1xx answers", beginning: "", text: "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"),
            Part(testDescription: "trailers", beginning: chunked + "5\r\nabcde\r\n0\r\n", text: "X-A: b\r\n"),
            Part(testDescription: "one trailer line", beginning: chunked + "5\r\nabcde\r\n0\r\nX-A: ", text: "b"),
            Part(testDescription: "one chunk's extension", beginning: chunked + "5;", text: "x"),
            Part(
                testDescription: "extensions of chunks of one byte", beginning: chunked,
                text: "1;" + String(repeating: "x", count: 10_000) + "\r\na\r\n"),
        ]
    }

    @Test(arguments: Part.all) func ends(_ part: Part) throws {
        // Its time alone ends such an answer there.
        let version = String(cString: curl_version())
        if part.testDescription.contains("extension"), version.hasPrefix("libcurl/8.5.") {
            try Test.cancel("libcurl 8.5 shows no byte of a chunk's extension")
        }
        let server = try ScriptedServer { request in
            request.path == "/good" ? ServerStep.answer(body: "x") : [.raw(part.beginning), .repeated(part.text)]
        }
        try withTransport(to: server) { origin in
            let failure = origin.fetch(server.url("/")).failure
            // libcurl ends a trailer line that is too long by itself, and calls it a failure to receive.
            switch failure {
            case .wrongAnswer: break
            case .interrupted where part.testDescription == "one trailer line": break
            default: throw Unexpected(failure)
            }
            // Buffers of sockets, and what curl reads before it lets others have their turn.
            #expect(server.bodyBytesSent < 32 << 20)
            #expect(origin.fetch(server.url("/good")).failure == nil)
        }
    }

    @Test(arguments: Part.all) func endsInTimeWhereItComesSlowly(_ part: Part) throws {
        let server = try ScriptedServer { _ in
            [.raw(part.beginning), .repeated(part.text, pause: .milliseconds(100))]
        }
        try withTransport(to: server) { origin in
            let recorder = Recorder()
            let id = origin.start(OriginRequest(url: server.url("/"), stallLimit: .milliseconds(500)), recorder)
            if part.text.hasPrefix("1;") {
                // A body that drips: how long it is of use its receiver decides.
                #expect(eventually { recorder.byteCount > 10 })
                id.cancel()
                #expect(recorder.finished().failure == .cancelled)
            } else {
                #expect(recorder.finished(within: .seconds(5)).failure == .timedOut)
            }
        }
    }

    @Test func chunksOfOneByteAndSomeTrailersAreAGoodAnswer() throws {
        let chunks = String(repeating: "1\r\nx\r\n", count: 200_000)
        let trailers = String(repeating: "X-A: b\r\n", count: 200)
        let server = try ScriptedServer { _ in
            [.raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)0\r\n\(trailers)\r\n")]
        }
        try withTransport(to: server) { origin in
            for _ in 0..<2 {
                let record = origin.fetch(server.url("/"))
                #expect(record.failure == nil && record.bytes.count == 200_000)
            }
            #expect(server.connectionCount == 1)
        }
    }

    /// If libcurl unpacked it unasked, a megabyte could become a gigabyte.
    @Test(arguments: ["gzip, chunked", "gzip", "chunked, deflate", "br"])
    func aBodyPackedForTheWayIsRefused(coding: String) throws {
        let server = try ScriptedServer { _ in
            [.head(200, [("Transfer-Encoding", coding)]), .raw("5\r\nabcde\r\n0\r\n\r\n"), .close]
        }
        try withTransport(to: server) { origin in
            let record = origin.fetch(server.url("/"))
            guard case .wrongAnswer = record.failure else { throw Unexpected(record.failure) }
            #expect(record.bytes.isEmpty)
        }
    }

    @Test(arguments: [("a", 8000, true), ("a", (8 << 10) + 1, false), ("./", 96 << 10, false)])
    func aRedirectTooLongToBeAURLIsAnError(unit: String, length: Int, isFollowed: Bool) throws {
        let location = String(String(repeating: unit, count: length).prefix(length - 1)) + "x"
        let server = try ScriptedServer { request in
            request.path == "/film" ? ServerStep.answer(302, [("Location", location)]) : ServerStep.answer(body: "x")
        }
        try withTransport(to: server) { origin in
            let failure = origin.fetch(server.url("/film")).failure
            #expect((failure == nil) == isFollowed)
            if !isFollowed { guard case .wrongAnswer = failure else { throw Unexpected(failure) } }
            #expect(server.requests.count == (isFollowed ? 2 : 1))
        }
    }

    /// Numbers that no integer holds, in every place where an answer has one: an error, or no such header.
    @Test(arguments: [
        "HTTP/1.1 99999999999999999999 X\r\n\r\n", "HTTP/1.1 -1 X\r\n\r\n", "HTTP/99999999999.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx",
        "HTTP/1.1 206 P\r\nContent-Range: bytes 0-9223372036854775807/9223372036854775807\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 206 P\r\nContent-Range: bytes 9223372036854775806-9223372036854775806/9223372036854775807\r\n\r\nx",
        "HTTP/1.1 206 P\r\nContent-Range: bytes 0-0/99999999999999999999\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 503 X\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 X\r\nRetry-After: 9223372036854775807\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 X\r\nRetry-After: -9223372036854775808\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 X\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nLast-Modified: Sun, 99999999999 Nov 9223372036854775807 1:1:1 GMT\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx",
        "HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:99999999999999999999/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:0/\r\nContent-Length: 0\r\n\r\n",
    ])
    func numbersBeyondAllBoundsDoNoHarm(answer: String) throws {
        let server = try ScriptedServer { request in
            request.path == "/good" ? ServerStep.answer(body: "x") : [.raw(answer), .close]
        }
        try withTransport(to: server) { origin in
            for range in [ByteRange(0, 1), ByteRange(0, .max), ByteRange(.max - 1, .max), nil] {
                let record = origin.fetch(server.url("/bad"), range)
                if case .status(503, let pause) = record.failure { #expect(pause ?? .zero <= .seconds(86_400)) }
                for head in record.heads {
                    for known in [
                        nil, ContentInformation(length: .max, validator: Validator(entityTag: nil, lastModified: .min)),
                    ] {
                        _ = judge(head, to: head.url, asked: range, isConditional: false, known: known)
                        _ = known?.validator.ifChanged
                    }
                }
            }
            #expect(origin.fetch(server.url("/good")).failure == nil)
        }
    }
}
