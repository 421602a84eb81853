import Testing

@testable import ReelCore

/// What is fetched ahead, as requests and nothing else: a reader, an origin that answers at once, no clock but ours.
@Suite struct ReadaheadTests {
    private struct Player {
        var ledger: Ledger
        var requests: [ByteRange] = []
        var now = Duration.zero
        private var nextRead: Ledger.ReadID = 1
        private var running: [Ledger.StreamID: ByteRange] = [:]

        init(length: Int64, cap: Int64 = .max) {
            ledger = Ledger(BlockMap(length: length), cacheCap: cap)
            ledger.openHandles = 1
        }

        /// - Parameter isServed: false leaves what is asked for under way.
        mutating func read(_ offset: Int64, _ count: Int64, isServed: Bool = true) {
            now += .milliseconds(10)
            let range = ByteRange(offset, min(offset + count, ledger.length))
            if ledger.hit(range, now: now) {
                if ledger.wantsReadahead { take(ledger.readAhead()) }
            } else {
                take(ledger.park(nextRead, range, deadline: now + .seconds(30), now: now))
                nextRead += 1
            }
            if isServed { serve() }
        }

        mutating func serve() {
            while let (id, range) = running.first {
                running[id] = nil
                take(ledger.arrived(id, range, now: now).actions)
                take(ledger.ended(id, nil, now: now, random: 0.5))
            }
        }

        mutating func failRunning(_ failure: OriginFailure) {
            for id in running.keys {
                running[id] = nil
                take(ledger.ended(id, failure, now: now, random: 0.5))
            }
        }

        mutating func take(_ actions: [Ledger.Action]) {
            for action in actions {
                switch action {
                case .start(let id, let range, _):
                    requests.append(range)
                    running[id] = range
                case .stop(let id): running[id] = nil
                case .complete, .fail: break
                }
            }
        }

        var fetched: Int64 { requests.reduce(0) { $0 + $1.count } }
        var runningCount: Int { running.count }
    }

    private let gigabyte: Int64 = 1 << 30

