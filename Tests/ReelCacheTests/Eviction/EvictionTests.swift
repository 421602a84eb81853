import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelCache

/// Gives up filled blocks, but those that it needs itself.
private final class Giver: ObjectHolder {
    let object: CacheObject
    let needed: Set<Int>

    init(_ object: CacheObject, needing needed: Set<Int> = []) {
        self.object = object
        self.needed = needed
        object.holder = self
    }

    func relinquish(_ blocks: [Range<Int>], scarce: Int64?, evenPinned: Bool) -> Int64 {
        var freed: Int64 = 0
        for block in blocks.joined() where object.file.blockCount > block && object.file.isFilled(block) {
            if let scarce, freed >= scarce { break }
            if needed.contains(block) && scarce == nil { continue }
            guard (try? object.discard(block..<block + 1, evenPinned: evenPinned)) != nil else { break }
            freed += object.file.bytes(of: block).count
        }
        return freed
    }
}

/// Needs all that it has.
private final class Keeper: ObjectHolder {
    func relinquish(_: [Range<Int>], scarce _: Int64?, evenPinned _: Bool) -> Int64 { 0 }
}

/// Lets something else happen when it is first asked for room.
private final class Interrupter: ObjectHolder {
    enum Moment { case looking, giving }

    let object: CacheObject
    /// What it gives up.
    private let given: Range<Int>
    private let moment: Moment
    private let work: Mutex<(@Sendable () -> Void)?>

    init(
        _ object: CacheObject, giving given: Range<Int> = 0..<0, at moment: Moment,
        _ work: @escaping @Sendable () -> Void
    ) {
        (self.object, self.given, self.moment) = (object, given, moment)
        self.work = Mutex(work)
        object.holder = self
    }

    private func reach(_ moment: Moment) {
        if moment == self.moment { work.withLock { $0.take() }?() }
    }

    var isInUse: Bool {
        reach(.looking)
        return false
    }

    func relinquish(_ blocks: [Range<Int>], scarce: Int64?, evenPinned: Bool) -> Int64 {
        reach(.giving)
        let before = object.bytesOnDisk
        try? object.discard(given, evenPinned: evenPinned)
        return before - object.bytesOnDisk
    }
}

private final class Counter: Sendable {
    private let number: Mutex<Int64>
    init(_ number: Int64) { self.number = Mutex(number) }
    var value: Int64 {
        get { number.withLock { $0 } }
        set { number.withLock { $0 = newValue } }
    }
}

@Suite(.plainAndEncrypted) struct EvictionTests {
    /// Three extents, a few blocks in each.
    private static let blocks = [0, 1, 64, 65, 128, 129]

