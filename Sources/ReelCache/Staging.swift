import ReelCore
import ReelThreads
import Synchronization

/// The way from the origin to the disk past the page cache: a block is filled in memory, written from there by a thread of
/// its own, with its neighbours, and answers reads from there until its memory is wanted for another.
///
/// The page cache would cost a copy of each byte, a page for each, and the work of writing back and dropping them: while
/// a file is fetched that is more than all the rest. What does not come in whole blocks, or faster than the disk takes it,
/// goes through the page cache all the same.
final class Staging: Sendable {
    /// As far as a reader of a fast line is behind what has come.
    static let limit: Int64 = 12 << 20
    /// What a direct write has to be a multiple of, in bytes: no disk has longer sectors.
    static let unit: Int64 = 4096
    /// How long a disk that is slower than what comes (`WaitBudget`) is left to the page cache.
    static let slowTime = Duration.seconds(1)
    /// Nothing came for so long: the memory goes.
    static let idleTime = Duration.seconds(2)

    private typealias Item = StagingQueue<DataFile>.Item

    private struct Landed: Sendable {
        weak var file: DataFile?
        let block: Int
    }

    private struct State: Sendable {
        var queue = StagingQueue<DataFile>(
            longestRun: 16, patience: .milliseconds(500), refusedTime: .seconds(5))
        /// On the disk and in memory as well, the oldest first.
        var landed: [Landed] = []
        var slowUntil = Duration.zero
        var waits = WaitBudget()
        var hasThread = false
        var thread: Thread?
        var isStopping = false
        weak var store: Store?
    }

    private enum Step {
        case write([Item], isSlow: Bool)
        case idle, end
    }

    private let account = MemoryAccount(limit: Staging.limit, keepsSpares: true)
    private let state = Monitor(State())

    var bytesInMemory: Int64 { account.bytes }

    func start(_ store: Store) { state.withLock { [weak store] in $0.store = store } }

    // MARK: Who fills

    /// nil where the disk is behind, or too much is under way: then the bytes go another way.
    func memory(_ count: Int64) -> MemoryBlock? {
        guard state.withLock(notifying: false, { !$0.isStopping && now() >= $0.slowUntil }) else { return nil }
        while true {
            if let memory = MemoryBlock(count, account) { return memory }
            let oldest = state.withLock(notifying: false) { $0.landed.isEmpty ? nil : $0.landed.removeFirst() }
            if let oldest {
                oldest.file?.staged.giveUp(oldest.block)
                continue
            }
            guard waitForDisk() else { return nil }
        }
    }

    /// - Returns: whether it has written something.
    private func waitForDisk() -> Bool {
        let start = now()
        // What waits for neighbours is looked at again, as memory is short.
        let limit = state.withLock { $0.waits.refill(now: start) }
        let hasLanded = state.wait(atMost: limit) { state -> Bool? in
            if !state.landed.isEmpty { return true }
            return state.queue.isMoving ? nil : false
        }
        state.withLock(notifying: false) { state in
            state.waits.spend(now() - start)
            if hasLanded == nil { state.slowUntil = now() + Staging.slowTime }
        }
        return hasLanded ?? false
    }

    /// All bytes of the block are in memory, and it is filled.
    func add(_ block: Int, of file: DataFile) {
        let (isFirst, isNews) = state.withLock(notifying: false) { state in
            defer { state.hasThread = true }
            return (!state.hasThread, state.queue.add(block, of: file, now: now()))
        }
        if isFirst { launch() } else if isNews { state.withLock { _ in } }
    }

    private func launch() {
        let thread = Thread("staging") { [self] in run() }
        state.withLock { state in
            state.thread = thread
            // What is in memory stays there, and no more comes.
            if thread == nil { state.isStopping = true }
        }
    }

    // MARK: Who waits

    /// Nothing of what is whole by now waits for neighbours any more.
    @discardableResult
    func hurry() -> UInt64 { state.withLock { $0.queue.hurry() } }

    /// Returns when all that is whole by now is on the disk, or the disk has refused it.
    func flush() {
        let end = hurry()
        state.wait { $0.isStopping || $0.queue.isOut(end) ? () : nil }
    }

    /// The same, and nothing is read from memory any more that the disk has.
    func settle() {
        flush()
        rest()
    }

    /// Nothing of these blocks is in memory, or on its way to the disk, when it returns.
    func remove(_ blocks: Range<Int>, of file: DataFile) {
        guard !file.staged.isEmpty else { return }
        file.staged.remove(blocks)
        state.withLock { $0.queue.remove(blocks, of: file) }
        state.wait { $0.queue.isWriting(blocks, of: file) ? nil : () }
    }

