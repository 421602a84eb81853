import Testing

@testable import ReelCore

/// A command that wants all of a file, beside its readers.
@Suite struct PrefetchTests {
    private static let length = 64 * BlockSize.block

    private func starts(_ actions: [Ledger.Action]) -> [(id: Ledger.StreamID, range: ByteRange, isDemanded: Bool)] {
        actions.compactMap {
            if case .start(let id, let range, let demanded) = $0 { (id, range, demanded) } else { nil }
        }
    }

    @Test func oneGapAfterAnotherIsAskedForBehindAllReaders() throws {
        let block = BlockSize.block
        let bytes = TestBytes(length: Self.length, there: [ByteRange(4 * block, 10 * block)])
        var ledger = Ledger(bytes)
        ledger.opened()
        let first = try #require(starts(ledger.prefetch(now: .zero)).first)
        #expect(first.range == ByteRange(0, 4 * block) && !first.isDemanded)
        // While it runs nothing else is asked for.
        #expect(starts(ledger.prefetch(now: .zero)).isEmpty)
        bytes.add(first.range)
        _ = ledger.arrived(first.id, first.range, news: [first.range], now: .zero)
        _ = ledger.ended(first.id, nil, now: .zero, random: 0)
        let second = try #require(starts(ledger.prefetch(now: .zero)).first)
        #expect(second.range == ByteRange(10 * block, Self.length))
        #expect(ledger.reason(of: second.id) == .prefetch)
    }

    @Test func whatACommandWantsIsNoBytesAheadAndNoWaste() throws {
        let bytes = TestBytes(length: Self.length)
        var ledger = Ledger(bytes)
        ledger.opened()
        // An open asks for the beginning, which may come before the command asks for all.
        let beginning = ByteRange(0, BlockSize.block)
        let open = ledger.adopt(beginning, now: .zero)
        bytes.add(beginning)
        _ = ledger.arrived(open, beginning, news: [beginning], now: .zero)
        _ = ledger.ended(open, nil, now: .zero, random: 0)
        #expect(ledger.ahead == BlockSize.block)
        let stream = try #require(starts(ledger.prefetch(now: .zero)).first)
        #expect(ledger.ahead == 0)
        bytes.add(stream.range)
        _ = ledger.arrived(stream.id, stream.range, news: [stream.range], now: .zero)
        #expect(ledger.ahead == 0 && ledger.statistics.sums.demanded == Self.length - BlockSize.block)
        ledger.writeOff()
        #expect(ledger.statistics.sums.wasted == 0)
    }

    /// The last byte that was missing there has come: the next gap is asked for, and not nothing.
    @Test func aGapThatClosesMeanwhileIsPassedOver() {
        let block = BlockSize.block
        let bytes = TestBytes(length: Self.length, there: [ByteRange(block, 2 * block)])
        var ledger = Ledger(bytes)
        ledger.opened()
        bytes.comeMeanwhile(block)
        #expect(starts(ledger.prefetch(now: .zero)).map(\.range) == [ByteRange(2 * block, Self.length)])
    }

    @Test func aCancelledOneEndsUnlessAReadWaitsForIt() throws {
        for waits in [false, true] {
            var ledger = Ledger(TestBytes(length: Self.length))
            ledger.opened()
            let stream = try #require(starts(ledger.prefetch(now: .zero)).first)
            if waits { _ = ledger.park(1, ByteRange(0, 4096), deadline: .seconds(30), now: .zero) }
            #expect(ledger.cancelPrefetch() == (waits ? [] : [.stop(stream.id)]))
        }
    }

    @Test func aBodyThatComesWholeRunsToItsEnd() throws {
        for isPrefetched in [false, true] {
            let bytes = TestBytes(length: 100 << 20)
            var ledger = Ledger(bytes, acceptsRanges: false)
            ledger.opened()
            let id = ledger.adopt(ByteRange(0, 100 << 20), now: .zero)
            if isPrefetched { #expect(starts(ledger.prefetch(now: .zero)).isEmpty) }
            let part = ByteRange(0, 60 << 20)
            bytes.add(part)
            let (_, answer) = ledger.arrived(id, part, news: [part], now: .zero)
            #expect(answer == (isPrefetched ? .more : .pause))
        }
    }
}
