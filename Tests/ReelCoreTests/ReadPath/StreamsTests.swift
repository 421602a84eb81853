import Testing

@testable import ReelCore

/// The requests under way, without readers: where each begins and ends, and what becomes of it.
@Suite struct StreamsTests {
    private static let block = BlockSize.block
    private static let length = 64 * block

    struct Start: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var there: [ByteRange] = []
        /// Asked for before.
        var older: [ByteRange] = []
        var alignment = block
        var offset: Int64
        var count: Int64
        var limit = Int64.max
        var expected: ByteRange
        /// Where the first of the older ones ends now.
        var oldEnd: Int64?
        var isCut = false
    }

    static let starts = [
        Start(
            testDescription: "whole blocks around the bytes", offset: 3 * block + 5, count: 10,
            expected: ByteRange(3 * block, 4 * block)),
        Start(
            testDescription: "behind what is there of the block", there: [ByteRange(3 * block, 3 * block + 100)],
            offset: 3 * block + 500, count: 10, expected: ByteRange(3 * block + 100, 4 * block)),
        Start(
            testDescription: "up to what is there", there: [ByteRange(5 * block, 6 * block)], offset: 3 * block,
            count: 10 * block, expected: ByteRange(3 * block, 5 * block)),
        Start(
            testDescription: "up to a stream ahead", older: [ByteRange(6 * block, 8 * block)], offset: 3 * block,
            count: 10 * block, expected: ByteRange(3 * block, 6 * block), oldEnd: 8 * block),
        Start(
            testDescription: "an older stream ends where it begins", older: [ByteRange(0, 8 * block)],
            offset: 3 * block, count: 20 * block, expected: ByteRange(3 * block, 23 * block), oldEnd: 3 * block),
        Start(
            testDescription: "an older stream loses its rest", older: [ByteRange(0, 8 * block)], offset: 3 * block,
            count: block, expected: ByteRange(3 * block, 4 * block), oldEnd: 3 * block, isCut: true),
        Start(
            testDescription: "up to the limit", offset: 3 * block, count: block, limit: 3 * block + 7,
            expected: ByteRange(3 * block, 3 * block + 7)),
        Start(
            testDescription: "a whole piece around the bytes", alignment: 8 * block, offset: 11 * block + 5, count: 10,
            expected: ByteRange(8 * block, 16 * block)),
        Start(
            testDescription: "whole pieces", alignment: 8 * block, offset: 15 * block, count: 10 * block,
            expected: ByteRange(8 * block, 32 * block)),
        Start(
            testDescription: "the missing part of a piece", there: [ByteRange(9 * block, 10 * block)],
            alignment: 8 * block, offset: 12 * block, count: block, expected: ByteRange(10 * block, 16 * block)),
        Start(
            testDescription: "a piece up to what is there", there: [ByteRange(13 * block + 5, 14 * block)],
            alignment: 8 * block, offset: 11 * block, count: block,
            expected: ByteRange(8 * block, 13 * block + 5)),
        Start(
            testDescription: "the part of a piece that is not on its way", older: [ByteRange(7 * block, 10 * block)],
            alignment: 8 * block, offset: 12 * block, count: block, expected: ByteRange(10 * block, 16 * block),
            oldEnd: 10 * block),
        Start(
            testDescription: "a piece behind a gathered part of a block", there: [ByteRange(9 * block, 9 * block + 7)],
            alignment: 8 * block, offset: 12 * block, count: block, expected: ByteRange(9 * block + 7, 16 * block)),
        Start(
            testDescription: "the last piece, which is short", alignment: 48 * block, offset: 50 * block, count: 1,
            expected: ByteRange(48 * block, length)),
        Start(
            testDescription: "up to the end of the file", offset: length - 5, count: 10 * block,
            expected: ByteRange(length - block, length)),
    ]

    @Test(arguments: starts) func aRequestIsCutToMissingBytes(_ start: Start) {
        let bytes = TestBytes(length: Self.length, there: start.there)
        var streams = Streams(bytes, acceptsRanges: true, alignment: start.alignment)
        for range in start.older { _ = streams.add(range, .readahead, now: .zero) }
        let started = streams.start(
            at: start.offset, count: start.count, .readahead, now: .zero, upTo: start.limit)
        let id = streams.all.last!.id
        #expect(started?.action == .start(id, start.expected, isDemanded: false) && started?.isCut == start.isCut)
        #expect(started?.end == start.expected.upper)
        if let oldEnd = start.oldEnd { #expect(streams.all[0].end == oldEnd) }
    }

    @Test func withoutRangesARequestBringsAll() {
        var streams = Streams(TestBytes(length: Self.length), acceptsRanges: false)
        let started = streams.start(at: 5, count: 1, .demand, now: .zero)
        #expect(started?.action == .start(1, ByteRange(0, Self.length), isDemanded: true))
    }

    @Test func forAByteThatHasComeMeanwhileNothingStarts() {
        let bytes = TestBytes(length: Self.length)
        var streams = Streams(bytes, acceptsRanges: true)
        _ = streams.add(ByteRange(0, 8 * Self.block), .readahead, now: .zero)
        bytes.comeMeanwhile(Self.block)
        let started = streams.start(at: 3 * Self.block, count: Self.block, .prefetch, now: .zero)
        #expect(started == nil && streams.all.map(\.rest) == [ByteRange(0, 8 * Self.block)])
    }

    @Test func bytesThereOrUnderWayArePlanned() {
        let block = Self.block
        var streams = Streams(
            TestBytes(length: Self.length, there: [ByteRange(0, block)]), acceptsRanges: true)
        _ = streams.add(ByteRange(block, 2 * block), .demand, now: .zero)
        _ = streams.add(ByteRange(4 * block, 5 * block), .demand, now: .zero)
        #expect(streams.firstUnplanned(from: 0, limit: Self.length) == 2 * block)
        #expect(streams.firstUnplanned(from: 0, limit: block) == block)
        #expect(streams.missing(in: ByteRange(0, 6 * block)) == 3 * block)
        #expect(streams.owed == 2 * block)
        #expect(streams.missing(in: ByteRange(2 * block, 4 * block)) == 2 * block)
        #expect(streams.missing(in: ByteRange(3 * block, 4 * block + 1)) == block)
    }

    @Test func aFailedStreamTriesAgainWhereItStoppedAndWithoutRangesFromTheStart() {
        for acceptsRanges in [true, false] {
            var streams = Streams(TestBytes(length: Self.length), acceptsRanges: acceptsRanges)
            let id = streams.add(ByteRange(0, 10), .demand, now: .zero)
            let isKnown = streams.arrived(id, ByteRange(0, 4), now: .zero)
            let failure = OriginFailure.interrupted("x")
            let tries = [Duration.milliseconds(1), .seconds(30)].map {
                streams.retry(id, after: failure, before: $0, now: .zero, random: 0.5)
            }
            #expect(isKnown && tries == [false, true])
            #expect(streams.startRetries(now: .zero) == [])
            let rest = ByteRange(acceptsRanges ? 4 : 0, 10)
            #expect(streams.startRetries(now: .seconds(30)) == [.start(id, rest, isDemanded: true)])
            #expect(streams.startRetries(now: .seconds(60)) == [])
        }
    }

    @Test func aStreamIsPromotedOnce() {
        var streams = Streams(TestBytes(length: Self.length), acceptsRanges: true)
        let ahead = streams.add(ByteRange(0, 10), .readahead, now: .zero)
        let demanded = streams.add(ByteRange(10, 20), .demand, now: .zero)
        let promotions = [ahead, ahead, demanded].map { streams.demand($0) }
        #expect(promotions == [true, false, false])
    }

    @Test func aBodyThatComesWholeBringsAllFromZero() {
        var streams = Streams(TestBytes(length: Self.length), acceptsRanges: true)
        let id = streams.add(ByteRange(100, 200), .demand, now: .zero)
        streams.becomeWhole(id)
        #expect(!streams.acceptsRanges && streams[id]?.rest == ByteRange(0, Self.length))
    }

    /// One server of several had no ranges, or none at that moment.
    @Test func afterAnAnswerWithARangeRangesAreAskedForAgain() {
        let (block, far) = (BlockSize.block, ByteRange(32 << 20, 32 << 20 + 4096))
        var ledger = Ledger(length: 64 << 20, acceptsRanges: false)
        _ = ledger.adopt(ByteRange(0, 64 << 20), isWhole: true, now: .zero)
        #expect(!ledger.acceptsRanges)
        _ = ledger.adopt(ByteRange(0, 2 * block), now: .zero)
        let actions = ledger.park(1, far, deadline: .seconds(30), now: .zero)
        #expect(actions == [.start(3, ByteRange(far.lower, far.lower + block), isDemanded: true)])
        // An answer that is all of a file shows nothing.
        var short = Ledger(length: block, acceptsRanges: false)
        _ = short.adopt(ByteRange(0, 2 * block), now: .zero)
        #expect(!short.acceptsRanges)
    }
}
