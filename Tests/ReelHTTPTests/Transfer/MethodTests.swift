import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// Requests that are more than "give me these bytes".
@Suite struct MethodTests {
    private func request(_ url: ResourceURL, _ method: String, body: String = "") -> OriginRequest {
        var request = OriginRequest(url: url, stallLimit: .seconds(5))
        request.method = method
        request.headers = [("Depth", "1")]
        request.body = Array(body.utf8)
        request.accepted = [207]
        return request
    }

    private func finish(_ origin: CurlOrigin, _ request: OriginRequest) -> Recorder.Record {
        let recorder = Recorder()
        origin.start(request, recorder)
        return recorder.finished()
    }

    @Test(
        arguments: ["PROPFIND", "POST", "OPTIONS", "GET", "HEAD"], ["", String(repeating: "<body/>", count: 30_000)])
    func methodHeadersAndBodyAreSentAndTheAcceptedStatusIsTaken(_ method: String, _ body: String) throws {
        let server = try ScriptedServer { request in
            request.method == "HEAD"
                ? [.head(207, [("Content-Length", "5")])] : ServerStep.answer(207, [], body: "found")
        }
        if body.isEmpty || method != "HEAD" {
            try withTransport(to: server) { origin in
                let record = finish(origin, request(server.url("/x"), method, body: body))
                #expect(record.failure == nil && record.heads.map(\.status) == [207])
                #expect(record.bytes == (method == "HEAD" ? [] : Array("found".utf8)))
                let sent = try #require(server.requests.first)
                #expect(sent.method == method && sent["depth"] == "1" && sent.body == Array(body.utf8))
                #expect(sent["content-type"] == nil && sent["expect"] == nil)
                // Any other status is none.
                #expect(origin.fetch(server.url("/x")).failure == .status(207, retryAfter: nil))
            }
        } else {
            server.stop()
        }
    }

    @Test(arguments: [301, 302, 307, 308, 303])
    func aRedirectInsideTheOriginIsFollowedWithTheSameRequest(_ status: Int) throws {
        let server = try ScriptedServer { request in
            request.path == "/x"
                ? ServerStep.answer(status, [("Location", "/x/")]) : ServerStep.answer(207, [], body: request.method)
        }
        try withTransport(to: server) { origin in
            let record = finish(origin, request(server.url("/x"), "PROPFIND", body: "all"))
            if status == 303 {
                // It names something to read instead.
                #expect(record.failure == .status(303, retryAfter: nil))
            } else {
                #expect(record.failure == nil && record.bytes == Array("PROPFIND".utf8))
                #expect(server.requests.map { $0.body } == [Array("all".utf8), Array("all".utf8)])
                #expect(server.requests.allSatisfy { $0["depth"] == "1" })
            }
            // And says nothing of where the resource is read.
            _ = origin.fetch(server.url("/x"))
            #expect(server.requests.last(where: { $0.method == "GET" && $0.path == "/x" }) != nil)
        }
    }

    @Test(arguments: ["GET", "PROPFIND"])
    func anotherOriginSeesNoHeadersAndIsAskedToBeReadOnly(_ method: String) throws {
        let other = try ScriptedServer { _ in ServerStep.answer(207, [], body: "there") }
        defer { other.stop() }
        let place = other.url("/x").text
        let server = try ScriptedServer { _ in ServerStep.answer(307, [("Location", place)]) }
        try withTransport(to: server) { origin in
            let failure = finish(origin, request(server.url("/x"), method)).failure
            if method == "GET" {
                #expect(failure == nil && other.requests.map { $0["depth"] } == [nil])
            } else {
                #expect(other.requests.isEmpty)
                guard case .wrongAnswer = failure else { throw Unexpected(failure) }
            }
        }
    }

    @Test func whatHoldsNoSecretGoesToAnotherOriginWithoutThoseOfTheUser() throws {
        let other = try ScriptedServer { _ in ServerStep.answer(207, [], body: "there") }
        defer { other.stop() }
        let place = other.url("/x/").text
        let server = try ScriptedServer { _ in ServerStep.answer(301, [("Location", place)]) }
        try withTransport(to: server) {
            $0.headers = [("X-Token", "secret")]
        } _: { origin in
            var asked = request(server.url("/x", credentials: "me:secret"), "PROPFIND", body: "all")
            asked.isPublic = true
            let record = finish(origin, asked)
            #expect(record.failure == nil && record.bytes == Array("there".utf8))
            #expect(server.requests.map { $0["x-token"] } == ["secret"] && server.requests[0]["authorization"] != nil)
            let sent = try #require(other.requests.first)
            #expect(sent.method == "PROPFIND" && sent["depth"] == "1" && sent.body == Array("all".utf8))
            #expect(sent["x-token"] == nil && sent["authorization"] == nil)
        }
    }

