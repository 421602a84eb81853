import TestKit
import Testing

@testable import ReelCore

/// Which programs walk through a tree, and how many folders are listed ahead of them.
@Suite struct WalksTests {
    @Test(
        arguments: [
            ("one folder", [(10, 0, false)], nil),
            ("two folders", [(10, 0, false), (11, 1, false)], nil),
            ("three in turn", [(10, 0, false), (11, 1, false), (12, 2, false)], 16),
            ("one of them again and again", [(10, 0, false), (11, 1, false), (10, 2, false), (11, 3, false)], nil),
            ("listed ones", [(10, 0, true), (11, 1, true), (12, 2, true), (13, 3, true)], nil),
            ("two that were not listed", [(10, 0, false), (11, 1, true), (12, 2, false), (13, 3, true)], nil),
            ("a person", [(10, 0, false), (11, 6, false), (12, 12, false), (13, 18, false)], nil),
            ("a person, then a program", [(10, 0, false), (11, 9, false), (12, 10, false), (13, 11, false)], 16),
            ("a fourth", [(10, 0, false), (11, 1, false), (12, 2, false), (13, 3, false)], 33),
        ] as [(String, [(UInt64, Double, Bool)], Int?)])
    func threeFoldersOfOneParentInTurnAreAWalk(_ name: String, _ reads: [(UInt64, Double, Bool)], _ limit: Int?) {
        var walks = Walks()
        var last = Walks.Decision.none
        for (folder, at, isListed) in reads {
            last = walks.reads(folder, above: [1], isListed: isListed, now: .seconds(at))
        }
        switch last {
        case .none: #expect(limit == nil)
        case .begins(1, let allowed, []), .goesOn(1, let allowed): #expect(allowed == limit)
        default: Issue.record("\(last)")
        }
    }

    /// Three folders below `root`, which lies below `above`.
    private func begin(_ walks: inout Walks, at root: UInt64, above: [UInt64] = [], now: Duration) -> Walks.Decision {
        var last = Walks.Decision.none
        for folder in 1...3 {
            last = walks.reads(root * 100 + UInt64(folder), above: [root] + above, isListed: false, now: now)
        }
        return last
    }

    @Test func whatIsBelowTheWalkIsOfIt() {
        var walks = Walks()
        #expect(begin(&walks, at: 1, now: .zero) == .begins(root: 1, limit: 16, instead: []))
        #expect(walks.reads(7, above: [101, 1], isListed: true, now: .zero) == .goesOn(root: 1, limit: 33))
        #expect(walks.reads(8, above: [2], isListed: false, now: .zero) == .none)
    }

    @Test func aWalkOfTheFoldersAboveTakesThePlaceOfThoseBelow() {
        var walks = Walks()
        // Artist after artist, three albums each, and ten seconds for all of one.
        #expect(walks.reads(10, above: [1], isListed: false, now: .zero) == .none)
        #expect(begin(&walks, at: 10, above: [1], now: .seconds(1)) == .begins(root: 10, limit: 16, instead: []))
        #expect(walks.reads(1004, above: [10, 1], isListed: false, now: .seconds(5)) == .goesOn(root: 10, limit: 33))
        #expect(walks.reads(11, above: [1], isListed: false, now: .seconds(9)) == .none)
        #expect(begin(&walks, at: 11, above: [1], now: .seconds(10)) == .begins(root: 11, limit: 16, instead: []))
        let third = walks.reads(12, above: [1], isListed: false, now: .seconds(11))
        #expect(third == .begins(root: 1, limit: 16, instead: [10, 11]))
    }

    @Test func theBudgetHasAnEnd() {
        var walks = Walks()
        _ = begin(&walks, at: 1, now: .zero)
        var limit = 0
        for count in 1...500 {
            guard case .goesOn(1, let allowed) = walks.reads(5, above: [1], isListed: true, now: .zero) else {
                Issue.record("no walk")
                return
            }
            #expect(allowed >= limit && allowed <= count + 1024)
            limit = allowed
        }
        #expect(limit == 1524)
    }

