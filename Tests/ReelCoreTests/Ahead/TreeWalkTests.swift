import TestKit
import Testing

@testable import ReelCore

/// The order in which the folders of a tree are listed.
@Suite struct TreeWalkTests {
    /// A folder by its name, such as `0.2.1`; how many folders are in it follows from the name and the seed.
    private struct Forest {
        let seed: UInt64

        func children(of name: String) -> Int {
            let depth = name.count { $0 == "." }
            guard depth < 5 else { return 0 }
            var random = SeededGenerator(seed: name.utf8.reduce(seed) { $0 &* 31 &+ UInt64($1) })
            return Int.random(in: 0...4, using: &random)
        }

        /// The walk of a program that goes into each folder as it comes to it.
        func walked(from name: String = "0") -> [String] {
            [name] + (0..<children(of: name)).flatMap { walked(from: "\(name).\($0)") }
        }
    }

    @Test(arguments: 0..<10) func oneAtATimeIsTheOrderInWhichProgramsWalk(_ round: Int) {
        let forest = Forest(seed: .random(in: 0...9999))
        var walk = TreeWalk<String>(atOnce: 1)
        walk.begin("0")
        var listed: [String] = []
        while true {
            let (name, order): (String, TreeWalk<String>.Order)
            switch walk.next() {
            case .list(let folder, let its): (name, order) = (folder, its)
            case .enter(let place, let folder, let its): (name, order) = ("\(folder).\(place)", its)
            case .leave: continue
            case .wait:
                Issue.record("nothing runs")
                return
            case .end:
                #expect(listed == forest.walked(), "seed \(forest.seed)")
                return
            }
            listed.append(name)
            _ = walk.ended(name, order, children: (0..<forest.children(of: name)).map { UInt32($0) })
        }
    }

    /// Answers come in any order, some are given up, and the limit changes. Each folder is listed once, never more at
    /// once than may be, the first one of those that are known, and each folder that is held is left.
    @Test(arguments: 0..<40) func severalAtOnceComeToTheSame(_ round: Int) {
        var random = SeededGenerator()
        let forest = Forest(seed: random.seed)
        let atOnce = Int.random(in: 1...16, using: &random)
        var walk = TreeWalk<String>(atOnce: atOnce)
        walk.begin("0")
        var (running, listed, held): ([(String, TreeWalk<String>.Order)], [String], Set<String>) = ([], [], [])
        // All that are known and not begun with.
        var known: Set<String> = ["0"]
        var limit = 0
        func began(_ name: String, _ order: TreeWalk<String>.Order) {
            running.append((name, order))
            let first = known.min { a, b in
                a.split(separator: ".").compactMap { Int($0) }
                    .lexicographicallyPrecedes(b.split(separator: ".").compactMap { Int($0) })
            }
            #expect(first == name, "seed \(random.seed)")
            known.remove(name)
            held.insert(name)
        }
        for _ in 0..<100_000 {
            if Int.random(in: 0..<10, using: &random) == 0 { limit += Int.random(in: 0...40, using: &random) }
            switch walk.next(limit: limit) {
            case .list(let name, let order): began(name, order)
            case .enter(let place, let folder, let order): began("\(folder).\(place)", order)
            case .leave(let name):
                let wasHeld = held.remove(name) != nil
                #expect(wasHeld)
            case .end:
                #expect(listed.sorted() == forest.walked().sorted() && held.isEmpty, "seed \(random.seed)")
                #expect(walk.started == listed.count)
                return
            case .wait:
                #expect(running.count == atOnce || walk.started >= limit || known.isEmpty, "seed \(random.seed)")
                guard let place = running.indices.randomElement(using: &random) else { continue }
                let (name, order) = running.remove(at: place)
                if Int.random(in: 0..<8, using: &random) == 0 {
                    walk.givenBack(name, order)
                    known.insert(name)
                    continue
                }
                listed.append(name)
                let children = (0..<forest.children(of: name)).map { UInt32($0) }
                known.formUnion(children.map { "\(name).\($0)" })
                if !walk.ended(name, order, children: children) { held.remove(name) }
            }
            #expect(running.count <= atOnce && walk.started <= limit)
        }
        Issue.record("no end, seed \(random.seed)")
    }

    @Test func aWalkThatEndsTellsWhatItHolds() {
        var walk = TreeWalk<String>(atOnce: 2)
        walk.begin("a", children: [7, 9])
        guard case .enter(7, "a", let order) = walk.next() else {
            Issue.record("it does not go on")
            return
        }
        let isHeld = walk.ended("a.7", order, children: [0])
        let held = walk.end()
        #expect(isHeld && held.sorted() == ["a", "a.7"])
        guard case .end = walk.next() else {
            Issue.record("it does not go on")
            return
        }
    }
}
