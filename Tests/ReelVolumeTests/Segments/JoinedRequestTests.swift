import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelSources
@testable import ReelVolume

/// One request for a file of several pieces: what its receiver gets, and when.
@Suite struct JoinedRequestTests {
    /// Notes all calls, and answers bodies as the test says.
    private final class Receiver: OriginReceiver {
        struct Told: Sendable {
            var heads: [ResponseHead] = []
            var bytes: [UInt8] = []
            var ends: [OriginFailure?] = []
            var isPaused = false
            var camePaused = false
        }

        let told = Monitor(Told())
        private let answer: @Sendable (_ total: Int) -> BodyAnswer
        /// What it says to a head.
        private let refusal: OriginFailure?

        init(
            refusal: OriginFailure? = nil, _ answer: @escaping @Sendable (Int) -> BodyAnswer = { _ in .more }
        ) {
            (self.answer, self.refusal) = (answer, refusal)
        }

        func head(_ head: ResponseHead) -> OriginFailure? {
            told.withLock { $0.heads.append(head) }
            return refusal
        }

        func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
            told.withLock { told in
                told.camePaused = told.camePaused || told.isPaused
                told.bytes += bytes
                let answer = answer(told.bytes.count)
                if case .pause = answer { told.isPaused = true }
                return answer
            }
        }

        func ended(_ failure: OriginFailure?) { told.withLock { $0.ends.append(failure) } }

