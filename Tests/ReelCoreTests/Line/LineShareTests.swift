import Testing

@testable import ReelCore

private final class Film: Sendable {}
private let film = Film()
private let player = ObjectIdentifier(film)

/// What a player leaves of a line to others: a scripted clock, a line that is shared evenly by those that take bytes.
@Suite struct LineShareTests {
    /// A line with one player, and others that take whatever they get.
    private struct Scene {
        var share = LineShare()
        /// Bytes a second.
        var capacity = 5e6
        var rate = 2.5e6
        var others = 8.0
        var now = Duration.seconds(100)
        var ahead = 0.0
        var stalled = 0.0
        var isFetching = true
        var bytesOfOthers = 0.0

        mutating func run(for time: Duration, isPlaying: Bool = true) {
            let (step, end) = (Duration.milliseconds(10), now + time)
            while now < end {
                now += step
                // As readahead does: a window of half a minute, refilled at its half.
                if ahead >= 30 { isFetching = false }
                if ahead < 15 { isFetching = true }
                let isFetching = isFetching && isPlaying
                if isFetching { share.tell(player, ahead: ahead, now: now) }
                let takes = share.pause(now: now) == nil
                let flows = (isFetching ? 1 : 0) + (takes ? others : 0)
                guard flows > 0 else { continue }
                let each = capacity * step.seconds / flows
                if isFetching {
                    ahead += each / rate
                    share.took(Int64(each), charged: 0, now: now)
                }
                if takes {
                    bytesOfOthers += each * others
                    share.took(Int64(each * others), charged: Int64(each * others), now: now)
                }
                guard isPlaying else { continue }
                if ahead < step.seconds { stalled += step.seconds } else { ahead -= step.seconds }
            }
        }
    }

    @Test func aPlayerHasWhatItNeedsAndOthersHaveTheRest() {
        var scene = Scene()
        scene.run(for: .seconds(5))
        #expect(scene.stalled < 0.5)
        (scene.stalled, scene.bytesOfOthers) = (0, 0)
        scene.run(for: .seconds(600))
        #expect(scene.stalled == 0)
        let left = (scene.capacity - scene.rate) * 600
        #expect(scene.bytesOfOthers > 0.8 * left && scene.bytesOfOthers < 1.1 * left)
    }

    @Test func aPlayerThatNeedsAllLeavesLittleButNeverNothing() {
        var scene = Scene(capacity: 50e6, rate: 60e6)
        scene.run(for: .seconds(60))
        #expect(scene.bytesOfOthers > 60 * scene.capacity / 20 && scene.bytesOfOthers < 60 * scene.capacity / 10)
    }

    @Test func withoutAPlayerNothingIsHeldBack() {
        var scene = Scene()
        scene.run(for: .seconds(60), isPlaying: false)
        #expect(scene.bytesOfOthers > 0.99 * 60 * scene.capacity)
    }

    @Test func whatWasHeldBackGoesOnASecondAfterThePlayerHasGone() {
        var scene = Scene()
        scene.run(for: .seconds(10))
        scene.run(for: .milliseconds(1010), isPlaying: false)
        scene.bytesOfOthers = 0
        scene.run(for: .seconds(1), isPlaying: false)
        #expect(scene.bytesOfOthers > 0.99 * scene.capacity)
    }

