import ReelCore
import Testing

@testable import ReelCache

struct FillStateTests {
    private func state(_ blocks: Int = 70) -> FillState {
        FillState(durable: BlockMap(length: Int64(blocks) * BlockSize.block))
    }

    /// There is something to sync.
    private func begin(_ state: inout FillState) {
        let isPending = state.beginSync()
        #expect(isPending)
    }

    @Test func whatIsFilledWhileTheSyncRunsWaitsForTheNext() {
        var state = state()
        _ = state.fill(1)
        begin(&state)
        _ = state.fill(2)
        #expect(state.rowsAfterSync == [FillState.Row(extent: 0, word: 0b10)])
        state.endSync()
        begin(&state)
        #expect(state.rowsAfterSync == [FillState.Row(extent: 0, word: 0b110)])
    }

    @Test func whatIsClearedWhileTheSyncRunsIsNotClaimedAlsoWhenFilledAnew() {
        var state = state()
        _ = state.fill(1)
        _ = state.fill(2)
        begin(&state)
        let cleared = state.clear(1..<2)
        #expect(cleared.rows.isEmpty && cleared.bytes == BlockSize.block)
        state.confirm(cleared)
        _ = state.fill(1)
        #expect(state.rowsAfterSync == [FillState.Row(extent: 0, word: 0b100)])
        state.endSync()
        #expect(state.map[1] && !state.durable[1])
        begin(&state)
    }

    @Test func aSyncThatWasAbandonedIsTakenAlong() {
        var state = state()
        _ = state.fill(65)
        begin(&state)
        state.abandonSync()
        begin(&state)
        #expect(state.rowsAfterSync == [FillState.Row(extent: 1, word: 0b10)])
    }

    @Test func aFailedSyncLeavesWhatWasDurable() {
        var state = state()
        _ = state.fill(1)
        begin(&state)
        state.endSync()
        _ = state.fill(2)
        begin(&state)
        _ = state.fill(66)
        let lost = state.loseUnsynced()
        #expect(lost == 2 * BlockSize.block)
        #expect(state.map == state.durable && state.map[1] && !state.isPending)
        #expect(state.partial == [2, 66])
    }

    @Test(arguments: [0..<0, 0..<1, 62..<66, 0..<70, 63..<64, 64..<70, 69..<90, -5..<3])
    func clearingTakesExactlyTheBlocksAndCanBePutBack(_ blocks: Range<Int>) {
        var state = state()
        state.fillAll()
        begin(&state)
        state.endSync()
        let before = state.map
        let cleared = state.clear(blocks)
        #expect((0..<70).allSatisfy { state.map[$0] == !blocks.contains($0) })
        #expect(cleared.bytes == before.filledBytes - state.map.filledBytes)
        state.putBack(cleared)
        #expect(state.map == before)
    }
}
