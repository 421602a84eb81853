import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

struct StagingTests {
    private let wanted = version(blocks: 70, less: 99)

    private func dataFile(_ fixture: Fixture) throws -> Descriptor {
        try Descriptor(try #require(fixture.objectFiles.first), O_RDWR)
    }

    private func hasData(_ fixture: Fixture, _ block: Int) throws -> Bool {
        try dataFile(fixture).hasData(ByteRange(Int64(block) * BlockSize.block, Int64(block + 1) * BlockSize.block))
    }

    @Test func blocksAreReadFromMemoryUntilTheDiskHasThemAndNoRowTellsBefore() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        let object = try store.fill(wanted, 0..<3)
        try object.put(5)
        // Half a second is theirs to wait for neighbours.
        #expect(object.file.staged.holdsAlone(0))
        #expect(object.file.staged.stage(of: 5) == .filling)
        for block in 0..<3 { #expect(object.holds(block)) }
        #expect(object.bytes(of: 5) == content(5, BlockSize.block))
        #expect(object.filledBlocks == [0, 1, 2])
        #expect(store.usage.used == 4 * BlockSize.block)
        #expect(eventually { !object.file.staged.holdsAlone(2) })
        for block in 0..<3 {
            let isThere = try hasData(fixture, block)
            #expect(isThere)
        }
        let isThere = try hasData(fixture, 5)
        #expect(!isThere)
        let path = try #require(fixture.objectFiles.first)
        #expect(residentBytes(path, ByteRange(0, 3 * BlockSize.block)) == 0)
        store.close()
        let again = try fixture.open()
        let reopened = try again.object(for: wanted)
        #expect(reopened.filledBlocks == [0, 1, 2])
        for block in 0..<3 { #expect(reopened.holds(block)) }
        #expect(again.usage.used == 3 * BlockSize.block)
        again.close()
    }

    @Test func aCommitTakesAllThatIsFilledAlong() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        let object = try store.fill(wanted, [0, 1, 7, 69])
        store.commit()
        let image = try fixture.crashImage()
        let after = try image.open()
        let again = try after.object(for: wanted)
        #expect(again.filledBlocks == [0, 1, 7, 69])
        for block in again.filledBlocks { #expect(again.holds(block)) }
        after.close()
        withExtendedLifetime(object) { store.close() }
    }

    /// What a killed daemon forgets: what it was about to write, and nothing that it has written.
    @Test func aKilledDaemonForgetsWhatWasInMemoryAlone() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        let object = try store.fill(wanted, 0..<2)
        #expect(eventually { !object.file.staged.holdsAlone(1) })
        // As much as is written at once: at once.
        for block in 10..<26 { try object.fill(block) }
        #expect(eventually { !object.file.staged.holdsAlone(25) })
        try object.fill(40)
        let image = try fixture.crashImage()
        let after = try image.open()
        let again = try after.object(for: wanted)
        #expect(Set(again.filledBlocks).isSuperset(of: [0, 1] + Array(10..<26)))
        #expect(Set(again.filledBlocks).isSubset(of: [0, 1, 40] + Array(10..<26)))
        for block in again.filledBlocks { #expect(again.holds(block)) }
        after.close()
        store.close()
    }

    @Test func whatIsDiscardedOrLostOnItsWayNeverArrives() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        let object = try store.fill(wanted, 0..<8)
        try object.put(9)
        try object.discard(0..<2)
        object.lose([2..<4])
        try object.abandonFragments()
        #expect(object.filledBlocks == [4, 5, 6, 7])
        #expect(store.usage.used == 4 * BlockSize.block)
        #expect(object.bytes(of: 0).isEmpty)
        // Anew, with other bytes: those count, whatever is still under way.
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

    /// Twelve MiB are staged, whatever comes; what was read in between is right from wherever it comes.
    @Test func memoryIsLimitedAndReusedAndGivenBack() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        let long = version("long", blocks: 400)
        let object = try store.object(for: long)
        let staging = try #require(store.staging)
        for block in 0..<400 {
            try object.fill(block)
            #expect(staging.bytesInMemory <= Staging.limit)
            if block % 7 == 0 { #expect(object.holds(block / 2)) }
        }
        for block in 0..<400 { #expect(object.holds(block)) }
        // All on the disk, and quiet for a while.
        #expect(eventually { staging.bytesInMemory == 0 })
        #expect(object.file.staged.isEmpty)
        for block in 0..<400 { #expect(object.holds(block)) }
        store.close()
    }

    @Test func aCompleteFileIsOfferedAsSoonAsTheDiskHasIt() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        let object = try store.fill(wanted, 0..<70)
        // Not half a second later: nothing waits for neighbours of what is complete.
        var offered: Int32?
        #expect(
            eventually {
                offered = object.offer(); return offered != nil
            })
        object.settle()
        store.close()
    }

    /// A filesystem that knows no direct writes: ramfs has none.
    @Test(.enabled(if: geteuid() == 0)) func whereTheDiskTakesNoDirectWritesThePageCacheTakesThem() throws {
        let fixture = Fixture()
        mkdir(fixture.directory + "/cache", 0o700)
        try #require(mount("ramfs", fixture.directory + "/cache", "ramfs", 0, nil) == 0)
        defer { umount2(fixture.directory + "/cache", Int32(MNT_DETACH)) }
        let store = try fixture.open(stages: true)
        let object = try store.fill(wanted, 0..<20)
        #expect(eventually { !object.file.staged.holdsAlone(19) })
        #expect(!object.file.direct.isPossible)
        // Not by way of memory any more.
        try object.fill(30)
        #expect(object.file.staged.stage(of: 30) == nil)
        for block in Array(0..<20) + [30] { #expect(object.holds(block)) }
        store.close()
        let again = try fixture.open()
        #expect(try again.object(for: wanted).filledBlocks == Array(0..<20) + [30])
        again.close()
    }
}

struct StagingQueueTests {
    private final class File: Sendable {}
    private let one = File()
    private let other = File()

    private func queue() -> StagingQueue<File> {
        StagingQueue(longestRun: 4, patience: .milliseconds(500), refusedTime: .seconds(5))
    }

    private func blocks(_ run: [StagingQueue<File>.Item]?) -> [Int]? { run?.map(\.block) }

    @Test func neighboursGoTogetherAtOnceWhereThereAreEnoughOfThem() {
        var queue = queue()
        for (file, block) in [(one, 6), (other, 8), (one, 5), (one, 7)] { _ = queue.add(block, of: file, now: .zero) }
        #expect(queue.next(now: .milliseconds(1), isPressed: false) == nil)
        #expect(queue.pause(now: .milliseconds(100)) == .milliseconds(400))
        let isNews = queue.add(4, of: one, now: .milliseconds(2))
        #expect(isNews)
        _ = queue.add(9, of: one, now: .milliseconds(2))
        #expect(blocks(queue.next(now: .milliseconds(3), isPressed: false)) == [4, 5, 6, 7])
        #expect(
            queue.isWriting(7..<8, of: one) && !queue.isWriting(8..<9, of: one) && !queue.isWriting(0..<9, of: other))
        queue.ended(refused: [], now: .milliseconds(4))
        #expect(queue.next(now: .milliseconds(5), isPressed: false) == nil)
        // Half a second after it came the other's goes alone, then the one's.
        #expect(blocks(queue.next(now: .milliseconds(500), isPressed: false)) == [8])
        queue.ended(refused: [], now: .milliseconds(501))
        #expect(blocks(queue.next(now: .milliseconds(502), isPressed: false)) == [9])
    }

    @Test func whoIsPressedOrInAHurryTakesTheOldestFirst() {
        var queue = queue()
        for block in [3, 9, 10] { _ = queue.add(block, of: one, now: .zero) }
        let run1 = blocks(queue.next(now: .zero, isPressed: true))
        #expect(run1 == [3])
        queue.ended(refused: [], now: .zero)
        let end = queue.hurry()
        _ = queue.add(20, of: one, now: .zero)
        #expect(!queue.isOut(end))
        let run2 = blocks(queue.next(now: .zero, isPressed: false))
        #expect(run2 == [9, 10])
        #expect(!queue.isOut(end))
        queue.ended(refused: [], now: .zero)
        #expect(queue.isOut(end))
        let run3 = queue.next(now: .zero, isPressed: false)
        #expect(run3 == nil)
        queue.remove(20..<21, of: one)
        #expect(queue.isEmpty && queue.pause(now: .zero) == nil)
    }

    @Test func whatTheDiskRefusedIsTriedAgainAWhileLaterAndHoldsNobodyUp() {
        var queue = queue()
        _ = queue.add(1, of: one, now: .zero)
        let end = queue.hurry()
        let run = queue.next(now: .zero, isPressed: false)
        queue.ended(refused: run ?? [], now: .seconds(1))
        #expect(queue.isOut(end))
        #expect(queue.next(now: .seconds(5), isPressed: true) == nil)
        #expect(queue.pause(now: .seconds(5)) == .seconds(1))
        #expect(blocks(queue.next(now: .seconds(6), isPressed: false)) == [1])
    }

    @Test func aThreadWaitsForAHiccupAndInTheLongRunATenthOfItsTime() {
        var budget = WaitBudget()
        let left4 = budget.refill(now: .seconds(10))
        #expect(left4 == .milliseconds(200))
        budget.spend(.milliseconds(300))
        let left5 = budget.refill(now: .seconds(10))
        #expect(left5 == .zero)
        let left6 = budget.refill(now: .seconds(11))
        #expect(left6 == .milliseconds(100))
        let left7 = budget.refill(now: .seconds(60))
        #expect(left7 == .milliseconds(200))
    }
}
