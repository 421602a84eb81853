import Glibc
import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelCache

/// One open file that fills blocks and gives them up, as the reading side of the program does.
private final class Reader: ObjectHolder {
    let object: CacheObject
    private let filled: Mutex<Set<Int>>

    init(_ object: CacheObject) {
        self.object = object
        filled = Mutex(Set(object.filledBlocks))
        object.holder = self
    }

    func relinquish(_ blocks: [Range<Int>], scarce: Int64?, evenPinned: Bool) -> Int64 {
        var freed: Int64 = 0
        for block in blocks.joined() where filled.withLock({ $0.remove(block) }) != nil {
            guard (try? object.discard(block..<block + 1, evenPinned: evenPinned)) != nil else { break }
            freed += object.file.bytes(of: block).count
        }
        return freed
    }

    func fill(_ block: Int) throws {
        try object.fill(block)
        filled.withLock { _ = $0.insert(block) }
    }
}

private final class Writing: Sendable { let turn = Mutex(()) }

private final class Tally: Sendable {
    let isOver = Atomic(false)
    let right = Atomic(0)
    let missing = Atomic(0)
    let wrong = Atomic(0)
}

private func look(_ object: CacheObject, _ tally: Tally, seed: UInt64, loses: Bool) {
    var random = SeededGenerator(seed: seed)
    // Long reads, in the middle of which a hole can be punched.
    let wanted = (0..<6).map { first in (first..<first + 3).flatMap { content($0, BlockSize.block) } }
    var buffer = [UInt8](repeating: 0, count: Int(3 * BlockSize.block))
    while !tally.isOver.load(ordering: .relaxed) {
        let block = Int.random(in: 0..<6, using: &random)
        switch buffer.withUnsafeMutableBytes({ object.read(into: $0, at: Int64(block) * BlockSize.block) }) {
        case .bytes where buffer == wanted[block]: tally.right.add(1, ordering: .relaxed)
        case .missing: tally.missing.add(1, ordering: .relaxed)
        // Nobody has damaged anything.
        case .bytes, .damaged: tally.wrong.add(1, ordering: .relaxed)
        }
        if loses, block == 5, Int.random(in: 0..<50, using: &random) == 0 { object.lose([3..<4]) }
    }
}

@Suite(.plainAndEncrypted) struct ThreadTests {
    @Test func manyThreadsStayUnderTheCapAndAgreeInTheEnd() async throws {
        let fixture = Fixture()
        let cap = 40 * BlockSize.block
        let store = try fixture.open(cap: cap)
        let writing = Writing()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    for round in 0..<12 {
                        let reader = Reader(try store.object(for: version("\(thread)-\(round % 3)", blocks: 16)))
                        for block in 0..<16 where !reader.object.file.isFilled(block) {
                            // One thread at a time writes and makes room, as the origin's does.
                            try writing.turn.withLock { _ in
                                try reader.fill(block)
                            }
                            #expect(store.usage.used <= cap)
                            #expect(reader.object.holds(block) || !reader.object.file.isFilled(block))
                        }
                        if round % 4 == 0 { store.commit() }
                        store.remember(
                            ContentInformation(length: 1, validator: reader.object.version.validator), for: "k",
                            checkedAt: 1)
                    }
                }
            }
            try await group.waitForAll()
        }
        store.commit()
        #expect(store.usage.used == store.objects().reduce(0) { $0 + $1.cachedBytes })
        #expect(store.bytesInMemory == 0)
        #expect(fixture.diskBytes <= cap + Int64(fixture.objectFiles.count) * 8192)
        let used = store.usage.used
        store.close()

        let again = try fixture.open(cap: cap)
        #expect(again.usage.used == used)
        for summary in again.objects() {
            let object = try again.object(for: version(summary.key, blocks: 16))
            for block in object.filledBlocks { #expect(object.holds(block)) }
        }
        again.close()
    }

    /// Blocks come, leave and turn out to be damaged under their readers, who see their bytes or nothing.
    @Test func readersSeeRightBytesOrNoneWhileBlocksComeAndLeave() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.object(for: version(blocks: 8))
        let tally = Tally()
        var random = SeededGenerator(seed: 9)
        let readers = (0..<2).compactMap { reader in
            Thread("reader-\(reader)") { look(object, tally, seed: UInt64(reader), loses: reader == 0) }
        }
        for round in 0..<1500 {
            let block = Int.random(in: 0..<8, using: &random)
            if round % 5 == 0 { try object.put(block) }
            let bytes = content(block, BlockSize.block)
            try bytes.withUnsafeBytes { try object.write($0, at: Int64(block) * BlockSize.block) }
            if round % 2 == 0 { try object.discard(block..<block + 1) }
            if round % 100 == 0 { store.commit() }
        }
        tally.isOver.store(true, ordering: .relaxed)
        for reader in readers { reader.join() }
        #expect(tally.wrong.load(ordering: .relaxed) == 0)
        #expect(tally.right.load(ordering: .relaxed) > 0 && tally.missing.load(ordering: .relaxed) > 0)
        try object.abandonFragments()
        #expect(store.usage.used == object.bytesOnDisk && store.bytesInMemory == 0 && store.damagedBlocks == 0)
        store.close()
    }

    @Test func aStoreThatIsDroppedEndsItsThreadAndUnlocks() throws {
        let fixture = Fixture()
        do {
            let store = try fixture.open()
            try store.fill(version(blocks: 2), 0..<1)
        }
        // The committer may hold it for the length of one commit.
        var store: Store?
        #expect(
            eventually {
                store = try? fixture.open()
                return store != nil
            })
        store?.close()
    }
}
