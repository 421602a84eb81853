import ReelCore
import ReelFilesystem
import TestKit
import Testing

@testable import ReelVolume

/// Bodies without a length, as readers see them.
@Suite(.plainAndEncrypted) struct OpenEndTests {
    private let film = GeneratedBytes(seed: 7)

    private func withBody(
        timeout: Duration = .seconds(10), cap: Int64 = 1 << 30, _ steps: [ServerStep],
        _ body: (VolumeFixture, ScriptedServer) throws -> Void
    ) throws {
        let server = try ScriptedServer { _ in [.head(200, [("Connection", "close")])] + steps }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"), cap: cap, timeout: timeout)
        defer { fixture.remove() }
        try body(fixture, server)
    }

    private func bytes(_ lower: Int64, _ upper: Int64) -> [UInt8] { film.bytes(ByteRange(lower, upper)) }

    /// Requests for more than the one byte whose answer describes a resource.
    private func bodies(_ server: ScriptedServer) -> Int {
        server.requests.count { $0.range(of: 1 << 40)?.count != 1 }
    }

    @Test func atItsDeadlineAReadGetsWhatHasCome() throws {
        // Too slow for the read, and never silent.
        let steps: [ServerStep] = [
            .generated(film, ByteRange(0, 5000)),
            .drip(film, ByteRange(5000, 200_000), piece: 2, pause: .milliseconds(100)),
        ]
        try withBody(timeout: .seconds(3), steps) { fixture, _ in
            let file = try fixture.open("film.mkv").get()
            let part = try fixture.read(file, 4000, 4096).get()
            #expect(part.count >= 1000 && part == bytes(4000, 4000 + Int64(part.count)))
            #expect(part.count < 4096)
            fixture.volume.close(file)
        }
    }