    @Test func whileAProgramWaitsCommandsGetNothingAtFirstAndThenTheLeastOfTheLine() {
        var share = LineShare()
        let line = 10e6
        share.took(Int64(line / 2), charged: 0, by: .command, now: .milliseconds(500))
        func take(_ time: Duration, from start: Duration, isWaiting: Bool) -> Double {
            var (now, bytes) = (start, 0.0)
            while now < start + time {
                if isWaiting { #expect(share.readerWaits(now: now) == (now == .seconds(1) ? [.command] : [])) }
                #expect(share.pause(now: now) == nil, "a program held back a reader")
                if share.pause(of: .command, now: now) == nil {
                    bytes += line / 100
                    share.took(Int64(line / 100), charged: Int64(line / 100), by: .command, now: now)
                }
                now += .milliseconds(10)
            }
            return bytes
        }
        #expect(take(.milliseconds(1950), from: .seconds(1), isWaiting: true) == 0)
        let least = take(.seconds(10), from: .milliseconds(2950), isWaiting: true)
        #expect(least > 10 * line / 20 && least < 10 * line / 14)
        #expect(!share.isContended(besides: player, now: .seconds(12)), "there is no player")
        _ = take(.seconds(1), from: .milliseconds(12950), isWaiting: false)
        #expect(take(.seconds(1), from: .milliseconds(13950), isWaiting: false) > 0.99 * line)
    }

    @Test func bytesOfCommandsAreTakenFromTheShareOfAllThatNoPlayerWaitsFor() {
        var share = LineShare()
        share.tell(player, ahead: 1, now: .seconds(1))
        share.took(2 << 20, charged: 2 << 20, by: .command, now: .seconds(1))
        for rank in [LineRank.reader, .command] {
            let pause = share.pause(of: rank, now: .seconds(1))
            #expect(pause == .seconds(1))
        }
        let pause = share.pause(of: .player, now: .seconds(1))
        #expect(pause == nil)
    }

    @Test func whoOnlyMayBeAPlayerIsHeldBackForOneThatSurelyIs() {
        let copy = Film()
        var share = LineShare()
        func pauses() -> [LineRank] {
            share.took(2 << 20, charged: 2 << 20, by: .filler, now: .seconds(1))
            return LineRank.allCases.filter { share.pause(of: $0, now: .seconds(1)) != nil }
        }
        share.tell(ObjectIdentifier(copy), ahead: 0, by: .filler, now: .seconds(1))
        #expect(pauses() == [])
        share.tell(player, ahead: 1, now: .seconds(1))
        #expect(pauses() == [.filler])
        share.tell(player, ahead: nil, now: .seconds(1))
        #expect(pauses() == [])
        let cleared = share.readerWaits(as: .beginner, now: .seconds(1))
        #expect(cleared == [.command, .filler] && pauses() == [.command])
    }

    /// Each of them gets what a film usually takes, until that is half of the line: ten films of which nothing is known
    /// begin, and those whose pace shows first would keep the others from showing theirs.
    @Test(arguments: [(1, 1.0), (4, 4.0), (9, 6.25)]) func manyThatMayBePlayersGetMore(_ count: Int, _ expected: Double)
    {
        let films = (0..<count).map { _ in Film() }
        var share = LineShare()
        share.took(6_250_000, charged: 0, now: .milliseconds(500))
        var (now, bytes) = (Duration.seconds(1), 0.0)
        while now < .seconds(11) {
            share.tell(player, ahead: 1, now: now)
            for film in films { share.tell(ObjectIdentifier(film), ahead: 0, by: .filler, now: now) }
            let isGoing = share.pause(of: .filler, now: now) == nil
            if isGoing { bytes += 125_000 }
            share.took(125_000, charged: isGoing ? 125_000 : 0, by: .filler, now: now)
            now += .milliseconds(10)
        }
        #expect(abs(bytes / 10e6 - expected) < 0.15 * expected, "\(bytes / 10e6)")
    }

    @Test func theNeediestPlayerCounts() {
        let other = Film()
        var share = LineShare()
        share.took(5_000_000, charged: 5_000_000, now: .seconds(1))
        share.tell(player, ahead: 1, now: .seconds(1))
        share.tell(ObjectIdentifier(other), ahead: 9, now: .seconds(1))
        share.pay(1 << 20, now: .seconds(1))
        let pause = share.pause(now: .seconds(1))
        #expect(pause == .seconds(1))
        share.tell(player, ahead: nil, now: .seconds(1))
        #expect(share.isContended(besides: player, now: .seconds(1)))
        #expect(!share.isContended(besides: ObjectIdentifier(other), now: .seconds(1)), "it does not hold itself back")
        share.tell(ObjectIdentifier(other), ahead: 25, now: .seconds(1))
        #expect(!share.isContended(besides: player, now: .seconds(1)))
    }
}

/// Which reader is a player, and how long it can go on.
@Suite struct PlayerTests {
    private static let piece: Int64 = 128 << 10

