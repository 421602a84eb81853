import Testing

@testable import ReelCore

/// Reads that wait: which are complete, which are over, and what a second try gets.
@Suite struct WaitingReadsTests {
    private let bytes = TestBytes(length: 1 << 20)

    private func waiting(_ ranges: [ByteRange], deadline: Duration = .seconds(30)) -> WaitingReads {
        var waiting = WaitingReads(bytes)
        for (id, range) in ranges.enumerated() {
            waiting.add(
                WaitingReads.Read(
                    id: Ledger.ReadID(id), range: range, deadline: deadline, parkedAt: .zero, readsOn: true))
        }
        return waiting
    }

    @Test func aReadIsCompleteWhenItsOwnBytesAreThere() {
        var waiting = waiting([ByteRange(0, 10), ByteRange(5, 15), ByteRange(100, 110)])
        bytes.add(ByteRange(0, 12))
        bytes.add(ByteRange(100, 110))
        #expect(waiting.complete(ByteRange(0, 12)) == [.complete(0)])
        #expect(waiting.complete(ByteRange(0, .max)) == [.complete(2)])
        #expect(waiting.all.map(\.id) == [1])
    }

    /// The cache kept the bytes, and then had no room for those behind them: no arrival is reported.
    @Test(arguments: ["tick", "supersede"]) func aReadWhoseBytesAreThereGetsThemWithoutAnArrival(_ event: String) {
        var ledger = Ledger(bytes)
        ledger.opened()
        let deadline = Duration.seconds(30)
        let actions = ledger.park(1, ByteRange(0, 4096), deadline: deadline, now: .zero)
        guard case .start(let id, _, _) = actions.first else { return #expect(Bool(false), "\(actions)") }
        bytes.add(ByteRange(0, BlockSize.block))
        _ = ledger.ended(id, .wrongAnswer("no room"), now: .zero, random: 0.5)
        let ends = event == "tick" ? ledger.tick(now: deadline) : ledger.supersede()
        #expect(ends == [.complete(1)] && ledger.isIdle)
    }

    /// The eviction itself, or a hit of another reader, finds out that they have left.
    @Test(arguments: ["eviction", "hit"], ["tick", "arrival"])
    func bytesOfAReadThatLeaveAreAskedForAgain(_ finder: String, _ event: String) {
        let block = BlockSize.block
        bytes.add(ByteRange(0, block))
        var ledger = Ledger(bytes)
        ledger.opened()
        let first = ledger.park(1, ByteRange(0, 2 * block), deadline: .seconds(30), now: .zero)
        guard case .start(let id, _, _) = first.first else { return #expect(Bool(false), "\(first)") }
        bytes.remove(ByteRange(0, block))
        if finder == "hit" { _ = ledger.hit(ByteRange(9 * block, 10 * block), now: .zero) } else { ledger.notice() }
        let actions =
            event == "tick"
            ? ledger.tick(now: .zero) : ledger.arrived(id, ByteRange(block, block + 1), now: .zero).actions
        let starts = actions.contains { if case .start(_, let range, _) = $0 { range.lower == 0 } else { false } }
        #expect(starts, "\(actions)")
    }

    @Test func aReadWaitsForTheStreamThatBringsAMissingByteOfIt() {
        let waiting = waiting([ByteRange(0, 10)])
        bytes.add(ByteRange(0, 6))
        var streams = Streams(bytes, acceptsRanges: true)
        _ = streams.add(ByteRange(0, 6), .demand, now: .zero)
        _ = streams.add(ByteRange(6, 20), .demand, now: .zero)
        #expect(streams.all.map { waiting.wait(for: $0) } == [false, true])
        #expect(waiting.reads(waitingFor: streams.all[1]).map(\.id) == [0])
    }

    @Test func aSecondTryHearsOfTheFailureForAMoment() {
        var waiting = waiting([ByteRange(0, 10)], deadline: .seconds(1))
        #expect(waiting.endLate(Streams(bytes, acceptsRanges: true), now: .seconds(1)) == [.fail(0, .timedOut)])
        #expect(waiting.recentFailure(of: ByteRange(9, 20), now: .milliseconds(1299)) == .timedOut)
        #expect(waiting.recentFailure(of: ByteRange(10, 20), now: .milliseconds(1299)) == nil)
        #expect(waiting.recentFailure(of: ByteRange(9, 20), now: .milliseconds(1300)) == nil)
    }

    @Test func atTheDeadlineTheStreamsLastFailureIsTold() {
        var waiting = waiting([ByteRange(0, 10)], deadline: .seconds(1))
        var streams = Streams(bytes, acceptsRanges: true)
        let id = streams.add(ByteRange(0, 10), .demand, now: .zero)
        _ = streams.retry(id, after: .unreachable("x"), before: .seconds(30), now: .zero, random: 0.5)
        #expect(waiting.endLate(streams, now: .seconds(1)) == [.fail(0, .unreachable)])
    }

    @Test(arguments: [(OriginFailure.timedOut, 0, true), (.unreachable("x"), 0, false), (.unreachable("x"), 2, true)])
    func onlyAFailureThatTookLongIsRemembered(failure: OriginFailure, seconds: Int, isRemembered: Bool) {
        var waiting = waiting([ByteRange(0, 10)])
        let now = Duration.seconds(seconds)
        #expect(waiting.fail(waiting.all, of: failure, now: now) == [.fail(0, failure.meaning.read)])
        let remembered = waiting.recentFailure(of: ByteRange(0, 10), now: now)
        #expect((remembered != nil) == isRemembered)
    }
}
