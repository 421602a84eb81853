import TestKit
import Testing

@testable import ReelCore

@Suite struct SpeculationBudgetTests {
    @Test func soManyBytesAMinuteAndNoMore() {
        var budget = SpeculationBudget(perMinute: 6000)
        #expect(budget.spend(6000, on: .tail, now: .seconds(100)) == true)
        #expect(budget.spend(1, on: .tail, now: .seconds(100)) == false)
        #expect(budget.spend(1001, on: .tail, now: .seconds(110)) == false)
        #expect(budget.spend(1000, on: .tail, now: .seconds(110)) == true)
        #expect(budget.spend(6000, on: .tail, now: .seconds(1000)) == true)
        #expect(budget.spend(6000, on: .tail, now: .seconds(1030)) == false)
    }

    @Test func moreOfTheNextItemLeavesHalfOfItToOthers() {
        var budget = SpeculationBudget(perMinute: 6000)
        #expect(budget.spend(3001, on: .moreOfNextItem, now: .seconds(100)) == false)
        #expect(budget.spend(3000, on: .moreOfNextItem, now: .seconds(100)) == true)
        #expect(budget.spend(1, on: .moreOfNextItem, now: .seconds(100)) == false)
        #expect(budget.spend(3000, on: .nextItem, now: .seconds(100)) == true)
    }

    /// However little time passes between two looks, a minute brings back a minute's bytes.
    @Test func whatComesBackInManyStepsIsNotLost() {
        var budget = SpeculationBudget(perMinute: 6000)
        #expect(budget.spend(6000, on: .tail, now: .seconds(100)) == true)
        for step in 1...100_000 {
            _ = budget.allowsEarly(0, now: .seconds(100) + .microseconds(600 * step))
        }
        #expect(budget.spend(5990, on: .tail, now: .seconds(160)) == true)
    }

    /// A scan of beginnings: a person opens fewer films.
    @Test func thirtyTwoFilmsGetTheirSecondBlockAndAllTheirTails() {
        var budget = SpeculationBudget()
        let block = BlockSize.block
        for number in 0..<200 {
            #expect(budget.spend(block, on: .secondBlock, now: .seconds(100)) == (number < 32), "\(number)")
            #expect(budget.spend(block, on: .tail, now: .seconds(100)) == true)
        }
    }

    /// Early readahead leaves a quarter of the budget to tails, drains within a minute, and what comes back is at hand
    /// at once.
    @Test func earlyReadaheadKeepsWithinTheBudgetOfAMinute() {
        var budget = SpeculationBudget(perMinute: 8000)
        let steps: [(seconds: Int, early: Int64, isAllowed: Bool)] = [
            (100, 0, true), (100, 5999, true), (100, 6000, false), (106, 6000, true), (106, 6800, false),
            (106, 3600, true), (127, 3600, true), (127, 9600, false), (184, 9600, true), (184, 0, true),
            (184, 5999, true), (184, 6000, false),
        ]
        for step in steps {
            #expect(budget.allowsEarly(step.early, now: .seconds(step.seconds)) == step.isAllowed, "\(step)")
        }
        #expect(budget.spend(2000, on: .tail, now: .seconds(184)) == true)
    }

    /// Against a list of all that was ever lent: in no minute more than twice the budget of what never came back, which
    /// is one budget at once and one a minute.
    @Test(arguments: 0..<10) func readersThatStopEarlyGetNoMoreThanTheBudget(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var budget = SpeculationBudget(perMinute: 60_000)
        var now = Duration.seconds(1000)
        var early: Int64 = 0
        var lent: [(at: Duration, bytes: Int64)] = []
        for number in 0..<2000 {
            now += .milliseconds(Int64.random(in: 0...500, using: &random))
            let piece = Int64.random(in: 1...2500, using: &random)
            if budget.allowsEarly(early, now: now) {
                early += piece
                lent.append((now, piece))
                // Every third reader reads on.
                if number % 3 == 0 {
                    early -= piece
                    lent.removeLast()
                }
            }
            let lastMinute = lent.filter { now - $0.at <= .seconds(60) }.reduce(0) { $0 + $1.bytes }
            #expect(lastMinute <= 2 * 60_000 + 2500, "seed \(seed)")
        }
        #expect(lent.count > 100, "seed \(seed)")
    }
}