    /// - Parameter waiting: false where the caller may be the thread itself.
    func stop(waiting: Bool) {
        let thread = state.withLock { state in
            state.isStopping = true
            defer { state.thread = nil }
            return state.thread
        }
        guard let thread else { return }
        if waiting { thread.join() } else { thread.detach() }
    }

    // MARK: The thread that writes

    private func run() {
        while true {
            let (pause, isIdle) = state.withLock(notifying: false) { state -> (Duration?, Bool) in
                if let pause = state.queue.pause(now: now()) { return (pause, false) }
                return (state.landed.isEmpty ? nil : Staging.idleTime, true)
            }
            let step = pause.map { state.wait(atMost: $0, next) ?? .idle } ?? state.wait(next)
            switch step {
            case .end: return
            case .idle: if isIdle { rest() }
            case .write(let items, let isSlow): write(items, isSlow)
            }
        }
    }

    private func next(_ state: inout State) -> Step? {
        if state.isStopping { return .end }
        let moment = now()
        let isSlow = moment < state.slowUntil
        return state.queue.next(
            now: moment, isPressed: isSlow || account.isShort && state.landed.count < Staging.comfort
        ).map { .write($0, isSlow: isSlow) }
    }

    private func write(_ items: [Item], _ isSlow: Bool) {
        let store = state.withLock(notifying: false) { $0.store }
        var refused: [Item] = []
        var run: [(item: Item, memory: MemoryBlock)] = []
        func end() {
            if let first = run.first, let store {
                let isTaken = store.write(run.map(\.memory), to: first.item.file, from: first.item.block, isSlow)
                if !isTaken { refused += run.map(\.item) }
            }
            run = []
        }
        for item in items {
            if let memory = item.file.staged.beginWriting(item.block) { run.append((item, memory)) } else { end() }
        }
        end()
        let surplus = state.withLock { state in
            state.queue.ended(refused: refused, now: now())
            // Also of those that were refused, or had gone: giving them up does nothing.
            state.landed += items.map { Landed(file: $0.file, block: $0.block) }
            let surplus = state.landed.prefix(max(0, state.landed.count - Staging.mostLanded))
            state.landed.removeFirst(surplus.count)
            return surplus
        }
        for landed in surplus { landed.file?.staged.giveUp(landed.block) }
    }

    private static let mostLanded = Int(limit / BlockSize.block)
    /// Blocks of which the memory can be had at once: no need to hurry.
    private static let comfort = 16

    /// Nothing has come for a while: what the disk has leaves memory.
    private func rest() {
        let landed = state.withLock(notifying: false) { state in
            defer { state.landed = [] }
            return state.landed
        }
        for landed in landed {
            landed.file?.staged.giveUp(landed.block)
            landed.file?.direct.close()
        }
        account.giveUpSpares()
    }
}

extension Store {
    /// Staged blocks, one behind the other, go to the disk. - Returns: false where it does not take them.
    fileprivate func write(_ blocks: [MemoryBlock], to file: DataFile, from first: Int, _ isSlow: Bool) -> Bool {
        let hasLanded = disk.mayWriteData && put(blocks, into: file, at: Int64(first) * BlockSize.block, isSlow)
        for (block, memory) in zip(first..., blocks) {
            guard file.staged.endWriting(block, memory, hasLanded: hasLanded), hasLanded else { continue }
            let (bytes, sum) = file.fill { ($0.landed(block), $0.sum(of: block)) }
            if bytes > 0, let sum { filled(bytes, block, of: file, sum) }
        }
        // Leases count it, and whoever opens the file now may be given it as a whole.
        if file.fill({ $0.map.isComplete && !$0.isStaging }) { file.direct.close() }
        return hasLanded
    }

    private func put(_ blocks: [MemoryBlock], into file: DataFile, at offset: Int64, _ isSlow: Bool) -> Bool {
        do throws(CacheError) {
            try file.change { () throws(CacheError) in
                if !isSlow, try file.direct.write(blocks, at: offset, to: file.descriptor) { return }
                for (index, block) in blocks.enumerated() {
                    try file.descriptor.write(block.bytes, at: offset + Int64(index) * BlockSize.block)
                }
            }
        } catch {
            disk.failed(error)
            room.measure()
            return false
        }
        disk.dataWasWritten()
        return true
    }
}
