import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelCache

/// Gives up whatever it is asked for, but those that it needs.
private final class Giver: ObjectHolder {
    let object: CacheObject
    let needed: Range<Int>
    private let asked: @Sendable () -> Void
    private let notices = Mutex(0)
    var noticed: Int { notices.withLock { $0 } }

    /// - Parameter asked: called when it is asked what it can give up.
    init(
        _ object: CacheObject, needing needed: Range<Int> = 0..<0, asked: @escaping @Sendable () -> Void = {}
    ) {
        self.object = object
        self.needed = needed
        self.asked = asked
        object.holder = self
    }

    func expendable(_ blocks: [Range<Int>]) -> [Range<Int>] {
        asked()
        return blocks.joined().filter {
            object.file.blockCount > $0 && object.file.isFilled($0) && !needed.contains($0)
        }
        .map { $0..<$0 + 1 }
    }

    func noticeRemovals() { notices.withLock { $0 += 1 } }

    func relinquish(_ blocks: [Range<Int>], scarce: Int64?, evenPinned: Bool) -> Int64 {
        let before = object.bytesOnDisk
        for block in expendable(blocks) { try? object.discard(block, evenPinned: evenPinned) }
        return before - object.bytesOnDisk
    }
}

private final class Points: Sendable {
    private let all = Mutex<[CrashPoint]>([])
    func reached(_ point: CrashPoint) { all.withLock { $0.append(point) } }
    func take() -> [CrashPoint] {
        all.withLock { all in
            defer { all = [] }
            return all
        }
    }
}

/// Room is made before it is needed, by another thread than the one that writes.
@Suite(.plainAndEncrypted) struct RoomAheadTests {
    private static let film = version("film", blocks: 200)

    /// A film in use, of which all is durable, in a cache that has room for no more.
    private func open(_ fixture: Fixture, _ points: Points = Points(), needing: Range<Int> = 0..<0) throws -> (
        Store, Giver
    ) {
        let store = try fixture.open(cap: 200 * BlockSize.block) { points.reached($0) }
        let giver = Giver(try store.object(for: Self.film), needing: needing)
        for block in 0..<200 { try giver.object.fill(block) }
        store.commit()
        _ = points.take()
        return (store, giver)
    }