    /// A server reads a whole folder for each, and others wait for what they play.
    @Test func twoFoldersAreAskedForAtATimeBesideAnyNumberOfReads() throws {
        let gate = Gate()
        let server = try ScriptedServer { request in
            request.method == "GET" ? ServerStep.answer(207) : [.wait(gate)] + ServerStep.answer(207)
        }
        try withTransport(to: server) { origin in
            let folders = (0..<6).map { number in
                let recorder = Recorder()
                origin.start(request(server.url("/\(number)"), "PROPFIND"), recorder)
                return recorder
            }
            for number in 0..<4 { #expect(finish(origin, request(server.url("/film\(number)"), "GET")).failure == nil) }
            #expect(server.requests.count { $0.method == "PROPFIND" } == 2)
            gate.open()
            for folder in folders { #expect(folder.finished().failure == nil) }
            #expect(Set(server.requests.filter { $0.method == "PROPFIND" }.map(\.path)).count == 6)
        }
    }

    /// A body that is made while it is sent, and may break off.
    private final class Upload: UploadBody {
        let length: Int64
        private let end: Int64

        init(length: Int64, end: Int64? = nil) { (self.length, self.end) = (length, end ?? length) }

        func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int? {
            let range = ByteRange(offset, min(end, offset + Int64(min(buffer.count, 5000))))
            buffer.copyBytes(from: GeneratedBytes(seed: 4).bytes(range))
            return range.isEmpty ? nil : Int(range.count)
        }
    }

    private func put(_ url: ResourceURL, _ upload: Upload) -> OriginRequest {
        var request = OriginRequest(
            url: url, condition: .ifChanged(entityTag: "*", lastModified: nil), stallLimit: .seconds(5))
        (request.method, request.upload, request.accepted) = ("PUT", upload, [200])
        return request
    }

    @Test func anUploadIsSentAsItIsMadeAndAgainWhereItIsRedirected() throws {
        let server = try ScriptedServer { request in
            request.path == "/x" ? ServerStep.answer(307, [("Location", "/y")]) : ServerStep.answer()
        }
        try withTransport(to: server) { origin in
            let length: Int64 = 1 << 20 + 77
            #expect(finish(origin, put(server.url("/x"), Upload(length: length))).failure == nil)
            #expect(server.requests.map(\.path) == ["/x", "/y"])
            let body = GeneratedBytes(seed: 4).bytes(ByteRange(0, length))
            for sent in server.requests {
                #expect(sent.method == "PUT" && sent["if-none-match"] == "*")
                #expect(sent["content-length"] == "\(length)" && sent.body == body)
            }
        }
    }

    @Test func anUploadThatBreaksOffIsNoWholeRequest() throws {
        let server = try ScriptedServer { _ in ServerStep.answer() }
        try withTransport(to: server) { origin in
            let record = finish(origin, put(server.url("/x"), Upload(length: 100_000, end: 60_000)))
            #expect(record.failure == .cancelled && server.requests.isEmpty)
            // The transport goes on.
            #expect(finish(origin, put(server.url("/x"), Upload(length: 10))).failure == nil)
        }
    }

    @Test func anUploadThatIsRefusedTellsTheStatus() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(412) }
        try withTransport(to: server) { origin in
            let record = finish(origin, put(server.url("/x"), Upload(length: 300_000)))
            #expect(record.failure == .status(412, retryAfter: nil) && server.requests.count == 1)
        }
    }

    @Test(arguments: [
        ("get", "X-A", "1"), ("", "X-A", "1"), ("GET /y HTTP/1.1\r\nX", "X-A", "1"), ("GET", "X-A", "1\r\nEvil: 2"),
        ("GET", "X A", "1"), ("GET", "Range", "bytes=0-1"), ("GET", "Content-Length", "7"),
    ])
    func whatAddsLinesOrContradictsIsNotSent(_ method: String, _ name: String, _ value: String) throws {
        let server = try ScriptedServer { _ in ServerStep.answer(207, [], body: "x") }
        try withTransport(to: server) { origin in
            var request = request(server.url("/x"), method)
            request.headers = [(name, value)]
            let failure = finish(origin, request).failure
            guard case .wrongAnswer = failure else { throw Unexpected(failure) }
            #expect(server.requests.isEmpty)
        }
    }
}
