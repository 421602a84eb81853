import TestKit
import Testing

@testable import ReelCore

@Suite struct AllowanceTests {
    @Test func soManyBytesAMinuteAndNoMore() {
        var allowance = Allowance(perMinute: 6000)
        #expect(allowance.take(6000, now: .seconds(100)) == true)
        #expect(allowance.take(1, now: .seconds(100)) == false)
        #expect(allowance.take(1001, now: .seconds(110)) == false)
        #expect(allowance.take(1000, now: .seconds(110)) == true)
        #expect(allowance.take(6000, now: .seconds(1000)) == true)
        #expect(allowance.take(6000, now: .seconds(1030)) == false)
    }

    @Test func whatIsSpareLeavesHalfOfItToOthers() {
        var allowance = Allowance(perMinute: 6000)
        #expect(allowance.take(3001, isSpare: true, now: .seconds(100)) == false)
        #expect(allowance.take(3000, isSpare: true, now: .seconds(100)) == true)
        #expect(allowance.take(1, isSpare: true, now: .seconds(100)) == false)
        #expect(allowance.take(3000, now: .seconds(100)) == true)
    }

    /// Trust that is used up drains within a minute, and what comes back is at hand at once.
    @Test func trustIsGivenWithinTheBudgetOfAMinute() {
        var shield = ProbeShield(perMinute: 6000)
        let steps: [(seconds: Int, onTrust: Int64, isAllowed: Bool)] = [
            (100, 0, true), (100, 5999, true), (100, 6000, false), (105, 6000, true), (105, 6600, false),
            (105, 3600, true), (125, 3600, true), (125, 9600, false), (184, 9600, true), (184, 0, true),
            (184, 5999, true), (184, 6000, false),
        ]
        for step in steps {
            #expect(shield.allows(step.onTrust, now: .seconds(step.seconds)) == step.isAllowed, "\(step)")
        }
    }

    /// Against a list of all that was ever lent: in no minute more than twice the budget of what never came back, which
    /// is one budget at once and one a minute.
    @Test(arguments: 0..<10) func whoeverStopsEarlyGetsNoMoreThanTheBudget(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var shield = ProbeShield(perMinute: 60_000)
        var now = Duration.seconds(1000)
        var onTrust: Int64 = 0
        var lent: [(at: Duration, bytes: Int64)] = []
        for number in 0..<2000 {
            now += .milliseconds(Int64.random(in: 0...500, using: &random))
            let piece = Int64.random(in: 1...2500, using: &random)
            if shield.allows(onTrust, now: now) {
                onTrust += piece
                lent.append((now, piece))
                // Every third reader reads on.
                if number % 3 == 0 {
                    onTrust -= piece
                    lent.removeLast()
                }
            }
            let lastMinute = lent.filter { now - $0.at <= .seconds(60) }.reduce(0) { $0 + $1.bytes }
            #expect(lastMinute <= 2 * 60_000 + 2500, "seed \(seed)")
        }
        #expect(lent.count > 100, "seed \(seed)")
    }
}
