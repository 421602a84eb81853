import ReelCore
import TestKit
import Testing

private let extent = BlockSize.extent
private let kept = DropBehind.kept

struct DropBehindTests {
    /// A file of 1 GiB, all of it there except for a block.
    private func ledger(without block: Int? = nil) -> Ledger {
        let length: Int64 = 1 << 30
        let missing = block.map { BlockSize.bytes(of: $0, length: length) } ?? ByteRange(length, length)
        var ledger = Ledger(length: length, there: [ByteRange(0, missing.lower), ByteRange(missing.upper, length)])
        ledger.opened()
        return ledger
    }

    private func read(_ ledger: inout Ledger, _ lower: Int64, _ upper: Int64, by piece: Int64) -> [ByteRange] {
        var left: [ByteRange] = []
        var offset = lower
        while offset < upper {
            let end = min(upper, offset + piece)
            let isHit = ledger.hit(ByteRange(offset, end), now: .zero)
            #expect(isHit)
            if let behind = ledger.takeBehind() { left.append(behind) }
            let again = ledger.takeBehind()
            #expect(again == nil)
            offset = end
        }
        return left
    }

    private struct Run: Sendable {
        var from: Int64
        var count: Int64
        /// The bytes that it leaves behind, nil if there are none.
        var left: ByteRange?

        init(_ from: Int64, _ count: Int64, _ left: ByteRange? = nil) {
            (self.from, self.count, self.left) = (from, count, left)
        }
    }

    private static let runs = [
        Run(0, kept + extent - 1),
        Run(0, kept + extent, ByteRange(0, extent)),
        Run(0, kept + 3 * extent + 5, ByteRange(0, 3 * extent)),
        // Where reading began within an extent that extent stays: somebody else may have begun before.
        Run(5, kept + extent),
        Run(5, kept + 2 * extent, ByteRange(extent, 2 * extent)),
        Run(10 * extent, kept + extent, ByteRange(10 * extent, 11 * extent)),
    ]

    @Test(arguments: runs)
    private func wholeExtentsAreLeftBehind(_ run: Run) {
        for piece in [Int64(128 << 10), 1 << 20] {
            var ledger = ledger()
            let told = read(&ledger, run.from, run.from + run.count, by: piece)
            #expect(told.first?.lower == run.left?.lower && told.last?.upper == run.left?.upper)
            #expect(zip(told, told.dropFirst()).allSatisfy { $0.upper == $1.lower })
        }
    }

    @Test func aJumpLeavesNothingBehindUntilAsMuchWasReadThere() {
        var ledger = ledger()
        #expect(read(&ledger, 0, kept + extent, by: 128 << 10) == [ByteRange(0, extent)])
        let there: Int64 = 512 << 20
        #expect(read(&ledger, there, there + kept, by: 128 << 10).isEmpty)
        #expect(
            read(&ledger, there + kept, there + kept + extent, by: 128 << 10) == [ByteRange(there, there + extent)])
        // The first reader goes on where it was.
        #expect(read(&ledger, kept + extent, kept + 2 * extent, by: 128 << 10) == [ByteRange(extent, 2 * extent)])
    }

    @Test func whoReadsHereAndThereLeavesNothingBehind() {
        var generator = SeededGenerator()
        var ledger = ledger()
        for _ in 0..<10_000 {
            let offset = Int64.random(in: 0..<(1 << 30) - 4096, using: &generator)
            _ = ledger.hit(ByteRange(offset, offset + 4096), now: .zero)
            let behind = ledger.takeBehind()
            #expect(behind == nil, "seed \(generator.seed)")
        }
    }

    /// Somebody who reads where the first has just been finds what that one has read.
    @Test func whatAnotherReaderIsNearStays() {
        var ledger = ledger()
        let start = kept + extent
        #expect(read(&ledger, 0, start, by: 128 << 10) == [ByteRange(0, extent)])
        _ = ledger.hit(ByteRange(extent + 5, extent + 4096), now: .zero)
        #expect(read(&ledger, start, start + extent, by: 128 << 10).isEmpty)
        // And further on, as if nobody were there.
        let later = read(&ledger, start + extent, start + 6 * extent, by: 128 << 10)
        #expect(later.last == ByteRange(6 * extent, 7 * extent))
    }

    /// The kernel holds their pages.
    @Test func whatSomebodyWaitsForStays() {
        var ledger = ledger(without: 3)
        let missing = BlockSize.bytes(of: 3, length: ledger.length)
        _ = ledger.park(1, missing, deadline: .seconds(30), now: .zero)
        #expect(read(&ledger, extent, kept + 2 * extent, by: 128 << 10) == [ByteRange(extent, 2 * extent)])
        var other = self.ledger(without: 3)
        _ = other.hit(ByteRange(0, 4096), now: .zero)
        _ = other.park(1, missing, deadline: .seconds(30), now: .zero)
        #expect(read(&other, missing.upper, kept + extent, by: 128 << 10).isEmpty)
    }

    /// The bytes that two readers leave in turn are all behind them, and none is reported twice.
    @Test func severalReadersLeaveTheirOwn() {
        var generator = SeededGenerator()
        var ledger = ledger()
        var positions: [Int64] = [0, 512 << 20]
        var told: [ByteRange] = []
        for _ in 0..<2000 {
            let reader = Int.random(in: 0...1, using: &generator)
            let count = Int64.random(in: 1...(256 << 10), using: &generator)
            let isHit = ledger.hit(ByteRange(positions[reader], positions[reader] + count), now: .zero)
            #expect(isHit)
            positions[reader] += count
            guard let behind = ledger.takeBehind() else { continue }
            #expect(behind.upper <= positions[reader] - kept, "seed \(generator.seed)")
            #expect(behind.lower >= Int64(reader) * 512 << 20, "seed \(generator.seed)")
            #expect(told.allSatisfy { !$0.overlaps(behind) }, "seed \(generator.seed)")
            told.append(behind)
        }
        #expect(told.reduce(0) { $0 + $1.count } >= 2 * 64 << 20, "seed \(generator.seed)")
    }
}
