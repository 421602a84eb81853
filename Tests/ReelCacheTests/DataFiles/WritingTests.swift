import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// What becomes of bytes between the origin and the disk.
@Suite(.plainAndEncrypted) struct WritingTests {
    private let wanted = version(blocks: 70, less: 99)

    @Test func aCommitTakesAllThatIsFilledAlong() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(wanted, [0, 1, 7, 69])
        store.commit()
        let image = try fixture.crashImage(of: store)
        let after = try image.open()
        let again = try after.object(for: wanted)
        #expect(again.filledBlocks == [0, 1, 7, 69])
        for block in again.filledBlocks { #expect(again.holds(block)) }
        after.close()
        withExtendedLifetime(object) { store.close() }
    }

    @Test func discardedOrLostBlocksStayAwayAndCountAgainOnceRewritten() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(wanted, 0..<8)
        try object.put(9)
        try object.discard(0..<2)
        object.lose([2..<4])
        try object.abandonFragments()
        #expect(object.filledBlocks == [4, 5, 6, 7])
        #expect(store.usage.used == 4 * BlockSize.block)
        #expect(object.bytes(of: 0).isEmpty)
        for block in [0, 2, 9] { try object.fill(block, salt: 5) }
        for block in [0, 2, 9] { #expect(object.holds(block, salt: 5)) }
        store.commit()
        for block in [0, 2, 9] { #expect(object.holds(block, salt: 5)) }
        store.close()
        let again = try fixture.open()
        let reopened = try again.object(for: wanted)
        #expect(reopened.filledBlocks == [0, 2, 4, 5, 6, 7, 9])
        for block in [0, 2, 9] { #expect(reopened.holds(block, salt: 5)) }
        for block in 4..<8 { #expect(reopened.holds(block)) }
        again.close()
    }

    @Test(.tags(.plainOnly)) func aCompleteFileIsOfferedAsSoonAsTheDiskHasItForSure() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        store.committer.stop()
        let object = try store.fill(wanted, 0..<70)
        #expect(object.offer() == nil)
        store.commit()
        #expect(object.offer() != nil)
        object.settle()
        store.close()
    }

    /// A scanner opens a hundred files and reads a little more than whole blocks of each.
    @Test func blocksThatAreWrittenInPartAreReadAndCanBecomeWhole() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let scanned = try (0..<120).map { try store.object(for: version("\($0)", blocks: 3)) }
        for (number, object) in scanned.enumerated() { try object.put(1, salt: number) }
        let film = try store.fill(version("film", blocks: 40), 0..<20)
        for (number, object) in scanned.enumerated() {
            #expect(object.holds(1, salt: number))
            let last = content(1, BlockSize.block, salt: number).suffix(1)
            try last.withUnsafeBytes { try object.write($0, at: 2 * BlockSize.block - 1) }
            #expect(object.filledBlocks == [1])
        }
        for (number, object) in scanned.enumerated() { #expect(object.holds(1, salt: number)) }
        for block in 0..<20 { #expect(film.holds(block)) }
        #expect(store.usage.used == 140 * BlockSize.block)
        store.close()
    }

    /// Somebody cuts the file while more of it comes: what is gone is lost, what comes counts.
    @Test func aFileThatWasCutIsMadeLongAgainAndNothingOfItIsZeros() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(wanted, 0..<2)
        store.commit()
        for block in 0..<2 { #expect(object.holds(block)) }
        let path = try #require(fixture.objectFiles.first)
        try #require(truncate(path, 0) == 0)
        #expect(object.read(0).answer != .bytes(Int(BlockSize.block)))
        #expect(store.failure == nil, "a cut file is no sick disk")
        try object.fill(1, salt: 3)
        try object.fill(40)
        #expect(status(path).map { Int64($0.st_size) } == wanted.length)
        #expect(object.filledBlocks == [1, 40] && object.holds(1, salt: 3) && object.holds(40))
        store.close()
    }

    @Test func zerosAtTheEndOfABlockAreNoticedWhereThereIsNoHole() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        store.committer.stop()
        let object = try store.fill(wanted, 0..<2)
        let path = try #require(fixture.objectFiles.first)
        try #require(truncate(path, off_t(BlockSize.block - 100)) == 0)
        try #require(truncate(path, off_t(wanted.length)) == 0)
        #expect(object.read(1).answer == .damaged([1..<2]))
        #expect(object.read(0).answer == .damaged([0..<1]))
        store.close()
    }

    @Test(.enabled(if: geteuid() == 0)) func aDiskThatTakesNoMoreKeepsNobodyFromReadingNorMemoryForEver() throws {
        let fixture = Fixture()
        let disk = try fixture.disk(.tmpfs, megabytes: 16)
        defer { disk.end() }
        let store = try fixture.open()
        store.committer.stop()
        var object: CacheObject? = try store.fill(wanted, 0..<2)
        store.commit()
        disk.fill()
        try object!.fill(5)
        #expect(store.bytesInMemory == BlockSize.block && store.failure != nil)
        for block in [0, 1, 5] { #expect(object!.holds(block)) }
        // What comes once there is room goes to the disk, also the same block.
        disk.free()
        try object!.discard(5..<6)
        #expect(
            eventually {
                guard (try? object!.fill(5)) != nil, store.bytesInMemory > 0 else { return true }
                try? object!.discard(5..<6)
                return false
            })
        #expect(store.bytesInMemory == 0)
        for block in [0, 1, 5] { #expect(object!.holds(block)) }
        store.commit()

        // Once more, and then nobody is interested any more.
        disk.fill()
        try object!.fill(6)
        #expect(object!.holds(6) && store.bytesInMemory == BlockSize.block)
        object = nil
        store.commit()
        #expect(store.bytesInMemory == 0 && store.usage.used == 3 * BlockSize.block)
        disk.free()
        store.close()
        let again = try fixture.open()
        #expect(try again.object(for: wanted).filledBlocks == [0, 1, 5])
        again.close()
    }

    /// It would read what the next one changes.
    @Test(.enabled(if: geteuid() == 0)) func aDaemonThatStartedOnAFullDiskIsTheOnlyOneAllTheSame() throws {
        let fixture = Fixture()
        let disk = try fixture.disk(.tmpfs, megabytes: 16)
        defer { disk.end() }
        disk.fill()
        let store = try fixture.open()
        #expect(store.failure != nil)
        disk.free()
        #expect { try fixture.open() } throws: { if case CacheError.inUse = $0 { true } else { false } }
        store.close()
        let next = try fixture.open()
        #expect(next.failure == nil)
        next.close()
    }

    /// A filesystem without a disk, without room of its own and without holes to speak of.
    @Test(.enabled(if: geteuid() == 0)) func aPlainFilesystemInMemoryTakesTheCache() throws {
        let fixture = Fixture()
        mkdir(fixture.directory + "/cache", 0o700)
        try #require(mount("ramfs", fixture.directory + "/cache", "ramfs", 0, nil) == 0)
        defer { umount2(fixture.directory + "/cache", Int32(MNT_DETACH)) }
        let store = try fixture.open()
        let object = try store.fill(wanted, 0..<20)
        try object.fill(30)
        for block in Array(0..<20) + [30] { #expect(object.holds(block)) }
        store.close()
        let again = try fixture.open()
        #expect(try again.object(for: wanted).filledBlocks == Array(0..<20) + [30])
        again.close()
    }
}
