import ReelCore
import Synchronization
import Testing

@testable import ReelCache

/// Gives up filled blocks from the first on, and remembers how often it was asked.
private final class Giver: ObjectHolder {
    let object: CacheObject
    let left: Mutex<[Int]>

    init(_ object: CacheObject, _ blocks: [Int]) {
        self.object = object
        left = Mutex(blocks)
        object.holder = self
    }

    func relinquish(_ wanted: Int64) -> Int64 {
        var freed: Int64 = 0
        while freed < wanted, let block = left.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
            guard (try? object.discard(block..<block + 1)) != nil else { break }
            freed += BlockSize.block
        }
        return freed
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

struct RoomTests {
    @Test func theLongestUnusedFileGoesFirstAndOpenOnesStay() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 8 * BlockSize.block)
        let open = try store.fill(version("open", blocks: 2), 0..<2)
        for key in ["a", "b", "c"] { try store.fill(version(key, blocks: 2), 0..<2) }
        try store.object(for: version("a", blocks: 2)).touch()
        #expect(store.usage.used == 8 * BlockSize.block)

        #expect(store.makeRoom(for: BlockSize.block))
        #expect(Set(store.objects().map(\.key)) == ["open", "a", "c"])
        #expect(store.makeRoom(for: 2 * BlockSize.block))
        #expect(Set(store.objects().map(\.key)) == ["open", "a"])
        #expect(store.usage.used == 7 * BlockSize.block)
        #expect(store.makeRoom(for: 3 * BlockSize.block))
        #expect(store.objects().map(\.key) == ["open"])
        // What is reserved and what is open cannot make way.
        #expect(!store.makeRoom(for: BlockSize.block))
        #expect(!store.makeRoom(for: 9 * BlockSize.block))
        #expect(open.holds(1))
        store.close()
    }

    @Test func theOrderOfUseSurvivesReopening() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        for key in ["a", "b", "c"] { try store.fill(version(key, blocks: 2), 0..<2) }
        try store.object(for: version("a", blocks: 2)).touch()
        store.close()
        // A smaller cap than last time.
        store = try fixture.open(cap: 5 * BlockSize.block)
        #expect(store.objects().map(\.key) == ["a", "c"])
        #expect(store.usage == (4 * BlockSize.block, 5 * BlockSize.block))
        #expect(fixture.objectFiles.count == 2)
        store.close()
    }

    @Test func holdersOfOpenFilesAreAskedTheLongestUnusedFirst() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 64 * BlockSize.block)
        let old = Giver(try store.fill(version("old", blocks: 40), 0..<40), Array(0..<40))
        let new = Giver(try store.fill(version("new", blocks: 24), 0..<24), Array(0..<24))
        for _ in 0..<36 { #expect(store.makeRoom(for: BlockSize.block)) }
        #expect(old.left.withLock { $0.count } == 0 || new.left.withLock { $0.count } == 24)
        #expect(store.usage.used <= 64 * BlockSize.block)
        for block in old.left.withLock({ $0 }) { #expect(old.object.holds(block)) }
        store.close()
    }

    @Test func fivePercentOfTheDiskStayFree() throws {
        let fixture = Fixture()
        // What is free for the cache and for others together.
        let free = Counter(100 * BlockSize.block)
        let store = try Store(directory: fixture.source, source: "s", cap: 1 << 40, owner: "/m") { _ in
            Room.Disk(free: free.value - fixture.diskBytes, total: 1000 * BlockSize.block)
        }
        #expect(store.usage == (0, 50 * BlockSize.block))
        try store.fill(version(blocks: 4), 0..<4)
        #expect(store.usage == (4 * BlockSize.block, 50 * BlockSize.block))
        // Somebody else fills the disk: the cache makes way.
        free.value = 53 * BlockSize.block
        #expect(store.usage == (4 * BlockSize.block, 3 * BlockSize.block))
        #expect(store.makeRoom(for: BlockSize.block))
        #expect(store.usage.used == BlockSize.block)
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
        let image = try fixture.crashImage()
        let after = try image.open()
        #expect(after.usage.used == 0)
        #expect(image.objectFiles.isEmpty)
        after.close()
        store.close()
    }

    /// What an answer tells, in order, and whether it is the version of the one before.
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
        #expect(try store.object(for: two).filled.filledBlocks == (isSame ? 1 : 0))
        // Once the tag is known, another one is another version.
        let three = Validator(entityTag: EntityTag("\"c\""), lastModified: nil)
        let other = Version(key: "k", validator: three, length: one.length)
        #expect(try store.object(for: other).filled.filledBlocks == 0)
        store.close()
    }
}