    @Test func aWalkRestsOnceNothingIsReadAndEndsLater() {
        var walks = Walks()
        _ = begin(&walks, at: 1, now: .zero)
        // The third read waits for its listing.
        #expect(walks.takeStopped(now: .seconds(60)) == ([], []))
        walks.answered(1, now: .seconds(60))
        #expect(walks.takeStopped(now: .seconds(60.6)) == ([], []))
        #expect(walks.takeStopped(now: .seconds(60.7)) == ([1], []))
        #expect(walks.takeStopped(now: .seconds(61)) == ([], []))
        #expect(walks.reads(5, above: [1], isListed: true, now: .seconds(62)) == .goesOn(root: 1, limit: 33))
        walks.answered(1, now: .seconds(62))
        #expect(walks.takeStopped(now: .seconds(63)) == ([1], []))
        #expect(!walks.isQuiet)
        #expect(walks.takeStopped(now: .seconds(92)) == ([], [1]))
        #expect(walks.isQuiet)
    }

    @Test func failuresInARowEndAWalkAndBarOthersForAWhile() {
        var walks = Walks()
        _ = begin(&walks, at: 1, now: .zero)
        let ends = [true, true, true, false, true, true, true, true].map {
            walks.ahead(1, hasFailed: $0, now: .zero)
        }
        #expect(ends == [false, false, false, false, false, false, false, true])
        #expect(begin(&walks, at: 1, now: .seconds(9)) == .none)
        #expect(begin(&walks, at: 2, now: .seconds(10)) == .begins(root: 2, limit: 16, instead: []))
    }

    @Test func theLongestUnusedOfFiveWalksGoes() {
        var walks = Walks()
        for root in 1...4 as ClosedRange<UInt64> { _ = begin(&walks, at: root, now: .seconds(Int64(root))) }
        _ = walks.reads(5, above: [1], isListed: true, now: .seconds(5))
        #expect(begin(&walks, at: 9, now: .seconds(6)) == .begins(root: 9, limit: 16, instead: [2]))
    }

    /// Against all that has happened: a walk has three reads of one parent, none listed and none long after the other,
    /// and no walk above it.
    @Test(arguments: 0..<20) func itIsWhatTheHistorySays(_ round: Int) {
        var random = SeededGenerator()
        // Folders 1 to 40; the parent of n is n / 3, and that of 1 and 2 is 0, the root.
        func above(_ folder: UInt64) -> [UInt64] {
            folder == 0 ? [] : [folder / 3] + above(folder / 3)
        }
        var walks = Walks()
        var history: [UInt64: (children: Set<UInt64>, at: Duration)] = [:]
        var roots: [UInt64: (reads: Int, at: Duration)] = [:]
        var moment = Duration.zero
        for _ in 0..<400 {
            moment += .milliseconds(Int64.random(in: 0...2500, using: &random))
            let folder = UInt64.random(in: 1...40, using: &random)
            let isListed = Int.random(in: 0..<4, using: &random) == 0
            let way = above(folder)
            for parent in way {
                guard let known = history[parent] else { continue }
                history[parent] = (moment - known.at > .seconds(5) ? [] : known.children, moment)
            }
            var expected = Walks.Decision.none
            if let root = way.first(where: { roots[$0] != nil }) {
                let reads = roots[root]!.reads + 1
                roots[root] = (reads, moment)
                expected = .goesOn(root: root, limit: reads + min(16 * (reads + 1), 1024))
            } else if !isListed {
                let children = (history[way[0]]?.children ?? []).union([folder])
                history[way[0]] = (children, moment)
                if children.count >= 3 {
                    var instead = roots.keys.filter { above($0).contains(way[0]) }
                    if roots.count - instead.count >= 4 {
                        instead += [roots.filter { !instead.contains($0.key) }.min { $0.value.at < $1.value.at }!.key]
                    }
                    for root in instead { roots[root] = nil }
                    roots[way[0]] = (0, moment)
                    history[way[0]] = nil
                    expected = .begins(root: way[0], limit: 16, instead: instead.sorted())
                }
            }
            var decision = walks.reads(folder, above: way, isListed: isListed, now: moment)
            if case .begins(let root, let limit, let instead) = decision {
                decision = .begins(root: root, limit: limit, instead: instead.sorted())
            }
            guard decision == expected else {
                Issue.record("seed \(random.seed): \(decision) instead of \(expected)")
                return
            }
        }
    }
}
