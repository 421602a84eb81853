import ReelCore
import Testing

@testable import ReelVolume

/// Which waiting reads are the ledger's, and which stand in the queue.
@Suite struct ParkedReadsTests {
    private func read(until deadline: Duration = .seconds(9)) -> ParkedReads.Read {
        ParkedReads.Read(caller: TestRead(), node: 1, range: ByteRange(0, 1), deadline: deadline, isRepair: false)
    }

    private func fullReads() -> ParkedReads {
        var reads = ParkedReads()
        for _ in 0..<ParkedReads.limit {
            let isQueued = reads.enqueue(read())
            #expect(!isQueued)
            _ = reads.hold(read())
        }
        return reads
    }

    @Test func readsBeyondTheLimitStandInTheQueueUntilThereIsRoom() {
        var reads = fullReads()
        let queued = [read(), read(), read()]
        for read in queued {
            let isQueued = reads.enqueue(read)
            #expect(isQueued)
        }
        let none = reads.takeNext()
        let taken = [reads.take(1), reads.take(1)]
        #expect(none.isEmpty && taken.map { $0 != nil } == [true, false])
        let isQueued = reads.enqueue(read())
        #expect(isQueued, "a later read does not pass the queue")
        let next = reads.takeNext()
        #expect(next.map { $0.caller === queued[0].caller } == [true])
        #expect(reads.queuedCount == 3 && reads.heldCount == ParkedReads.limit - 1)
    }

    @Test func lateReadsLeaveTheQueue() {
        var reads = fullReads()
        let late = read(until: .seconds(1))
        for read in [read(), late] { _ = reads.enqueue(read) }
        let early = reads.takeLate(.milliseconds(999))
        let due = reads.takeLate(.seconds(1))
        #expect(early.isEmpty && due.map { $0.caller === late.caller } == [true])
        #expect(reads.queuedCount == 1)
    }

    @Test func aReadWhoseCallerHasGoneIsForgottenWhereverItIs() {
        var reads = fullReads()
        let (queued, held) = (read(), read())
        _ = reads.enqueue(queued)
        let id = reads.hold(held)
        let names = [queued, held, held].map { reads.remove($0.caller) }
        #expect(names == [nil, id, nil] && reads.queuedCount == 0)
        let taken = reads.take(id)
        #expect(taken.map { _ in true } == nil)
    }
}
