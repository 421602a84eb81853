import TestKit
import Testing

@testable import ReelCore

/// What is fetched ahead, as requests and nothing else: a reader, an origin that answers at once, no clock but ours.
@Suite struct ReadaheadTests {
    private struct Player {
        var ledger: Ledger
        var requests: [ByteRange] = []
        var now = Duration.zero
        private(set) var waitingCount = 0
        private(set) var promoted: [Ledger.StreamID] = []
        private(set) var last: Int64 = 0
        private var nextRead: Ledger.ReadID = 1
        private var running: [Ledger.StreamID: ByteRange] = [:]

        init(length: Int64, cap: Int64 = .max) {
            ledger = Ledger(length: length, cacheCap: cap)
            ledger.opened()
        }

        /// - Parameter isServed: false leaves what is asked for under way.
        mutating func read(_ offset: Int64, _ count: Int64, isServed: Bool = true) {
            now += .milliseconds(10)
            let range = ByteRange(offset, min(offset + count, ledger.length))
            last = range.upper
            if ledger.hit(range, now: now) {
                if ledger.wantsReadahead(now: now) { take(ledger.readAhead(now: now)) }
            } else {
                waitingCount += 1
                take(ledger.park(nextRead, range, deadline: now + .seconds(30), now: now))
                nextRead += 1
            }
            if isServed { serve() }
        }

        /// The next 128 KiB behind what was read last.
        mutating func readOn(isServed: Bool = true) { read(last, 128 << 10, isServed: isServed) }

        mutating func serve() {
            while let (id, range) = running.first {
                running[id] = nil
                take(ledger.arrived(id, range, now: now).actions)
                take(ledger.ended(id, nil, now: now, random: 0.5))
            }
        }

        /// Brings what is under way except for its last bytes.
        mutating func bring(exceptFor left: Int64) {
            for (id, range) in running where range.count > left {
                running[id] = ByteRange(range.upper - left, range.upper)
                take(ledger.arrived(id, ByteRange(range.lower, range.upper - left), now: now).actions)
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
                case .complete, .completeInPart, .fail: waitingCount -= 1
                case .resume: break
                case .promote(let id): promoted.append(id)
                }
            }
        }