    private func ledger(there: [ByteRange]) -> Ledger { Ledger(TestBytes(length: 1 << 30, there: there)) }

    /// Reads pieces from one to another, one each `pause`. - Returns: when the last one is read.
    private func read(_ ledger: inout Ledger, _ pieces: Range<Int>, each pause: Duration) -> Duration {
        for number in pieces {
            let place = Int64(number) * Self.piece
            _ = ledger.hit(ByteRange(place, place + Self.piece), now: pause * number)
        }
        return pause * (pieces.upperBound - 1)
    }

    /// Reads a piece after `pause`, for which the reader waits for it, or asks for nothing.
    private func read(
        _ ledger: inout Ledger, _ number: Int, in pause: Duration, waits: Bool, from now: inout Duration
    ) {
        let range = ByteRange(Int64(number) * Self.piece, Int64(number + 1) * Self.piece)
        if waits { _ = ledger.park(Ledger.ReadID(number), range, deadline: .seconds(60), now: now) }
        now += pause
        _ = ledger.hit(range, now: now, wasParked: waits)
    }

    @Test func aPieceOutOfTheMiddleIsNoPlayer() {
        var ledger = ledger(there: [ByteRange(0, 1 << 30)])
        let now = read(&ledger, 4000..<4004, each: .milliseconds(1))
        #expect(!ledger.hasPlayer(now: now) && ledger.secondsAhead(now: now) == nil)
    }

    @Test func aReaderWithAPaceIsAPlayerForGoodAndACopierOnlyAtFirst() {
        let count = Int(2 * Readahead.telling / Self.piece)
        for (pause, isPlayer) in [(Duration.milliseconds(50), true), (.microseconds(100), false)] {
            var ledger = ledger(there: [ByteRange(0, 1 << 30)])
            ledger.opened()
            var now = read(&ledger, 0..<count / 4, each: pause)
            #expect(ledger.hasPlayer(now: now) && ledger.isShownPlaying(now: now) == isPlayer)
            #expect(ledger.readers(now: now).map(\.isPlayer) == [isPlayer])
            now = read(&ledger, count / 4..<count, each: pause)
            #expect(ledger.hasPlayer(now: now) == isPlayer)
            let next = Int64(count) * Self.piece
            #expect(ledger.mayPlay(at: ByteRange(next, next + Self.piece)) == isPlayer)
            #expect(!ledger.hasPlayer(now: now + .seconds(11)), "it has left")
        }
    }

    @Test(
        arguments: [
            (409.6, 50, true, LineRank.player), (409.6, 25, true, .filler), (409.6, 25, false, .player),
            (nil, 50, true, .filler), (nil, 50, false, .player),
        ] as [(Double?, Int, Bool, LineRank)])
    func whoTakesWhatTheFilmNeedsOrLeavesTimeIsSurelyAPlayer(
        _ seconds: Double?, _ milliseconds: Int, _ waits: Bool, _ rank: LineRank
    ) {
        var ledger = ledger(there: [ByteRange(0, 1 << 30)])
        ledger.opened()
        // 2.5 MiB a second.
        if let seconds { ledger.learn(seconds: seconds) }
        var now = Duration.zero
        for number in 0..<200 { read(&ledger, number, in: .milliseconds(milliseconds), waits: waits, from: &now) }
        #expect(ledger.rank(now: now) == rank)
        #expect(ledger.rank(now: now + .seconds(11)) == .reader, "it has left")
    }

    @Test func whoWaitsForOneReadHasNoLeisureWhileAnotherIsAnswered() {
        let bytes = TestBytes(length: 1 << 30)
        var ledger = Ledger(bytes)
        ledger.opened()
        func range(_ number: Int) -> ByteRange {
            ByteRange(Int64(number) * Self.piece, Int64(number + 1) * Self.piece)
        }
        func park(_ number: Int, _ now: Duration) {
            _ = ledger.park(Ledger.ReadID(number), range(number), deadline: .seconds(60), now: now)
        }
        func come(_ number: Int, _ now: Duration) {
            bytes.add(range(number))
            let isAnswered = ledger.tick(now: now).contains(.complete(Ledger.ReadID(number)))
            #expect(isAnswered)
            _ = ledger.hit(range(number), now: now, wasParked: true)
        }
        for second in 0..<5 {
            let (first, now) = (3 * second, Duration.seconds(second))
            park(first, now)
            park(first + 1, now)
            come(first + 1, now + .milliseconds(100))
            park(first + 2, now + .milliseconds(900))
            come(first, now + .milliseconds(950))
            come(first + 2, now + .milliseconds(1000))
        }
        #expect(ledger.readers(now: .seconds(5)).map(\.isPlayer) == [false])
    }

