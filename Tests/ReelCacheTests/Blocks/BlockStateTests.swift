import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// The table of transitions, as a table; and the table of blocks held against it.
struct BlockStateTests {
    struct Transition: Sendable {
        var from: BlockState
        var event: BlockState.Event
        /// nil: nothing happens.
        var to: BlockState?
    }

    /// Every state with every event; what is not named leaves the block as it is.
    static let transitions: [Transition] = {
        let moves: [(BlockState, BlockState.Event, BlockState)] = [
            (.empty, .begin, .partial),
            (.partial, .seal, .written), (.partial, .sealInMemory, .memory), (.partial, .sealUnkept, .unkept),
            (.written, .syncBegins, .syncing), (.written, .syncFails, .unkept),
            (.syncing, .syncEnds, .durable), (.syncing, .syncAbandoned, .written), (.syncing, .syncFails, .unkept),
            (.partial, .leave, .empty), (.memory, .leave, .empty), (.written, .leave, .empty),
            (.syncing, .leave, .empty), (.durable, .leave, .empty), (.unkept, .leave, .empty),
            (.durable, .depart, .departing), (.departing, .stay, .durable), (.departing, .gone, .empty),
        ]
        return BlockState.allCases.flatMap { state in
            BlockState.Event.allCases.map { event in
                Transition(from: state, event: event, to: moves.first { $0.0 == state && $0.1 == event }?.2)
            }
        }
    }()

    @Test(arguments: transitions) func aBlockGoesWhereTheTableSays(_ transition: Transition) {
        #expect(transition.from.after(transition.event) == transition.to)
    }

    /// A table of one block in this state, by events alone.
    static func table(_ state: BlockState) -> BlockTable {
        var table = BlockTable(length: BlockSize.block)
        switch state {
        case .empty: break
        case .partial: table.begin([0])
        case .memory:
            _ = table.moveToMemory(0, MemoryBlock(BlockSize.block, MemoryAccount(limit: .max))!)
            _ = table.seal(0, 7, now: 1)
        case .written, .syncing, .durable, .departing, .unkept:
            _ = table.fill(0, 7)
            if state != .written { _ = table.beginSync() }
            if state == .durable || state == .departing { table.endSync() }
            if state == .departing { _ = table.depart([0..<1]) }
            if state == .unkept { table.loseUnsynced() }
        }
        return table
    }

    /// What each operation of the table does to a block in each state.
    @Test(arguments: BlockState.allCases) func operationsAreEventsOfTheTable(_ state: BlockState) {
        func after(_ event: BlockState.Event) -> BlockState { state.after(event) ?? state }
        func check(_ wanted: BlockState, _ hint: Comment, _ change: (inout BlockTable) -> Void) {
            var table = Self.table(state)
            #expect(table[0] == state)
            change(&table)
            #expect(table[0] == wanted, hint)
            #expect(table.states.filledBlocks == (table[0].isFilled ? 1 : 0), hint)
            #expect(table.states.bytesOnDisk == (table[0].isFilled && table[0] != .memory ? BlockSize.block : 0), hint)
            #expect(table.states.durableBytes == (table[0] == .durable ? BlockSize.block : 0), hint)
            #expect((table.inFlight[0] != nil) == [.partial, .memory].contains(table[0]), hint)
        }
        check(after(.begin), "begin") { $0.begin([0]) }
        check(after(.seal), "seal") { _ = $0.seal(0, 9, now: 2) }
        check(after(.leave), "lose") { _ = $0.lose(0..<1) }
        check(after(.leave), "clear") { _ = $0.clear(0..<1) }
        check(state == .durable ? .durable : after(.leave), "abandon") { _ = $0.abandon() }
        check(state == .memory ? .empty : state, "drop memory") { $0.dropMemory() }
        check(state == .partial ? .empty : state, "cancel") { _ = $0.cancel([0]) }
        check(after(.syncBegins), "sync begins") { _ = $0.beginSync() }
        check(after(.syncEnds), "sync ends") { $0.endSync() }
        check(after(.syncAbandoned), "sync abandoned") { $0.abandonSync() }
        check(after(.syncFails), "sync fails") { $0.loseUnsynced() }
        check(after(.depart), "depart") { #expect($0.depart([0..<1]).rows.isEmpty == (state != .durable)) }
        check(state, "stay") { $0.stay($0.depart([0..<1])) }
        check(state == .durable ? .empty : state, "gone") { $0.gone($0.depart([0..<1])) }
        let putBack: BlockState =
            state == .departing
            ? state : state == .syncing ? .written : state == .memory ? .empty : state.isFilled ? state : .empty
        check(putBack, "put back") { table in
            table.putBack(table.clear(0..<1))
        }
    }

    /// `removals` counts what leaves, so that a read that began before does not count.
    @Test(arguments: BlockState.allCases) func whateverLeavesIsCounted(_ state: BlockState) {
        var table = Self.table(state)
        let before = table.removals
        _ = table.lose(0..<1)
        // What departs has been counted.
        #expect((table.removals > before) == ![.empty, .departing].contains(state))
    }

    /// No read believes in a block that departs, and no write fills it.
    @Test func aBlockThatDepartsIsNotThere() {
        var table = Self.table(.durable)
        table.verify(0)
        let removals = table.removals
        let departing = table.depart([0..<1])
        #expect(departing.rows == [BlockTable.Row(extent: 0, word: 0)] && departing.bytes == BlockSize.block)
        #expect(table.removals == removals + 1 && table.firstMissing(from: 0, limit: 1) == 0)
        #expect(table.untouched(0..<1).isEmpty)
        table.begin([0])
        #expect(table[0] == .departing && table.lose(0..<1) == 0 && table.clear(0..<1).bytes == 0)
        var other = table
        table.stay(departing)
        #expect(table[0] == .durable && table.states.isVerified(0))
        other.gone(departing)
        #expect(other.untouched(0..<1) == [0] && other.hasLeftovers)
    }
}

/// Any order of events, against a model with a word for each block.
struct BlockTableModelTests {
    private struct Model {
        var states: [BlockState]
        var isUnkept: [Bool]
        /// Which sixteenths of it came.
        var parts: [[Bool]]
        var room: [Int64]
    }