        var fetched: Int64 { requests.reduce(0) { $0 + $1.count } }
        var runningCount: Int { running.count }
        var runningRanges: [ByteRange] { Array(running.values) }
    }

    private let gigabyte: Int64 = 1 << 30

    /// Its third read is the kernel's own, which reads 128 KiB ahead of a program that has read 80.
    @Test(arguments: [true, false]) func aScannerIsExpectedToReadOnOneBlockLater(isScan: Bool) {
        var player = Player(length: gigabyte)
        player.ledger.limits.isScan = isScan
        player.read(0, 64 << 10)
        player.read(64 << 10, 128 << 10)
        player.read(192 << 10, 128 << 10)
        #expect((player.fetched == 3 * BlockSize.block) == isScan, "\(player.requests)")
        player.read(320 << 10, 128 << 10)
        #expect(player.fetched > 4 * BlockSize.block, "\(player.requests)")
    }

    /// Where others need the line, each request waits for its turn among theirs.
    @Test(arguments: [(false, false, 1), (true, false, 4), (true, true, 1)])
    func aFileThatBeginsBesideOthersIsAskedForInFewerRequests(isContended: Bool, isScan: Bool, blocks: Int64) {
        var player = Player(length: gigabyte)
        player.ledger.limits = Ledger.Limits(isScan: isScan, isContended: isContended)
        player.read(0, 64 << 10)
        #expect(player.requests == [ByteRange(0, blocks * BlockSize.block)])
        // Elsewhere nothing shows that the program reads on.
        player.read(gigabyte / 2, 64 << 10)
        #expect(player.requests.last?.count == BlockSize.block)
    }

    /// A scanner for which nothing is fetched ahead, and of which the kernel asks for little at once.
    @Test func aScannerThatReadsOnDoesNotWaitForEachBlock() {
        var player = Player(length: gigabyte)
        player.ledger.limits.isScan = true
        player.ledger.limits.allowsEarly = false
        for offset in stride(from: Int64(0), to: 4 << 20, by: 64 << 10) { player.read(offset, 64 << 10) }
        #expect(player.requests.count <= 12 && player.fetched <= 5 << 20, "\(player.requests)")
    }

    /// Two of them might be sent by two threads, the later one first.
    @Test("A request that goes on with the body of the last one is sent when that has ended", arguments: [true, false])
    func oneBody(_ isOneBody: Bool) {
        var player = Player(length: gigabyte)
        player.ledger.limits.isOneBody = isOneBody
        for _ in 0..<20 { player.readOn() }
        while player.runningCount == 0 { player.readOn(isServed: false) }
        let last = player.requests.last!
        player.bring(exceptFor: BlockSize.block)
        while player.last < last.upper - BlockSize.block { player.readOn(isServed: false) }
        #expect((player.requests.last == last) == isOneBody && player.waitingCount == 0)
        player.serve()
        #expect(player.requests.contains { $0.lower == last.upper })
    }

    @Test func aScannerGetsWhatItReadsOfEachFileInOneRequest() {
        var player = Player(length: gigabyte)
        for isKnown in [false, true] {
            player = Player(length: gigabyte)
            player.ledger.limits.isScan = true
            // The kernel has asked for a little more of the last files.
            player.ledger.limits.reach = isKnown ? 31 * BlockSize.block : 0
            for offset in stride(from: Int64(0), to: 30 * BlockSize.block, by: 64 << 10) {
                player.read(offset, 64 << 10)
            }
            #expect((player.requests == [ByteRange(0, 31 * BlockSize.block)]) == isKnown, "\(player.requests)")
            #expect(player.ledger.headRun == 30 * BlockSize.block)
        }
        // Its first bytes came with its open, of one that reads fast.
        player = Player(length: gigabyte)
        player.ledger.limits = Ledger.Limits(requests: 6, isScan: true, reach: 31 * BlockSize.block)
        player.take(player.ledger.prebuffer(ByteRange(0, 2 * BlockSize.block), now: .zero))
        player.serve()
        for offset in stride(from: Int64(0), to: 30 * BlockSize.block, by: 64 << 10) { player.read(offset, 64 << 10) }
        #expect(
            player.requests.dropFirst() == [ByteRange(2 * BlockSize.block, 31 * BlockSize.block)], "\(player.requests)")
        // It reads on behind that, this time.
        let requests = player.requests.count
        player.ledger.limits.requests = 1
        for _ in 0..<80 { player.readOn() }
        #expect(player.requests.count < requests + 20 && player.fetched > 12 << 20, "\(player.requests)")
    }

    @Test func aScannerThatReadsLittleElsewhereGetsThatAlone() {
        var player = Player(length: gigabyte)
        player.ledger.limits.isScan = true
        player.ledger.limits.reach = 31 * BlockSize.block
        player.read(900 << 20, 64 << 10)
        #expect(player.requests == [ByteRange(900 << 20, 900 << 20 + BlockSize.block)])
        #expect(player.ledger.headRun == nil)
    }

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
        #expect(sizes.first == Readahead.first && sizes.max()! <= Readahead.longest)
        #expect(sizes.count < 40, "\(sizes)")
        #expect(zip(player.requests, player.requests.dropFirst()).allSatisfy { $0.upper == $1.lower })
    }

    /// A program that takes the first 80 KB makes a kernel with 512 KiB of readahead ask for this.
    @Test func whatTheKernelAsksForByItselfProvesNothing() {
        var player = Player(length: gigabyte)
        for (offset, count) in [(0, 64), (64, 128), (192, 256)] { player.read(Int64(offset) << 10, Int64(count) << 10) }
        #expect(player.fetched == 512 << 10)
        player.read(448 << 10, 256 << 10)
        #expect(player.requests.last.map { $0.upper > 1 << 20 } == true, "it has read what it asked for before")
    }

    @Test func aProgramThatStopsEarlyHasCostNoMoreThanTwiceWhatItRead() {
        for megabytes in [Int64(1), 2, 3] {
            var player = Player(length: gigabyte)
            for offset in stride(from: Int64(0), to: megabytes << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
            #expect(player.fetched <= 2 * megabytes << 20 + BlockSize.block)
        }
    }

    @Test func readingAnIndexInFrontIsNoPlaying() {
        var player = Player(length: gigabyte)
        let index: Int64 = 4 << 20
        player.ledger.learn(container(index))
        player.take(player.ledger.prebuffer(ByteRange(0, index), now: player.now))
        player.serve()
        for offset in stride(from: Int64(0), to: index, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.fetched == index && !player.ledger.hasPlayer(now: player.now))
        for _ in 0..<16 { player.readOn() }
        #expect(player.fetched > index + 2 << 20 && player.ledger.hasPlayer(now: player.now))
    }

    /// A movie's box of this many bytes in front.
    private func container(_ front: Int64) -> Container {
        let count = (0..<4).reversed().map { UInt8(truncatingIfNeeded: front >> (8 * $0)) }
        let head = count + Array("moov".utf8) + [UInt8](repeating: 0, count: 200)
        guard case .found(let container) = Container.reading(head, length: gigabyte) else { fatalError("no movie") }
        return container
    }

    /// Each part of a film that is made of many: 32 KiB of each 700.
    @Test func aReaderOfFewBytesHereAndThereCausesNoMoreThanItsLimit() {
        var fetched: [Int64] = []
        for limit in [Int64.max, 4 << 20] {
            var player = Player(length: gigabyte)
            player.ledger.limits.probe = limit
            for step in Int64(0)..<100 { player.read(step * 700 << 10, 32 << 10) }
            fetched.append(player.fetched)
        }
        #expect(fetched[0] > 64 << 20)
        // A block for each read, beside the limit, one request and four times what was read.
        #expect(fetched[1] < (4 + 4 + 13) << 20 + 100 * BlockSize.block)
    }

    /// And a player of 80 Mbit/s.
    @Test(arguments: [Int64(6), 200]) func aCopyAndASeekStormKnowNoLimit(megabytes: Int64) {
        var players: [Player] = []
        let copied = megabytes << 20
        for limit in [Int64.max, 4 << 20] {
            var player = Player(length: gigabyte)
            player.ledger.limits.probe = limit
            for offset in stride(from: Int64(0), to: copied, by: 128 << 10) { player.read(offset, 128 << 10) }
            for offset in stride(from: copied, to: 2 * copied, by: 128 << 10) {
                player.now += .microseconds(2500)
                player.read(offset, 128 << 10)
            }
            for jump in Int64(0)..<40 {
                for step in Int64(0)..<4 { player.read((900 - 10 * jump) << 20 + step * 128 << 10, 128 << 10) }
            }
            players.append(player)
        }
        #expect(players[0].requests == players[1].requests)
    }

    @Test func aScannerIsNoPlayerBeforeItReadsOnAndIsShownAsOneWithItsPace() {
        var player = Player(length: gigabyte)
        player.ledger.limits.isScan = true
        for _ in 0..<4 { player.readOn() }
        #expect(!player.ledger.hasPlayer(now: player.now))
        player.ledger.limits.isScan = false
        #expect(player.ledger.hasPlayer(now: player.now))
        player.ledger.limits.isScan = true
        for _ in 0..<60 { player.readOn() }
        #expect(player.ledger.hasPlayer(now: player.now) && !player.ledger.isShownPlaying(now: player.now))
        // Half a megabyte a second.
        for _ in 0..<16 {
            player.now += .milliseconds(250)
            player.readOn()
        }
        #expect(player.ledger.isShownPlaying(now: player.now))
    }

    @Test func fourMegabytesReadCostNoMoreThanEight() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 4 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.fetched <= 7 << 20)
    }

    @Test(arguments: [Int64(4096), 128 << 10, 512 << 10])
    func whatIsFetchedAheadIsNeverMoreThanWhatWasReadOrLittle(piece: Int64) {
        var player = Player(length: gigabyte)
        for offset in stride(from: 700 << 20, to: 740 << 20, by: Int(piece)) {
            player.read(Int64(offset), piece)
            let read = Int64(offset) + piece - 700 << 20
            #expect(player.fetched <= 3 * read + Readahead.early + Readahead.first, "after \(read)")
        }
    }

    @Test func piecesOutOfTheMiddleCostWhatTheyAreAndTheirBlocks() {
        var player = Player(length: gigabyte)
        var random = SeededGenerator(seed: 4)
        for _ in 0..<10 {
            // The kernel's own readahead makes three requests of a piece of 256 KiB.
            let offset = Int64.random(in: 0..<gigabyte / 4096 - 1000, using: &random) * 4096
            for step in 0..<Int64(3) { player.read(offset + step * 128 << 10, 128 << 10) }
        }
        #expect(player.fetched <= 10 * (512 << 10))
    }

    @Test func whoHasReadOnAndJumpsIsGivenAMebibyteInOneRequest() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 6 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.requests = []
        player.read(500 << 20, 256 << 10)
        #expect(player.requests == [ByteRange(500 << 20, 501 << 20)])
        for _ in 0..<4 { player.readOn() }
        #expect(player.requests.count == 2, "and what comes next before it is wanted")
    }

    /// What comes first is asked for first: on the connections that are open.
    @Test func whereConnectionsAreSlowAJumpIsAnsweredByShortRequestsTogether() {
        let block = BlockSize.block
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 6 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.requests = []
        player.ledger.limits.requests = 6
        let place: Int64 = 500 << 20 + 96 << 10
        player.read(place, 132 << 10, isServed: false)
        let expected = [
            ByteRange(place, 500 << 20 + 2 * block), ByteRange(500 << 20 + 2 * block, 500 << 20 + 5 * block),
            ByteRange(500 << 20, place),
        ]
        #expect(Array(player.requests.prefix(3)) == expected)
        #expect(player.requests.allSatisfy { $0.count <= 3 * block })
        #expect(player.fetched <= Readahead.near + 3 * block)
        player.serve()
        #expect(player.waitingCount == 0)
    }

    @Test func whereNothingMayBeFetchedAheadAJumpIsGivenWhatWasAskedFor() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 6 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.requests = []
        player.ledger.limits.requests = 6
        player.ledger.limits.allowsEarly = false
        player.read(500 << 20 + 96 << 10, 4096)
        #expect(player.fetched == BlockSize.block)
    }

    /// Thumbnails of a film that somebody else plays.
    @Test func whoJumpsAboutHoldsUpNobodyWhoReadsOn() {
        var player = Player(length: gigabyte)
        for _ in 0..<64 { player.readOn() }
        var place: Int64 = 64 * 128 << 10
        while player.runningCount == 0 {
            player.read(place, 4096, isServed: false)
            place += 4096
        }
        let ahead = player.ledger.streams[0]
        #expect(ahead.position > place + 64 << 10)
        // Jumps to what is there already; the other one reads on in between.
        for jump in [Int64(0), 4 << 20, 1 << 20, 5 << 20] {
            player.read(jump, 4096, isServed: false)
            player.read(place, 4096, isServed: false)
            place += 4096
        }
        let range = ByteRange(ahead.position, ahead.position + 64 << 10)
        let answer = player.ledger.arrived(ahead.id, range, now: player.now).answer
        #expect(answer == .more)
    }

    @Test func whereTheEndOfTheFileIsNearAJumpAsksForNothingBehindIt() {
        var player = Player(length: 64 << 20)
        for offset in stride(from: Int64(0), to: 6 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.requests = []
        player.ledger.limits.requests = 6
        player.read(64 << 20 - 100_000, 4096)
        #expect(player.requests.allSatisfy { $0.upper <= 64 << 20 && $0.count <= BlockSize.block })
        #expect(player.fetched == BlockSize.block)
    }

    /// What the kernel had asked for ahead at the old place is answered after the jump.
    @Test func anAnswerThatComesLateCallsNobodyBack() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 12 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.read(500 << 20, 128 << 10)
        let old = ByteRange(12 << 20 - 128 << 10, 12 << 20)
        let isHit = player.ledger.hit(old, now: player.now, wasParked: true)
        #expect(isHit)
        player.requests = []
        player.take(player.ledger.readAhead(now: player.now))
        #expect(player.requests.allSatisfy { $0.lower >= 500 << 20 })
        player.readOn()
        #expect(player.requests.allSatisfy { $0.lower >= 500 << 20 })
    }

    @Test func whoHasReadLittleAndJumpsIsGivenWhatWasAskedFor() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 4 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.requests = []
        player.read(500 << 20, 256 << 10)
        #expect(player.requests == [ByteRange(500 << 20, 500 << 20 + (256 << 10))])
    }

    @Test func theWindowIsSecondsOfWhatIsRead() {
        // 32 kB a second: music.
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 40 << 20, by: 32 << 10) {
            player.now += .seconds(1)
            player.read(offset, 32 << 10)
            let ahead = player.fetched - (offset + 32 << 10)
            #expect(ahead <= Readahead.early + Readahead.first)
        }
    }

    @Test func theWindowOfAPlayerIsHalfAMinuteOfItsRate() {
        // 24 Mbit/s, read in pieces of a second.
        var player = Player(length: 2 * gigabyte)
        let piece: Int64 = 3 << 20
        var ahead: Int64 = 0
        for offset in stride(from: Int64(0), to: 200 * piece, by: Int(piece)) {
            player.now += .seconds(1)
            player.read(offset, piece)
            ahead = player.fetched - (offset + piece)
            #expect(ahead <= 31 * piece)
        }
        #expect(ahead >= 14 * piece)
        // One that takes all it gets is served as fast with less.
        var copy = Player(length: 2 * gigabyte)
        for offset in stride(from: Int64(0), to: 400 << 20, by: 128 << 10) {
            copy.read(offset, 128 << 10)
            if offset % (8 << 20) == 0 { copy.read(offset + 900 << 20, 4096) }
        }
        #expect(copy.requests.allSatisfy { $0.count <= Readahead.longest })
    }

    @Test func whoCopiesFasterThanLinesBringIsKeptNear() {
        for (millisecond, most) in [(1, Readahead.mostOfFastest), (100, Readahead.longest)] {
            var cursor = Cursor(at: ByteRange(0, 128 << 10), now: .zero)
            var now = Duration.zero
            // One of 1 GiB, and one of 10 MiB a second.
            for offset in stride(from: Int64(1 << 20), to: 400 << 20, by: 1 << 20) {
                now += .milliseconds(millisecond)
                cursor.advance(to: ByteRange(offset, offset + 1 << 20), now: now)
            }
            #expect(cursor.window(atMost: .max) == most)
        }
    }

    @Test func withoutABudgetNothingIsFetchedAheadForReadersThatHaveReadLittle() {
        var player = Player(length: gigabyte)
        player.ledger.limits.allowsEarly = false
        for offset in stride(from: Int64(0), to: 4 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.fetched == 4 << 20 && player.ledger.statistics.sums.early == 0)
        for offset in stride(from: Int64(4 << 20), to: 12 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.fetched > 12 << 20)
    }

    @Test func earlyReadaheadComesBackFromReadersThatReadOnOrToTheEnd() {
        for length in [gigabyte, 2 << 20] {
            var player = Player(length: length)
            for offset in stride(from: Int64(0), to: 1 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
            #expect(player.ledger.statistics.sums.early > 0)
            #expect(player.ledger.statistics.sums.early <= player.fetched)
            for offset in stride(from: Int64(1 << 20), to: min(length, 6 << 20), by: 128 << 10) {
                player.read(offset, 128 << 10)
            }
            #expect(player.ledger.statistics.sums.early == 0)
        }
    }

    @Test func whatIsAskedForCountsAsFetchedAhead() {
        var player = Player(length: gigabyte)
        for _ in 0..<64 { player.readOn() }
        while player.runningCount == 0 { player.readOn(isServed: false) }
        let running = player.runningRanges.reduce(0) { $0 + $1.count }
        #expect(running > 0 && player.ledger.ahead == player.ledger.statistics.unread.count + running)
    }

    @Test func aRequestInLineIsPromotedOnceSomebodyWaitsForIt() {
        var player = Player(length: gigabyte)
        let prebuffer = player.ledger.prebuffer(ByteRange(0, 4 << 20), now: player.now)
        guard case .start(let id, _, false) = prebuffer.first else { return #expect(prebuffer.isEmpty) }
        player.take(prebuffer)
        player.read(0, 4096, isServed: false)
        player.read(4096, 4096, isServed: false)
        #expect(player.promoted == [id] && player.runningCount == 1 && player.ledger.isDemanded(id))
        // One that stands in line is not silent.
        let second = player.ledger.tick(now: .seconds(5))
        #expect(second.isEmpty)
        player.ledger.requested(id, now: .seconds(5))
        let third = player.ledger.tick(now: .seconds(7))
        #expect(third.count == 1)
    }

    @Test func aRequestThatHasLeftIsPromotedToo() {
        var player = Player(length: gigabyte)
        let prebuffer = player.ledger.prebuffer(ByteRange(0, 4 << 20), now: player.now)
        guard case .start(let id, _, false) = prebuffer.first else { return #expect(prebuffer.isEmpty) }
        player.take(prebuffer)
        player.ledger.requested(id, now: player.now)
        player.read(0, 4096, isServed: false)
        player.read(4096, 4096, isServed: false)
        #expect(player.promoted == [id])
    }

    /// What a stream that is let go of would have brought is asked for again by who reads on, before it is missed.
    @Test(arguments: 0..<4) func whatALostStreamWouldHaveBroughtIsAskedForAgain(way: Int) {
        var player = Player(length: 256 << 20)
        for _ in 0..<64 { player.readOn() }
        while player.runningCount == 0 { player.readOn(isServed: false) }
        let stream = player.ledger.streams[0]
        var offset = player.ledger.cursors.last!.position
        switch way {
        case 0: player.failRunning(.interrupted("broken off"))
        case 1: player.take(player.ledger.ended(stream.id, .cancelled, now: player.now, random: 0.5))
        case 2:
            // Nobody comes by for longer than a reader has to come back, another one elsewhere excepted.
            player.now += .seconds(3)
            player.read(200 << 20, 4096, isServed: false)
            player.take(player.ledger.tick(now: player.now))
            player.serve()
        default:
            player.take(player.ledger.prebuffer(ByteRange(stream.end, stream.end + 1 << 20), now: player.now))
            player.take(player.ledger.cancelPrebuffer())
            player.failRunning(.interrupted("broken off"))
        }
        player.now += .seconds(60)
        while offset < stream.position {
            player.read(offset, 128 << 10, isServed: false)
            offset += 128 << 10
        }
        #expect(player.waitingCount == 0)
        #expect(player.ledger.streams.contains { $0.position <= stream.position && stream.position < $0.end })
    }

    @Test func nothingMoreIsFetchedOfTheNextFileWhileTheEndOfThisOneIsMissing() {
        var player = Player(length: 256 << 20)
        while !player.runningRanges.contains(where: { $0.upper == player.ledger.length }) {
            player.serve()
            player.readOn(isServed: false)
        }
        while player.ledger.takeWantsNext() {}
        player.failRunning(.interrupted("broken off"))
        let wantsNext = player.ledger.takeWantsNext()
        #expect(player.runningCount == 0 && !wantsNext && !player.ledger.isPlayedFromCache)
    }

    @Test func aPauseIsNoPartOfWhatAnOriginBrings() {
        var pace = Pace()
        pace.started(1, now: .zero)
        pace.head(of: 1, now: .milliseconds(10))
        pace.bytes(1 << 20, of: 1, now: .milliseconds(510))
        let before = pace.rate
        pace.resumed(1, now: .seconds(600))
        pace.bytes(1 << 20, of: 1, now: .seconds(600) + .milliseconds(500))
        #expect(before.map { abs($0 - 2 * 1_048_576) < 1 } == true)
        #expect(pace.rate.map { abs($0 - 2 * 1_048_576) < 1 } == true)
    }

    @Test func whatWasSentBeforeItWasAStreamTellsNothingOfTheTimeToAnAnswer() {
        var ledger = Ledger(length: gigabyte)
        ledger.opened()
        let before = ledger.pace.hedgeAfter
        for number in Int64(0)..<8 {
            let id = ledger.adoptBeside(ByteRange(number << 20, number << 20 + 128 << 10), now: .zero)!
            ledger.requested(id, now: .zero, isTimed: false)
            _ = ledger.began(id, isWhole: false, now: .seconds(5))
        }
        #expect(ledger.pace.hedgeAfter == before)
    }

    /// The scan of `TrafficTests`, without a clock: a megabyte read in a row of each of sixty films.
    @Test func aScanThatReadsAMegabyteOfEachCostsItsMegabytesAndABudget() {
        var budget = SpeculationBudget()
        var (early, fetched): (Int64, Int64) = (0, 0)
        let count = 60
        for _ in 0..<count {
            var player = Player(length: gigabyte)
            for offset in stride(from: Int64(0), to: 1 << 20, by: 128 << 10) {
                player.ledger.limits.allowsEarly = budget.allowsEarly(
                    early + player.ledger.statistics.sums.early, now: .zero)
                player.read(offset, 128 << 10)
            }
            early += player.ledger.statistics.sums.early
            fetched += player.fetched
        }
        #expect(fetched <= Int64(count) << 20 + SpeculationBudget.perMinute + Readahead.early)
        // What is fetched ahead and then read is spent as well, and comes back later.
        #expect(fetched > Int64(count) << 20 + SpeculationBudget.perMinute / 4)
    }

    @Test func aStreamThatNobodyWaitsForYieldsAndItsBytesAreAskedForAgain() {
        var player = Player(length: gigabyte)
        for _ in 0..<64 { player.readOn() }
        while player.runningCount == 0 { player.readOn(isServed: false) }
        let stream = player.ledger.streams[0]
        let (isYielding, again) = (player.ledger.yield(stream.id), player.ledger.yield(stream.id))
        #expect(isYielding && !again && player.ledger.isIdle)
        player.read(512 << 20, 4096, isServed: false)
        let waitedFor = player.ledger.yield(player.ledger.streams[0].id)
        #expect(!waitedFor)
    }

    @Test func whileSomebodyWaitsElsewhereReadaheadPauses() {
        var player = Player(length: gigabyte)
        for _ in 0..<64 { player.readOn() }
        while player.runningCount == 0 { player.readOn(isServed: false) }
        let ahead = player.ledger.streams[0]
        var position = ahead.position
        func arrive() -> BodyAnswer {
            let range = ByteRange(position, position + 64 << 10)
            position = range.upper
            return player.ledger.arrived(ahead.id, range, now: player.now).answer
        }
        #expect(arrive() == .more)
        player.read(512 << 20, 4096, isServed: false)
        #expect(arrive() == .pause)
        let demanded = player.ledger.streams.last!
        _ = player.ledger.arrived(demanded.id, ByteRange(512 << 20, 512 << 20 + 4096), now: player.now)
        // A player looks at what it got, and asks for more.
        #expect(arrive() == .pause)
        player.now += .milliseconds(499)
        let early = player.ledger.tick(now: player.now)
        #expect(!early.contains(.resume(ahead.id)))
        player.now += .milliseconds(1)
        let late = player.ledger.tick(now: player.now)
        #expect(late.contains(.resume(ahead.id)))
        #expect(arrive() == .more)
    }

    /// Whole bodies: kind of reader, cap, and how far the origin's bytes may get before it.
    static let wholeBodies: [(Int64, Int64, Int64)] = [
        (64 << 10, 1 << 40, 5 << 19), (1 << 20, 1 << 40, 256 << 20), (1 << 20, 64 << 20, 8 << 20),
    ]

    @Test(arguments: wholeBodies) func aBodyThatComesWholePausesBeforeWhoHasNotProvenHimself(
        read: Int64, cap: Int64, lead: Int64
    ) {
        let length: Int64 = 256 << 20
        var ledger = Ledger(length: length, acceptsRanges: false, cacheCap: cap)
        ledger.opened()
        let started = ledger.park(1, ByteRange(0, read), deadline: .seconds(30), now: .zero)
        guard case .start(let id, _, _) = started.first else { return #expect(started.isEmpty) }
        var position: Int64 = 0
        func run() {
            while position < length {
                let next = ByteRange(position, position + 128 << 10)
                position = next.upper
                guard ledger.arrived(id, next, now: .seconds(1)).answer == .more else { return }
            }
        }
        run()
        #expect(position <= min(length, read + lead + 128 << 10) && position >= min(length, read + lead))
        guard position < length else { return }
        // Whoever reads on gets on, a reader of its end too.
        #expect(ledger.tick(now: .seconds(2)) == [])
        let far = ledger.park(2, ByteRange(length - 4096, length), deadline: .seconds(30), now: .seconds(2))
        #expect(far.contains(.resume(id)))
        run()
        #expect(position == length)
    }

    /// A film without ranges in a cache that cannot hold it, from an origin that sends while it may.
    private struct WholeBody {
        var ledger: Ledger
        var now = Duration.seconds(1)
        /// Where the bodies are, those that were asked to pause, and those that were let go of.
        private(set) var bodies: [Ledger.StreamID: Int64] = [:]
        private(set) var paused: Set<Ledger.StreamID> = []
        private(set) var stopped: Set<Ledger.StreamID> = []
        private(set) var pauses: [Int64] = []
        private var nextRead: Ledger.ReadID = 1
        static let piece: Int64 = 128 << 10

        init(length: Int64, cap: Int64) {
            ledger = Ledger(length: length, acceptsRanges: false, cacheCap: cap)
            ledger.opened()
        }

        /// Then lets the origin send as much as it may, except for `limit`.
        mutating func read(_ offset: Int64, _ count: Int64, upTo limit: Int64 = .max) {
            now += .milliseconds(10)
            let range = ByteRange(offset, offset + count)
            if !ledger.hit(range, now: now) {
                take(ledger.park(nextRead, range, deadline: now + .seconds(30), now: now))
                nextRead += 1
            }
            take(ledger.tick(now: now))
            send(limit)
        }

        mutating func take(_ actions: [Ledger.Action]) {
            for action in actions {
                switch action {
                case .start(let id, let range, _): bodies[id] = range.lower
                case .stop(let id):
                    bodies[id] = nil
                    stopped.insert(id)
                case .resume(let id): paused.remove(id)
                case .complete, .completeInPart, .fail, .promote: break
                }
            }
        }

        private mutating func send(_ limit: Int64) {
            while let id = bodies.keys.sorted().first(where: { !paused.contains($0) && bodies[$0]! < limit }) {
                guard let place = ledger.place(of: id, count: Self.piece) else { return }
                bodies[id] = place.upper
                let result = ledger.arrived(id, place, now: now)
                if result.answer == .pause {
                    paused.insert(id)
                    pauses.append(place.upper)
                }
                take(result.actions)
                if result.answer == .stop { bodies[id] = nil }
            }
        }
    }

    /// Players look at the index at the end of a film; where that does not come in time they play from the beginning.
    @Test func aReaderThatWasAtTheEndDoesNotLetABodyThatComesWholeRunAway() {
        let length = gigabyte
        let lead: Int64 = 8 << 20
        var body = WholeBody(length: length, cap: 8 * lead)
        body.read(0, 1 << 20)
        body.read(length - 4096, 4096, upTo: 300 << 20)
        #expect(body.bodies.values.max() == 300 << 20)
        body.take(body.ledger.tick(now: body.now + .seconds(31)))
        body.now += .seconds(31)
        // What was sent beyond it has pushed the beginning out of the cache.
        body.ledger.forget(0..<1600)
        for offset in stride(from: Int64(0), to: 64 << 20, by: 1 << 20) {
            body.read(offset, 1 << 20)
            let position = body.bodies.values.min() ?? .max
            #expect(position >= offset + 1 << 20 && position <= offset + 1 << 20 + lead + WholeBody.piece)
        }
        #expect(body.stopped.count == 1, "the one that had passed everybody")
    }

    @Test func aJumpBackPutsABodyThatComesWholeInTheReadersPace() {
        let lead: Int64 = 8 << 20
        var body = WholeBody(length: gigabyte, cap: 8 * lead)
        for offset in stride(from: Int64(0), to: 200 << 20, by: 1 << 20) { body.read(offset, 1 << 20) }
        body.ledger.forget(0..<1200)
        for offset in stride(from: Int64(50 << 20), to: 70 << 20, by: 1 << 20) {
            body.read(offset, 1 << 20)
            #expect(body.bodies.values.min() ?? .max <= offset + 1 << 20 + lead + WholeBody.piece)
        }
    }

    /// Servers end a connection that takes nothing for a minute.
    @Test func aBodyThatComesWholePausesForAMebibyteOfItsReaders() {
        var body = WholeBody(length: 4 * gigabyte, cap: 4 * gigabyte)
        for offset in stride(from: Int64(0), to: 200 << 20, by: 128 << 10) { body.read(offset, 128 << 10) }
        let rests = zip(body.pauses, body.pauses.dropFirst()).map { $1 - $0 }
        #expect(rests.count > 100 && rests.dropFirst(4).allSatisfy { $0 <= 5 << 18 }, "\(rests)")
    }

    @Test func aReaderThatUnderrunsIsServedByAsManyRequestsAsTheLimitAllows() {
        var player = Player(length: gigabyte)
        for offset in stride(from: Int64(0), to: 12 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        player.ledger.limits.requests = 6
        // As long as it waits for nothing one request is enough.
        while player.runningCount == 0 { player.readOn(isServed: false) }
        #expect(player.runningCount == 1)
        player.serve()
        while player.waitingCount == 0 { player.readOn(isServed: false) }
        player.serve()
        while player.waitingCount == 0 { player.readOn(isServed: false) }
        #expect(player.runningCount >= 5)
        let latest = player.requests.suffix(6)
        #expect(zip(latest, latest.dropFirst()).allSatisfy { $0.upper == $1.lower })
        #expect(latest.allSatisfy { $0.count >= 512 << 10 })
    }

    @Test func whatAllFilesMayFetchAheadIsShared() {
        var player = Player(length: gigabyte)
        player.ledger.limits.room = 0
        for offset in stride(from: Int64(0), to: 64 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        #expect(player.fetched <= 64 << 20 + Readahead.early + Readahead.first)
    }

    static let tails: [(Int64, Int64?)] = [
        (100_000, nil), (524_288, nil), (10_485_760, 131_072), (10_526_720, 40_960), (10_485_860, 131_172),
    ]

    @Test(arguments: tails) func theTailIsALastBlockOrTwo(length: Int64, expected: Int64?) {
        let tail = Readahead.tail(of: length)
        #expect(tail?.count == expected)
        #expect(tail.map { $0.upper == length && $0.lower % BlockSize.block == 0 } ?? true)
    }

    @Test func whatIsPrebufferedIsAskedForOnceAndLetGo() {
        var player = Player(length: gigabyte)
        player.read(0, 4096)
        player.take(player.ledger.prebuffer(ByteRange(0, 4 << 20), now: player.now))
        #expect(
            player.requests.last == ByteRange(128 << 10, 4 << 20)
                && player.ledger.streams.contains { $0.purpose == .prebuffer })
        #expect(player.ledger.missing(in: [ByteRange(0, 5 << 20)]) == 1 << 20)
        let again = player.ledger.prebuffer(ByteRange(0, 4 << 20), now: player.now)
        #expect(again.isEmpty)
        // It is no reader's, so no reader's absence ends it.
        let ticked = player.ledger.tick(now: player.now + .seconds(1))
        let stopped = player.ledger.cancelPrebuffer()
        #expect(ticked.isEmpty && stopped.count == 1)
        #expect(player.ledger.isIdle)
    }

    /// The next item of a queue has no handle while it is fetched.
    @Test func whatIsPrebufferedComesWithoutAHandle() {
        var player = Player(length: gigabyte)
        player.ledger.closed(now: .zero)
        player.take(player.ledger.prebuffer(ByteRange(0, 4 << 20), now: player.now))
        player.take(player.ledger.tick(now: player.now + .seconds(60)))
        #expect(player.runningRanges == [ByteRange(0, 4 << 20)])
        player.take(player.ledger.cancelPrebuffer())
        #expect(player.ledger.isIdle)
    }

    @Test func aFileIsPlayedWhenHalfOfItWasReadInARow() {
        var player = Player(length: 64 << 20)
        var told: [Int64] = []
        for offset in stride(from: Int64(0), to: 64 << 20, by: 128 << 10) {
            player.read(offset, 128 << 10)
            _ = player.ledger.hit(ByteRange(offset, offset + 4096), now: player.now)
            if player.ledger.takeWantsNext() { told.append(offset) }
        }
        // Once past its half, once when nothing more has to come.
        #expect(told.count == 2 && told[0] >= 32 << 20 - 256 << 10)
        var scan = Player(length: 16 << 20)
        for offset in stride(from: Int64(0), to: 16 << 20, by: 2 << 20) {
            scan.read(offset, 256 << 10)
            let wantsNext = scan.ledger.takeWantsNext()
            #expect(!wantsNext)
        }
    }

    @Test func theStatisticsTellWhatWasWaitedForFromWhatWasNot() {
        var player = Player(length: 64 << 20)
        player.read(0, 4096)
        #expect(player.ledger.statistics.sums.demanded == 4096)
        #expect(player.ledger.statistics.unread.count == 124 << 10)
        player.read(4096, 60 << 10)
        #expect(player.ledger.statistics.unread.count == 64 << 10 && player.ledger.statistics.sums.wasted == 0)
        player.ledger.forget(0..<1)
        #expect(player.ledger.statistics.sums.wasted == 64 << 10)
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
        #expect(player.requests.count < 24)
        #expect(player.requests.contains { $0.lower > 512 << 20 && $0.count > Readahead.first })
    }

    @Test func aJumpAwayLetsTheOldStreamGoAfterAWhileAndAWaitingReadNever() {
        var player = Player(length: gigabyte)
        for _ in 0..<64 { player.readOn() }
        while player.runningCount == 0 { player.readOn(isServed: false) }
        player.read(512 << 20, 128 << 10, isServed: false)
        #expect(player.runningRanges.count { $0.lower < 512 << 20 } == 1)
        for _ in 0..<300 {
            player.now += .milliseconds(10)
            player.take(player.ledger.tick(now: player.now))
        }
        #expect(player.runningCount > 0 && player.runningRanges.allSatisfy { $0.lower >= 512 << 20 })
    }

    @Test func afterTheLastCloseStreamsLingerAndThenStop() {
        var player = Player(length: gigabyte)
        player.read(0, 4096, isServed: false)
        player.ledger.abandon(1)
        player.ledger.closed(now: player.now)
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
        for _ in 0..<64 { player.readOn() }
        while player.runningCount == 0 { player.readOn(isServed: false) }
        #expect(player.runningCount == 1 && player.waitingCount == 0)
        player.failRunning(.status(429, retryAfter: .seconds(600)))
        let count = player.requests.count
        for _ in 0..<50 { player.read(8 << 20 - 4096, 4096, isServed: false) }
        #expect(player.requests.count == count)
        // A read that waits for the bytes does not wait for the pause.
        player.read(512 << 20, 4096, isServed: false)
        #expect(player.requests.count == count + 1)
    }

    @Test func bytesOfAStreamThatWasLetGoMeanwhileAreKept() {
        var player = Player(length: gigabyte)
        player.read(0, 4096, isServed: false)
        player.ledger.abandon(1)
        player.ledger.closed(now: .zero)
        player.take(player.ledger.tick(now: player.now + .seconds(11)))
        #expect(player.ledger.isIdle)
        let result = player.ledger.arrived(1, ByteRange(0, 512 << 10), now: player.now + .seconds(11))
        #expect(result.answer == .stop)
    }

    @Test func whatIsExpendableIsFilledAndNoReaderIsNear() {
        var player = Player(length: 64 << 20, cap: 16 << 20)
        for offset in stride(from: Int64(0), to: 32 << 20, by: 128 << 10) { player.read(offset, 128 << 10) }
        let length = player.ledger.length
        let all = [64..<128, 0..<64, 128..<1024]
        let runs = player.ledger.expendable(all, sparingReadahead: true)
        #expect(runs.first == 64..<128)
        let blocks = runs.flatMap { Array($0) }
        let bytes = blocks.reduce(Int64(0)) { $0 + BlockSize.bytes(of: $1, length: length).count }
        #expect(bytes >= 16 << 20)
        let end = (32 << 20) - BlockSize.block
        #expect(
            blocks.allSatisfy {
                player.ledger.present.isFilled($0) && BlockSize.bytes(of: $0, length: length).upper <= end
            })
        // What was read ahead goes where nothing else is left.
        let more = player.ledger.expendable(all, sparingReadahead: false).flatMap { Array($0) }
        #expect(
            Set(more).isSuperset(of: blocks) && more.contains(Int(end / BlockSize.block)))
    }

    @Test func aBlockInPartCanGoWhereNoRequestBringsTheRestOfIt() {
        let block = BlockSize.block
        var ledger = Ledger(length: 8 * block)
        ledger.opened()
        // A read of two blocks, of which the first half of the first one has come; and some bytes of the third.
        let starts = ledger.park(1, ByteRange(0, 2 * block), deadline: .seconds(30), now: .zero, readsOn: false)
        guard case .start(let id, let range, _) = starts.first else { return #expect(Bool(false), "\(starts)") }
        ledger.requested(id, now: .zero)
        _ = ledger.arrived(id, ByteRange(0, block / 2), now: .zero)
        ledger.bytes.add(ByteRange(2 * block, 2 * block + 1000))
        func abandoned(isScarce: Bool) -> [Int] {
            (0..<8).filter { ledger.isAbandoned($0, isScarce: isScarce) }
        }
        #expect(range == ByteRange(0, 2 * block))
        #expect(abandoned(isScarce: false) == Array(2..<8))
        // The request is in the first block.
        #expect(abandoned(isScarce: true) == Array(1..<8))
        // It waits for its next attempt.
        _ = ledger.ended(id, .interrupted("x"), now: .zero, random: 0.5)
        #expect(abandoned(isScarce: false) == Array(2..<8) && abandoned(isScarce: true) == Array(0..<8))
    }

    // MARK: Retry

    @Test func pausesGrowEndAndHonourRetryAfter() {
        let reset = OriginFailure.interrupted("reset")
        let pauses = (1...7).map { RetryPolicy.pause(after: reset, attempt: $0, random: 0.5) }
        #expect(pauses.last! == nil)
        let seconds = pauses.dropLast().map { $0!.seconds }
        #expect(zip(seconds, seconds.dropFirst()).allSatisfy { $0 < $1 })
        #expect(RetryPolicy.pause(after: .status(503, retryAfter: .seconds(7)), attempt: 1, random: 0) == .seconds(7))
        for busy in [408, 423, 425, 429, 500, 503] {
            let pause = RetryPolicy.pause(after: .status(busy, retryAfter: .seconds(3)), attempt: 1, random: 0)
            #expect(pause == .seconds(3))
            #expect(RetryPolicy.pause(after: .status(busy, retryAfter: nil), attempt: 1, random: 0) != nil)
        }
        for hopeless in [
            OriginFailure.status(404, retryAfter: nil), .status(501, retryAfter: nil), .changed, .wrongAnswer("x"),
            .untrusted("x"), .cancelled,
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
