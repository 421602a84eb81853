import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// The table of a version whose end nobody knows, while its one body comes from the first byte on.
struct OpenEndTests {
    private struct World {
        var table = BlockTable(length: BlockSize.openEnd)
        /// Every byte that is there.
        var there = ByteRangeSet()
        /// Where the body has come to.
        var end: Int64 = 0
        /// Reserved on the disk.
        var room: Int64 = 0
        let account = MemoryAccount(limit: .max)

        /// More of the body, in the file or in memory.
        mutating func come(_ count: Int64, inMemory: Bool) throws {
            let range = ByteRange(end, end + count)
            let blocks = BlockSize.blocks(touching: range, length: table.length)
            let new = table.untouched(blocks)
            if !inMemory, !blocks.contains(where: { table.inFlight[$0]?.memory != nil }) {
                table.begin(new)
                room += Int64(new.count) * BlockSize.block
            }
            for block in blocks {
                let isOnDisk = !inMemory && table.inFlight[block] != nil && table.inFlight[block]?.memory == nil
                if !isOnDisk, table.inFlight[block]?.memory == nil {
                    room -= table.moveToMemory(block, try #require(MemoryBlock(BlockSize.block, account)))
                }
                let part = range.clamped(to: table.bytes(of: block))
                let bytes = [UInt8](repeating: 7, count: Int(part.count))
                let isWhole = bytes.withUnsafeBytes { table.add($0, at: part, of: block, failures: 0) }
                let sum = table.inFlight[block]?.whole(table.bytes(of: block))
                #expect(isWhole == (sum != nil))
                let isSealed = sum.map { table.seal(block, BlockSum(plain: $0), now: 0) } ?? true
                #expect(isSealed)
                there.insert(part)
            }
            end = range.upper
        }

        mutating func lose(_ block: Int) {
            room -= table.lose(block..<block + 1)
            there.remove(ByteRange(Int64(block) * BlockSize.block, Int64(block + 1) * BlockSize.block))
        }

        func check(_ random: inout SeededGenerator, _ hint: Comment) {
            let limit = min(end + 100_000, table.length)
            for _ in 0..<8 {
                let offset = Int64.random(in: 0...end, using: &random)
                let missing = min(there.range(at: offset)?.upper ?? offset, limit)
                #expect(table.firstMissing(from: offset, limit: limit) == missing, hint)
                let covered = there.firstRange(endingBehind: offset).map { min(limit, max(offset, $0.lower)) } ?? limit
                #expect(table.firstCovered(from: offset, limit: limit) == covered, hint)
                let range = ByteRange(offset, min(offset + 70_000, table.length))
                #expect(table.covers(range) == there.contains(range), hint)
            }
            #expect(!table.isPending && table.states.filledBytes <= there.count, hint)
            #expect(table.states.bytesOnDisk <= room, hint)
        }
    }

    @Test(arguments: 0..<24) func anyOrderOfEventsAgreesWithAModelThatKnowsEveryByte(round: Int) throws {
        let seed = UInt64(round) &* 0x9E37_79B9 &+ 5
        let hint: Comment = "seed \(seed)"
        var random = SeededGenerator(seed: seed)
        var world = World()
        for _ in 0..<200 {
            switch Int.random(in: 0..<40, using: &random) {
            case 0 where round % 4 > 1: world.lose(Int.random(in: 0...Int(world.end / BlockSize.block), using: &random))
            case 1 where round % 4 == 3: try world.come(Int64.random(in: 1...99_999, using: &random), inMemory: true)
            case 2:
                let isBegun = world.table.beginSync()
                #expect(!isBegun, "\(hint): a row would tell of a version without a length")
            default: try world.come(Int64.random(in: 1...150_000, using: &random), inMemory: false)
            }
            world.check(&random, hint)
        }
        if round % 2 == 0 {
            let rest = BlockSize.block - world.end % BlockSize.block
            try world.come(rest, inMemory: false)
        }
        let isWhole = world.there.contains(ByteRange(0, world.end))
        let isOnDisk = isWhole && !world.table.isInMemory
        #expect(world.table.isOnDisk(upTo: world.end) == isOnDisk, hint)
        #expect(!world.table.isComplete && world.table.length == BlockSize.openEnd, hint)
        world.room -= world.table.settle(length: world.end, now: 0)
        #expect(world.table.length == world.end && world.table.isComplete == isWhole, hint)
        #expect(!isOnDisk || world.room == world.end && world.table.states.bytesOnDisk == world.end, hint)
        // Bytes behind the end are neither there nor missing.
        world.there.insert(ByteRange(world.end, .max))
        for offset in [0, world.end / 2, world.end - 1, world.end, world.end + 1] {
            let range = ByteRange(offset, world.end + 100_000)
            #expect(world.table.covers(range) == world.there.contains(range), hint)
        }
        let isBegun = world.table.beginSync()
        #expect(isBegun == (world.table.states.filledBlocks > 0 && world.table.states.bytesOnDisk > 0), hint)
        let filled = world.table.states.filled.ranges.joined()
        let bytes = filled.reduce(0) { $0 + BlockSize.bytes(of: $1, length: world.end).count }
        #expect(bytes == world.table.states.filledBytes, hint)
    }

    @Test func aBodyWithoutABytePutsItsEndAtItsBeginning() {
        var table = BlockTable(length: BlockSize.openEnd)
        #expect(!table.covers(ByteRange(0, 1)) && table.isOnDisk(upTo: 0))
        let room = table.settle(length: 0, now: 0)
        #expect(room == 0 && table.isComplete && table.states.filledBytes == 0 && table.covers(ByteRange(0, 1)))
    }
}

extension ByteRangeSet {
    fileprivate func range(at offset: Int64) -> ByteRange? {
        firstRange(endingBehind: offset).flatMap { $0.lower <= offset ? $0 : nil }
    }

    fileprivate func firstRange(endingBehind offset: Int64) -> ByteRange? { ranges.first { $0.upper > offset } }

    fileprivate func contains(_ range: ByteRange) -> Bool {
        range.isEmpty || self.range(at: range.lower).map { range.upper <= $0.upper } ?? false
    }
}
