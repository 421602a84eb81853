import TestKit
import Testing

@testable import ReelCore

/// The ledger in any order of events, against a model that knows every byte: which are there, which were asked for.
@Suite struct LedgerModelTests {
    private struct World {
        var ledger: Ledger
        var there: [Bool]
        /// Requests as the origin sees them: next byte and end.
        var running: [Ledger.StreamID: (next: Int64, end: Int64)] = [:]
        var reads: [Ledger.ReadID: ByteRange] = [:]
        var completed = 0
        var failed = 0
        var now = Duration.zero
        var nextRead: Ledger.ReadID = 1
        let unit: Int64

        mutating func perform(_ actions: [Ledger.Action]) {
            for action in actions {
                switch action {
                case .start(let id, let range, _):
                    #expect(running[id] == nil, "a stream was started twice")
                    if !range.isEmpty { running[id] = (range.lower, range.upper) }
                case .stop(let id):
                    running[id] = nil
                case .complete(let id):
                    let range = reads.removeValue(forKey: id)
                    #expect(range != nil, "a read was answered that nobody waits for")
                    #expect(range.map { isThere($0) } ?? true, "a read was completed before its bytes were there")
                    completed += 1
                case .fail(let id, _):
                    #expect(reads.removeValue(forKey: id) != nil)
                    failed += 1
                }
            }
        }

        func isThere(_ range: ByteRange) -> Bool {
            (range.lower / unit...(range.upper - 1) / unit).allSatisfy { there[Int($0)] }
        }
    }

    @Test(arguments: 0..<40)
    func everyReadEndsWithItsBytesOrAFailure(round: Int) {
        let seed = UInt64(round) &* 0x9E37_79B9 &+ 17
        var random = SeededGenerator(seed: seed)
        let unit: Int64 = 16 << 10
        let length = Int64.random(in: 1...(40 << 20), using: &random) / unit * unit + unit
        let hasRanges = round % 5 != 0
        var world = World(
            ledger: Ledger(BlockMap(length: length), acceptsRanges: hasRanges),
            there: Array(repeating: false, count: Int(length / unit)), unit: unit)
        world.ledger.openHandles = 1
        var sent: Int64 = 0

        for _ in 0..<600 {
            world.now += .milliseconds(Int64.random(in: 0...300, using: &random))
            world.ledger.lanes = Int.random(in: 1...6, using: &random)
            world.ledger.room = Int64.random(in: 0...(64 << 20), using: &random)
            switch Int.random(in: 0..<12, using: &random) {
            case 0...3:
                let lower = Int64.random(in: 0..<length / unit, using: &random) * unit
                let upper = min(length, lower + Int64.random(in: 1...16, using: &random) * unit)
                let range = ByteRange(lower, upper)
                let isHit = world.ledger.hit(range, now: world.now)
                #expect(isHit == world.isThere(range), "seed \(seed): hit says \(isHit) for \(range)")
                if isHit {
                    if world.ledger.wantsReadahead(now: world.now) {
                        world.perform(world.ledger.readAhead(now: world.now))
                    }
                } else {
                    let id = world.nextRead
                    world.nextRead += 1
                    world.reads[id] = range
                    world.perform(world.ledger.park(id, range, deadline: world.now + .seconds(30), now: world.now))
                }
            case 4...7:
                guard let id = world.running.keys.sorted().randomElement(using: &random) else { continue }
                deliver(id, Int64.random(in: 1...64, using: &random) * unit, &world, &sent)
            case 8:
                guard let id = world.running.keys.sorted().randomElement(using: &random) else { continue }
                world.running[id] = nil
                let failures: [OriginFailure] = [
                    .interrupted("x"), .timedOut, .status(503, retryAfter: nil), .unreachable("x"),
                    .status(404, retryAfter: nil),
                ]
                let failure = failures.randomElement(using: &random)!
                world.perform(world.ledger.ended(id, failure, now: world.now, random: 0.5))
            case 9:
                let lower = Int64.random(in: 0..<length / unit, using: &random) * unit
                let upper = min(length, lower + Int64.random(in: 1...256, using: &random) * unit)
                world.perform(world.ledger.prebuffer(ByteRange(lower, upper), now: world.now))
            case 10 where round % 2 == 0:
                world.perform(world.ledger.cancelPrebuffer())
            default:
                world.perform(world.ledger.tick(now: world.now))
            }
        }
        // Left alone with a healthy origin, everything that waits is served.
        var rounds = 0
        while !world.reads.isEmpty, rounds < 10_000 {
            rounds += 1
            world.now += .milliseconds(100)
            world.perform(world.ledger.tick(now: world.now))
            for id in world.running.keys.sorted() where world.running[id] != nil { deliver(id, 1 << 20, &world, &sent) }
        }
        #expect(world.reads.isEmpty, "seed \(seed): reads wait for ever")
        #expect(world.completed > 0, "seed \(seed)")
        if hasRanges {
            // Streams cut short by a later one may bring one delivery too much; nothing else is fetched twice.
            let unique = Int64(world.there.count { $0 }) * unit
            #expect(sent == unique, "seed \(seed): \(sent) bytes were sent for \(unique)")
            let account = world.ledger.account
            #expect(account.demanded + account.speculative == unique && account.wasted == 0, "seed \(seed)")
            #expect(account.unread.count <= account.speculative, "seed \(seed)")
        }
    }

    private func deliver(_ id: Ledger.StreamID, _ count: Int64, _ world: inout World, _ sent: inout Int64) {
        guard let request = world.running[id] else { return }
        guard let place = world.ledger.place(of: id, count: min(count, request.end - request.next)) else {
            world.running[id] = nil
            return world.perform(world.ledger.ended(id, .cancelled, now: world.now, random: 0.5))
        }
        #expect(place.lower == request.next, "the ledger and the origin disagree about a stream's place")
        sent += place.count
        for index in place.lower / world.unit..<place.upper / world.unit { world.there[Int(index)] = true }
        world.running[id]!.next = place.upper
        let result = world.ledger.arrived(id, place, now: world.now)
        world.perform(result.actions)
        if place.upper == request.end || result.answer == .enough {
            world.running[id] = nil
            world.perform(world.ledger.ended(id, nil, now: world.now, random: 0.5))
        }
    }
}
