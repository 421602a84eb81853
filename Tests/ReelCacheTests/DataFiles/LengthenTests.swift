import Glibc
import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelCache

/// Versions that become longer in place.
@Suite(.plainAndEncrypted) struct LengthenTests {
    private let short = version(blocks: 10, less: 1000)
    private let long = version(tag: "2", blocks: 200, less: 7)

    /// All but a last block that is not whole stays, also over a restart, and the rest can be filled.
    @Test(arguments: [0, 1000] as [Int64])
    func whatIsWholeStays(_ less: Int64) throws {
        let fixture = Fixture()
        var store = try fixture.open()
        let short = version(blocks: 10, less: less)
        let stays = [0, 5] + (less == 0 ? [9] : [])
        do {
            let object = try store.object(for: short)
            for block in [0, 5, 9] { try object.fill(block) }
            store.commit()
            #expect(store.lengthen(object, to: long.length, long.validator) == .done)
            #expect(
                object.version == long && object.filledBlocks == stays
                    && object.outermostBlocks == [0, stays[stays.count - 1]])
            for block in stays { #expect(object.holds(block)) }
            for block in [9, 100, 199] where !stays.contains(block) { try object.fill(block) }
            #expect([9, 100, 199].allSatisfy { object.holds($0) })
            #expect(store.usage.used == object.bytesOnDisk)
            let same = try store.object(for: long)
            #expect(same === object)
        }
        store.close()
        store = try fixture.open()
        let object = try store.object(for: long)
        #expect(object.filledBlocks == [0, 5, 9, 100, 199])
        for block in object.filledBlocks { #expect(object.holds(block)) }
        #expect(try store.object(for: short).filledBlocks.isEmpty)
        store.close()
    }

    @Test func whatIsNotLongerOrIsThereAlreadyStaysAsItIs() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.object(for: short)
        for block in [0, 9] { try object.fill(block) }
        for length in [0, short.length - 1, short.length, BlockSize.longestFile + 1] {
            #expect(store.lengthen(object, to: length, long.validator) == .never)
        }
        #expect(object.filledBlocks == [0, 9])
        do {
            let other = try store.object(for: long)
            try other.fill(3)
            #expect(store.lengthen(object, to: long.length, long.validator) == .never)
            #expect(other.holds(3) && object.version == short && object.holds(0))
        }
        store.close()
    }

    /// The thread that makes room is about to punch the last block out. What then stays as it is does so everywhere.
    @Test func whileTheLastBlockDepartsItStaysAsItIs() throws {
        final class Giver: ObjectHolder {
            func expendable(_ blocks: [Range<Int>]) -> [Range<Int>] { blocks }
            func relinquish(_: [Range<Int>], scarce _: Int64?, evenPinned _: Bool) -> Int64 { 0 }
        }
        let fixture = Fixture()
        let work = Shared<(@Sendable () -> Void)?>(nil)
        let store = try fixture.open { point in
            guard point == .discardPunched, let body = work.value else { return }
            work.set(nil)
            body()
        }
        defer { store.close() }
        let object = try store.object(for: short)
        let giver = Giver()
        object.holder = giver
        for block in [0, 9] { try object.fill(block) }
        store.commit()
        let outcome = Shared<Store.Lengthening?>(nil)
        work.set { outcome.set(store.lengthen(object, to: long.length, long.validator)) }
        try withExtendedLifetime(giver) { _ = try store.evictor.makeRoomAhead(.max) }
        #expect(outcome.value == .later && object.version == short)
        #expect(fixture.objectFiles.compactMap { status($0)?.st_size } == [Int(short.length)])
        #expect(try store.object(for: short) === object && store.object(for: long) !== object)
        // Once it has gone it becomes longer.
        #expect(store.lengthen(object, to: long.length + 1, long.validator) == .done)
        for block in [9, 100] { try object.fill(block) }
        #expect([9, 100].allSatisfy { object.holds($0) })
    }

    /// One that nobody has open makes way, unless it has more bytes.
    @Test func aClosedOneOfThatLengthGoes() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        try store.object(for: long).fill(3)
        store.close()
        store = try fixture.open()
        let object = try store.object(for: short)
        #expect(store.lengthen(object, to: long.length, long.validator) == .never && object.version == short)
        try object.fill(0)
        #expect(store.lengthen(object, to: long.length, long.validator) == .done)
        #expect(object.filledBlocks == [0] && store.usage.used == object.bytesOnDisk)
        #expect(fixture.objectFiles.count == 1)
        store.close()
    }

    /// What a crash leaves at each moment: the short version or the long one, and no wrong byte of either.
    @Test func afterACrashOneOfBothIsThere() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.object(for: short)
        for block in [0, 5, 9] { try object.fill(block) }
        store.commit()
        let before = try fixture.crashImage(of: store)
        #expect(store.lengthen(object, to: long.length, long.validator) == .done)
        try object.fill(9)
        let after = try fixture.crashImage(of: store)
        store.close()
        // Between the file and its row.
        for path in before.objectFiles { #expect(truncate(path, Int(long.length)) == 0) }
        for (image, version, filled) in [(before, short, [0, 5, 9]), (after, long, [0, 5])] {
            let store = try image.open()
            let object = try store.object(for: version)
            #expect(object.filledBlocks == filled)
            for block in filled { #expect(object.holds(block)) }
            store.close()
        }
    }

    /// It was complete, and its file clean.
    @Test func aCrashLeavesNoBytesOfWhatCameBehindTheOldEnd() throws {
        let fixture = Fixture()
        let whole = version(blocks: 2)
        var store = try fixture.open()
        try store.fill(whole, 0..<2)
        store.close()
        store = try fixture.open()
        store.committer.stop()
        let object = try store.object(for: whole)
        #expect(store.lengthen(object, to: long.length, long.validator) == .done)
        try object.fill(100)
        let image = try fixture.crashImage(of: store)
        store.close()
        let after = try image.open()
        #expect(after.usage.used == 2 * BlockSize.block && image.diskBytes == 2 * BlockSize.block)
        after.close()
    }

    /// Readers of the old end meet its bytes, or learn that they have to wait.
    @Test func aReaderMeetsTheBytesOrMissesThem() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.object(for: version(blocks: 1, less: BlockSize.block - 100))
        let isOver = Shared(false)
        let flaw = Shared<String?>(nil)
        let reader = try #require(
            Thread("reader") {
                while !isOver.value {
                    let length = object.length
                    let block = Int((length - 1) / BlockSize.block)
                    let range = ByteRange(Int64(block) * BlockSize.block, length)
                    var bytes = [UInt8](repeating: 0, count: Int(range.count))
                    switch bytes.withUnsafeMutableBytes({ object.read(into: $0, at: range.lower) }) {
                    case .bytes: if bytes != content(block, range.count) { flaw.set("wrong bytes below \(length)") }
                    case .missing: continue
                    case .damaged: flaw.set("damage below \(length)")
                    }
                }
            })
        var length = object.length
        for step in 0..<200 {
            try object.fill(object.file.blockCount - 1)
            length += Int64(step) * 997 % 150_000 + 1
            let validator = Validator(entityTag: EntityTag("\"\(step)\""), lastModified: nil)
            #expect(store.lengthen(object, to: length, validator) == .done)
            for block in 0..<object.file.blockCount - 1 where !object.file.isFilled(block) { try object.fill(block) }
        }
        isOver.set(true)
        reader.join()
        #expect(flaw.value == nil)
        #expect(store.damagedBlocks == 0)
        store.close()
    }
}