    @Test(arguments: 1...LongTests.many(20, elseOnly: 6)) func anyOrderOfEventsAgreesWithThePlainModel(_ number: Int)
        throws
    {
        let seed = UInt64(number) &* 0x9E37_79B9
        var random = SeededGenerator(seed: seed)
        let hint: Comment = "seed \(seed)"
        let unit = BlockSize.block / 16
        // The last block is short.
        let length = Int64.random(in: 1...150 * 16, using: &random) * unit
        var table = BlockTable(length: length)
        let count = table.blockCount
        func units(_ block: Int) -> Int { Int(table.bytes(of: block).count / unit) }
        var model = Model(
            states: Array(repeating: .empty, count: count), isUnkept: Array(repeating: false, count: count),
            parts: (0..<count).map { Array(repeating: false, count: units($0)) },
            room: Array(repeating: 0, count: count))
        let account = MemoryAccount(limit: .max)
        func apply(_ event: BlockState.Event, to block: Int) {
            guard let next = model.states[block].after(event) else { return }
            model.states[block] = next
            guard next == .empty else { return }
            model.parts[block] = model.parts[block].map { _ in false }
            model.room[block] = 0
            model.isUnkept[block] = false
        }
        var inMemory: Set<Int> = []
        var held: [BlockTable.Departing] = []
        for _ in 0..<400 {
            let block = Int.random(in: 0..<count, using: &random)
            let some = block..<min(count, block + Int.random(in: 1...70, using: &random))
            let blockRange = table.bytes(of: block)
            switch Int.random(in: 0..<22, using: &random) {
            case 0..<3:
                table.begin(Array(some))
                for block in some where model.states[block] == .empty {
                    apply(.begin, to: block)
                    model.room[block] = table.bytes(of: block).count
                }
            case 3..<9:
                let lower = Int.random(in: 0..<units(block), using: &random)
                let upper = Int.random(in: lower + 1...units(block), using: &random)
                let range = ByteRange(
                    blockRange.lower + Int64(lower) * unit, blockRange.lower + Int64(upper) * unit)
                let bytes = [UInt8](repeating: 1, count: Int(range.count))
                let isWhole = bytes.withUnsafeBytes {
                    table.add($0, at: range, of: block, failures: inMemory.contains(block) ? nil : table.failedSyncs)
                }
                if model.states[block] == .partial { for unit in lower..<upper { model.parts[block][unit] = true } }
                #expect(isWhole == (model.states[block] == .partial && !model.parts[block].contains(false)), hint)
                if isWhole {
                    _ = table.seal(block, 5, now: 1)
                    let event: BlockState.Event =
                        inMemory.contains(block) ? .sealInMemory : model.isUnkept[block] ? .sealUnkept : .seal
                    apply(event, to: block)
                }
            case 9:
                let memory = try #require(MemoryBlock(blockRange.count, account))
                let room = table.moveToMemory(block, memory)
                apply(.begin, to: block)
                if model.states[block] == .partial {
                    #expect(room == model.room[block], hint)
                    model.room[block] = 0
                    model.isUnkept[block] = false
                    inMemory.insert(block)
                }
            case 10, 11:
                let room = some.reduce(Int64(0)) { sum, block in
                    sum
                        + (model.states[block] == .partial
                            ? model.room[block]
                            : model.states[block].isFilled && model.states[block] != .memory
                                ? table.bytes(of: block).count : 0)
                }
                #expect(table.lose(some) == room, hint)
                for block in some { apply(.leave, to: block) }
                inMemory.subtract(some)
            case 12:
                let before = model.states
                let cleared = table.clear(some)
                if Bool.random(using: &random) {
                    table.putBack(cleared)
                    for block in some where !before[block].isFilled || before[block] == .memory {
                        apply(.leave, to: block)
                    }
                    for block in some where before[block] == .syncing { model.states[block] = .written }
                } else {
                    for block in some { apply(.leave, to: block) }
                }
                inMemory.subtract(some)
            case 13, 14:
                _ = table.beginSync()
                for block in 0..<count { apply(.syncBegins, to: block) }
            case 15, 16:
                for row in table.rowsAfterSync {
                    for index in 0..<min(64, count - row.extent * 64) {
                        let isClaimed = row.word & 1 << UInt64(index) != 0
                        let state = model.states[row.extent * 64 + index]
                        #expect(isClaimed == (state == .durable || state == .syncing), hint)
                        #expect(state != .syncing || row.sums[index] == 5, hint)
                    }
                }
                table.endSync()
                for block in 0..<count { apply(.syncEnds, to: block) }
            case 17:
                table.abandonSync()
                for block in 0..<count { apply(.syncAbandoned, to: block) }
            case 18:
                table.loseUnsynced()
                for block in 0..<count {
                    apply(.syncFails, to: block)
                    if model.states[block] == .partial, !inMemory.contains(block) { model.isUnkept[block] = true }
                }
            case 19:
                let before = model.states
                let departing = table.depart([some])
                #expect(Set(departing.all.ranges.joined()) == Set(some.filter { before[$0] == .durable }), hint)
                for row in departing.rows {
                    for index in 0..<min(64, count - row.extent * 64) {
                        let block = row.extent * 64 + index
                        let isLeft = before[block] == .durable && !some.contains(block)
                        #expect((row.word & 1 << UInt64(index) != 0) == isLeft, hint)
                    }
                }
                for block in some { apply(.depart, to: block) }
                if Bool.random(using: &random) {
                    held.append(departing)
                } else {
                    table.stay(departing)
                    for block in some where before[block] == .durable { apply(.stay, to: block) }
                }
            case 20:
                guard let departing = held.popLast() else { continue }
                table.gone(departing)
                for block in departing.all.ranges.joined() { apply(.gone, to: block) }
            default:
                table.use(some, now: Int64.random(in: 0...9, using: &random))
            }
            check(table, model, unit, &random, hint)
        }
    }

