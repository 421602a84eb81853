import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelCache
@testable import ReelVolume

/// Reads through the volume, from a well-behaved origin: right bytes, each fetched once.
@Suite(.plainAndEncrypted) struct ReadingTests {
    private let length: Int64 = 5_000_001

    private func withFilm(
        cap: Int64 = 1 << 30, length: Int64? = nil, timeout: Duration = .seconds(10),
        _ body: (VolumeFixture, FileOrigin, ScriptedServer) throws -> Void
    ) throws {
        let film = FileOrigin(length: length ?? self.length)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"), cap: cap, timeout: timeout)
        defer { fixture.remove() }
        try body(fixture, film, server)
    }

    @Test func wholeFileIsFetchedOnceAndReadAgainFromTheCache() throws {
        try withFilm { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            let before = server.bodyBytesSent
            #expect(fixture.readAll(file).isRight(film, 0, length))
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
            // What the open fetched was counted before; nothing more than the file came.
            #expect(eventually { fixture.volume.status().bytesFromOrigin >= length })
            #expect(server.bodyBytesSent - before <= length)
            #expect(fixture.volume.status().hits > 0)
        }
    }

    @Test func theEndOfTheVolumeOpensNothing() throws {
        try withFilm { fixture, _, _ in
            fixture.volume.close(try fixture.open("film.mkv").get())
            fixture.volume.shutdown()
            let late = fixture.open("film.mkv")
            guard case .failure(.timedOut) = late else { throw VolumeError.failed }
        }
    }

