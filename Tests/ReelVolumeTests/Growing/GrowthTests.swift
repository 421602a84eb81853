import ReelCore
import ReelFilesystem
import Testing

@testable import ReelVolume

/// When readers wait at the end, and when the origin is asked for more.
@Suite struct GrowthTests {
    @Test(
        "A reader waits where the file has grown, or was changed, within a minute",
        arguments: [
            (grownAt: nil, changedAt: nil, isLive: false), (nil, 999_941, true), (nil, 999_940, false),
            (nil, 1_000_500, true), (.seconds(941), 0, true), (.seconds(940), nil, false),
        ] as [(grownAt: Duration?, changedAt: Int64?, isLive: Bool)])
    func live(_ row: (grownAt: Duration?, changedAt: Int64?, isLive: Bool)) {
        var growth = Growth(wait: .seconds(30))
        if let grownAt = row.grownAt { growth.grew(grownAt) }
        let isLive = growth.isLive(
            changedAt: row.changedAt, date: 1_000_000, now: .seconds(1000))
        #expect(isLive == row.isLive)
    }

    @Test("Once a reader has come to the end the origin is asked, the more seldom the longer nothing is found")
    func looks() {
        var growth = Growth(wait: .seconds(30))
        let node = Node(
            id: 2, parent: 1, name: "a.ts", inode: 2, place: .url(ResourceURL("http://a/a.ts")!), isDirectory: false,
            listed: Node.Facts())
        let handle = Growth.Shared(wait: .seconds(30))
        growth.opened(ObjectIdentifier(handle), node, hadPages: nil)
        func looks(_ moment: Duration) -> Bool { growth.takeLook(moment) }
        #expect(!looks(.seconds(1)) && !growth.isAwaited)
        growth.reachedEnd()
        var (moment, pauses) = (Duration.seconds(1), [Duration]())
        for _ in 0..<6 {
            let start = moment
            while !looks(moment) { moment += .seconds(1) }
            pauses.append(moment - start)
            // One at a time.
            #expect(!looks(moment + .seconds(100)) && growth.isAwaited)
            growth.looked(isNews: false, moment)
        }
        #expect(pauses == [0, 4, 8, 16, 16, 16].map { .seconds($0) })
        growth.grew(moment)
        #expect(!looks(moment + .seconds(1)) && looks(moment + .seconds(2)))
        growth.looked(isNews: true, moment)
        #expect(looks(moment + .seconds(2)))
        growth.looked(isNews: true, moment)
        growth.closed(ObjectIdentifier(handle))
        #expect(!growth.isAwaited && !looks(moment + .seconds(100)))
    }

    @Test("A reader has several looks before it sees the end, and sees it after no look that is under way")
    func late() {
        var growth = Growth(wait: .seconds(4))
        growth.reachedEnd()
        growth.add(Growth.EndRead(caller: TestRead(), node: 2, offset: 0, count: 10, deadline: .seconds(4)))
        for second in 0..<4 {
            let looks = growth.takeLook(.seconds(second))
            #expect(looks)
            growth.looked(isNews: false, .seconds(second))
        }
        let looks = growth.takeLook(.seconds(4))
        #expect(looks)
        var left = growth.takeLate(.seconds(5)).count
        #expect(left == 0)
        growth.looked(isNews: false, .seconds(6))
        left = growth.takeLate(.seconds(6)).count
        #expect(left == 1)
    }

    @Test("A look of which nothing is heard keeps a reader no longer than a second")
    func silentLook() {
        var growth = Growth(wait: .seconds(4))
        growth.reachedEnd()
        growth.add(Growth.EndRead(caller: TestRead(), node: 2, offset: 0, count: 10, deadline: .seconds(4)))
        let looks = growth.takeLook(.seconds(3))
        #expect(looks)
        var left = growth.takeLate(.seconds(5)).count
        #expect(left == 0)
        left = growth.takeLate(.milliseconds(5050)).count
        #expect(left == 1)
    }

    @Test("The reads of a handle count unless the kernel may have pages from before the file was open")
    func pages() {
        var growth = Growth(wait: .seconds(30))
        let nodes = (2..<4).map { id in
            Node(
                id: id, parent: 1, name: "a.ts", inode: id, place: .url(ResourceURL("http://a/a.ts")!),
                isDirectory: false, listed: Node.Facts())
        }
        let handles = (0..<4).map { _ in TestRead() }
        func opens(_ handle: Int, _ node: Node, isKept: Bool = true) -> Bool {
            growth.opened(ObjectIdentifier(handles[handle]), node, hadPages: isKept ? node.takesPages() : nil)
            return growth.isReadUncounted
        }
        #expect(!opens(0, nodes[0]) && !opens(1, nodes[0]))
        _ = nodes[1].takesPages()
        #expect(!opens(2, nodes[1], isKept: false) && opens(3, nodes[1]))
    }

    @Test("A reader leaves with bytes before it, at its deadline, with its caller, or with the version")
    func readers() {
        var growth = Growth(wait: .seconds(30))
        let callers = (0..<4).map { _ in TestRead() }
        for (number, caller) in callers.enumerated() {
            growth.add(
                Growth.EndRead(
                    caller: caller, node: 2, offset: Int64(number) * 100, count: 10, deadline: .seconds(10 + number)))
        }
        func leave(_ readers: [Growth.EndRead]) -> [Int] {
            readers.compactMap { read in callers.firstIndex { $0 === read.caller } }
        }
        var left = leave(growth.takeReaders(before: 0))
        #expect(left == [])
        left = leave(growth.takeReaders(before: 1))
        #expect(left == [0])
        left = leave(growth.takeLate(.seconds(10)))
        #expect(left == [])
        left = leave(growth.takeLate(.seconds(11)))
        #expect(left == [1])
        growth.abandon(callers[2])
        #expect(growth.isAwaited)
        left = leave(growth.end())
        #expect(left == [3] && !growth.isAwaited)
    }

    @Test("One comparison runs at a time, and is for those that asked before it began")
    func comparisons() {
        var growth = Growth(wait: .seconds(30))
        func begins() -> Bool { growth.compare { _ in } }
        func served() -> Int { growth.beginComparison().count }
        func goesOn() -> Bool { growth.endComparison() }
        #expect(begins() && growth.isComparing)
        #expect(served() == 1)
        #expect(!begins() && !begins())
        #expect(goesOn() && growth.isComparing && served() == 2)
        #expect(!goesOn() && !growth.isComparing)
        #expect(begins())
    }
}
