import TestKit
import Testing

@testable import ReelCore

/// Range sets against an array with a flag for each byte.
@Suite struct ByteRangeSetTests {
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
            #expect(set.ranges == runs(flags), "seed \(seed)")
            #expect(set.count == Int64(flags.count { $0 }) && set.isEmpty == !flags.contains(true), "seed \(seed)")
        }
    }

    private func runs(_ flags: [Bool]) -> [ByteRange] {
        var runs: [ByteRange] = []
        for (index, flag) in flags.enumerated() where flag {
            let next = ByteRange(Int64(index), Int64(index) + 1)
            if runs.last?.upper == next.lower { runs[runs.count - 1].upper += 1 } else { runs.append(next) }
        }
        return runs
    }
}
