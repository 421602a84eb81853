import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// More readers of one file than its ledger takes.
@Suite struct CrowdTests {
    private let length: Int64 = 256 << 20

    private func withFilm(
        timeout: Duration, _ body: (VolumeFixture, FileOrigin, any FileHandle, RemoteFile) throws -> Void
    ) throws {
        let film = FileOrigin(length: length)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"), timeout: timeout)
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        let volume = fixture.volume
        defer { volume.close(file) }
        guard let remote = (file as? OpenFile)?.remote else { throw VolumeError.failed }
        try body(fixture, film, file, remote)
    }

    private func park(_ fixture: VolumeFixture, _ file: any FileHandle, count: Int) -> [(Int64, TestRead)] {
        (0..<count).map { number in
            let offset = 1 << 20 + Int64(number) * 100_000
            return (offset, fixture.park(file, offset, 1000))
        }
    }

    @Test func ofASilentFileTheLedgerHoldsAFewAndAllEndByTheirDeadline() throws {
        try withFilm(timeout: .seconds(2)) { fixture, film, file, remote in
            film.fault = .silent
            let reads = park(fixture, file, count: 2000)
            let (held, queued) = remote.ask { ($0.reads.heldCount, $0.reads.queuedCount) }
            // The first may be late already.
            #expect(held <= ParkedReads.limit && held + queued <= 2000)
            for (_, read) in reads {
                guard case .failure(let error) = read.wait(atMost: .seconds(10)) else {
                    Issue.record("a read got bytes")
                    continue
                }
                #expect(error != .interrupted)
            }
            #expect(reads.allSatisfy { $0.1.answerCount == 1 })
            #expect(remote.ask { $0.reads.queuedCount == 0 && $0.reads.heldCount == 0 })
        }
    }

    @Test func ofAFileThatComesEachGetsItsBytes() throws {
        try withFilm(timeout: .seconds(30)) { fixture, film, file, _ in
            for (offset, read) in park(fixture, file, count: 300) {
                #expect(read.wait() == .success(film.expectedBytes(ByteRange(offset, offset + 1000))))
            }
        }
    }

    /// Another request brings its bytes. The ledger is full with reads of which nothing is heard, so none of them makes
    /// room for it.
    @Test func oneInTheQueueGetsItsBytesWhenTheyHaveComeAlsoIfItIsLate() throws {
        try withFilm(timeout: .seconds(30)) { fixture, film, file, remote in
            film.fault = .silent
            let reads = park(fixture, file, count: ParkedReads.limit + 3)
            for (isLate, (offset, read)) in zip([false, true], reads.suffix(2)) {
                fixture.volume.services.transport.perform {
                    for block in BlockSize.blocks(touching: ByteRange(offset, offset + 1000), length: remote.length) {
                        let range = BlockSize.bytes(of: block, length: remote.length)
                        film.expectedBytes(range).withUnsafeBytes { try? remote.object.write($0, at: range.lower) }
                    }
                    if isLate { remote.moveQueue(now() + .seconds(60)) }
                }
                #expect(
                    read.wait(atMost: .seconds(5)) == .success(film.expectedBytes(ByteRange(offset, offset + 1000))))
            }
            // Nothing brings the bytes of the one before these two.
            #expect(reads[ParkedReads.limit].1.wait(atMost: .seconds(5)) == .failure(.timedOut))
        }
    }

    @Test func oneThatIsAbandonedInTheQueueIsForgotten() throws {
        try withFilm(timeout: .seconds(30)) { fixture, film, file, remote in
            film.fault = .silent
            let reads = park(fixture, file, count: 200)
            for (_, read) in reads { fixture.volume.abandon(read, of: file) }
            #expect(eventually { remote.ask { $0.reads.queuedCount == 0 && $0.reads.heldCount == 0 } })
        }
    }

    @Test func theEndOfTheVolumeFailsAll() throws {
        try withFilm(timeout: .seconds(30)) { fixture, film, file, _ in
            film.fault = .silent
            let reads = park(fixture, file, count: 200)
            fixture.stop()
            for (_, read) in reads { #expect(read.wait(atMost: .seconds(5)) != .failure(.interrupted)) }
        }
    }
}