    /// All that can be asked of the table.
    private func check(
        _ table: BlockTable, _ model: Model, _ unit: Int64, _ random: inout SeededGenerator, _ hint: Comment
    ) {
        #expect(model.states.indices.allSatisfy { table[$0] == model.states[$0] }, hint)
        func bytes(_ isCounted: (BlockState) -> Bool) -> Int64 {
            model.states.indices.reduce(0) { isCounted(model.states[$1]) ? $0 + table.bytes(of: $1).count : $0 }
        }
        #expect(
            table.states.filledBytes == bytes { $0.isFilled } && table.states.durableBytes == bytes { $0 == .durable },
            hint)
        #expect(table.states.bytesOnDisk == bytes { $0.isFilled && $0 != .memory }, hint)
        for (blocks, isIn) in [
            (table.states.filled, \.isFilled), (table.states.durable, { $0 == .durable }),
        ] as [(RangeSet<Int>, (BlockState) -> Bool)] {
            #expect(model.states.indices.allSatisfy { blocks.contains($0) == isIn(model.states[$0]) }, hint)
        }
        #expect(table.states.usedExtents.reduce(0) { $0 + $1.bytes } == table.states.filledBytes, hint)
        #expect(table.isComplete == model.states.allSatisfy(\.isFilled), hint)
        let there = model.states.indices.flatMap { block in
            model.parts[block].map { $0 || model.states[block].isFilled }
        }
        let from = Int.random(in: 0..<there.count, using: &random)
        let to = Int.random(in: from...there.count, using: &random)
        let (lower, upper) = (Int64(from) * unit, Int64(to) * unit)
        let missing = there[from..<to].firstIndex(of: false) ?? to
        let covered = there[from..<to].firstIndex(of: true) ?? to
        #expect(table.covers(ByteRange(lower, upper)) == (missing == to), hint)
        #expect(table.firstMissing(from: lower, limit: upper) == Int64(missing) * unit, hint)
        #expect(table.firstCovered(from: lower, limit: upper) == Int64(covered) * unit, hint)
        guard missing < to else { return }
        let start = there[(missing / 16 * 16)..<missing].lastIndex(of: true).map { $0 + 1 } ?? missing / 16 * 16
        #expect(table.startOfGap(at: Int64(missing) * unit) == Int64(start) * unit, hint)
    }
}
