import TestKit
import Testing

@testable import ReelCore

/// Which file is fetched whole next.
@Suite struct KeepPlanTests {
    private func item(_ name: String, date: Int64? = nil) -> KeepPlan.Item {
        KeepPlan.Item(path: name, key: "http://h/" + name, length: 1000, modified: date)
    }

    private func items(_ names: String) -> [KeepPlan.Item] { names.map { item("\($0)") } }

    @Test("The items of what plays come in their order, each once")
    func order() {
        var plan = KeepPlan()
        #expect(plan.due(now: .zero) == nil && plan.nextLook == nil)
        plan.play(items("bcd"), of: "s")
        for name in ["b", "c", "d"] {
            #expect(plan.due(now: .zero) == item(name))
            plan.came(item(name))
        }
        #expect(plan.due(now: .seconds(1_000_000)) == nil && plan.nextLook == nil)
        // The next one plays: what was kept is not fetched again, whether it is still there or not.
        plan.play(items("cde"), of: "s")
        #expect(plan.due(now: .zero) == item("e"))
    }

    @Test("What was played last comes first, feeds come last, and an item of both comes once")
    func queues() {
        var plan = KeepPlan()
        plan.list(items("xy"), of: "feed")
        plan.play(items("bc"), of: "s")
        plan.play(items("xm"), of: "t")
        #expect(plan.entries.map(\.item) == items("xmbcy"))
        plan.play(items("c"), of: "s")
        #expect(plan.entries.map(\.item) == items("cxmy"))
        plan.keepFeeds([])
        #expect(plan.entries.map(\.item) == items("cxm"))
        for number in 0..<KeepPlan.mostPlayed { plan.play([item("f\(number)")], of: "f\(number)") }
        #expect(plan.entries.count == KeepPlan.mostPlayed)
    }

    @Test("A version of another length or date is another item")
    func versions() {
        var plan = KeepPlan()
        plan.list([item("a", date: 1)], of: "feed")
        plan.came(item("a", date: 1))
        plan.list([item("a", date: 2)], of: "feed")
        #expect(plan.due(now: .zero) == item("a", date: 2))
    }

    @Test(
        "Where there is no room nothing behind comes either, and it is looked again after a pause, or for a new queue")
    func room() {
        var plan = KeepPlan()
        plan.play(items("bcd"), of: "s")
        plan.came(item("b"))
        plan.fill(item("c"), wasBegun: false, now: .seconds(10))
        #expect(plan.due(now: .seconds(11)) == nil && plan.isFull(item("c")) && !plan.isFull(item("d")))
        #expect(plan.nextLook == .seconds(10) + KeepPlan.pause)
        #expect(plan.due(now: .seconds(10) + KeepPlan.pause) == item("c"))
        plan.play(items("cde"), of: "s")
        #expect(plan.due(now: .seconds(11)) == item("c"))
        for _ in 1..<KeepPlan.mostFailures {
            plan.fill(item("c"), wasBegun: true, now: .seconds(11))
            #expect(plan.isFull(item("c")))
        }
        plan.fill(item("c"), wasBegun: true, now: .seconds(11))
        #expect(plan.due(now: .seconds(11)) == item("d"), "given up")
        #expect(plan.spared(for: item("d")) == items("cd") && plan.expendable(for: item("d")) == items("e"))
    }

    @Test("An attempt that failed is made again later and later, five times in all; an absence does not count")
    func failures() {
        var plan = KeepPlan()
        plan.play(items("bc"), of: "s")
        var moment = Duration.zero
        for _ in 0..<20 {
            plan.fail(item("b"), "it is away", isAway: true, now: moment)
            #expect(plan.due(now: moment) == item("c"))
            moment += KeepPlan.pauseAway
            #expect(plan.due(now: moment) == item("b"))
        }
        var pauses: [Duration] = []
        for _ in 0..<KeepPlan.mostFailures - 1 {
            plan.fail(item("b"), "status 500", isAway: false, now: moment)
            plan.came(item("c"))
            pauses.append(plan.nextLook! - moment)
            moment = plan.nextLook!
            #expect(plan.due(now: moment) == item("b"))
        }
        #expect(pauses == [60, 300, 1500, 3600].map { .seconds($0) })
        plan.fail(item("b"), "status 500", isAway: false, now: moment)
        #expect(plan.nextLook == nil && plan.entries[0].phase == .failed && plan.entries[0].trouble == "status 500")
    }

    @Test("What is finished spares no room, and does not come again")
    func finished() {
        var plan = KeepPlan()
        plan.list(items("abc"), of: "feed")
        plan.finish("http://h/a")
        plan.finish("http://h/other")
        #expect(plan.due(now: .zero) == item("b"))
        #expect(plan.spared(for: item("b")) == items("b"))
        plan.came(item("a"))
        #expect(plan.entries[0].phase == .finished)
    }

