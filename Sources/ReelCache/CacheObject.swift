import Glibc
import ReelCore
import Synchronization

/// Who reads and fills an object, and can therefore give up parts of it.
package protocol ObjectHolder: AnyObject, Sendable {
    /// Frees those of `blocks` that nobody needs right now, with `discard`. Called while something is written, so by
    /// the thread that writes; never under a lock of the cache.
    /// - Parameters:
    ///   - blocks: filled ones, in the order in which they are to go.
    ///   - scarce: nil: all of them. Else nothing but these is left to go: what was fetched ahead has to go as well, so
    ///     many bytes of it and not more.
    /// - Returns: bytes freed.
    func relinquish(_ blocks: [Range<Int>], scarce: Int64?) -> Int64

    /// Somebody has it open: what a person prunes leaves it alone.
    var isInUse: Bool { get }
}

extension ObjectHolder {
    package var isInUse: Bool { true }
}

package enum CacheRead: Hashable, Sendable {
    case bytes(Int)
    /// These blocks are not what was written: nothing of them is to be believed.
    case damaged([Range<Int>])
}

/// One version's data file in use: what is filled of it, and the way in and out.
///
/// All that writes, loses or discards comes from one thread; reads come from any.
package final class CacheObject: Sendable {
    package let version: Version
    /// The blocks that are filled now. A copy: take it once, for a new reader.
    package var filled: BlockMap { file.fill { $0.map } }

    private struct Holder { weak var holder: (any ObjectHolder)? }
    private let held = Mutex(Holder())
    let file: DataFile
    let store: Store

    init(_ file: DataFile, _ store: Store) {
        self.file = file
        self.store = store
        version = file.version
    }

    deinit { store.closed(file) }

    /// The open file; not kept alive by this.
    package var holder: (any ObjectHolder)? {
        get { held.withLock { $0.holder } }
        set { held.withLock { $0.holder = newValue } }
    }

    /// In filled blocks on the disk.
    package var bytesOnDisk: Int64 { file.filledBytes }

    /// True while some of its bytes live in memory, as the disk did not take them.
    package var isInMemory: Bool { file.isInMemory }

    /// All bytes of the block were written: it is committed with the next batch.
    /// - Returns: false where its bytes are not there any more: nothing of them is to be believed, and then it is to be lost.
    package func markFilled(_ block: Int) -> Bool {
        if file.fill({ $0.map[block] }) { return true }
        let memory = file.memoryBlock(block)
        guard let sum = file.sum(ofWritten: block) else { return false }
        let now = store.clock.now()
        let bytes = file.fill { $0.fill(block, sum, in: memory == nil ? .disk : .memory, now: now) }
        file.forgetPieces(block..<block + 1)
        if bytes > 0, memory == nil { store.filled(bytes, block, of: file, sum) }
        return true
    }

    /// These blocks are not what was written, or not there: they are filled no more. Their rows tell of them until the
    /// next commit; their checksums say until then that it is not so.
    ///
    /// No read may believe in them any more: what of them is in memory alone is gone when this returns, and the disk has
    /// holes there.
    package func lose(_ blocks: [Range<Int>]) {
        for blocks in blocks {
            file.dropMemory(blocks)
            let bytes = file.fill { $0.lose(blocks) + $0.clear(blocks).partialBytes }
            file.forgetPieces(blocks)
            store.room.release(bytes)
        }
    }

    /// Empties blocks: first the rows of filled ones, durably, then the bytes on disk or in memory, then the account.
    package func discard(_ blocks: Range<Int>) throws(CacheError) { try store.discard(blocks, of: file) }

    /// Gives up what was written and is not filled: no index knows of it.
    package func abandonFragments() throws(CacheError) {
        let blocks = file.fill { $0.partial.sorted() } + file.memoryBlocks
        for block in blocks { try store.discard(block..<block + 1, of: file) }
    }

    /// The data file itself, where every byte of it is there and was looked at; it stays open as long as this object.
    /// A file that is given is not touched until `settle`.
    package func offer() -> Int32? {
        guard file.hasFile, !file.isInMemory, file.isReadDirectly || store.disk.failure == nil,
            file.descriptor.tellsOpens, file.fill({ $0.offer() })
        else { return nil }
        guard file.hasNoHoles else {
            settle()
            _ = file.doubt()
            return nil
        }
        return file.descriptor.number
    }

    /// An offer was taken, or is of no use any more. Once for each.
    package func settle() { file.fill { $0.settleOffer() } }

    /// The kernel was given the file itself since it is in use.
    package var isShared: Bool { file.isShared.load(ordering: .relaxed) }

    /// Not a byte of it may go at present.
    package var isReadDirectly: Bool { file.isReadDirectly }

    /// Somebody reads the file itself from now on, unseen, perhaps also after all is closed (a mapping): nothing of it is
    /// evicted while he does. His use is seen by open and close.
    package func share() {
        file.isShared.store(true, ordering: .relaxed)
        useAll()
    }

    /// Whoever read the file itself has closed it.
    package func useAll() {
        let now = store.clock.now()
        file.lastUse.max(now, ordering: .relaxed)
        file.fill { $0.use(0..<$0.map.blockCount, now: now) }
    }

    /// Whole extents that nobody reads soon: they leave the page cache as soon as the disk has them for sure.
    package func leaveMemory(_ range: ByteRange) { file.leaveMemory(range) }

    /// Used now, for the order of eviction. No lock.
    package func touch() { file.lastUse.max(store.clock.now(), ordering: .relaxed) }
}