        /// Waits for the end. - Returns: all that it got.
        func finish() -> Told? { told.wait(atMost: .seconds(10)) { $0.ends.isEmpty ? nil : $0 } }
    }

    private static let length: Int64 = 300_000

    /// Four pieces of one length, and the URL that they have as one file.
    private func with(
        _ body: (VolumeFixture, ScriptedServer, ResourceURL, _ whole: [UInt8]) throws -> Void
    ) throws {
        let pieces = (1...4).map { FileOrigin(length: Self.length, seed: UInt64($0)) }
        let server = try ScriptedServer { request in
            if request.path == "/f.m3u8" {
                return ServerStep.answer(
                    200, [("Content-Type", "audio/mpegurl")],
                    body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\n0.ts\n1.ts\n2.ts\n3.ts\n#EXT-X-ENDLIST\n")
            }
            guard let number = Int(request.path.dropFirst().dropLast(3)), pieces.indices.contains(number) else {
                return ServerStep.answer(404)
            }
            return pieces[number].answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/f.m3u8"))
        defer { fixture.remove() }
        let url = try #require(HLSSource.url(joinedBy: server.url("/f.m3u8")))
        try body(fixture, server, url, pieces.flatMap { $0.expectedBytes(ByteRange(0, Self.length)) })
    }

    private func send(_ request: OriginRequest, _ fixture: VolumeFixture, to receiver: Receiver) -> RequestHandle {
        fixture.volume.services.origin.start(request, receiver)
    }

    @Test("The answer has one head with an exact Content-Range and a strong tag, and ends once")
    func oneAnswer() throws {
        try with { fixture, _, url, whole in
            let receiver = Receiver()
            _ = send(OriginRequest(url: url, range: ByteRange(299_990, 900_010)), fixture, to: receiver)
            let told = try #require(receiver.finish())
            #expect(told.heads.count == 1 && told.ends == [nil])
            let head = try #require(told.heads.first)
            #expect(head.status == 206 && head["content-range"] == "bytes 299990-900009/1200000")
            #expect(head.contentLength == 600_020 && head.entityTag?.isWeak == false && head.lastModified != nil)
            let isSame = told.bytes == Array(whole[299_990..<900_010])
            #expect(isSame)
        }
    }

    @Test("A range behind the end is 416, all of it is 200, and a tag that still holds is 304")
    func heads() throws {
        try with { fixture, server, url, whole in
            let behind = Receiver()
            _ = send(OriginRequest(url: url, range: ByteRange(1_200_000, 1_200_001)), fixture, to: behind)
            #expect(try #require(behind.finish()).ends == [.status(416, retryAfter: nil)])
            let all = Receiver()
            _ = send(OriginRequest(url: url), fixture, to: all)
            let told = try #require(all.finish())
            let isWhole = told.heads.first?.status == 200 && told.bytes == whole
            #expect(isWhole)
            let count = server.requests.count
            let tag = told.heads.first?.entityTag?.header
            let request = OriginRequest(
                url: url, range: ByteRange(0, 1), condition: .ifChanged(entityTag: tag, lastModified: nil))
            let unchanged = Receiver()
            _ = send(request, fixture, to: unchanged)
            #expect(try #require(unchanged.finish()).heads.first?.status == 304)
            #expect(server.requests.dropFirst(count).allSatisfy { $0.path == "/f.m3u8" })
        }
    }

    /// In virtual time.
    @Test("A head that was refused stays so: bytes that another place has of the same piece do not follow it")
    func refused() throws {
        let piece = FileOrigin(length: Self.length)
        let server: SimulatedTransport.Server = { request in
            request.path == "/f.m3u8"
                ? ServerStep.answer(
                    200, [("Content-Type", "audio/mpegurl")],
                    body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\n0.ts\n#EXT-X-ENDLIST\n")
                : piece.answer(request)
        }
        try SimulatedWorld.run(["http://origin": server, "http://shared": server]) { world in
            let options = VolumeOptions(timeout: .seconds(3), via: SharedCache(ResourceURL("http://shared/f.m3u8")!))
            let mount = try world.mount("http://origin/f.m3u8", options)
            let receiver = Receiver(refusal: .changed)
            let url = HLSSource.url(joinedBy: ResourceURL("http://origin/f.m3u8")!)!
            _ = mount.volume.services.origin.start(OriginRequest(url: url, range: ByteRange(0, 1000)), receiver)
            let told = try #require(receiver.finish())
            #expect(told.heads.count == 1)
            #expect(told.bytes.isEmpty && told.ends == [.changed])
        }
    }

    @Test("What is paused gets no byte until it is resumed, also between two pieces", arguments: [1, 300_000, 600_000])
    func pauses(_ place: Int) throws {
        try with { fixture, _, url, whole in
            let receiver = Receiver { $0 >= place && $0 < place + 300_000 ? .pause : .more }
            let handle = send(OriginRequest(url: url, range: ByteRange(0, 1_200_000)), fixture, to: receiver)
            while receiver.told.wait(atMost: .seconds(10), { $0.isPaused || !$0.ends.isEmpty ? true : nil }) == true {
                if receiver.told.withLock({ !$0.ends.isEmpty }) { break }
                // Long enough for another piece to come, were it asked for.
                for _ in 0..<20 {
                    let turn = Monitor(false)
                    fixture.volume.services.transport.perform { turn.withLock { $0 = true } }
                    _ = turn.wait(atMost: .seconds(5)) { $0 ? true : nil }
                }
                receiver.told.withLock { $0.isPaused = false }
                handle.resume()
            }
            let told = try #require(receiver.finish())
            #expect(!told.camePaused && told.ends == [nil])
            let isSame = told.bytes == whole
            #expect(isSame)
        }
    }

    @Test("A receiver that stops, or is cancelled, is notified of the end once", arguments: [true, false])
    func ends(_ isStopped: Bool) throws {
        try with { fixture, server, url, _ in
            let receiver = Receiver { _ in isStopped ? .stop : .pause }
            let handle = send(OriginRequest(url: url, range: ByteRange(0, 1_200_000)), fixture, to: receiver)
            if !isStopped {
                #expect(receiver.told.wait(atMost: .seconds(10)) { $0.isPaused ? true : nil } == true)
                handle.cancel()
                handle.cancel()
            }
            #expect(try #require(receiver.finish()).ends == [.cancelled])
            // Cancelled before its start, and while its pieces are unknown.
            fixture.volume.services.doubt(url)
            for isEarly in [true, false] {
                let (other, handle) = (Receiver(), RequestHandle())
                if isEarly { handle.cancel() }
                fixture.volume.services.origin.start(handle, OriginRequest(url: url, range: ByteRange(0, 9)), other)
                if !isEarly { handle.cancel() }
                let told = try #require(other.finish())
                // On a busy machine the answer may come before the second of them is cancelled.
                let isAnswered = !isEarly && told.ends == [nil] && told.bytes.count == 9
                #expect(isAnswered || told.ends == [.cancelled] && told.bytes.isEmpty)
            }
            #expect(!server.requests.contains { $0.path.contains("joined") })
        }
    }

    @Test("A request goes on over links of which each serves one piece")
    func expiringLinks() throws {
        let pieces = (1...4).map { FileOrigin(length: Self.length, seed: UInt64($0)) }
        let (valid, isCounting) = (Shared(0), Shared(false))
        let server = try ScriptedServer { request in
            if request.path == "/f.m3u8" {
                let lines = pieces.indices.map { "\($0).ts?hdnts=\(valid.value)\n" }.joined()
                return ServerStep.answer(
                    200, [("Content-Type", "audio/mpegurl")],
                    body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(lines)#EXT-X-ENDLIST\n")
            }
            guard let number = Int(request.path.dropFirst().dropLast(3)), pieces.indices.contains(number),
                request.target.hasSuffix("?hdnts=\(valid.value)")
            else { return ServerStep.answer(403) }
            if isCounting.value { valid.change { $0 += 1 } }
            return pieces[number].answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/f.m3u8"))
        defer { fixture.remove() }
        let url = try #require(HLSSource.url(joinedBy: server.url("/f.m3u8")))
        // It finds the lengths of all pieces.
        let first = Receiver()
        _ = send(OriginRequest(url: url, range: ByteRange(0, 1)), fixture, to: first)
        #expect(try #require(first.finish()).ends == [nil])
        isCounting.set(true)
        let receiver = Receiver()
        _ = send(OriginRequest(url: url, range: ByteRange(0, 1_200_000)), fixture, to: receiver)
        let told = try #require(receiver.finish())
        #expect(told.ends == [nil])
        let isSame = told.bytes == pieces.flatMap { $0.expectedBytes(ByteRange(0, Self.length)) }
        #expect(isSame)
    }

    @Test("Credentials of the playlist go to its own origin alone, for pieces as for keys")
    func credentials() throws {
        let film = FileOrigin(length: 160_000)
        let key = String(repeating: "k", count: 16)
        let other = try ScriptedServer { $0.path == "/k" ? ServerStep.answer(body: key) : film.answer($0) }
        defer { other.stop() }
        let far = "http://127.0.0.1:\(other.port)"
        let server = try ScriptedServer { request in
            guard request["authorization"] != nil else {
                return ServerStep.answer(401, [("WWW-Authenticate", "Basic realm=\"x\"")])
            }
            if request.path == "/k" { return ServerStep.answer(body: key) }
            if request.path != "/f.m3u8" { return film.answer(request) }
            return ServerStep.answer(
                200, [("Content-Type", "audio/mpegurl")],
                body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\nnear.ts\n\(far)/far.ts\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n"
                    + "a.ts\n#EXT-X-KEY:METHOD=AES-128,URI=\"\(far)/k\"\nb.ts\n#EXT-X-ENDLIST\n")
        }
        defer { server.stop() }
        let fixture = try VolumeFixture("http://me:secret@127.0.0.1:\(server.port)/f.m3u8", timeout: .seconds(5))
        defer { fixture.remove() }
        // The encrypted pieces are none that the key opens: it is enough that they were asked for.
        _ = fixture.open("f.ts")
        #expect(eventually { Set(server.requests.map(\.path)).isSuperset(of: ["/f.m3u8", "/near.ts", "/k"]) })
        #expect(eventually { other.requests.contains { $0.path == "/far.ts" } })
        #expect(other.requests.allSatisfy { $0["authorization"] == nil })
    }
}
