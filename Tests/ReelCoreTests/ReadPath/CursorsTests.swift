import Testing

@testable import ReelCore

/// The readers of a file: which read is whose, what is far behind, how far ahead to fetch.
@Suite struct CursorsTests {
    private static let length: Int64 = 1 << 30
    private static let piece: Int64 = 128 << 10

    private func cursors(cacheCap: Int64 = .max) -> Cursors {
        Cursors(TestBytes(length: Self.length), cacheCap: cacheCap)
    }

    private func read(_ cursors: inout Cursors, _ range: ByteRange, at now: Duration = .zero) {
        for lower in stride(from: range.lower, to: range.upper, by: Int(Self.piece)) {
            cursors.touch(ByteRange(lower, min(range.upper, lower + Self.piece)), now: now)
        }
    }

    @Test func aReadNearAPlaceGoesOnThereAndAnyOtherIsANewPlace() {
        var cursors = cursors()
        read(&cursors, ByteRange(0, 1 << 20))
        cursors.touch(ByteRange(2 << 20, 2 << 20 + 4096), now: .zero)
        #expect(cursors.all.count == 1 && cursors.last?.position == 2 << 20 + 4096)
        cursors.touch(ByteRange(9 << 20, 9 << 20 + 4096), now: .zero)
        #expect(cursors.all.count == 2 && cursors.last?.run == 4096)
    }

    @Test func aFilesFirstReadsMayComeInAnyOrder() {
        let (first, second) = (ByteRange(0, Self.piece), ByteRange(Self.piece, 2 * Self.piece))
        for reads in [[first, second], [second, first]] {
            var cursors = cursors()
            for range in reads { cursors.touch(range, now: .zero) }
            #expect(cursors.headRun == 2 * Self.piece && cursors.anyProven, "\(reads)")
        }
        // What was left out between the two was not read.
        var cursors = cursors()
        cursors.touch(ByteRange(2 * Self.piece, 3 * Self.piece), now: .zero)
        cursors.touch(first, now: .zero)
        #expect(cursors.headRun == nil && !cursors.anyProven)
    }

    @Test func ofNinePlacesTheOneReadLeastRecentlyIsForgotten() {
        var cursors = cursors()
        for place in 0..<Readahead.cursorLimit {
            cursors.touch(ByteRange(Int64(place) << 24, Int64(place) << 24 + 1), now: .seconds(place))
        }
        cursors.touch(ByteRange(1, 2), now: .seconds(20))
        cursors.touch(ByteRange(1 << 29, 1 << 29 + 1), now: .seconds(21))
        #expect(cursors.all.count == Readahead.cursorLimit)
        #expect(cursors.all.contains { $0.start == 0 } && !cursors.all.contains { $0.start == 1 << 24 })
    }

    @Test func onlyAReaderThatHasReadOnSeeks() {
        for (isFar, end) in [(false, Readahead.settled - Self.piece), (true, Readahead.settled)] {
            var cursors = cursors()
            read(&cursors, ByteRange(0, end))
            cursors.touch(ByteRange(1 << 29, 1 << 29 + 1), now: .zero)
            #expect(cursors.last?.isSeeking == isFar && (cursors.window(of: cursors.last!) > 0) == isFar)
        }
    }

    /// Places in a film with its index at the end.
    @Test(
        arguments: [
            ([0, 1 << 29], true), ([0, 1 << 10], false), ([1 << 29], false), ([0, length - 4 << 20], false),
            ([0, length - piece], false), ([0, 1 << 28, 1 << 29], false), ([0, length - 4 << 20, 1 << 29], true),
        ] as [([Int64], Bool)])
    func whoBeginsAFilmAndGoesIntoItsMediaPlaysOnFromThere(_ places: [Int64], _ isSeek: Bool) {
        for (isScan, isKnown) in [(false, true), (true, true), (false, false)] {
            var cursors = cursors()
            cursors.front = 1 << 10
            if isKnown { cursors.index = [ByteRange(Self.length - 6 << 20, Self.length - 3 << 20)] }
            cursors.limits.isScan = isScan
            for place in places { cursors.touch(ByteRange(place, place + Self.piece), now: .zero) }
            #expect(cursors.last?.isSeeking == (isSeek && isKnown && !isScan))
        }
    }

    @Test func anAnswerToAReadThatWaitedMovesNoPlace() {
        var cursors = cursors()
        cursors.touch(ByteRange(0, 4096), now: .zero)
        cursors.touch(ByteRange(1 << 29, 1 << 29 + 1), now: .seconds(1))
        let places = cursors.all.map(\.position)
        cursors.answered(ByteRange(0, 4096), now: .seconds(5))
        #expect(cursors.all.map(\.position) == places && cursors.all[0].lastRead == .seconds(5))
    }

    @Test func earlyBytesComeBackWhenTheReaderReadsOn() {
        var cursors = cursors()
        read(&cursors, ByteRange(0, 1 << 20))
        cursors.countEarly(0, 1000)
        cursors.countEarly(nil, 1000)
        #expect(cursors.early == 1000)
        read(&cursors, ByteRange(1 << 20, Readahead.settled))
        #expect(cursors.early == 0)
        cursors.countEarly(0, 1000)
        #expect(cursors.early == 0, "a reader that has read on has no early bytes")
    }

    @Test func theWindowStaysWithinTheCacheAndTheLimits() {
        var cursors = cursors(cacheCap: 24 << 20)
        read(&cursors, ByteRange(0, 64 << 20))
        #expect(cursors.window(of: cursors.last!) == 3 << 20)
        cursors.limits.room = 2 << 20
        #expect(cursors.window(of: cursors.last!) == 2 << 20)
        cursors.limits.room = -5
        #expect(cursors.window(of: cursors.last!) == Readahead.near)
    }

    @Test func doubtTakesEachFrontierBackToItsReader() {
        var cursors = cursors()
        cursors.touch(ByteRange(0, 4096), now: .zero)
        cursors.plan(0, upTo: 1 << 20)
        cursors.doubtFrontiers()
        #expect(cursors.all[0].frontier == 4096)
    }
}
