import TestKit
import Testing

@testable import ReelCore

/// The ledger of a version whose end nobody knows: one body from the first byte on, which comes once.
@Suite struct OpenEndTests {
    private struct World {
        var ledger = Ledger(TestBytes(length: BlockSize.openEnd), cacheCap: 64 << 20)
        var stream: Ledger.StreamID = 0
        var isRunning = true
        var isPaused = false
        var end: Int64 = 0
        var now = Duration.zero
        var reads: [Ledger.ReadID: (range: ByteRange, deadline: Duration)] = [:]
        var nextRead: Ledger.ReadID = 1
        var failures: [ReadFailure] = []

        init() {
            ledger.opened()
            stream = ledger.adopt(ByteRange(0, .max), now: now)
            _ = ledger.began(stream, isWhole: false, now: now)
        }

        mutating func perform(_ actions: [Ledger.Action], _ hint: Comment) {
            for action in actions {
                switch action {
                case .start, .promote: Issue.record("\(hint): the body was asked for again")
                case .stop(let id): #expect(id == stream && ledger.openHandles == 0, hint)
                case .resume(let id):
                    #expect(id == stream && isPaused, hint)
                    isPaused = false
                case .complete(let id):
                    let read = reads.removeValue(forKey: id)
                    #expect(read.map { ledger.present.covers($0.range) } ?? false, hint)
                case .completeInPart(let id, let part):
                    guard let read = reads.removeValue(forKey: id) else {
                        Issue.record("\(hint): a read was answered that nobody waits for")
                        continue
                    }
                    #expect(read.deadline <= now && part.lower == read.range.lower && !part.isEmpty, hint)
                    #expect(part.upper < read.range.upper && ledger.present.covers(part), hint)
                case .fail(let id, let failure):
                    #expect(reads.removeValue(forKey: id) != nil, hint)
                    failures.append(failure)
                }
            }
        }

        mutating func read(_ range: ByteRange, _ hint: Comment) {
            if ledger.hit(range, now: now) { return }
            let deadline = now + .seconds(3)
            reads[nextRead] = (range, deadline)
            nextRead += 1
            perform(ledger.park(nextRead - 1, range, deadline: deadline, now: now), hint)
        }

        mutating func come(_ count: Int64, _ hint: Comment) {
            guard isRunning, !isPaused, let place = ledger.place(of: stream, count: count) else { return }
            #expect(place == ByteRange(end, end + count), hint)
            end += count
            let result = ledger.arrived(stream, place, now: now)
            isPaused = result.answer == .pause
            #expect(result.answer != .stop, hint)
            perform(result.actions, hint)
        }

        mutating func finish(_ failure: OriginFailure?, _ hint: Comment) {
            isRunning = false
            if failure == nil { ledger.bytes.settle(length: end) }
            perform(ledger.ended(stream, failure, now: now, random: 0.5), hint)
        }
    }

    @Test(arguments: 0..<40) func everyReadEndsWithItsBytesWithWhatCameOrWithAFailure(round: Int) {
        let seed = UInt64(round) &* 0x9E37_79B9 &+ 3
        let hint: Comment = "seed \(seed)"
        var random = SeededGenerator(seed: seed)
        var world = World()
        for _ in 0..<400 {
            world.now += .milliseconds(Int64.random(in: 0...100, using: &random))
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<6:
                let lower = Int64.random(in: 0...world.end + 300_000, using: &random)
                world.read(ByteRange(lower, lower + Int64.random(in: 1...200_000, using: &random)), hint)
            case 6:
                guard let id = world.reads.keys.sorted().randomElement(using: &random) else { continue }
                world.reads[id] = nil
                world.ledger.abandon(id)
                world.perform(world.ledger.tick(now: world.now), hint)
            case 7 where round % 3 == 0:
                // Memory is short: what lies behind the readers goes.
                let blocks = 0..<Int(world.end / BlockSize.block)
                for run in world.ledger.expendable([blocks], sparingReadahead: true) { world.ledger.forget(run) }
            case 8..<12: world.perform(world.ledger.tick(now: world.now), hint)
            default: world.come(Int64.random(in: 1...400_000, using: &random), hint)
            }
            for read in world.reads.values where world.isRunning {
                #expect(read.range.upper > world.end, "\(hint): a read waits for what has come, or is gone")
                #expect(!world.isPaused, "\(hint): a read waits for a body that was told to wait")
            }
        }
        world.finish(round % 2 == 0 ? nil : .interrupted("x"), hint)
        #expect(world.reads.isEmpty, hint)
        let last = ByteRange(world.end, world.end + 10)
        let isHit = world.ledger.hit(last, now: world.now)
        #expect(isHit == (round % 2 == 0), hint)
        if isHit { return }
        let failures = world.failures.count
        world.now += .seconds(1)
        world.read(last, hint)
        #expect(world.failures.dropFirst(failures) == [.failed] && world.reads.isEmpty, hint)
    }

    @Test func atItsDeadlineAReadGetsWhatHasComeAndTheNextWaitsForMore() {
        var world = World()
        world.come(1000, "")
        world.read(ByteRange(500, 2000), "")
        world.read(ByteRange(1000, 2000), "")
        world.now = .seconds(4)
        let actions = world.ledger.tick(now: world.now)
        #expect(Set(actions) == [.completeInPart(1, ByteRange(500, 1000)), .fail(2, .timedOut)])
    }

    @Test func theBodyIsLetGoTenSecondsAfterTheLastClose() {
        var world = World()
        world.come(1000, "")
        world.ledger.closed(now: world.now)
        world.now = .seconds(9)
        let early = world.ledger.tick(now: world.now)
        world.now = .seconds(11)
        let late = world.ledger.tick(now: world.now)
        #expect(early.isEmpty && late == [.stop(world.stream)] && world.ledger.isIdle)
    }

    /// Others lack a connection; what this one brings cannot be had again.
    @Test func aBodyThatPausesIsNotLetGoForOthers() {
        var world = World()
        world.read(ByteRange(0, 1000), "")
        while !world.isPaused { world.come(100_000, "") }
        #expect(world.end < 4 << 20)
        let isGone = world.ledger.yield(world.stream)
        #expect(!isGone)
    }
}