    @Test func aBodyThatBreaksOffFailsItsReadersAndIsFetchedAnew() throws {
        // A chunk of 5001 bytes.
        let steps: [ServerStep] = [
            .head(200, [("Transfer-Encoding", "chunked")]), .raw("1389\r\n"), .generated(film, ByteRange(0, 5000)),
            .close,
        ]
        let server = try ScriptedServer { _ in steps }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        for _ in 1...2 {
            let before = bodies(server)
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 4000, 4096) == .failure(.failed))
            #expect(try fixture.read(file, 4000, 1000).get() == bytes(4000, 5000))
            fixture.volume.close(file)
            #expect(bodies(server) == before + 1)
        }
    }

    /// More than the ledger holds at a time.
    @Test func aCrowdOfReadersGetsTheBytesAsTheyComeWhileTheBodyRuns() throws {
        let (gate, end) = (Gate(), Gate())
        let steps: [ServerStep] = [
            .generated(film, ByteRange(0, 5000)), .wait(gate), .generated(film, ByteRange(5000, 200_000)), .wait(end),
            .close,
        ]
        try withBody(timeout: .seconds(30), steps) { fixture, _ in
            defer { end.open() }
            let file = try fixture.open("film.mkv").get()
            let reads = (0..<3 * ParkedReads.limit).map { number in
                let (read, offset) = (TestRead(), 6000 + Int64(number) * 1000)
                let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1000, alignment: 1)
                defer { buffer.deallocate() }
                guard case .parked = fixture.volume.read(file, offset: offset, into: buffer, park: { read }) else {
                    Issue.record("a read did not wait")
                    return (offset, read)
                }
                return (offset, read)
            }
            gate.open()
            for (offset, read) in reads {
                #expect(read.wait(atMost: .seconds(10)) == .success(bytes(offset, offset + 1000)))
            }
            fixture.volume.close(file)
        }
    }

    @Test("A listing that has no length any more makes the origin say that the body is the same, and not send it")
    func listedWithoutLength() throws {
        let listed = Shared<Int64?>(4000)
        let server = try ScriptedServer { [film] request in
            if request.path == "/" { return MirrorPair.page(["film.mkv"], listed.value) }
            if request["if-none-match"] == "\"1\"" { return [.head(304, [("ETag", "\"1\"")])] }
            let date = ("Last-Modified", "Tue, 02 Jan 2024 10:00:00 GMT")
            let headers = [("ETag", "\"1\""), date, ("Connection", "close")]
            return [.head(200, headers), .generated(film, ByteRange(0, 5000)), .close]
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"))
        defer { fixture.remove() }
        listed.change { $0 = nil }
        var sent: [Int] = []
        for _ in 1...2 {
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 6000).get() == bytes(0, 5000))
            fixture.volume.close(file)
            _ = try fixture.volume.maintenance.refresh("", isRecursive: false)
            sent.append(server.requests.count { $0.path == "/film.mkv" && $0.range(of: 1 << 40)?.count != 1 })
        }
        #expect(sent[0] == sent[1])
    }

    @Test("A body without a length may be longer than its listing says: its handle says that the node shows another")
    func listedWithAnotherLength() throws {
        for listed in [1, 5000, nil] as [Int64?] {
            let server = try ScriptedServer { [film] request in
                if request.path == "/" { return MirrorPair.page(["film.mkv"], listed) }
                return [.head(200, [("Connection", "close")]), .generated(film, ByteRange(0, 5000)), .close]
            }
            defer { server.stop() }
            let fixture = try VolumeFixture(server.url("/"))
            defer { fixture.remove() }
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 6000).get() == bytes(0, 5000))
            #expect(file.length == 5000 && file.isLengthShown == (listed != 1))
            fixture.volume.close(file)
        }
    }

    @Test("Another body without a length is another node: the kernel has the length of the first")
    func anotherBody() throws {
        let length = Shared<Int64>(5000)
        let server = try ScriptedServer { [film] _ in
            [.head(200, [("Connection", "close")]), .generated(film, ByteRange(0, length.value)), .close]
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        func readWhole() throws {
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 20_000).get() == bytes(0, length.value))
            fixture.volume.close(file)
        }
        try readWhole()
        let first = try fixture.lookup("film.mkv").get()
        #expect(first.attributes.length == 5000)
        length.change { $0 = 9000 }
        fixture.expire()
        let opened = fixture.wait { fixture.filesystem.open(first.node, by: nil, $0) }
        #expect(throws: VolumeError.stale) { try opened.get() }
        try readWhole()
        let second = try fixture.lookup("film.mkv").get()
        #expect(second.node != first.node && second.attributes.length == 9000)
    }

    @Test func aSecondOpenReadsTheBodyThatRuns() throws {
        let gate = Gate()
        let steps: [ServerStep] = [
            .generated(film, ByteRange(0, 5000)), .wait(gate), .generated(film, ByteRange(5000, 200_000)), .close,
        ]
        try withBody(steps) { fixture, server in
            let first = try fixture.open("film.mkv").get()
            let before = bodies(server)
            let second = try fixture.open("film.mkv").get()
            #expect(second.wantsDirectIO)
            #expect(fixture.volume.status().files.map(\.length) == [nil])
            fixture.volume.close(first)
            gate.open()
            // It goes on past the end of the body, which another name stands for by then.
            #expect(fixture.readAll(second) == .success(bytes(0, 200_000)))
            #expect(eventually { fixture.volume.status().files.map(\.length) == [200_000] })
            #expect(try fixture.read(second, 1000, 1000).get() == bytes(1000, 2000))
            let third = try fixture.open("film.mkv").get()
            #expect(!third.wantsDirectIO && fixture.readAll(third) == .success(bytes(0, 200_000)))
            #expect(bodies(server) == before)
            fixture.volume.close(second)
            fixture.volume.close(third)
        }
    }

    /// Four times what the cache may hold, and twice what memory takes of it.
    @Test func aBodyThatIsLargerThanTheCacheIsReadToItsEnd() throws {
        let length: Int64 = 64 << 20
        try withBody(cap: 16 << 20, [.generated(film, ByteRange(0, length)), .close]) { fixture, _ in
            let file = try fixture.open("film.mkv").get()
            var (offset, wrong) = (Int64(0), 0)
            while let part = try? fixture.read(file, offset, 1 << 20).get(), !part.isEmpty {
                if part != bytes(offset, offset + Int64(part.count)) { wrong += 1 }
                offset += Int64(part.count)
            }
            #expect(offset == length && wrong == 0)
            // So far behind its reader nothing is left of what the disk did not take; a slow one may have left it room.
            let behind = fixture.read(file, 20 << 20, 4096)
            #expect(behind == .failure(.failed) || behind == .success(bytes(20 << 20, 20 << 20 + 4096)))
            #expect(fixture.volume.status().bytesInMemory <= (CacheKind.isEncrypted ? 80 : 32) << 20)
            fixture.volume.close(file)
        }
    }

    /// Memory is full at 50 MiB, and the bytes from 48 MiB on are of an extent that nobody has read yet.
    @Test(.tags(.plainOnly))
    func whatMakesRoomTakesNoBytesOfAReadWhoseAnswerIsOnItsWay() throws {
        let (gate, mayAnswer) = (Gate(), Gate())
        let start: Int64 = 48 << 20
        let steps: [ServerStep] = [
            .generated(film, ByteRange(0, start)), .wait(gate), .generated(film, ByteRange(start, 64 << 20)), .close,
        ]
        try withBody(cap: 18 << 20, steps) { fixture, _ in
            defer { mayAnswer.open() }
            let file = try fixture.open("film.mkv").get()
            for offset in stride(from: 0, to: start, by: 1 << 20) {
                #expect(try fixture.read(file, offset, 1 << 20).get().count == 1 << 20)
            }
            fixture.volume.services.answers.add(0) { _ in mayAnswer.wait() }
            let read = TestRead()
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 1)
            defer { buffer.deallocate() }
            guard case .parked = fixture.volume.read(file, offset: start, into: buffer, park: { read }) else {
                Issue.record("the read did not wait")
                return
            }
            gate.open()
            #expect(eventually { fixture.volume.status().files.first?.readers?.first?.ahead ?? 0 > 3 << 19 })
            mayAnswer.open()
            #expect(read.wait(atMost: .seconds(10)) == .success(bytes(start, start + (1 << 20))))
            fixture.volume.close(file)
        }
    }
}
