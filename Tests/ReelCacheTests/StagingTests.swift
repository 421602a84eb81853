import Glibc
import ReelCore
import ReelThreads
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

    /// A disk that is known to be fast, whatever this one does meanwhile: blocks wait for neighbours.
    private func withFastDisk(
        _ fixture: Fixture = Fixture(), patience: Duration = .seconds(3600),
        _ body: (Fixture, Store, Staging) throws -> Void
    ) throws {
        let store = try fixture.open(stages: true)
        defer { store.close() }
        store.committer.stop(waiting: true)
        let staging = try #require(store.staging)
        staging.state.withLock { state in
            state.queue = StagingQueue(patience: patience, refusedTime: state.queue.refusedTime)
            state.pace = DiskPace(seek: .seconds(3600), longestWait: .seconds(60))
            for _ in 0..<8 { state.pace.wrote(state.pace.run, in: .zero, now: now()) }
        }
        try body(fixture, store, staging)
    }

    /// What comes next rests in memory, however long the disk takes for it.
    private func keepLanded(_ staging: Staging) {
        staging.state.withLock { $0.lastCame = now() + .seconds(3600) }
    }

    @Test func blocksAreReadFromMemoryUntilTheDiskHasThemAndNoRowTellsBefore() throws {
        let fixture = Fixture()
        try withFastDisk(fixture) { _, store, staging in
            let object = try store.fill(wanted, 0..<3)
            try object.put(5)
            // They wait for neighbours.
            #expect(object.file.staged.holdsAlone(0))
            #expect(object.file.staged.stage(of: 5) == .filling)
            for block in 0..<3 { #expect(object.holds(block)) }
            #expect(object.bytes(of: 5) == content(5, BlockSize.block))
            #expect(object.filledBlocks == [0, 1, 2])
            #expect(store.usage.used == 4 * BlockSize.block)
            staging.flush()
            for block in 0..<3 {
                #expect(!object.file.staged.holdsAlone(block))
                let isThere = try hasData(fixture, block)
                #expect(isThere)
            }
            let isThere = try hasData(fixture, 5)
            #expect(!isThere)
            #expect(staging.bytesAlone == BlockSize.block)
            let path = try #require(fixture.objectFiles.first)
            #expect(residentBytes(path, ByteRange(0, 3 * BlockSize.block)) == 0)
        }
        let again = try fixture.open()
        let reopened = try again.object(for: wanted)
        #expect(reopened.filledBlocks == [0, 1, 2])
        for block in 0..<3 { #expect(reopened.holds(block)) }
        #expect(again.usage.used == 3 * BlockSize.block)
        again.close()
    }

    @Test func whatComesAfterARestGetsToTheDiskAsWell() throws {
        try withFastDisk(patience: .milliseconds(100)) { _, store, staging in
            let object = try store.fill(wanted, 0..<3)
            #expect(eventually { staging.account.bytes == 0 && !staging.account.hasSpares })
            try object.fill(10)
            #expect(eventually { !object.file.staged.holdsAlone(10) })
        }
    }

    @Test func aCommitTakesAllThatIsFilledAlong() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
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

    /// What a killed daemon forgets: what it was about to write, and nothing that it has written.
    @Test func aKilledDaemonForgetsWhatWasInMemoryAlone() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        let object = try store.fill(wanted, 0..<2)
        #expect(eventually { !object.file.staged.holdsAlone(1) })
        // As much as is written at once: at once.
        for block in 10..<26 { try object.fill(block) }
        #expect(eventually { !(10..<26).contains { object.file.staged.holdsAlone($0) } })
        // Its blocks are noted before it counts as done.
        try #require(store.staging).flush()
        try object.fill(40)
        let image = try fixture.crashImage(of: store)
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
            #expect(staging.account.bytes <= Staging.limit)
            if block % 7 == 0 { #expect(object.holds(block / 2)) }
        }
        for block in 0..<400 { #expect(object.holds(block)) }
        // All on the disk, and quiet for a while.
        #expect(eventually { staging.account.bytes == 0 && object.file.staged.isEmpty })
        for block in 0..<400 { #expect(object.holds(block)) }
        store.close()
    }

    @Test func aCompleteFileIsOfferedAsSoonAsTheDiskHasItForSure() throws {
        let fixture = Fixture()
        let store = try fixture.open(stages: true)
        store.committer.stop(waiting: true)
        let object = try store.fill(wanted, 0..<70)
        #expect(object.offer() == nil)
        store.commit()
        #expect(object.offer() != nil)
        object.settle()
        store.close()
    }

    /// A scanner opens a hundred files and reads a little more than whole blocks of each.
    @Test func blocksThatNeverBecomeWholeMakeWay() throws {
        try withFastDisk { _, store, _ in
            let scanned = try (0..<120).map { try store.object(for: version("\($0)", blocks: 3)) }
            for (number, object) in scanned.enumerated() { try object.put(1, salt: number) }
            let film = try store.fill(version("film", blocks: 40), 0..<20)
            #expect(film.file.staged.stage(of: 19) != nil)
            #expect(scanned[0].file.staged.stage(of: 1) == nil)
            for (number, object) in scanned.enumerated() {
                #expect(object.bytes(of: 1) == content(1, BlockSize.block, salt: number))
                #expect(object.markFilled(1))
            }
            for (number, object) in scanned.enumerated() { #expect(object.holds(1, salt: number)) }
            for block in 0..<20 { #expect(film.holds(block)) }
            #expect(store.usage.used == 140 * BlockSize.block)
        }
    }

    /// The floor of the disk is no lower because bytes are still on their way.
    @Test func whatIsNotOnTheDiskYetCountsAsTaken() throws {
        let fixture = Fixture()
        let limits = CacheLimits(cap: 1 << 30, minimumFree: .bytes(8 << 20))
        let store = try Store(
            directory: fixture.source, source: "http://h/films/", limits: limits, owner: "", stages: true
        ) { _ in Room.Disk(free: 12 << 20, total: 1 << 30) }
        let object = try store.object(for: version("long", blocks: 90))
        // Begun and not whole: nothing of them ever reaches this disk.
        for block in 0..<80 { try object.put(block) }
        #expect(try #require(store.staging).bytesAlone <= 8 << 20)
        #expect(store.memory.bytes > 0)
        store.close()
    }

    /// Somebody cuts the file while blocks behind the cut are on their way: the write must not grow it again.
    @Test func aFileThatWasCutIsNotGrownAgainByWhatWasOnItsWay() throws {
        try withFastDisk { fixture, store, _ in
            let object = try store.fill(wanted, 0..<2)
            store.commit()
            store.settle()
            for block in 0..<2 { #expect(object.holds(block)) }
            try object.fill(40)
            let path = try #require(fixture.objectFiles.first)
            try #require(truncate(path, 0) == 0)
            store.settle()
            #expect(status(path)?.st_size == 0)
            // Whatever is read tells what is gone, and what is in memory is there.
            #expect(object.read(40).answer == .damaged([0..<1, 1..<2]))
            object.lose([0..<2])
            try object.fill(1, salt: 3)
            store.settle()
            #expect(status(path).map { Int64($0.st_size) } == wanted.length)
            #expect(object.filledBlocks == [1, 40] && object.holds(1, salt: 3) && object.holds(40))
        }
    }

    @Test func aCutFileIsNoSickDiskWhateverIsInMemory() throws {
        try withFastDisk { fixture, store, staging in
            let object = try store.fill(wanted, 0..<2)
            store.settle()
            try object.fill(3)
            keepLanded(staging)
            staging.flush()
            #expect(object.file.staged.stage(of: 3) == .landed)
            try #require(truncate(try #require(fixture.objectFiles.first), 0) == 0)
            #expect(object.read(0).answer != .bytes(Int(BlockSize.block)))
            #expect(store.failure == nil)
        }
    }

    /// What memory has tells nothing of what the disk has, once that is in doubt.
    @Test func aDoubtIsNotSettledByMemory() throws {
        try withFastDisk { fixture, store, staging in
            let object = try store.fill(wanted, 0..<2)
            keepLanded(staging)
            staging.flush()
            #expect(object.file.staged.stage(of: 0) == .landed)
            let path = try #require(fixture.objectFiles.first)
            // Zeros at the end of a block, and no hole in it.
            try #require(truncate(path, off_t(BlockSize.block - 100)) == 0)
            try #require(truncate(path, off_t(wanted.length)) == 0)
            #expect(object.read(1).answer == .damaged([1..<2]))
            #expect(object.read(0).answer == .damaged([0..<1]))
        }
    }

    /// A block that cannot be spilt now can be later.
    @Test(.enabled(if: geteuid() == 0)) func whatAFullDiskDoesNotTakeMakesWayLater() throws {
        let fixture = Fixture()
        let disk = try fixture.disk(.tmpfs, megabytes: 40)
        defer { disk.end() }
        try withFastDisk(fixture) { _, store, staging in
            let scanned = try (0..<Staging.mostBlocks).map { try store.object(for: version("\($0)", blocks: 3)) }
            for object in scanned { try object.put(1) }
            disk.fill()
            #expect(!staging.spill())
            disk.free()
            #expect(eventually { staging.spill() })
            #expect(scanned[0].file.staged.isEmpty && !scanned[1].file.staged.isEmpty)
            for object in scanned[0..<2] { #expect(object.bytes(of: 1) == content(1, BlockSize.block)) }
        }
    }

    @Test(.enabled(if: geteuid() == 0)) func aDiskThatTakesNoMoreKeepsNobodyFromReadingNorMemoryForEver() throws {
        let fixture = Fixture()
        let disk = try fixture.disk(.tmpfs, megabytes: 16)
        defer { disk.end() }
        try withFastDisk(fixture) { _, store, staging in
            var object: CacheObject? = try store.fill(wanted, 0..<2)
            store.commit()
            try object!.fill(5)
            disk.fill()
            store.settle()
            #expect(staging.refusedBlocks(of: object!.file) == [5])
            #expect(store.bytesInMemory == BlockSize.block && store.failure != nil)
            for block in [0, 1, 5] { #expect(object!.holds(block)) }
            // Tried again once there is room.
            disk.free()
            #expect(eventually { staging.refusedBlocks(of: object!.file).isEmpty })
            #expect(eventually { !object!.file.staged.holdsAlone(5) })
            for block in [0, 1, 5] { #expect(object!.holds(block)) }
            store.commit()

            // Once more, and then nobody is interested any more.
            try object!.fill(6)
            disk.fill()
            store.settle()
            #expect(object!.holds(6))
            object = nil
            store.commit()
            #expect(staging.account.bytes == 0 && store.usage.used == 3 * BlockSize.block)
            disk.free()
        }
        let again = try fixture.open()
        #expect(try again.object(for: wanted).filledBlocks == [0, 1, 5])
        again.close()
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
        StagingQueue(patience: .milliseconds(500), refusedTime: .seconds(5))
    }

    private func blocks(_ run: [StagingQueue<File>.Item]?) -> [Int]? { run?.map(\.block) }

    @Test func neighboursGoTogetherAtOnceWhereThereAreEnoughOfThem() {
        var queue = queue()
        for (file, block) in [(one, 6), (other, 8), (one, 5), (one, 7)] { queue.add(block, of: file, now: .zero) }
        #expect(queue.next(now: .milliseconds(1), longest: 4, isPressed: false) == nil)
        #expect(queue.due == .milliseconds(500))
        queue.add(4, of: one, now: .milliseconds(2))
        queue.add(9, of: one, now: .milliseconds(2))
        #expect(blocks(queue.next(now: .milliseconds(3), longest: 4, isPressed: false)) == [4, 5, 6, 7])
        #expect(
            queue.isWriting(7..<8, of: one) && !queue.isWriting(8..<9, of: one) && !queue.isWriting(0..<9, of: other))
        queue.ended(refused: [], now: .milliseconds(4))
        #expect(queue.next(now: .milliseconds(5), longest: 4, isPressed: false) == nil)
        // Half a second after it came the other's goes alone, then the one's.
        #expect(blocks(queue.next(now: .milliseconds(500), longest: 4, isPressed: false)) == [8])
        queue.ended(refused: [], now: .milliseconds(501))
        #expect(blocks(queue.next(now: .milliseconds(502), longest: 4, isPressed: false)) == [9])
    }

    @Test func whoIsPressedOrInAHurryTakesTheOldestFirst() {
        var queue = queue()
        for block in [3, 9, 10] { queue.add(block, of: one, now: .zero) }
        let run1 = blocks(queue.next(now: .zero, longest: 4, isPressed: true))
        #expect(run1 == [3])
        queue.ended(refused: [], now: .zero)
        let end = queue.hurry()
        queue.add(20, of: one, now: .zero)
        #expect(!queue.isOut(end))
        let run2 = blocks(queue.next(now: .zero, longest: 4, isPressed: false))
        #expect(run2 == [9, 10])
        #expect(!queue.isOut(end))
        queue.ended(refused: [], now: .zero)
        #expect(queue.isOut(end))
        let run3 = queue.next(now: .zero, longest: 4, isPressed: false)
        #expect(run3 == nil)
        queue.remove(20..<21, of: one)
        #expect(!queue.isMoving && queue.refused.isEmpty && queue.due == nil)
    }

    @Test func whatTheDiskRefusedIsTriedAgainAWhileLaterAndHoldsNobodyUp() {
        var queue = queue()
        queue.add(1, of: one, now: .zero)
        let end = queue.hurry()
        let run = queue.next(now: .zero, longest: 4, isPressed: false)
        queue.ended(refused: run ?? [], now: .seconds(1))
        #expect(queue.isOut(end))
        #expect(queue.next(now: .seconds(5), longest: 4, isPressed: true) == nil)
        #expect(queue.due == .seconds(6))
        let again = queue.next(now: .seconds(6), longest: 4, isPressed: false)
        #expect(blocks(again) == [1] && run?[0].wasRefused == false && again?[0].wasRefused == true)
    }
}

struct DiskPaceTests {
    @Test func runsGrowWhileTheDiskIsFastAndShrinkWhereItIsNot() {
        var pace = DiskPace()
        #expect(pace.run == 1)
        for expected in [2, 4, 8, 16, 16] {
            pace.wrote(pace.run, in: .milliseconds(20), now: .zero)
            #expect(pace.run == expected)
        }
        // What waited for no neighbours tells nothing of longer runs.
        pace.wrote(1, in: .milliseconds(1), now: .zero)
        #expect(pace.run == 16)
        pace.wrote(16, in: .milliseconds(60), now: .zero)
        var isSlow = pace.isSlow(.zero)
        #expect(pace.run == 8 && !isSlow)
        // More than 102 ms for 2 MiB, or 44 for one block.
        pace.wrote(1, in: .milliseconds(45), now: .zero)
        isSlow = pace.isSlow(.milliseconds(999))
        #expect(pace.run == 1 && isSlow)
        isSlow = pace.isSlow(.seconds(1))
        #expect(!isSlow)
    }

    @Test func aSlowDiskIsLeftAloneForLongerEachTimeUntilItIsFastAgain() {
        var pace = DiskPace()
        var moment = Duration.zero
        for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
            pace.isTooSlow(moment)
            // Whoever else says so meanwhile.
            pace.isTooSlow(moment)
            moment += .seconds(pause)
            let (before, after) = (pace.isSlow(moment - .milliseconds(1)), pace.isSlow(moment))
            #expect(before && !after)
        }
        while pace.run < DiskPace.longestRun { pace.wrote(pace.run, in: .milliseconds(1), now: moment) }
        pace.isTooSlow(moment)
        let isSlow = pace.isSlow(moment + .seconds(1))
        #expect(!isSlow)
    }

    /// Behind what is in the page cache a direct write would wait.
    @Test func aSlowDiskIsLeftAloneUntilASyncWasFastOrNothingIsLeft() {
        var pace = DiskPace()
        func isSlow(_ seconds: Double) -> Bool { pace.isSlow(.seconds(seconds)) }
        pace.isTooSlow(.zero)
        pace.wroteToPageCache(32 << 20)
        #expect(isSlow(2))
        pace.syncBegins(.seconds(2))
        #expect(isSlow(3))
        pace.wroteToPageCache(16 << 20)
        pace.syncEnds(.seconds(3))
        #expect(isSlow(4))
        // 16 MiB in 0.27 s are fast.
        pace.syncBegins(.seconds(4))
        pace.wroteToPageCache(1)
        pace.syncEnds(.seconds(4.26))
        #expect(!isSlow(4.26))
        // Nothing is left.
        pace.isTooSlow(.seconds(5))
        pace.syncBegins(.seconds(8))
        pace.syncEnds(.seconds(20))
        #expect(!isSlow(20))
    }

    @Test func aThreadWaitsForAHiccupAndInTheLongRunATenthOfItsTime() {
        var pace = DiskPace()
        func left(_ now: Duration) -> Duration { pace.waitingTime(now) }
        #expect(left(.seconds(10)) == .milliseconds(200))
        pace.hasWaited(.milliseconds(300))
        #expect(left(.seconds(10)) == .zero)
        #expect(left(.seconds(11)) == .milliseconds(100))
        #expect(left(.seconds(60)) == .milliseconds(200))
    }
}
