import ReelCore
import TestKit
import Testing

@testable import ReelCache

private struct Word: Equatable {
    var extent: Int
    var word: UInt64
}

/// The filled blocks that are looked at when they are read from the disk.
private func looked(_ state: BlockTable, _ blocks: Range<Int>) -> [Int] {
    blocks.filter { state[$0].isFilled && state.uncertain($0..<$0 + 1) == 1 }
}

private func words(_ state: BlockTable) -> [Word] { state.rowsAfterSync.map { Word(extent: $0.extent, word: $0.word) } }

struct BlockTableTests {
    private func state(_ blocks: Int = 70) -> BlockTable { BlockTable(length: Int64(blocks) * BlockSize.block) }

    /// The first bytes of blocks are written to the disk.
    private func write(_ blocks: Range<Int>, _ state: inout BlockTable, failures: Int? = nil) {
        state.begin(state.untouched(blocks))
        for block in blocks {
            let range = ByteRange(Int64(block) * BlockSize.block, Int64(block) * BlockSize.block + 3)
            let isWhole = [1, 2, 3].withUnsafeBytes {
                state.add(
                    UnsafeRawBufferPointer(rebasing: $0[..<3]), at: range, of: block,
                    failures: failures ?? state.failedSyncs)
            }
            #expect(!isWhole)
        }
    }

    private func memory() throws -> MemoryBlock {
        try #require(MemoryBlock(BlockSize.block, MemoryAccount(limit: .max)))
    }

    /// There is something to sync.
    private func begin(_ state: inout BlockTable) {
        let isPending = state.beginSync()
        #expect(isPending)
    }

    /// All of it becomes durable.
    private func sync(_ state: inout BlockTable) {
        begin(&state)
        state.endSync()
    }

    @Test func whatIsFilledWhileTheSyncRunsWaitsForTheNext() {
        var state = state()
        _ = state.fill(1, 1)
        begin(&state)
        _ = state.fill(2, 2)
        #expect(words(state) == [Word(extent: 0, word: 0b10)])
        state.endSync()
        begin(&state)
        #expect(words(state) == [Word(extent: 0, word: 0b110)])
    }

    @Test func whatIsClearedWhileTheSyncRunsIsNotClaimedAlsoWhenFilledAnew() {
        var state = state()
        _ = state.fill(1, 1)
        _ = state.fill(2, 2)
        begin(&state)
        let cleared = state.clear(1..<2)
        #expect(cleared.rows.isEmpty && cleared.bytes == BlockSize.block)
        _ = state.fill(1, 1)
        #expect(words(state) == [Word(extent: 0, word: 0b100)])
        state.endSync()
        #expect(state[1].isFilled && !(state[1] == .durable))
        begin(&state)
    }

    @Test func anExtentLeavesMemoryWhenAllThatIsFilledOfItIsDurable() {
        var state = state()
        _ = state.fill(1, 1)
        let isReady = state.leaveMemory(0)
        let early = state.takeLeaving()
        #expect(!isReady && early.isEmpty)
        begin(&state)
        _ = state.fill(2, 2)
        state.endSync()
        let half = state.takeLeaving()
        #expect(half.isEmpty)
        sync(&state)
        let all = (state.takeLeaving(), state.takeLeaving())
        #expect(all.0 == [0] && all.1.isEmpty)
        let isReadyNow = (state.leaveMemory(0), state.leaveMemory(1))
        #expect(isReadyNow.0 && isReadyNow.1)
    }

    /// A sync has failed when block 1 was written in part and block 2 filled.
    private func lostInPart() -> BlockTable {
        var state = state()
        write(1..<2, &state)
        _ = state.fill(2, 2)
        begin(&state)
        state.loseUnsynced()
        return state
    }

    /// Its first bytes were written before the sync that failed, the others behind it.
    @Test func aBlockOfWhichSomeWasLostByASyncIsNeverClaimed() {
        var state = lostInPart()
        _ = state.fill(1, 1)
        #expect(state.uncertain(1..<2) == 1)
        state.verify(1)
        #expect(state.uncertain(1..<2) == 1)
        _ = state.fill(3, 3)
        sync(&state)
        #expect(!(state[1] == .durable) && !(state[2] == .durable) && (state[3] == .durable))
        let isReady = state.leaveMemory(0)
        #expect(!isReady)
    }