    @Test func aProbeCostsTheFirstRange() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 64 << 10, by: 4096) { player.read(offset, 4096) }
        #expect(player.requests == [ByteRange(0, Readahead.first)])
    }

    @Test func sequentialReadingGrowsTheRangesAndFetchesNothingTwice() {
        var player = Player(length: 256 << 20)
        for offset in stride(from: Int64(0), to: 256 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.fetched == 256 << 20)
        let sizes = player.requests.map(\.count)
        #expect(sizes.max()! == Readahead.most)
        #expect(zip(player.requests, player.requests.dropFirst()).allSatisfy { $0.upper == $1.lower })
        #expect(sizes.dropLast().enumerated().allSatisfy { $0 == 0 || $1 >= sizes[$0 - 1] })
    }

    @Test func fourMegabytesReadCostNoMoreThanEight() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 4 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.fetched <= 8 << 20)
    }

    @Test func readaheadFitsASmallCache() {
        var player = Player(length: gigabyte, cap: 32 << 20)
        for offset in stride(from: Int64(0), to: 64 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.requests.allSatisfy { $0.count <= 4 << 20 })
    }

    @Test func twoPlacesAreReadAheadEachForItself() {
        var player = Player(length: gigabyte)
        for step in 0..<Int64(64) {
            player.read(step * 128 << 10, 128 << 10)
            player.read(512 << 20 + step * 128 << 10, 128 << 10)
        }
        #expect(player.requests.count < 16)
        #expect(player.requests.contains { $0.lower > 512 << 20 && $0.count > Readahead.first })
    }

    @Test func aJumpAwayLetsTheOldStreamGoAfterAWhileAndAWaitingReadNever() {
        var player = Player(length: gigabyte)
        player.read(0, 128 << 10, isServed: false)
        player.read(512 << 20, 128 << 10, isServed: false)
        #expect(player.runningCount == 2)
        player.ledger.abandon(1)
        for _ in 0..<300 {
            player.now += .milliseconds(10)
            player.take(player.ledger.tick(now: player.now))
        }
        #expect(player.runningCount == 1)
    }

    @Test func afterTheLastCloseStreamsLingerAndThenStop() {
        var player = Player(length: gigabyte)
        player.read(0, 4096, isServed: false)
        player.ledger.abandon(1)
        player.ledger.openHandles = 0
        player.ledger.lastClose = player.now
        player.take(player.ledger.tick(now: player.now + .seconds(9)))
        #expect(player.runningCount == 1)
        player.take(player.ledger.tick(now: player.now + .seconds(11)))
        #expect(player.runningCount == 0 && player.ledger.isIdle)
    }

    @Test func aTimedOutReadThatIsRepeatedAtOnceFailsAtOnce() {
        var player = Player(length: gigabyte)
        player.read(0, 4096, isServed: false)
        let late = player.ledger.tick(now: .seconds(40))
        #expect(late.contains(.fail(1, .timedOut)))
        let range = ByteRange(0, 4096)
        #expect(
            player.ledger.park(9, range, deadline: .seconds(70), now: .seconds(40)) == [.fail(9, .timedOut)])
        let later = player.ledger.park(10, range, deadline: .seconds(71), now: .seconds(41))
        #expect(!later.contains(.fail(10, .timedOut)))
    }

    @Test func failedReadaheadIsNotAskedForAgainAtOnce() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 512 << 10, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.read(512 << 10, 128 << 10, isServed: false)
        #expect(player.requests.count == 2 && player.runningCount == 1)
        player.failRunning(.status(429, retryAfter: .seconds(600)))
        for _ in 0..<50 { player.read(512 << 10, 128 << 10, isServed: false) }
        #expect(player.requests.count == 2)
        // A read that waits for the bytes does not wait for the pause.
        player.read(8 << 20, 4096, isServed: false)
        #expect(player.requests.count == 3)
    }

    @Test func bytesOfAStreamThatWasLetGoMeanwhileAreKept() {
        var player = Player(length: gigabyte)
        player.read(0, 4096, isServed: false)
        player.ledger.abandon(1)
        player.ledger.openHandles = 0
        player.take(player.ledger.tick(now: player.now + .seconds(11)))
        #expect(player.ledger.isIdle)
        let result = player.ledger.arrived(1, ByteRange(0, 512 << 10), now: player.now + .seconds(11))
        #expect(result.whole == [0, 1, 2, 3] && result.answer == .enough)
        #expect(player.ledger.coverage.covers(ByteRange(0, 512 << 10)))
    }

    @Test func whatIsExpendableIsFilledAndNoReaderIsNear() {
        var player = Player(length: 64 << 20, cap: 16 << 20)
        for offset in stride(from: Int64(0), to: 32 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        let map = player.ledger.coverage.map
        let all = [64..<128, 0..<64, 128..<1024]
        let runs = player.ledger.expendable(all, sparingReadahead: true)
        #expect(runs.first == 64..<128)
        let blocks = runs.flatMap { Array($0) }
        let bytes = blocks.reduce(Int64(0)) { $0 + map.bytes(of: $1).count }
        #expect(bytes >= 16 << 20)
        let end = (32 << 20) - BlockSize.block
        #expect(blocks.allSatisfy { map[$0] && map.bytes(of: $0).upper <= end })
        // What was read ahead goes where nothing else is left.
        let more = player.ledger.expendable(all, sparingReadahead: false).flatMap { Array($0) }
        #expect(
            Set(more).isSuperset(of: blocks) && more.contains(map.blocks(touching: ByteRange(end, end + 1)).lowerBound))
    }

    // MARK: Retry

    @Test func pausesGrowEndAndHonourRetryAfter() {
        let reset = OriginFailure.interrupted("reset")
        let pauses = (1...7).map { RetryPolicy.pause(after: reset, attempt: $0, random: 0.5) }
        #expect(pauses.last! == nil)
        let seconds = pauses.dropLast().map { $0!.seconds }
        #expect(zip(seconds, seconds.dropFirst()).allSatisfy { $0 < $1 })
        #expect(RetryPolicy.pause(after: .status(503, retryAfter: .seconds(7)), attempt: 1, random: 0) == .seconds(7))
        for hopeless in [
            OriginFailure.status(404, retryAfter: nil), .changed, .wrongAnswer("x"), .untrusted("x"), .cancelled,
        ] {
            #expect(RetryPolicy.pause(after: hopeless, attempt: 1, random: 0.5) == nil)
        }
    }

    @Test func anUnreachableOriginIsGivenUpWithinASecond() {
        var total = Duration.zero
        var attempt = 1
        while let pause = RetryPolicy.pause(after: .unreachable("x"), attempt: attempt, random: 1) {
            total += pause
            attempt += 1
        }
        #expect(total < .seconds(1))
    }
}
