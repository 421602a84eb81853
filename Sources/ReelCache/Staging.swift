import ReelCore
import ReelThreads
import Synchronization

/// The way from the origin to the disk past the page cache: a block is filled in memory, written from there by a thread of
/// its own, with its neighbours, and answers reads from there until its memory is wanted for another.
///
/// The page cache would cost a copy of each byte, a page for each, and the work of writing back and dropping them: while
/// a file is fetched that is more than all the rest. What does not come in whole blocks, or faster than the disk takes it,
/// goes through the page cache all the same.
///
/// `memory`, `isWhole` and what fills are the origin's thread's; `Staging+Writing` is the thread that writes.
final class Staging: Sendable {
    /// As far as a reader of a fast line is behind what has come.
    static let limit: Int64 = 12 << 20
    /// What a direct write has to be a multiple of, in bytes: no disk has longer sectors.
    static let unit: Int64 = 4096
    /// Nothing came for so long: the memory goes.
    static let idleTime = Duration.seconds(2)
    /// Blocks of which the memory can be had at once: no need to hurry.
    static let comfort = 16
    static let mostBlocks = Int(limit / BlockSize.block)

    typealias Item = StagingQueue<DataFile>.Item

    /// A block that is known of while its file lives.
    struct Place: Sendable {
        weak var file: DataFile?
        let block: Int
    }

    struct State: ThreadState {
        var queue = StagingQueue<DataFile>(patience: .milliseconds(500), refusedTime: .seconds(5))
        var pace = DiskPace()
        /// Begun, the oldest first; some of them have become whole since, or gone.
        var filling: [Place] = []
        /// On the disk and in memory as well, the oldest first; some may have gone.
        var landed: [Place] = []
        /// Its pieces are being written through the page cache.
        var spilling: Place?
        /// When a block was last begun, or became whole.
        var lastCame = Duration.zero
        var hasThread = false
        var thread: Thread?
        var isStopping = false
        weak var store: Store?
    }

    let account = MemoryAccount(limit: Staging.limit, mostSpares: Staging.mostBlocks)
    let state = Monitor(State())

    func start(_ store: Store) { state.withLock { [weak store] in $0.store = store } }

    /// In blocks that the disk does not have.
    var bytesAlone: Int64 { account.bytesAlone }

    // MARK: Who fills

    /// For a block of which nothing is anywhere. nil where the disk is behind, or too much is under way: then its bytes go
    /// another way.
    func memory(_ block: Int, of file: DataFile) -> MemoryBlock? {
        guard isOpen() else { return nil }
        while true {
            if let memory = MemoryBlock(file.bytes(of: block).count, account) {
                begin(block, of: file)
                return memory
            }
            let oldest = state.withLock(notifying: false) { $0.landed.isEmpty ? nil : $0.landed.removeFirst() }
            if let oldest {
                oldest.file?.staged.giveUp(oldest.block)
            } else {
                switch waitForDisk() {
                case .hasWritten: break
                case .hasNothingToWrite: if !spill() { return nil }
                case .isBehind: return nil
                }
            }
        }
    }

    private func isOpen() -> Bool {
        let (isOpen, isFirst) = state.withLock(notifying: false) { state in
            let isOpen = !state.isStopping && !state.pace.isSlow(now())
            defer { state.hasThread = state.hasThread || isOpen }
            return (isOpen, !state.hasThread)
        }
        guard isOpen, isFirst else { return isOpen }
        let thread = Thread("staging") { [self] in run() }
        state.withLock { state in
            state.thread = thread
            if thread == nil { state.isStopping = true }
        }
        return thread != nil
    }

    private func begin(_ block: Int, of file: DataFile) {
        let places = state.withLock(notifying: false) { state in
            state.lastCame = now()
            state.filling.append(Place(file: file, block: block))
            return state.filling.count > 2 * Staging.mostBlocks ? state.filling : []
        }
        guard !places.isEmpty else { return }
        // This one is not staged yet. Nobody but this thread adds to them.
        let left = places.dropLast().filter { $0.file?.staged.stage(of: $0.block) == .filling }
        state.withLock(notifying: false) { $0.filling = left + $0.filling.suffix(1) }
    }

    private enum Waited { case hasWritten, hasNothingToWrite, isBehind }

    private func waitForDisk() -> Waited {
        let start = now()
        // What waits for neighbours is looked at again, as memory is short.
        let limit = state.withLock { $0.pace.waitingTime(start) }
        let waited = state.wait(atMost: limit) { state -> Waited? in
            if !state.landed.isEmpty { return .hasWritten }
            return state.queue.isMoving ? nil : .hasNothingToWrite
        }
        state.withLock(notifying: false) { state in
            state.pace.hasWaited(now() - start)
            if waited == nil { state.pace.isTooSlow(now()) }
        }
        return waited ?? .isBehind
    }

    /// All bytes of the block are in memory, and it is filled.
    func isWhole(_ block: Int, of file: DataFile) {
        file.staged.isWhole(block)
        let isNews = state.withLock(notifying: false) { state in
            state.lastCame = now()
            state.queue.add(block, of: file, now: state.lastCame)
            let count = state.queue.waiting.count
            return count == 1 || count >= state.pace.run
        }
        if isNews { state.withLock { _ in } }
    }

    /// A direct write has ended.
    func wrote(_ blocks: Int, in time: Duration) {
        state.withLock(notifying: false) { $0.pace.wrote(blocks, in: time, now: now()) }
    }

    /// Bytes that the next sync has to write.
    func wroteToPageCache(_ bytes: Int64) { state.withLock(notifying: false) { $0.pace.wroteToPageCache(bytes) } }

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
        state.wait { state -> Void? in
            if let place = state.spilling, place.file === file, blocks.contains(place.block) { return nil }
            return state.queue.isWriting(blocks, of: file) ? nil : ()
        }
    }

    /// Around syncs of all files.
    func syncBegins() { state.withLock(notifying: false) { $0.pace.syncBegins(now()) } }
    func syncEnds() { state.withLock { $0.pace.syncEnds(now()) } }

    /// What the disk has not taken.
    func refusedBlocks(of file: DataFile) -> [Int] {
        state.withLock(notifying: false) { $0.queue.refused.filter { $0.file === file }.map(\.block) }
    }

    var refusedBytes: Int64 {
        state.withLock(notifying: false) { $0.queue.refused }.reduce(0) { $0 + $1.file.bytes(of: $1.block).count }
    }

    /// - Parameter waiting: false where the caller may be the thread itself.
    func stop(waiting: Bool) { state.stop(waiting: waiting) }
}