    @Test("Episodes of feeds that came do not come again with the next mount, and are forgotten with their feed")
    func remembered() {
        var plan = KeepPlan()
        plan.list(items("ab"), of: "feed")
        plan.play(items("bc"), of: "s")
        for name in ["b", "a", "c"] { plan.came(item(name)) }
        #expect(plan.done == Set(items("ab").map(\.mark)))
        plan = KeepPlan(done: plan.done)
        plan.list(items("abd"), of: "feed")
        #expect(plan.due(now: .zero) == item("d"))
        // One that plays now comes again.
        plan.play(items("c"), of: "s")
        #expect(plan.due(now: .zero) == item("c"))
        plan.list(items("bd"), of: "feed")
        plan.keepFeeds(["feed"])
        #expect(plan.done == [item("b").mark])
        plan.keepFeeds([])
        #expect(plan.done == [])
        #expect(item("a", date: 1).mark != item("a", date: 2).mark)
    }

    @Test("There are no more items than the bound")
    func bound() {
        var plan = KeepPlan()
        for feed in 0..<60 { plan.list((0..<100).map { item("\(feed)/\($0)") }, of: "\(feed)") }
        #expect(plan.entries.count == KeepPlan.mostItems)
    }

    /// Items of some queues come and go, in a cache that has room for a few; every answer is held against a model that
    /// looks at all again.
    @Test(arguments: 0..<LongTests.many(60, elseOnly: 20)) func randomEvents(_ round: Int) {
        var random = SeededGenerator()
        var plan = KeepPlan()
        var moment = Duration.zero
        // In the model: when an item may be fetched, nil for never again; and who waits for room.
        var known: [KeepPlan.Item: Duration?] = [:]
        var full: Set<KeepPlan.Item> = []
        var failures: [KeepPlan.Item: Int] = [:]
        var whole: Set<KeepPlan.Item> = []
        var done: Set<KeepPlan.Item> = []
        var (played, feeds): ([(String, [KeepPlan.Item])], [(String, [KeepPlan.Item])]) = ([], [])
        func expected() -> [KeepPlan.Item] {
            var all: [KeepPlan.Item] = []
            for item in (played + feeds).flatMap(\.1) where !all.contains(item) { all.append(item) }
            return all
        }
        func arranged() {
            let all = Set(expected())
            known = known.filter { all.contains($0.key) }
            failures = failures.filter { all.contains($0.key) }
            whole.formIntersection(all)
            let next = Set(played.flatMap(\.1))
            for item in all where known[item] == nil {
                known[item] = .some(!next.contains(item) && done.contains(item) ? nil : .zero)
            }
            for item in full { if known[item] != nil { known[item] = .some(.zero) } }
            full = []
        }
        for _ in 0..<300 {
            moment += .seconds(Int.random(in: 0...200, using: &random))
            let name = String("stuvwxyzäöüß".randomElement(using: &random)!)
            let some = (0..<Int.random(in: 0...4, using: &random)).map { item("\(name)\($0)") }
            switch Int.random(in: 0..<12, using: &random) {
            case 0, 1:
                plan.play(some, of: name)
                played.removeAll { $0.0 == name }
                played = Array(([(name, some)] + played).prefix(KeepPlan.mostPlayed))
                arranged()
            case 2:
                let isNews = feeds.first { $0.0 == name }.map { $0.1 != some } ?? true
                plan.list(some, of: name)
                if let place = feeds.firstIndex(where: { $0.0 == name }) {
                    feeds[place].1 = some
                } else {
                    feeds.append((name, some))
                }
                if isNews { arranged() }
            case 3:
                let kept = Set(feeds.map(\.0).filter { _ in Bool.random(using: &random) })
                plan.keepFeeds(kept)
                let isNews = feeds.contains { !kept.contains($0.0) }
                feeds.removeAll { !kept.contains($0.0) }
                if isNews { arranged() }
                done.formIntersection(feeds.flatMap(\.1))
            default:
                guard let due = plan.due(now: moment) else { continue }
                switch Int.random(in: 0..<5, using: &random) {
                case 0:
                    let wasBegun = Bool.random(using: &random)
                    plan.fill(due, wasBegun: wasBegun, now: moment)
                    if wasBegun { failures[due, default: 0] += 1 }
                    let isLast = wasBegun && failures[due] == KeepPlan.mostFailures
                    known[due] = .some(isLast ? nil : moment + KeepPlan.pause)
                    if isLast { full.remove(due) } else { full.insert(due) }
                case 1:
                    let isAway = Bool.random(using: &random)
                    plan.fail(due, "it failed", isAway: isAway, now: moment)
                    full.remove(due)
                    if !isAway { failures[due, default: 0] += 1 }
                    let pause = [60, 60, 300, 1500, 3600][min(4, failures[due] ?? 0)]
                    let next = moment + (isAway ? KeepPlan.pauseAway : .seconds(pause))
                    known[due] = .some(failures[due] == KeepPlan.mostFailures ? nil : next)
                default:
                    #expect(whole.insert(due).inserted, "fetched twice")
                    plan.came(due)
                    full.remove(due)
                    if feeds.contains(where: { $0.1.contains(due) }) { done.insert(due) }
                    known[due] = .some(nil)
                }
            }
            #expect(plan.entries.map(\.item) == expected())
            var due: KeepPlan.Item?
            for item in expected() {
                guard let time = known[item]! else { continue }
                if time <= moment { due = item }
                if due != nil || full.contains(item) { break }
            }
            #expect(plan.due(now: moment) == due, "seed \(random.seed)")
            if due == nil, let next = plan.nextLook { #expect(next > moment && plan.due(now: next) != nil) }
        }
    }
}
