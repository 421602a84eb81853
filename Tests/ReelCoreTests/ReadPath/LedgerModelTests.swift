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
        /// Streams that stand in line, and those that were asked to pause.
        var queued: Set<Ledger.StreamID> = []
        var paused: Set<Ledger.StreamID> = []
        var promoted: Set<Ledger.StreamID> = []
        /// Have brought a byte: their head is long known.
        var begun: Set<Ledger.StreamID> = []
        var reads: [Ledger.ReadID: ByteRange] = [:]
        /// What the statistics should say. Units that came and that nobody has read are marked.
        var demanded: Int64 = 0
        var speculative: Int64 = 0
        var wasted: Int64 = 0
        var unread: [Bool] = []
        /// Came without a request that the ledger knows: another one may bring them as well.
        var cameAlone: [Bool] = []
        var sent: Int64 = 0
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
                    #expect(!range.isEmpty, "a request for nothing never ends")
                    running[id] = (range.lower, range.upper)
                    paused.remove(id)
                    begun.remove(id)
                    if id % 3 == 0 { queued.insert(id) } else { ledger.requested(id, now: now) }
                case .stop(let id):
                    guard running.removeValue(forKey: id) != nil, !queued.contains(id) else { continue }
                    // What was on its way comes all the same.
                    #expect(ledger.place(of: id, count: unit) == nil)
                    ledger.dropped(unit)
                    sent += unit
                    speculative += unit
                    wasted += unit
                case .resume(let id):
                    #expect(paused.remove(id) != nil && running[id] != nil, "a stream went on that was not paused")
                case .promote(let id):
                    #expect(promoted.insert(id).inserted, "a request was promoted twice")
                case .complete(let id):
                    let range = reads.removeValue(forKey: id)
                    #expect(range != nil, "a read was answered that nobody waits for")
                    #expect(range.map { isThere($0) } ?? true, "a read was completed before its bytes were there")
                    completed += 1
                case .completeInPart(let id, _): Issue.record("read \(id) was answered in part")
                case .fail(let id, _):
                    #expect(reads.removeValue(forKey: id) != nil)
                    failed += 1
                }
            }
        }

        /// Does what the ledger plans, while a request that was let go of writes some of what is asked for.
        mutating func plan(
            _ random: inout SeededGenerator, _ body: (inout Ledger, Duration) -> [Ledger.Action]
        ) {
            if Int.random(in: 0..<4, using: &random) == 0 {
                ledger.bytes.comeMeanwhile(Int64.random(in: 1...64, using: &random) * unit)
            }
            let actions = body(&ledger, now)
            for range in ledger.bytes.takeCame() { comeAlone(range) }
            perform(actions)
        }

        mutating func comeAlone(_ range: ByteRange) {
            for place in units(range) { (there[place], cameAlone[place]) = (true, true) }
        }

        /// No read waits longer than this for bytes that are there.
        mutating func tick() {
            perform(ledger.tick(now: now))
            for (id, range) in reads { #expect(!isThere(range), "read \(id) waits for bytes that are there") }
        }

        func units(_ range: ByteRange) -> Range<Int> { Int(range.lower / unit)..<Int((range.upper - 1) / unit + 1) }

        /// Nobody waits for bytes that only a paused stream would bring; what the statistics say is what came to pass.
        func check(_ comment: Comment) {
            for read in reads.values {
                for unit in units(read) where !there[unit] {
                    let offset = Int64(unit) * self.unit
                    let streams = ledger.streams.filter { $0.position <= offset && offset < $0.end }
                    #expect(streams.isEmpty || streams.contains { !$0.isPaused }, comment)
                }
            }
            for cursor in ledger.cursors where ledger.acceptsRanges {
                for unit in cursor.position / unit..<max(cursor.position, cursor.frontier) / unit
                where !there[Int(unit)] {
                    let offset = unit * self.unit
                    #expect(
                        ledger.streams.contains { $0.position <= offset && offset < $0.end },
                        "\(comment): nothing brings \(offset), which readahead takes for planned")
                }
            }
            let sums = ledger.statistics.sums
            #expect(sums.demanded == demanded && sums.speculative == speculative, comment)
            #expect(sums.wasted == wasted && sums.demanded + sums.speculative == sent, comment)
            #expect(ledger.statistics.unread.count == Int64(unread.count { $0 }) * unit, comment)
        }

        func isThere(_ range: ByteRange) -> Bool {
            (range.lower / unit...(range.upper - 1) / unit).allSatisfy { there[Int($0)] }
        }
    }

    @Test(arguments: 0..<LongTests.many(60, elseOnly: 15))
    func everyReadEndsWithItsBytesOrAFailure(round: Int) {
        let seed = UInt64(round) &* 0x9E37_79B9 &+ 17
        var random = SeededGenerator(seed: seed)
        let unit: Int64 = 16 << 10
        let length = Int64.random(in: 1...(40 << 20), using: &random) / unit * unit + unit
        let hasRanges = round % 5 != 0
        var world = World(
            ledger: Ledger(
                length: length, acceptsRanges: hasRanges, cacheCap: round % 3 == 0 ? 24 << 20 : .max),
            there: Array(repeating: false, count: Int(length / unit)), unit: unit)
        (world.unread, world.cameAlone) = (world.there, world.there)
        world.ledger.opened()

        // Two programs that read forward, and jump now and then.
        var places: [Int64] = [0, 0]
        for step in 0..<600 {
            world.now += .milliseconds(Int64.random(in: 0...300, using: &random))
            world.ledger.limits = Ledger.Limits(
                requests: Int.random(in: 1...6, using: &random), room: Int64.random(in: 0...(64 << 20), using: &random),
                allowsEarly: step % 100 < 80)
            switch Int.random(in: 0..<20, using: &random) {
            case 0...3, 15...17:
                var lower = Int64.random(in: 0..<length / unit, using: &random) * unit
                let place = Int.random(in: 0..<4, using: &random)
                if place < 2 {
                    if Int.random(in: 0..<10, using: &random) > 0, places[place] < length { lower = places[place] }
                    places[place] = min(length, lower + 16 * unit)
                }
                let some = Int64.random(in: 1...16, using: &random) * unit
                let upper = place < 2 ? places[place] : min(length, lower + some)
                let range = ByteRange(lower, upper)
                let isHit = world.ledger.hit(range, now: world.now)
                #expect(isHit == world.isThere(range), "seed \(seed): hit says \(isHit) for \(range)")
                if isHit {
                    for unit in world.units(range) { world.unread[unit] = false }
                    if world.ledger.wantsReadahead(now: world.now) {
                        world.plan(&random) { $0.readAhead(now: $1) }
                    }
                } else {
                    let id = world.nextRead
                    world.nextRead += 1
                    world.reads[id] = range
                    world.plan(&random) { $0.park(id, range, deadline: $1 + .seconds(30), now: $1) }
                }
            case 4...7:
                guard let id = world.running.keys.sorted().randomElement(using: &random) else { continue }
                deliver(id, Int64.random(in: 1...64, using: &random) * unit, &world)
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
                world.plan(&random) { $0.prebuffer(ByteRange(lower, upper), now: $1) }
            case 10 where round % 2 == 0:
                world.perform(world.ledger.cancelPrebuffer())
            case 11:
                guard let id = world.reads.keys.sorted().randomElement(using: &random) else { continue }
                world.reads[id] = nil
                world.ledger.abandon(id)
                world.tick()
            case 14 where round % 7 == 3 && step > 300:
                // The origin does not care for the range, this time.
                let fresh = world.running.keys.filter { !world.begun.contains($0) && !world.queued.contains($0) }
                guard let id = fresh.min(), world.ledger.streams.contains(where: { $0.id == id }) else { continue }
                world.running[id] = (0, length)
                world.perform(world.ledger.began(id, isWhole: true, now: world.now))
            case 12:
                guard let id = world.running.keys.sorted().randomElement(using: &random) else { continue }
                if world.ledger.yield(id) {
                    world.running[id] = nil
                    world.perform(world.ledger.ended(id, .cancelled, now: world.now, random: 0.5))
                }
            case 13:
                let blocks = Int((length + BlockSize.block - 1) / BlockSize.block)
                let first = Int.random(in: 0..<blocks, using: &random)
                for run in world.ledger.expendable([first..<min(blocks, first + 20)], sparingReadahead: false) {
                    world.ledger.forget(run)
                    for block in run {
                        for place in world.units(BlockSize.bytes(of: block, length: length)) {
                            (world.there[place], world.cameAlone[place]) = (false, false)
                            if world.unread[place] { world.wasted += unit }
                            world.unread[place] = false
                        }
                    }
                }
            case 18:
                // The cache keeps some of what comes, and then has no room.
                let sent = world.running.keys.filter { !world.paused.contains($0) && !world.queued.contains($0) }
                guard let id = sent.sorted().randomElement(using: &random),
                    let place = world.ledger.place(of: id, count: Int64.random(in: 1...64, using: &random) * unit)
                else { continue }
                let kept = place.count / unit / 2 * unit
                world.ledger.bytes.add(ByteRange(place.lower, place.lower + kept))
                if kept > 0 { world.comeAlone(ByteRange(place.lower, place.lower + kept)) }
                world.ledger.dropped(place.count)
                world.sent += place.count
                world.speculative += place.count
                world.wasted += place.count
                world.running[id] = nil
                let full = OriginFailure.wrongAnswer("no room")
                world.perform(world.ledger.ended(id, full, now: world.now, random: 0.5))
            default:
                world.tick()
            }
            world.check("seed \(seed)")
        }
        // Left alone with a healthy origin, everything that waits is served.
        var rounds = 0
        while !world.reads.isEmpty, rounds < 10_000 {
            rounds += 1
            world.now += .milliseconds(100)
            world.tick()
            for id in world.running.keys.sorted() where world.running[id] != nil { deliver(id, 1 << 20, &world) }
        }
        #expect(world.reads.isEmpty, "seed \(seed): reads wait for ever")
        #expect(world.completed > 0, "seed \(seed)")
        world.check("seed \(seed)")
    }

    private func deliver(_ id: Ledger.StreamID, _ count: Int64, _ world: inout World) {
        guard let request = world.running[id], !world.paused.contains(id) else { return }
        if world.queued.remove(id) != nil { world.ledger.requested(id, now: world.now) }
        guard let place = world.ledger.place(of: id, count: min(count, request.end - request.next)) else {
            world.running[id] = nil
            return world.perform(world.ledger.ended(id, .cancelled, now: world.now, random: 0.5))
        }
        #expect(place.lower == request.next, "the ledger and the origin disagree about a stream's place")
        world.sent += place.count
        for index in world.units(place) {
            let offset = Int64(index) * world.unit
            let bytes = ByteRange(offset, offset + world.unit)
            let isDemanded = !world.there[index] && world.reads.values.contains { $0.overlaps(bytes) }
            if isDemanded { world.demanded += world.unit } else { world.speculative += world.unit }
            if world.there[index] {
                #expect(
                    !world.ledger.acceptsRanges || world.cameAlone[index], "what was there was fetched again")
                world.wasted += world.unit
            } else {
                world.unread[index] = !isDemanded
            }
            world.there[index] = true
        }
        world.running[id]!.next = place.upper
        world.begun.insert(id)
        let result = world.ledger.arrived(id, place, now: world.now)
        if result.answer == .pause { world.paused.insert(id) }
        world.perform(result.actions)
        if place.upper == request.end || result.answer == .stop {
            world.running[id] = nil
            world.perform(world.ledger.ended(id, nil, now: world.now, random: 0.5))
        }
    }
}