    @Test func remountedAndWithoutTheOriginACompleteFilePlays() throws {
        try withFilm { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            _ = try fixture.readAll(file).get()
            fixture.volume.close(file)
            server.stop()
            try fixture.restart()
            let again = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(again).isRight(film, 0, length))
            fixture.volume.close(again)
        }
    }

    @Test func withoutTheOriginAMissingPartFailsSoonAndACachedOneIsRead() throws {
        // The test gives a read up long before its deadline.
        try withFilm(length: 40 << 20, timeout: .seconds(120)) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 4096).get() == film.expectedBytes(ByteRange(0, 4096)))
            // What a restart finds are whole blocks: the first has to be one, and the end was asked for with it.
            #expect(eventually { fixture.volume.status().files.contains { $0.cachedBytes >= 2 * BlockSize.block } })
            fixture.volume.close(file)
            server.stop()
            try fixture.restart()
            let again = try fixture.open("film.mkv").get()
            #expect(fixture.read(again, 30 << 20, 4096) == .failure(.offline))
            #expect(try fixture.read(again, 0, 4096).get() == film.expectedBytes(ByteRange(0, 4096)))
            fixture.volume.close(again)
        }
    }

    @Test func aFewSmallReadsCostAQuarterOfAMegabyte() throws {
        try withFilm(length: 200 << 20) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            for offset in stride(from: Int64(0), to: 100 << 10, by: 20 << 10) {
                #expect(
                    try fixture.read(file, offset, 4096).get() == film.expectedBytes(ByteRange(offset, offset + 4096)))
            }
            fixture.volume.close(file)
            // And a byte each time somebody asked what the file is.
            #expect(fixture.volume.status().bytesFromOrigin <= 2 * Readahead.first + 2)
        }
    }

    @Test(arguments: 0..<LongTests.many(6, elseOnly: 2)) func randomReadersSeeRightBytesAndShareWhatTheyFetch(
        round: Int
    ) throws {
        let seed = UInt64(round + 1)
        try withFilm(length: 12 << 20) { fixture, film, server in
            let readers = (0..<4).map { index in
                startJoinable {
                    var random = SeededGenerator(seed: seed &* 100 &+ UInt64(index))
                    guard let file = try? fixture.open("film.mkv").get() else { return false }
                    defer { fixture.volume.close(file) }
                    for _ in 0..<60 {
                        let offset = Int64.random(in: 0..<12 << 20, using: &random)
                        let count = Int.random(in: 1...400_000, using: &random)
                        let expected = film.expectedBytes(ByteRange(offset, offset + Int64(count)))
                        guard fixture.read(file, offset, count) == .success(expected) else { return false }
                    }
                    return true
                }
            }
            for reader in readers { #expect(reader.join(), "seed \(seed)") }
            // A stream that another takes over from has bytes in its buffers that come a second time; no more than
            // that.
            let limit = Int64(12 << 20) * 5 / 4
            #expect(fixture.volume.status().bytesFromOrigin <= limit, "seed \(seed): much was fetched twice")
        }
    }

    @Test func aFileLargerThanTheCapIsReadThroughIt() throws {
        let cap: Int64 = 16 << 20
        try withFilm(cap: cap, length: 48 << 20) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            // A commit may have made the index larger since room was last made for a block.
            let most = cap + 65_536
            for offset in stride(from: Int64(0), to: 48 << 20, by: 1 << 20) {
                #expect(fixture.read(file, offset, 1 << 20).isRight(film, offset, 1 << 20))
                #expect(fixture.store.usage.used <= most)
            }
            var random = SeededGenerator(seed: 5)
            for _ in 0..<40 {
                let offset = Int64.random(in: 0..<47 << 20, using: &random)
                #expect(fixture.read(file, offset, 70_000).isRight(film, offset, 70_000))
                #expect(fixture.store.usage.used <= most)
            }
            fixture.volume.close(file)
        }
    }

    @Test func anEmptyFileIsEmpty() throws {
        try withFilm(length: 0) { fixture, _, _ in
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 0, 4096) == .success([]))
            fixture.volume.close(file)
        }
    }

    @Test func anAbandonedReadLeavesTheOthersAlone() throws {
        try withFilm(length: 8 << 20) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            let lost = TestRead()
            var buffer = [UInt8](repeating: 0, count: 4096)
            let answer = buffer.withUnsafeMutableBytes { fixture.volume.read(file, offset: 6 << 20, into: $0) { lost } }
            if case .parked = answer { fixture.volume.abandon(lost, of: file) }
            #expect(
                fixture.read(file, 6 << 20, 4096) == .success(film.expectedBytes(ByteRange(6 << 20, 6 << 20 + 4096))))
            fixture.volume.close(file)
            fixture.stop()
            #expect(lost.answerCount <= 1)
        }
    }

    @Test(.tags(.plainOnly)) func aCacheFileThatIsCutUnderAnOpenHandleIsFetchedAgain() throws {
        try withFilm { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.store.commit()
            for path in files(below: fixture.directory + "/cache/objects") { truncate(path, 0) }
            #expect(fixture.readAll(file).isRight(film, 0, length))
            #expect(fixture.volume.status().damagedBlocks > 0)
            fixture.volume.close(file)
            try fixture.restart()
            let again = try fixture.open("film.mkv").get()
            let before = server.bodyBytesSent
            #expect(fixture.readAll(again).isRight(film, 0, length))
            #expect(server.bodyBytesSent - before < 4096)
            fixture.volume.close(again)
        }
    }

    /// One who still has the old object open goes on, and leaves nothing behind.
    @Test func theStatisticsOfAReplacedFileAreClosedWithItsLastHandle() throws {
        try withFilm { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.read(file, 0, 4096).isRight(film, 0, 4096))
            let old = fixture.volume.files.all[0]
            #expect(eventually { old.ask { $0.ledger.isIdle } })
            let unread = old.unread
            #expect(unread > 0)
            // As where the store comes to have another one for it: the disk takes bytes again, or the file is gone.
            fixture.store.files.drop(old.object.file.row)
            let again = try fixture.open("film.mkv").get()
            #expect(fixture.volume.files.all[0] !== old)
            _ = fixture.volume.files.tick(now() + .seconds(11))
            #expect(old.unread == unread && fixture.volume.status().wasted == 0)
            fixture.volume.close(file)
            #expect(eventually { old.unread == 0 })
            #expect(fixture.volume.status().wasted == unread)
            fixture.volume.close(again)
        }
    }

    @Test func ofAFlippedBitInTheCacheOnlyItsBlockIsFetchedAgain() throws {
        try withFilm { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, length))
            fixture.volume.close(file)
            fixture.stop()
            let path = try #require(files(below: fixture.directory + "/cache/objects").first)
            let descriptor = open(path, O_RDWR)
            var byte: UInt8 = 0
            pread(descriptor, &byte, 1, 1_000_000)
            byte ^= 4
            pwrite(descriptor, &byte, 1, 1_000_000)
            close(descriptor)
            try fixture.start()
            let again = try fixture.open("film.mkv").get()
            let before = server.bodyBytesSent
            #expect(fixture.readAll(again).isRight(film, 0, length))
            // One block, and the byte by which the open is confirmed.
            let sent = server.bodyBytesSent(atLeast: before + BlockSize.block) - before
            #expect((BlockSize.block...BlockSize.block + 4096).contains(sent))
            #expect(fixture.volume.status().damagedBlocks == 1)
            fixture.volume.close(again)
        }
    }

    @Test func aBlockInPartThatNoRequestFillsMakesWay() throws {
        try withFilm(length: 48 << 20) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            guard let remote = (file as? OpenFile)?.remote else { throw VolumeError.failed }
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            #expect(eventually { !remote.ask { $0.hasWork } })
            let piece = ByteRange(200 * BlockSize.block, 200 * BlockSize.block + 1000)
            try film.expectedBytes(piece).withUnsafeBytes { try remote.object.write($0, at: piece.lower) }
            #expect(remote.object.present.covers(piece))
            remote.relinquishPart(200, isScarce: false)
            #expect(!remote.object.present.covers(piece))
            #expect(fixture.read(file, piece.lower, 1000) == .success(film.expectedBytes(piece)))
            fixture.volume.close(file)
        }
    }

    @Test func aDiskThatTakesNothingCostsNoReadAndIsTriedAgain() throws {
        try withFilm(length: 48 << 20) { fixture, film, server in
            let file = try fixture.open("film.mkv").get()
            #expect(try fixture.read(file, 0, 1000).get().count == 1000)
            // What a failed write reports.
            fixture.store.disk.failed(.system("pwrite", ENOSPC))
            var offset: Int64 = 0
            while fixture.volume.status().cacheFailure != nil {
                let range = ByteRange(offset, offset + 100_000)
                #expect(fixture.read(file, offset, 100_000) == .success(film.expectedBytes(range)))
                #expect(fixture.volume.status().bytesInMemory <= (CacheKind.isEncrypted ? 80 : 32) << 20)
                offset = (offset + 5_000_000) % (47 << 20)
            }
            #expect(fixture.readAll(file).isRight(film, 0, film.version.length))
            fixture.volume.close(file)
        }
    }
}