    /// A second each: w waits for each of 20 pieces, l for half of them, f for each of 40.
    @Test(
        arguments: [
            ("wwlwwlww", [3, 4, 6, 7], .filler), ("wwl", [3], .player), ("wwllww", [3, 4, 5, 6], .player),
            ("llff", [1, 2, 3, 4], .filler), ("llffl", [1, 2, 3, 4, 5], .player),
        ] as [(String, [Int], LineRank)])
    func leisureTwiceInARowIsAPaceForGoodAndWhoTakesMoreIsNotSure(
        _ seconds: String, _ paced: [Int], _ rank: LineRank
    ) {
        var ledger = ledger(there: [ByteRange(0, 1 << 30)])
        ledger.opened()
        var (now, number, shown) = (Duration.zero, 0, [Int]())
        for (second, kind) in seconds.enumerated() {
            let pieces = kind == "f" ? 40 : 20
            for piece in 1...pieces {
                let waits = kind != "l" || piece <= pieces / 2
                read(&ledger, number, in: .seconds(1) / pieces, waits: waits, from: &now)
                number += 1
            }
            if ledger.isShownPlaying(now: now) { shown.append(second + 1) }
        }
        // A second is measured with the first read behind it.
        read(&ledger, number, in: .zero, waits: true, from: &now)
        #expect(shown == paced)
        #expect(ledger.rank(now: now) == rank)
    }

    @Test func whatReadsOnInAProgramOfManyFilesMayPlayAndPlaysForGoodAfterASecondOfLeisure() {
        var ledger = ledger(there: [ByteRange(0, 1 << 30)])
        ledger.limits.isScan = true
        var (now, ranks) = (Duration.zero, [LineRank]())
        for number in 0..<110 {
            // The third second has leisure.
            let waits = !(40..<50).contains(number)
            read(&ledger, number, in: .seconds(1) / 20, waits: waits, from: &now)
            if [3, 5, 39, 65, 105].contains(number) { ranks.append(ledger.rank(now: now)) }
        }
        #expect(ranks == [.reader, .filler, .filler, .player, .player])
    }

    @Test func whoReadsTheFirstBytesMayBeginUnlessItScans() {
        for isScan in [false, true] {
            var ledger = ledger(there: [])
            ledger.opened()
            ledger.limits.isScan = isScan
            _ = ledger.park(1, ByteRange(0, Self.piece), deadline: .seconds(60), now: .zero)
            #expect(ledger.rank(now: .zero) == (isScan ? .reader : .beginner))
            #expect(ledger.secondsAhead(now: .zero) == (isScan ? nil : 0))
            _ = ledger.park(2, ByteRange(1 << 29, 1 << 29 + Self.piece), deadline: .seconds(60), now: .zero)
            #expect(ledger.rank(now: .seconds(11)) == (isScan ? .reader : .beginner), "it waits")
            ledger.abandon(1)
            #expect(ledger.rank(now: .seconds(11)) == .reader)
        }
    }

    @Test func theTimeAheadIsThatOfTheBytesThatAreThere() throws {
        // 2.5 MiB a second.
        var ledger = ledger(there: [ByteRange(0, 40 << 20)])
        let now = read(&ledger, 0..<80, each: .milliseconds(50))
        let ahead = try #require(ledger.secondsAhead(now: now))
        #expect(ahead > 11 && ahead < 12.5)
        _ = ledger.park(1, ByteRange(40 << 20, 41 << 20), deadline: .seconds(60), now: now)
        #expect(ledger.secondsAhead(now: now + .seconds(15)) == 0, "it waits")
    }
}