    @Test func aBlockThatIsWrittenAnewAfterItWasGivenUpCanBeDurable() {
        var state = lostInPart()
        _ = state.abandon()
        _ = state.fill(1, 1)
        sync(&state)
        #expect((state[1] == .durable))
    }

    /// The page cache has the only bytes that are right.
    @Test func whatAFailedSyncWasToSaveStaysInMemory() {
        var state = state()
        _ = state.fill(1, 1)
        _ = state.leaveMemory(0)
        begin(&state)
        state.loseUnsynced()
        _ = state.fill(2, 2)
        sync(&state)
        let left = state.takeLeaving()
        #expect(left.isEmpty)
        let isReady = state.leaveMemory(0)
        #expect(!isReady)
    }

    @Test func aSyncThatWasAbandonedIsTakenAlong() {
        var state = state()
        _ = state.fill(65, 65)
        begin(&state)
        state.abandonSync()
        begin(&state)
        #expect(words(state) == [Word(extent: 1, word: 0b10)])
    }

    @Test func whatAFailedSyncWasToSaveIsReadWithACheckAndNeverClaimed() {
        var state = state()
        _ = state.fill(1, 11)
        sync(&state)
        _ = state.fill(2, 22)
        begin(&state)
        _ = state.fill(66, 33)
        state.loseUnsynced()
        #expect(state[1].isFilled && state[2].isFilled && state[66].isFilled && !state.isPending)
        #expect(looked(state, 0..<70) == [2, 66])
        #expect(state.sum(of: 2) == 22 && state.sum(of: 66) == 33)
        // A look does not vouch for the next one.
        state.verify(2)
        #expect(looked(state, 0..<70) == [2, 66])
        _ = state.fill(3, 44)
        begin(&state)
        #expect(words(state) == [Word(extent: 0, word: 0b1010)])
        state.endSync()
        // Fetched again they are like any other.
        #expect(state.lose(2..<3) == BlockSize.block)
        _ = state.fill(2, 22)
        begin(&state)
        #expect(words(state) == [Word(extent: 0, word: 0b1110)])
    }

    /// A write-back that fails before a sync has reported it may take them out of the page cache.
    @Test func whatNoSyncHasVouchedForIsLookedAtEachTime() {
        var state = state()
        _ = state.fill(5, 55)
        state.verify(5)
        #expect(looked(state, 0..<70) == [5])
        begin(&state)
        #expect(looked(state, 0..<70) == [5])
        state.endSync()
        #expect(looked(state, 0..<70).isEmpty)
        state.doubt(5)
        #expect(looked(state, 0..<70) == [5])
        state.verify(5)
        #expect(looked(state, 0..<70).isEmpty)
    }

    @Test func onlyADurableFileIsOffered() {
        var state = state(2)
        _ = state.fill(0, 1)
        _ = state.fill(1, 1)
        begin(&state)
        let tooSoon = state.offer()
        state.endSync()
        let inTime = state.offer()
        #expect(!tooSoon && inTime && state.offers == 1)
    }

    @Test func whatIsUncertainIsToldFromTheFirstBlockOn() {
        var state = state(200)
        for block in 0..<200 { _ = state.fill(block, 1) }
        sync(&state)
        for block in [60, 63, 64, 100, 123] { state.doubt(block) }
        let bits: UInt64 = 1 | 1 << 3 | 1 << 4 | 1 << 40 | 1 << 63
        #expect(state.uncertain(60..<124) == bits)
        #expect(state.uncertain(61..<64) == 1 << 2 && state.uncertain(64..<65) == 1 && state.uncertain(65..<100) == 0)
    }

    @Test func aBlockInMemoryIsFilledAndInNoRow() throws {
        var state = state()
        _ = state.moveToMemory(5, try memory())
        let isSealed = state.seal(5, 55, now: 0)
        #expect(isSealed && state[5] == .memory && state.states.bytesOnDisk == 0 && state.isInMemory)
        let isPending = state.beginSync()
        #expect(!isPending && state[5].isFilled)
        _ = state.lose(5..<6)
        _ = state.fill(5, 55)
        begin(&state)
    }

