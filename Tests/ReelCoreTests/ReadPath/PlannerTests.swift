import Testing

@testable import ReelCore

/// What is asked for, from parts that the test has put together.
@Suite struct PlannerTests {
    private static let block = BlockSize.block
    private static let length: Int64 = 1 << 30

    private func planner(
        there: [ByteRange] = [], acceptsRanges: Bool = true, waiting: [ByteRange] = [], readsOn: Bool = true
    ) -> Planner {
        var planner = Planner(
            TestBytes(length: Self.length, there: there), acceptsRanges: acceptsRanges, cacheCap: .max)
        for (id, range) in waiting.enumerated() {
            planner.waiting.add(
                WaitingReads.Read(
                    id: Ledger.ReadID(id), range: range, deadline: .seconds(9), parkedAt: .zero, readsOn: readsOn))
        }
        return planner
    }

    private func ranges(_ actions: [Ledger.Action]) -> [ByteRange] {
        actions.compactMap { if case .start(_, let range, _) = $0 { range } else { nil } }
    }

    @Test func eachMissingByteThatAReadWaitsForIsAskedForOnce() {
        let block = Self.block
        var planner = planner(
            there: [ByteRange(block, 2 * block)], waiting: [ByteRange(0, 3 * block), ByteRange(10, 20)])
        let asked = ranges(planner.demand(now: .zero))
        #expect(asked == [ByteRange(0, block), ByteRange(2 * block, 3 * block)])
        #expect(planner.demand(now: .zero) == [])
    }

    @Test func aStreamOnItsWayIsPromotedAndOneTooFarBackIsNotWaitedFor() {
        var planner = planner(waiting: [ByteRange(2 << 20, 2 << 20 + 10)])
        let near = planner.streams.add(ByteRange(1 << 20, 4 << 20), .readahead, now: .zero)
        #expect(planner.demand(now: .zero) == [.promote(near)])
        planner = self.planner(waiting: [ByteRange(40 << 20, 40 << 20 + 10)])
        _ = planner.streams.add(ByteRange(0, 64 << 20), .readahead, now: .zero)
        let asked = ranges(planner.demand(now: .zero))
        #expect(asked == [ByteRange(40 << 20, 40 << 20 + Self.block)])
        #expect(planner.streams.all[0].end == 40 << 20)
    }

    @Test func withoutRangesOneBodyServesAll() {
        var planner = planner(acceptsRanges: false, waiting: [ByteRange(5, 10), ByteRange(1 << 20, 2 << 20)])
        let asked = ranges(planner.demand(now: .zero))
        #expect(asked == [ByteRange(0, Self.length)])
    }

    @Test func whereTheOneBodyHasBrokenOffReadsFail() {
        var planner = planner(acceptsRanges: false, waiting: [ByteRange(5, 10)])
        planner.streams.breakOff(.timedOut)
        #expect(planner.demand(now: .zero) == [.fail(0, .timedOut)])
        #expect(planner.waiting.isEmpty)
    }

    @Test func aProvenReaderIsGivenItsWindowAndARepairItsBytes() {
        for (readsOn, count) in [(true, Readahead.headProof), (false, Self.block)] {
            var planner = planner(waiting: [ByteRange(2 * Self.block, 3 * Self.block)], readsOn: readsOn)
            planner.cursors.touch(ByteRange(0, 2 * Self.block), now: .zero)
            let asked = ranges(planner.demand(now: .zero))
            #expect(asked.map(\.count) == [count])
        }
    }

    @Test func failedReadaheadPausesUntilBytesCome() {
        var planner = planner(there: [ByteRange(0, 1 << 20)])
        planner.cursors.touch(ByteRange(0, 1 << 20), now: .zero)
        #expect(planner.wantsReadahead(now: .zero))
        planner.failedAhead(.wrongAnswer("x"), now: .zero, random: 0.5)
        #expect(!planner.wantsReadahead(now: .seconds(29)) && planner.wantsReadahead(now: .seconds(30)))
        planner.succeeded()
        #expect(planner.wantsReadahead(now: .zero))
    }

    /// Bytes that are no longer on their way are asked for again before they are missed.
    @Test func aStreamThatGoesTakesTheFrontiersBack() {
        var planner = planner(there: [ByteRange(0, 1 << 20)])
        planner.cursors.touch(ByteRange(0, 1 << 20), now: .zero)
        let first = ranges(planner.readAhead(now: .zero))
        let second = planner.readAhead(now: .zero)
        _ = planner.stop { _ in true }
        let again = ranges(planner.readAhead(now: .zero))
        #expect(!first.isEmpty && second.isEmpty && again == first)
    }
}
