import Testing

@testable import ReelCore

/// A second try beside a stream that is silent, on a scripted clock.
@Suite struct HedgeTests {
    private func waitingLedger() -> (Ledger, Ledger.StreamID, ByteRange) {
        var ledger = Ledger(length: 1 << 30)
        ledger.opened()
        let actions = ledger.park(1, ByteRange(0, 4096), deadline: .seconds(30), now: .zero)
        guard case .start(let id, let range, true) = actions.first else { return (ledger, 0, ByteRange(0, 0)) }
        ledger.requested(id, now: .zero)
        return (ledger, id, range)
    }

    private func started(_ actions: [Ledger.Action]) -> [(id: Ledger.StreamID, range: ByteRange)] {
        actions.compactMap { if case .start(let id, let range, _) = $0 { (id, range) } else { nil } }
    }

    @Test func silenceIsHeardOutForAWhileAndThenAskedAgainOnce() {
        var (ledger, _, range) = waitingLedger()
        #expect(ledger.tick(now: .milliseconds(1400)) == [])
        let second = started(ledger.tick(now: .milliseconds(1600)))
        #expect(second.map(\.range) == [range])
        for seconds in 2..<20 { #expect(ledger.tick(now: .seconds(seconds)) == []) }
    }

    @Test(arguments: [true, false]) func whoeverBringsTheFirstByteEndsTheOther(firstWins: Bool) {
        var (ledger, first, range) = waitingLedger()
        let second = started(ledger.tick(now: .seconds(2)))[0].id
        let (winner, loser) = firstWins ? (first, second) : (second, first)
        let result = ledger.arrived(winner, range, now: .seconds(3))
        #expect(result.actions.contains(.stop(loser)) && result.actions.contains(.complete(1)))
        #expect(ledger.ended(winner, nil, now: .seconds(3), random: 0.5) == [])
        #expect(ledger.ended(loser, .cancelled, now: .seconds(3), random: 0.5) == [])
        #expect(ledger.isIdle)
        #expect(ledger.statistics.sums.wasted == 0)
    }

    @Test(arguments: [true, false]) func whereOneFailsTheOtherGoesOn(firstFails: Bool) {
        var (ledger, first, range) = waitingLedger()
        let second = started(ledger.tick(now: .seconds(2)))[0].id
        let (loser, winner) = firstFails ? (first, second) : (second, first)
        #expect(ledger.ended(loser, .interrupted("x"), now: .seconds(3), random: 0.5) == [])
        #expect(ledger.isLive(winner) && !ledger.isLive(loser))
        #expect(ledger.arrived(winner, range, now: .seconds(4)).actions.contains(.complete(1)))
    }

    /// A ledger whose second tries ask a mirror.
    private func mirroredLedger() -> (Ledger, Ledger.StreamID, ByteRange) {
        var (ledger, id, range) = waitingLedger()
        ledger.limits = Ledger.Limits(hasMirror: true)
        return (ledger, id, range)
    }

    @Test func aMirrorIsAskedSooner() {
        var (ledger, _, range) = mirroredLedger()
        #expect(ledger.tick(now: .milliseconds(450)) == [])
        #expect(started(ledger.tick(now: .milliseconds(850))).map(\.range) == [range])
        var slow = Pace()
        for id in UInt64(0)..<40 {
            slow.started(id, now: .seconds(10 * Int(id)))
            slow.head(of: id, now: .seconds(10 * Int(id) + 4))
        }
        #expect(slow.mirrorAfter < .seconds(1))
    }

    @Test func aSlowStreamIsHedgedByAMirrorAndDoesNotWinByItsNextByte() {
        var (ledger, first, range) = mirroredLedger()
        var place = range.lower
        /// A hundred bytes each tenth of a second.
        func drip(_ now: Duration) -> [Ledger.Action] {
            defer { place += 100 }
            return ledger.arrived(first, ByteRange(place, place + 100), now: now).actions
        }
        for tenths in 1...4 {
            #expect(!drip(.milliseconds(100 * tenths)).contains { if case .stop = $0 { true } else { false } })
            #expect(started(ledger.tick(now: .milliseconds(100 * tenths))).isEmpty)
        }
        _ = drip(.milliseconds(800))
        let second = started(ledger.tick(now: .milliseconds(850)))
        #expect(second.count == 1 && ledger.reason(of: second[0].id) == .hedge)
        #expect(!drip(.milliseconds(900)).contains(.stop(second[0].id)))
        #expect(started(ledger.tick(now: .milliseconds(950))).isEmpty)
        let result = ledger.arrived(second[0].id, second[0].range, now: .milliseconds(1000))
        #expect(result.actions.contains(.stop(first)))
    }

    /// No place takes a second request: each try would fail as the one before.
    @Test func aFailedTryBesideASlowStreamIsNotRepeatedAtOnce() {
        var (ledger, first, range) = mirroredLedger()
        var (place, tries) = (range.lower, 0)
        for tenths in 1...26 {
            let now = Duration.milliseconds(100 * tenths)
            _ = ledger.arrived(first, ByteRange(place, place + 100), now: now)
            place += 100
            for (id, _) in started(ledger.tick(now: now)) {
                tries += 1
                _ = ledger.ended(id, .status(429, retryAfter: nil), now: now, random: 0.5)
            }
        }
        // After 0.5 to 0.8 s each.
        #expect((3...5).contains(tries) && ledger.isLive(first))
    }

    @Test func whatNobodyWaitsForIsNotAskedForTwice() {
        var (ledger, _, _) = waitingLedger()
        ledger.abandon(1)
        #expect(started(ledger.tick(now: .milliseconds(1900))).isEmpty)
    }

    @Test func anOriginThatIsAlwaysSlowIsNotHurried() {
        var pace = Pace()
        for id in UInt64(0)..<40 {
            pace.started(id, now: .seconds(10 * Int(id)))
            pace.head(of: id, now: .seconds(10 * Int(id) + 4))
        }
        #expect(pace.hedgeAfter > .seconds(4) && pace.hedgeAfter < .seconds(8))
    }
}
