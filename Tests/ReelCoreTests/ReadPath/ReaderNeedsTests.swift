import Testing

@testable import ReelCore

/// Which streams pause, and which end, by what readers do.
@Suite struct ReaderNeedsTests {
    private static let block = BlockSize.block
    private static let length: Int64 = 1 << 30
    private let bytes = TestBytes(length: length)

    private func needs(
        _ reads: [ByteRange] = [], waiting: [ByteRange] = [], acceptsRanges: Bool = true, now: Duration = .zero,
        cacheCap: Int64 = .max
    ) -> ReaderNeeds {
        var cursors = Cursors(bytes, cacheCap: cacheCap)
        for range in reads { cursors.touch(range, now: .zero) }
        var reads = WaitingReads(bytes)
        for range in waiting {
            reads.add(WaitingReads.Read(id: 1, range: range, deadline: .seconds(9), parkedAt: .zero, readsOn: true))
        }
        return ReaderNeeds(cursors, reads, acceptsRanges: acceptsRanges, length: Self.length, now: now)
    }

    private func stream(_ lower: Int64, _ upper: Int64, _ purpose: ReelCore.Stream.Purpose = .readahead)
        -> ReelCore.Stream
    {
        var streams = Streams(bytes, acceptsRanges: true)
        _ = streams.add(ByteRange(lower, upper), purpose, now: .zero)
        return streams.all[0]
    }

    @Test func whileAReadWaitsElsewhereAStreamPausesUnlessItIsNearlyOver() {
        let needs = needs(waiting: [ByteRange(500 << 20, 501 << 20)])
        #expect(needs.isHeld(stream(0, 8 << 20)))
        #expect(!needs.isHeld(stream(0, 2 * Self.block)), "nearly over")
        #expect(!needs.isHeld(stream(501 << 20, 510 << 20)), "ahead of the read")
        #expect(!needs.isHeld(stream(500 << 20, 510 << 20)), "the read waits for it")
        #expect(!self.needs().isHeld(stream(0, 8 << 20)), "no read waits")
    }

    @Test func aBodyThatComesWholePausesAheadOfAReaderThatIsNotProven() {
        let needs = needs([ByteRange(0, 4096)], acceptsRanges: false)
        #expect(!needs.isHeld(stream(4096 + Readahead.early, Self.length)))
        #expect(needs.isHeld(stream(4097 + Readahead.early, Self.length)))
        let proven = self.needs([ByteRange(0, 1 << 20)], acceptsRanges: false)
        #expect(!proven.isHeld(stream(900 << 20, Self.length)), "the cache holds all of it")
        let tight = self.needs([ByteRange(0, 1 << 20)], acceptsRanges: false, cacheCap: 1 << 30)
        #expect(tight.isHeld(stream(900 << 20, Self.length)))
    }

    @Test func aStreamGoesOnWhileItsReaderIsThereAndAfterTheLastCloseForAWhile() {
        let reads = [ByteRange(0, 1 << 20)]
        let near = stream(1 << 20, 9 << 20)
        let far = stream(500 << 20, 509 << 20)
        #expect(needs(reads).isNeeded(near, lastClose: nil) && !needs(reads).isNeeded(far, lastClose: nil))
        #expect(needs(reads).isNeeded(stream(500 << 20, 500 << 20 + Self.block), lastClose: nil), "it is short")
        #expect(needs(reads).isNeeded(stream(500 << 20, 509 << 20, .prebuffer), lastClose: nil))
        #expect(needs().isNeeded(stream(4096, 1 << 20, .demand), lastClose: nil), "opened, and not read yet")
        #expect(!needs().isNeeded(stream(4096, Self.length, .demand), lastClose: nil), "it is long")
        #expect(needs(waiting: [ByteRange(500 << 20, 501 << 20)]).isNeeded(far, lastClose: nil))
        for (seconds, isNeeded) in [(9, true), (10, false)] {
            #expect(needs(reads, now: .seconds(seconds)).isNeeded(near, lastClose: .zero) == isNeeded)
        }
        let elsewhere = [ByteRange(700 << 20, 701 << 20)]
        for (seconds, isNeeded) in [(1, true), (2, false)] {
            let needs = needs(reads, waiting: elsewhere, now: .seconds(seconds))
            #expect(needs.isNeeded(near, lastClose: nil) == isNeeded, "a reader that waits elsewhere")
        }
        let here = [ByteRange(1 << 20, (1 << 20) + 4096)]
        let slow = needs(reads, waiting: here, now: .seconds(5))
        #expect(slow.isNeeded(stream(2 << 20, 9 << 20), lastClose: nil), "a reader that waits at its own place")
    }

    /// The end of a file was asked for, and the server sends all of it.
    @Test func aBodyThatComesWholeEndsAfterTheLastCloseWhateverItWasAskedFor() {
        let tail = stream(4096, Self.length, .prebuffer)
        for (seconds, isNeeded) in [(9, true), (10, false)] {
            let needs = needs(acceptsRanges: false, now: .seconds(seconds))
            #expect(needs.isNeeded(tail, lastClose: .zero) == isNeeded)
        }
        #expect(needs(now: .seconds(10)).isNeeded(tail, lastClose: .zero), "a range, which is short or is cancelled")
    }

    @Test func onlyARangeThatNoReadWaitsForIsLetGoOf() {
        let long = stream(0, 8 << 20)
        #expect(needs().isSpared(long) && !needs().isSpared(stream(0, Self.block)))
        #expect(!needs(waiting: [ByteRange(0, 10)]).isSpared(long))
        #expect(!needs(acceptsRanges: false).isSpared(long))
    }

    @Test func aBodyIsOvertakenWhereNoReaderIsJustBehindIt() {
        #expect(needs([ByteRange(0, 4096)]).isOvertaken(stream(900 << 20, Self.length)))
        #expect(!needs([ByteRange(0, 4096)]).isOvertaken(stream(1 << 20, Self.length)))
        #expect(needs([ByteRange(2 << 20, 3 << 20)]).isOvertaken(stream(1 << 20, Self.length)))
    }
}
