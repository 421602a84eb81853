import TestKit
import Testing

@testable import ReelCore

/// Range sets against an array with a flag for each unit of bytes, and block maps.
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

    @Test func bitsBehindTheEndAreNotBelieved() {
        var map = BlockMap(length: 3 * BlockSize.block + 1)
        map.load(extent: 0, word: .max)
        map.load(extent: 7, word: .max)
        #expect(map.filledBlocks == 4 && map.isComplete && map.filledBytes == map.length)
        map.load(extent: 0, word: 0b1001)
        #expect(map.filledBlocks == 2 && map.filledBytes == BlockSize.block + 1)
    }
}
