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
