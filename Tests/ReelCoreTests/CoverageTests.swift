import TestKit
import Testing

@testable import ReelCore

/// Range sets, block maps and coverage against an array with a flag for each unit of bytes.
@Suite struct CoverageTests {
    @Test(arguments: 1...20) func rangeSetIsWhatAnArrayOfFlagsSays(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var set = ByteRangeSet()
        var flags = Array(repeating: false, count: 200)
        for _ in 0..<400 {
            let lower = Int.random(in: 0...200, using: &random)
            let upper = Int.random(in: lower...200, using: &random)
            let range = ByteRange(Int64(lower), Int64(upper))
            if Bool.random(using: &random) {
                set.insert(range)
                for index in lower..<upper { flags[index] = true }
            } else {
                set.remove(range)
                for index in lower..<upper { flags[index] = false }
            }
            let probe = Int.random(in: 0..<200, using: &random)
            let end = Int.random(in: probe...200, using: &random)
            let part = ByteRange(Int64(probe), Int64(end))
            #expect(set.contains(part) == flags[probe..<end].allSatisfy { $0 }, "seed \(seed)")
            #expect(set.overlaps(part) == flags[probe..<end].contains(true), "seed \(seed)")
            #expect((set.range(at: Int64(probe)) != nil) == flags[probe], "seed \(seed)")
        }
        for (one, next) in zip(set.ranges, set.ranges.dropFirst()) { #expect(one.upper < next.lower, "seed \(seed)") }
    }

    @Test(arguments: 1...20) func coverageKnowsEveryByte(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        // Units of a sixteenth of a block; the last block is short.
        let unit = BlockSize.block / 16
        let count = Int.random(in: 1...400, using: &random)
        let length = Int64(count) * unit
        var coverage = Coverage(BlockMap(length: length))
        var flags = Array(repeating: false, count: count)
        func blockFlags(_ block: Int) -> ArraySlice<Bool> { flags[block * 16..<min(block * 16 + 16, count)] }
        for _ in 0..<200 {
            let lower = Int.random(in: 0..<count, using: &random)
            let upper = Int.random(in: lower...count, using: &random)
            let range = ByteRange(Int64(lower) * unit, Int64(upper) * unit)
            if Int.random(in: 0..<4, using: &random) > 0 {
                let untouched = coverage.untouchedBlocks(in: range)
                #expect(untouched.allSatisfy { !blockFlags($0).contains(true) }, "seed \(seed)")
                let before = Set((0..<coverage.map.blockCount).filter { coverage.map[$0] })
                let whole = coverage.fill(range)
                for index in lower..<upper { flags[index] = true }
                let after = Set((0..<coverage.map.blockCount).filter { blockFlags($0).allSatisfy { $0 } })
                #expect(Set(whole) == after.subtracting(before), "seed \(seed)")
            } else {
                let blocks = coverage.map.blocks(touching: range)
                coverage.forget(blocks)
                for block in blocks { for index in blockFlags(block).indices { flags[index] = false } }
            }
            let from = Int.random(in: 0..<count, using: &random)
            let to = Int.random(in: from...count, using: &random)
            let part = ByteRange(Int64(from) * unit, Int64(to) * unit)
            let missing = flags[from..<to].firstIndex(of: false) ?? to
            let covered = flags[from..<to].firstIndex(of: true) ?? to
            #expect(coverage.covers(part) == (missing == to), "seed \(seed)")
            #expect(coverage.firstMissing(from: part.lower, limit: part.upper) == Int64(missing) * unit, "seed \(seed)")
            #expect(coverage.firstCovered(from: part.lower, limit: part.upper) == Int64(covered) * unit, "seed \(seed)")
            let filled = (0..<coverage.map.blockCount).filter { coverage.map[$0] }
            #expect(
                coverage.map.filledBytes == filled.reduce(0) { $0 + coverage.map.bytes(of: $1).count }, "seed \(seed)")
            let partial = (0..<coverage.map.blockCount).filter {
                blockFlags($0).contains(true) && blockFlags($0).contains(false)
            }
            #expect(coverage.partialBlocks == partial, "seed \(seed)")
        }
    }

    @Test func bitsBehindTheEndAreNotBelieved() {
        var map = BlockMap(length: 3 * BlockSize.block + 1)
        map.load(extent: 0, word: .max)
        map.load(extent: 7, word: .max)
        #expect(map.filledBlocks == 4 && map.isComplete && map.filledBytes == map.length)
        map.load(extent: 0, word: 0b1001)
        #expect(map.filledBlocks == 2 && map.filledBytes == BlockSize.block + 1)
    }

    /// Lengths and offsets are the origin's, the index's and the kernel's: no two of them may end the program.
    @Test(arguments: 1...20) func anyOffsetsAreARangeAndWhatLiesBehindTheEndIsNothing(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let length = Int64.random(in: 0...4 * BlockSize.block, using: &random)
        let ends: [Int64] = [
            .min, -1, 0, 1, BlockSize.block, length - 1, length, length + 1, length + BlockSize.extent, .max - 1, .max,
        ]
        var coverage = Coverage(BlockMap(length: length))
        for _ in 0..<200 {
            let (lower, upper) = (ends.randomElement(using: &random)!, ends.randomElement(using: &random)!)
            let range = ByteRange(lower, upper)
            #expect(0 <= range.lower && range.lower <= range.upper && range.count >= 0, "seed \(seed)")
            let part = range.clamped(to: ByteRange(0, length))
            #expect(coverage.covers(range) == coverage.covers(part), "seed \(seed)")
            let missing = coverage.firstMissing(from: range.lower, limit: range.upper)
            #expect((range.lower...range.upper).contains(missing) && (missing < length || missing == range.upper))
            let covered = coverage.firstCovered(from: range.lower, limit: range.upper)
            #expect((range.lower...range.upper).contains(covered) && (covered < length || covered == range.upper))
            #expect(coverage.map.blocks(touching: range) == coverage.map.blocks(touching: part), "seed \(seed)")
            if Bool.random(using: &random) {
                _ = coverage.fill(range)
                #expect(coverage.covers(part), "seed \(seed)")
            } else {
                coverage.forget(coverage.map.blocks(touching: range))
            }
        }
    }

    @Test func anEmptyResourceIsComplete() {
        let coverage = Coverage(BlockMap(length: 0))
        #expect(coverage.isComplete && coverage.covers(ByteRange(0, 0)))
    }
}