    @Test func aWriteChangesNoIndexAndPunchesNoHole() throws {
        let (fixture, points) = (Fixture(), Points())
        let (store, giver) = try open(fixture, points, needing: 70..<80)
        defer { store.close() }
        // The second of four extents was used longest ago, except for the edges.
        #expect(try store.makeRoomAhead(20 * BlockSize.block) == 54 * BlockSize.block)
        #expect(points.take() == [.discardRowsCommitted, .discardPunched])
        #expect((64..<128).allSatisfy { giver.object.file.isFilled($0) == (70..<80).contains($0) })
        #expect(store.usage.used == giver.object.bytesOnDisk && giver.noticed == 1)
        for _ in 0..<54 { #expect(store.reserve(BlockSize.block)) }
        #expect(points.take().isEmpty)
        store.quota.release(54 * BlockSize.block)
        // What is gone is so after a crash, too, and all else is right.
        let image = try fixture.crashImage(of: store)
        let after = try image.open(cap: 200 * BlockSize.block)
        defer { after.close() }
        let object = try after.object(for: Self.film)
        #expect(object.filledBlocks == giver.object.filledBlocks)
        for block in object.filledBlocks { #expect(object.holds(block)) }
        // And it comes again.
        for block in 64..<128 where !object.file.isFilled(block) { try object.fill(block) }
        #expect((64..<128).allSatisfy { object.holds($0) })
    }

    @Test func whereTheIndexTakesNothingAllStays() throws {
        let fixture = Fixture()
        let (store, giver) = try open(fixture)
        defer { store.close() }
        try store.index.write { (index) throws(CacheError) in
            try index.run("CREATE TRIGGER no BEFORE DELETE ON extents BEGIN SELECT RAISE(ABORT, 'no'); END")
        }
        #expect(throws: CacheError.self) { try store.makeRoomAhead(.max) }
        #expect(giver.object.filledBlocks.count == 200 && store.usage.used == 200 * BlockSize.block)
        for block in 0..<200 { #expect(giver.object.holds(block)) }
        try store.index.write { (index) throws(CacheError) in try index.run("DROP TRIGGER no") }
        #expect(try store.makeRoomAhead(.max) == 200 * BlockSize.block)
    }

    @Test func whatIsPinnedOrReadDirectlyOrWasLentStays() throws {
        let fixture = Fixture()
        let (store, giver) = try open(fixture)
        defer { store.close() }
        try store.pin(["film"])
        #expect(try store.makeRoomAhead(.max) == 0)
        try store.pin(["film"], false)
        if !CacheKind.isEncrypted {
            #expect(giver.object.offer() != nil)
            #expect(try store.makeRoomAhead(.max) == 0)
            giver.object.settle()
            #expect(giver.object.holds(3))
            _ = try #require(giver.object.lend(ByteRange(3 * BlockSize.block, 4 * BlockSize.block)))
            #expect(try store.makeRoomAhead(.max) == 0)
        }
        #expect(giver.object.filledBlocks.count == 200)
    }

    /// What is pinned when `pin` returns stays, whatever was found before.
    @Test(arguments: ["open", "closed"]) func aPinHoldsThatComesWhileRoomIsMade(_ key: String) throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        let giver = Giver(try store.fill(version("open", blocks: 200), 0..<6)) {
            #expect(throws: Never.self) { try store.pin([key]) }
        }
        try store.fill(version("closed", blocks: 200), 0..<6)
        store.commit()
        try withExtendedLifetime(giver) {
            let freed = try store.makeRoomAhead(.max)
            #expect(freed == 6 * BlockSize.block)
            #expect(store.objects().filter { $0.cachedBytes > 0 }.map(\.key) == [key])
        }
    }

    /// Its bytes would be lost in the hole.
    @Test func whatComesForABlockThatDepartsDoesNotCount() throws {
        let fixture = Fixture()
        let (store, giver) = try open(fixture)
        defer { store.close() }
        let departing = giver.object.file.depart([0..<2])
        try content(0, BlockSize.block).withUnsafeBytes { try giver.object.write($0, at: 0) }
        try giver.object.put(1)
        #expect(!giver.object.file.isFilled(0) && giver.object.file.withBlocks { $0[1] } == .departing)
        giver.object.file.withBlocks { $0.gone(departing) }
        store.quota.release(departing.bytes)
        try giver.object.fill(0)
        #expect(giver.object.holds(0))
        #expect(store.usage.used == giver.object.bytesOnDisk)
    }

    @Test func itIsMadeByItselfWhileAFullCacheIsWrittenTo() throws {
        let (fixture, points) = (Fixture(), Points())
        let store = try fixture.open(cap: 200 * BlockSize.block, roomAhead: 64 * BlockSize.block) { points.reached($0) }
        defer { store.close() }
        let giver = Giver(try store.object(for: version("long", blocks: 1000)), needing: 990..<1000)
        for block in 0..<170 { try giver.object.fill(block) }
        store.commit()
        #expect(store.reserve(BlockSize.block))
        store.quota.release(BlockSize.block)
        #expect(eventually { store.quota.room >= 32 * BlockSize.block })
        for block in 170..<1000 { try giver.object.fill(block) }
        #expect(eventually { store.usage.used == giver.object.bytesOnDisk })
        #expect(store.usage.used <= 200 * BlockSize.block)
        for block in 990..<1000 { #expect(giver.object.holds(block)) }
    }

    /// A transaction for each would be a sync for each, while writers use the room up.
    @Test func allOpenFilesLoseTheirsInOneTransaction() throws {
        let (fixture, points) = (Fixture(), Points())
        let store = try fixture.open { points.reached($0) }
        defer { store.close() }
        let givers = try ["one", "two", "three"].map { Giver(try store.fill(version($0, blocks: 200), 0..<6)) }
        store.commit()
        _ = points.take()
        let freed = try store.makeRoomAhead(.max)
        withExtendedLifetime(givers) {
            #expect(freed == 3 * 6 * BlockSize.block)
            #expect(points.take() == [.discardRowsCommitted] + [CrashPoint](repeating: .discardPunched, count: 3))
            #expect(store.usage.used == 0 && givers.allSatisfy { $0.noticed == 1 })
        }
    }

    /// Two that look for room at once find the same bytes, and each waits for the sync of the other.
    @Test func whoFindsNoRoomWaitsForWhoMakesIt() throws {
        let (fixture, points, isAsked, isFull) = (Fixture(), Points(), Gate(), Gate())
        let writer = pthread_self()
        let store = try fixture.open(cap: 200 * BlockSize.block, roomAhead: 64 * BlockSize.block) {
            if pthread_self() == writer { points.reached($0) }
        }
        defer { store.close() }
        let giver = Giver(try store.object(for: version("long", blocks: 1000))) {
            isAsked.open()
            isFull.wait()
        }
        for block in 0..<140 { try giver.object.fill(block) }
        store.commit()
        for block in 140..<200 { try giver.object.fill(block) }
        #expect(store.quota.room < BlockSize.block)
        _ = points.take()
        #expect(isAsked.wait())
        isFull.open()
        try giver.object.fill(200)
        #expect(points.take().isEmpty && giver.object.holds(200))
    }

    @Test func ofClosedFilesItIsFree() throws {
        let (fixture, points) = (Fixture(), Points())
        let store = try fixture.open(cap: 200 * BlockSize.block) { points.reached($0) }
        defer { store.close() }
        try store.fill(Self.film, 0..<200)
        store.commit()
        #expect(eventually { store.files.all.isEmpty })
        _ = points.take()
        #expect(try store.makeRoomAhead(20 * BlockSize.block) >= 20 * BlockSize.block)
        #expect(points.take() == [.evictionRowsCommitted, .evictionPunched])
        #expect(store.quota.room == 64 * BlockSize.block)
        #expect(store.reserve(64 * BlockSize.block))
        #expect(points.take().isEmpty)
    }

    /// A small cache holds what fits.
    @Test func aSmallCacheMakesNone() {
        for (cap, ahead) in [(64, 0), (127, 0), (128, 16), (512, 64), (2048, 256), (100 << 10, 256)] as [(Int64, Int64)]
        {
            #expect(CacheQuota(CacheLimits(cap: cap << 20), used: 0) { nil }.ahead == ahead << 20)
        }
    }
}