    /// The first half was written to the disk, and its checksum is that of no more.
    @Test func aBlockThatGoesOnInMemoryHasTheChecksumOfAllItsBytes() throws {
        var state = state()
        let memory = try memory()
        let half = memory.whole.count / 2
        memory.whole.copyBytes(from: (0..<memory.whole.count).map { UInt8(truncatingIfNeeded: $0 / 1000) })
        let range = state.bytes(of: 5)
        let middle = range.lower + Int64(half)
        state.begin([5])
        let first = UnsafeRawBufferPointer(rebasing: memory.bytes[..<half])
        var isWhole = state.add(first, at: ByteRange(range.lower, middle), of: 5, failures: 0)
        #expect(!isWhole)
        _ = state.moveToMemory(5, memory)
        let second = UnsafeRawBufferPointer(rebasing: memory.bytes[half...])
        isWhole = state.add(second, at: ByteRange(middle, range.upper), of: 5, failures: nil)
        let flight = try #require(state.inFlight[5])
        #expect(isWhole && flight.whole(range) == checksum(memory.bytes))
        #expect(flight.pieces.whole(range) == nil && flight.pieces.agree(with: memory.bytes, of: range))
    }

    /// A discard had taken it out when a sync failed, and could not write its rows: the sync did not see it.
    @Test func whatIsPutBackAfterASyncThatFailedIsNeverClaimed() {
        var state = state()
        _ = state.fill(1, 1)
        sync(&state)
        _ = state.fill(2, 2)
        begin(&state)
        let cleared = state.clear(0..<64)
        state.loseUnsynced()
        state.putBack(cleared)
        let isBegun = state.beginSync()
        #expect(state[1].isFilled && state[2].isFilled && !isBegun)
        #expect(state.states.isVerified(1) && state[2] == .unkept)
        state.verify(2)
        #expect(looked(state, 0..<70) == [2])
    }

    /// A sync for others has failed between the write and the word of it.
    @Test func whatWasWrittenWhileASyncFailedIsNeverClaimed() {
        var state = state()
        let failures = state.failedSyncs
        _ = state.fill(1, 1)
        begin(&state)
        state.loseUnsynced()
        write(2..<4, &state, failures: failures)
        write(4..<5, &state)
        for block in 2...4 { _ = state.seal(block, 1, now: 0) }
        begin(&state)
        #expect(words(state) == [Word(extent: 0, word: 1 << 4)])
        state.endSync()
        state.verify(2)
        #expect(looked(state, 0..<70) == [1, 2, 3])
    }

    @Test func aLostBlockIsWrittenAgainWithItsNewChecksum() {
        var state = state(3)
        _ = state.fill(0, 1)
        _ = state.fill(1, 2)
        sync(&state)
        #expect(state.sum(of: 1) == nil)
        _ = state.lose(1..<2)
        #expect(!state[1].isFilled && !(state[1] == .durable))
        _ = state.fill(1, 7)
        begin(&state)
        #expect(words(state) == [Word(extent: 0, word: 0b11)] && state.rowsAfterSync[0].sums[1] == 7)
    }

    @Test(arguments: [0..<0, 0..<1, 62..<66, 0..<70, 63..<64, 64..<70, 69..<90, -5..<3])
    func clearingTakesExactlyTheBlocksAndCanBePutBack(_ blocks: Range<Int>) {
        var state = state()
        for block in 0..<70 { _ = state.fill(block, BlockSum(plain: UInt64(block))) }
        sync(&state)
        let (before, bytes) = (state.states.durable, state.states.filledBytes)
        let cleared = state.clear(blocks)
        #expect((0..<70).allSatisfy { state[$0].isFilled == !blocks.contains($0) })
        #expect(cleared.bytes == bytes - state.states.filledBytes)
        state.putBack(cleared)
        #expect(state.states.durable == before && state.states.filledBytes == bytes)
    }