    /// Some file systems of a network have no end.
    @Test func aDiskMayTellOfAnySize() {
        #expect(diskBytes(3, of: 4096) == 12_288)
        for count in [UInt.max, UInt.max / 2, 1 << 60] as [UInt] {
            for unit in [UInt.max, 1 << 20, 1] as [UInt] { #expect(diskBytes(count, of: unit) == 1 << 60) }
            let disk = CacheQuota.Disk(free: diskBytes(count, of: 4096), total: diskBytes(count, of: 4096))
            for floor in [CacheLimits.Floor.bytes(.max), .bytes(0), .percent(100), .percent(5)] {
                let room = CacheQuota(CacheLimits(cap: .max, minimumFree: floor), used: 1 << 44) { disk }
                #expect(room.usage.cap >= 0 && room.usage.used == 1 << 44)
            }
        }
    }

    /// Where the cache is full and pinned, each write would look at all extents of the index.
    @Test func aSearchThatFoundNothingIsRepeatedOnlyOnceAFileIsClosedOrUnpinned() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 8 * BlockSize.block)
        defer { store.close() }
        func close() throws {
            store.commit()
            try #require(eventually { store.files.all.isEmpty })
        }
        func canReserve(_ blocks: Int64) -> Bool {
            guard store.reserve(blocks * BlockSize.block) else { return false }
            store.quota.release(blocks * BlockSize.block)
            return true
        }
        func rename(_ sql: String) throws {
            try store.index.write { (index) throws(CacheError) in try index.run("ALTER TABLE \(sql)") }
        }
        try store.pin(["pinned"])
        try store.fill(version("pinned", blocks: 4), 0..<4)
        try close()
        #expect(!canReserve(6))
        // A search would fail now, and count as a failure of the disk.
        try rename("extents RENAME TO elsewhere")
        #expect(!canReserve(6) && store.failure == nil)
        try rename("elsewhere RENAME TO extents")
        try store.fill(version("closed", blocks: 4), 0..<2)
        try close()
        #expect(canReserve(3))
        #expect(!canReserve(6))
        try store.pin(["pinned"], false)
        #expect(canReserve(6))
    }

    @Test func aFileThatLeavesLeavesNoPreparedStatement() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        func evict(_ key: String) throws -> Set<String> {
            try store.fill(version(key, blocks: 1), [0])
            store.commit()
            #expect(store.nextToGo().map(\.key) == [key])
            // A file is not evicted that a child has open, which starts in this moment.
            #expect(eventually { (try? store.prune(freeing: .max / 2)) == BlockSize.block })
            let written = try store.index.write { Set($0.statements.keys) }
            return try store.index.read { written.union($0.statements.keys) }
        }
        #expect(try evict("a") == evict("b"))
    }

    @Test func extentsGoInTheOrderOfTheirUseAndEdgesLast() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 20 * BlockSize.block)
        for key in ["a", "b", "c"] { try store.fill(version(key, blocks: 130), Self.blocks) }
        func held(_ key: String) throws -> [Int] { try store.object(for: version(key, blocks: 130)).filledBlocks }
        let a = try store.object(for: version("a", blocks: 130))
        #expect(a.holds(64))
        withExtendedLifetime(a) {
            #expect(store.usage.used == 18 * BlockSize.block)
            // The slack is a sixteenth of the cap: one block and a quarter, so two extents go.
            #expect(store.reserve(2 * BlockSize.block))
            #expect(store.reserve(BlockSize.block))
        }
        #expect(try held("b") == [0, 1, 128, 129])
        #expect(try held("c") == [0, 1, 128, 129])
        #expect(try held("a") == Self.blocks)
        store.quota.release(3 * BlockSize.block)
        store.close()
    }

    /// An upload that waits has an object, and no open file.
    @Test(arguments: [false, true])
    func whatNoOpenFileHoldsMakesRoom(_ isAhead: Bool) throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 200 * BlockSize.block)
        defer { store.close() }
        let object = try store.fill(version("a", blocks: 130), 0..<130)
        store.commit()
        #expect(object.holder == nil && store.usage.used == 130 * BlockSize.block)
        if isAhead {
            let freed = try store.makeRoomAhead(64 * BlockSize.block)
            #expect(freed >= 64 * BlockSize.block)
        } else {
            #expect(store.reserve(130 * BlockSize.block))
            store.quota.release(130 * BlockSize.block)
        }
        let left = object.filledBlocks.count
        #expect(left > 0 && left < 130 && store.usage.used == Int64(left) * BlockSize.block)
        #expect(store.objects().reduce(0) { $0 + $1.cachedBytes } == store.usage.used)
    }

    /// The committer lets closed files go while the thread that writes looks for room.
    @Test(arguments: [Interrupter.Moment.looking, .giving], [true, false])
    fileprivate func aFileThatLeavesMeanwhileIsFreedOnce(_ moment: Interrupter.Moment, _ isForgotten: Bool) throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        let closed = version("closed", blocks: 130)
        let open = Interrupter(try store.fill(version("open", blocks: 130), [64]), at: moment) {
            store.commit()
            // It is in use again, and idle, with all that it had.
            if !isForgotten { #expect(throws: Never.self) { try store.fill(closed, []) } }
        }
        do {
            let object = try store.fill(closed, [64])
            if isForgotten { store.forget(closed) }
            #expect(object.holds(64))
        }
        try withExtendedLifetime(open) {
            _ = try store.prune(freeing: BlockSize.block)
            let used = store.usage.used
            #expect(used == store.objects().reduce(0) { $0 + $1.cachedBytes })
            store.commit()
            #expect(used == store.usage.used && used == (isForgotten ? 1 : 2) * BlockSize.block)
        }
    }

    /// What is pinned when `pin` returns stays, whatever was found before.
    @Test(arguments: ["open", "closed", "idle"])
    func aPinHoldsThatComesWhileRoomIsMade(_ key: String) throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        let open = Interrupter(try store.fill(version("open", blocks: 130), 64..<67), giving: 64..<65, at: .giving) {
            #expect(throws: Never.self) { try store.pin([key]) }
        }
        try store.fill(version("closed", blocks: 130), [64])
        store.commit()
        try store.fill(version("idle", blocks: 130), [64])
        func cached() -> [Int64] { ["open", "closed", "idle"].map { store.cachedBytes(of: $0) / BlockSize.block } }
        #expect(cached() == [3, 1, 1])
        try withExtendedLifetime(open) {
            let freed = try store.prune(freeing: 3 * BlockSize.block)
            #expect(freed == 2 * BlockSize.block)
            #expect(cached() == (key == "open" ? [3, 0, 0] : key == "closed" ? [2, 1, 0] : [2, 0, 1]))
            // A person may have it gone all the same.
            _ = try store.evict(key: key)
            #expect(cached() == [2, 0, 0])
        }
    }

    /// A mapping outlives its close, as does a reader of a mount that has lazily ended.
    @Test(arguments: [false, true]) func filesThatAreOpenElsewhereKeepNoOtherFromGoing(_ isAhead: Bool) throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 24 * BlockSize.block)
        defer { store.close() }
        for key in ["a", "b", "c"] { try store.fill(version(key, blocks: 130), 64..<70) }
        store.commit()
        try #require(eventually { store.files.all.isEmpty })
        let others = fixture.objectFiles.map { open($0, O_RDONLY | O_CLOEXEC) }
        defer { for other in others { close(other) } }
        // Used last.
        try store.fill(version("d", blocks: 130), 64..<70)
        store.commit()
        try #require(eventually { store.files.all.isEmpty })
        func makeRoom() throws -> Bool {
            if isAhead { return try store.makeRoomAhead(2 * BlockSize.block) > 0 }
            defer { store.quota.release(2 * BlockSize.block) }
            return store.reserve(2 * BlockSize.block)
        }
        #expect(try makeRoom())
        #expect(Set(store.objects().map(\.key)) == ["a", "b", "c"])
    }

    @Test func pinnedFilesStayWhateverIsWanted() throws {
        let fixture = Fixture()
        var store = try fixture.open(cap: 12 * BlockSize.block)
        try store.pin(["a"])
        try store.fill(version("a", blocks: 130), Self.blocks)
        try store.fill(version("b", blocks: 130), Self.blocks)
        store.commit()
        #expect(store.reserve(6 * BlockSize.block))
        store.quota.release(6 * BlockSize.block)
        #expect(store.objects().map(\.key) == ["a"] && store.objects()[0].isPinned)
        #expect(!store.reserve(7 * BlockSize.block))
        // What the disk has no room for is kept in memory.
        do {
            let (other, keeper) = (try store.object(for: version("c", blocks: 130)), Keeper())
            other.holder = keeper
            try store.fill(other.version, Self.blocks + [2, 3])
            #expect(other.isInMemory && other.holds(3))
            withExtendedLifetime(keeper) {}
        }
        store.close()

        store = try fixture.open(cap: 2 * BlockSize.block)
        #expect(store.objects().map(\.key).contains("a"))
        #expect(store.usage.used == 6 * BlockSize.block)
        try store.pin(["a"], false)
        #expect(store.reserve(BlockSize.block))
        #expect(store.usage.used == BlockSize.block)
        store.close()
    }

    @Test func theOrderOfUseSurvivesReopening() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        for key in ["a", "b", "c"] { try store.fill(version(key, blocks: 2), 0..<2) }
        #expect(try store.object(for: version("a", blocks: 2)).holds(0))
        store.close()
        // A smaller cap than last time.
        store = try fixture.open(cap: 5 * BlockSize.block)
        #expect(Set(store.objects().map(\.key)) == ["a", "c"])
        #expect(store.usage == (4 * BlockSize.block, 5 * BlockSize.block))
        #expect(fixture.objectFiles.count == 2)
        store.close()
    }

    @Test func openFilesGiveUpWhatTheyDoNotNeed() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 64 * BlockSize.block)
        let old = Giver(try store.fill(version("old", blocks: 40), 0..<40), needing: [38, 39])
        let new = Giver(try store.fill(version("new", blocks: 24), 0..<24), needing: Set(0..<24))
        for _ in 0..<36 { #expect(store.reserve(BlockSize.block)) }
        #expect(store.usage.used <= 64 * BlockSize.block)
        #expect(old.object.filledBlocks == [38, 39] && new.object.filledBlocks == Array(0..<24))
        // Nothing else is left.
        for _ in 0..<4 { #expect(store.reserve(BlockSize.block)) }
        #expect(old.object.filledBlocks.isEmpty && new.object.filledBlocks == Array(0..<24))
        for block in 0..<24 { #expect(new.object.holds(block)) }
        store.close()
    }

    @Test func whatIsOldGoesAndWhatIsPinnedOrUsedStays() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        for key in ["old", "pinned"] { try store.fill(version(key, blocks: 2), 0..<2) }
        try store.pin(["pinned"])
        store.close()
        let age = Duration.milliseconds(50)
        let start = ContinuousClock.now
        // The age itself is what is waited for.
        #expect(eventually { ContinuousClock.now - start > age * 3 })
        store = try fixture.open(age: age)
        store.commit()
        #expect(store.objects().map(\.key) == ["pinned"])
        store.close()
    }

    /// Opens and transfers wait while the index takes a transaction. What is used between two of them stays.
    @Test func manySmallFilesGoInSeveralTransactions() throws {
        let fixture = Fixture()
        let first = try fixture.open()
        for number in 0..<300 {
            try first.fill(version("\(number)", blocks: 1, less: BlockSize.block - 100), [0])
        }
        first.close()
        try IndexConnection(fixture.index).run("UPDATE extents SET last_use = 1")
        let (transactions, use) = (Shared(0), Shared<(@Sendable () -> Void)?>(nil))
        let store = try fixture.open(age: .seconds(3600)) { point in
            guard point == .evictionPunched else { return }
            transactions.change { $0 += 1 }
            use.value?()
        }
        defer { store.close() }
        store.committer.stop()
        use.set { #expect(throws: Never.self) { try store.order(["299"], goesFirst: false) } }
        withoutStartingChildren { store.commit() }
        use.set(nil)
        #expect(transactions.value == 2 && store.objects().map(\.key) == ["299"])
    }

    @Test func fivePercentOfTheDiskStayFree() throws {
        let fixture = Fixture()
        // What is free for the cache and for others together.
        let free = Counter(100 * BlockSize.block)
        let store = try Store(
            directory: fixture.source, source: "s", limits: CacheLimits(cap: 1 << 40), owner: "/m"
        ) { _ in
            let taken = fixture.diskBytes + sizeOnDisk(ofIndex: fixture.index)
            return CacheQuota.Disk(free: free.value - taken, total: 1000 * BlockSize.block)
        }
        /// In blocks, without the index.
        func usage() -> [Int64] {
            store.commit()
            let (used, cap) = store.usage
            return [(used - sizeOnDisk(ofIndex: fixture.index)) / BlockSize.block, cap / BlockSize.block]
        }
        #expect(usage() == [0, 50])
        try store.fill(version(blocks: 4), 0..<4)
        #expect(usage() == [4, 50])
        // Somebody else fills the disk: the cache makes way.
        free.value = 54 * BlockSize.block
        #expect(usage() == [4, 4])
        #expect(store.reserve(BlockSize.block))
        #expect(usage()[0] == 1)
        #expect(fixture.objectFiles.isEmpty)
        store.close()
    }

    @Test func aForgottenVersionGoesWithItsLastHolder() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let one = version(tag: "1", blocks: 2)
        let two = version(tag: "2", blocks: 2)
        do {
            let old = try store.fill(one, 0..<2)
            store.forget(one)
            #expect(old.holds(1))
            #expect(store.objects().isEmpty)
            try store.fill(two, 0..<1)
            #expect(store.usage.used == 3 * BlockSize.block)
        }
        store.commit()
        #expect(store.usage.used == BlockSize.block)
        #expect(fixture.objectFiles.count == 1)
        store.forget(two)
        #expect(store.usage.used == 0)
        #expect(fixture.objectFiles.isEmpty)
        store.forget(two)
        store.close()
    }

    @Test func aForgottenVersionIsGoneAfterACrash() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(version(blocks: 2), 0..<2)
        store.commit()
        store.forget(object.version)
        let image = try fixture.crashImage(of: store)
        let after = try image.open()
        #expect(after.usage.used == 0)
        #expect(image.objectFiles.isEmpty)
        after.close()
        store.close()
    }

    /// The validator of one answer, the tag of the next, and whether both are of one version.
    @Test(arguments: [
        (Validator(entityTag: EntityTag("W/\"a\""), lastModified: nil), EntityTag("\"a\""), true),
        (Validator(entityTag: EntityTag("\"a\""), lastModified: nil), EntityTag("\"b\""), false),
        (Validator(entityTag: nil, lastModified: nil), EntityTag("\"b\""), true),
    ])
    func aTagMayBecomeStrongOrKnown(_ first: Validator, _ tag: EntityTag?, _ isSame: Bool) throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let one = Version(key: "k", validator: first, length: 2 * BlockSize.block)
        let two = Version(key: "k", validator: Validator(entityTag: tag, lastModified: nil), length: one.length)
        try store.fill(one, 0..<1)
        #expect(try store.object(for: two).filledBlocks.count == (isSame ? 1 : 0))
        // Once the tag is known, another one is another version.
        let three = Validator(entityTag: EntityTag("\"c\""), lastModified: nil)
        let other = Version(key: "k", validator: three, length: one.length)
        #expect(try store.object(for: other).filledBlocks.isEmpty)
        store.close()
    }
}