    /// What a row says behind the end, of an extent that is none, or twice.
    @Test func rowsAreTakenAsFarAsTheyCanBeRight() {
        let length = 65 * BlockSize.block + 7
        var state = BlockTable(length: length)
        state.states.load(0, word: 0b101, lastUse: 4)
        state.states.load(0, word: .max, lastUse: 5)
        state.states.load(1, word: .max, lastUse: 6)
        for extent in [-1, 2, .max] { state.states.load(extent, word: .max, lastUse: 7) }
        #expect(state.states.filled == RangeSet([0..<1, 2..<3, 64..<66]))
        #expect(state.states.filledBlocks == 4 && state.states.durableBlocks == 4)
        let bytes = 3 * BlockSize.block + 7
        #expect(
            state.states.filledBytes == bytes && state.states.durableBytes == bytes && state.states.bytesOnDisk == bytes
        )
        #expect(state.states.lastUse(ofExtent: 0) == 4 && state.states.lastUse(ofExtent: 1) == 6 && !state.isPending)
        #expect(looked(state, 0..<66) == [0, 2, 64, 65])
        state.states.trust(state.states.durable)
        #expect(looked(state, 0..<66).isEmpty && state.states.certain == state.states.durable)
        for (word, extent, bytes) in [
            (.max, 0, BlockSize.extent), (.max, 1, BlockSize.block + 7), (0b10, 1, 7), (0b1001, 0, 2 * BlockSize.block),
            (.max, 2, 0), (.max, -1, 0), (.max, .max, 0), (.max, .min, 0),
        ] as [(UInt64, Int, Int64)] {
            #expect(BlockStates.bytes(of: word, inExtent: extent, length: length) == bytes)
        }
        #expect(BlockStates.bytes(of: .max, inExtent: 0, length: 0) == 0)
        let empty = BlockTable(length: 0)
        #expect(empty.isComplete && empty.covers(ByteRange(0, 0)) && empty.states.filledBytes == 0)
    }

    /// A read that began before bytes left, and a write, learn that they do not count.
    @Test func bytesOfABlockThatHasLeftMeanwhileDoNotCount() {
        var state = state()
        state.begin([1])
        let room = state.lose(1..<2)
        let whole = [UInt8](repeating: 1, count: Int(BlockSize.block))
        let isWhole = whole.withUnsafeBytes {
            state.add($0, at: ByteRange(BlockSize.block, 2 * BlockSize.block), of: 1, failures: 0)
        }
        let isSealed = state.seal(1, 1, now: 0)
        #expect(room == BlockSize.block && !isWhole && !isSealed && state[1] == .empty && state.hasLeftovers)
    }

    /// Lengths and offsets are the origin's, the index's and the kernel's: no two of them may end the program.
    @Test(arguments: 1...20) func anyOffsetsAreARangeAndWhatLiesBehindTheEndIsNothing(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let length = Int64.random(in: 0...4 * BlockSize.block, using: &random)
        let ends: [Int64] = [
            .min, -1, 0, 1, BlockSize.block, length - 1, length, length + 1, length + BlockSize.extent, .max - 1, .max,
        ]
        var table = BlockTable(length: length)
        for _ in 0..<200 {
            let (lower, upper) = (ends.randomElement(using: &random)!, ends.randomElement(using: &random)!)
            let range = ByteRange(lower, upper)
            #expect(0 <= range.lower && range.lower <= range.upper && range.count >= 0, "seed \(seed)")
            let part = range.clamped(to: ByteRange(0, length))
            #expect(table.covers(range) == table.covers(part), "seed \(seed)")
            let missing = table.firstMissing(from: range.lower, limit: range.upper)
            #expect((range.lower...range.upper).contains(missing) && (missing < length || missing == range.upper))
            let covered = table.firstCovered(from: range.lower, limit: range.upper)
            #expect((range.lower...range.upper).contains(covered) && (covered < length || covered == range.upper))
            let blocks = BlockSize.blocks(touching: range, length: length)
            #expect(blocks == BlockSize.blocks(touching: part, length: length), "seed \(seed)")
            if Bool.random(using: &random) {
                for block in blocks { _ = table.fill(block, 1) }
                #expect(table.covers(part), "seed \(seed)")
            } else {
                _ = table.lose(blocks)
            }
        }
    }
}
