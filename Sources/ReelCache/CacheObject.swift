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
    /// Some of the bytes are not there, or not any more.
    case missing
    /// These blocks were not what was written. They are lost: nothing of them is there any more.
    case damaged([Range<Int>])
}

/// One version's data file in use: what is filled of it, and the way in and out.
///
/// All that writes or discards comes from one thread; reads, and what they find to be lost, come from any.
package final class CacheObject: Sendable {
    package var version: Version { file.version }
    /// Bytes; `BlockSize.openEnd` until its end is known.
    package var length: Int64 { file.length }
    /// The blocks that are filled now, as a copy.
    var filled: BlockMap { file.withBlocks { $0.filled } }

    private struct Holder { weak var holder: (any ObjectHolder)? }
    private let held = Mutex(Holder())
    let file: DataFile
    let store: Store

    init(_ file: DataFile, _ store: Store) {
        self.file = file
        self.store = store
    }

    deinit { store.closed(file) }

    /// The open file; not kept alive by this.
    package var holder: (any ObjectHolder)? {
        get { held.withLock { $0.holder } }
        set { held.withLock { $0.holder = newValue } }
    }

    /// Which bytes are there, for fetch planning.
    package var present: any PresentBytes { file }

    /// In all filled blocks.
    package var filledBytes: Int64 { file.withBlocks { $0.filledBytes } }

    /// In filled blocks on the disk.
    package var bytesOnDisk: Int64 { file.bytesOnDisk }

    /// True while some of its bytes live in memory, as the disk did not take them.
    package var isInMemory: Bool { file.isInMemory }

    /// These blocks are not what was written, or not there: nothing of them is there any more. Their rows tell of them
    /// until the next commit; their checksums say until then that it is not so. From any thread.
    package func lose(_ blocks: [Range<Int>]) {
        store.room.release(file.withBlocks { table in blocks.reduce(0) { $0 + table.lose($1) } })
    }

    /// Empties blocks: first the rows of filled ones, durably, then the bytes on disk or in memory, then the account.
    package func discard(_ blocks: Range<Int>) throws(CacheError) { try store.discard(blocks, of: file) }

    /// Gives up what was written and is not filled: no index knows of it.
    package func abandonFragments() throws(CacheError) {
        for run in runs(of: file.withBlocks { $0.inFlight.keys.sorted() }) { try store.discard(run, of: file) }
    }

    /// The body of a version with an open end came whole: its row tells the length from here on, so that it is found as a
    /// version of that length, and another object of that version makes way. Before `settle`, on the thread that writes.
    /// - Returns: false where the disk has not all of it: it goes with its last holder.
    package func record(length: Int64) -> Bool { store.record(length, of: file) }

    /// The version ends at this length: for readers from here on, who find no end before.
    package func settle(length: Int64) {
        store.room.release(file.settle(length: length, now: store.clock.now()))
        store.filled(length)
    }

    /// The data file itself, where every byte of it is there and was looked at; it stays open as long as this object.
    /// A file that is given is not touched until `settle`.
    package func offer() -> Int32? {
        guard file.hasFile, !file.isInMemory, file.isReadDirectly || store.disk.failure == nil,
            file.descriptor.tellsOpens, file.withBlocks({ $0.offer() })
        else { return nil }
        guard file.hasNoHoles else {
            settle()
            _ = file.doubt()
            return nil
        }
        return file.descriptor.number
    }

    /// The handle of an offer is closed. Once for each.
    package func settle() { file.withBlocks { $0.settleOffer() } }

    /// The kernel was given the file itself since it is in use.
    package var isShared: Bool { file.isShared }

    /// Not a byte of it may go at present.
    package var isReadDirectly: Bool { file.isReadDirectly }

    /// Somebody reads the file itself from now on, unseen, perhaps also after all is closed (a mapping): nothing of it
    /// is evicted while he does. His use is seen by open and close.
    package func share() {
        file.isShared = true
        useAll()
    }

    /// Whoever read the file itself has closed it.
    package func useAll() {
        let now = store.clock.now()
        file.use(now)
        file.withBlocks { $0.use(0..<$0.blockCount, now: now) }
    }

    /// Whole extents that nobody reads soon: they leave the page cache as soon as the disk has them for sure.
    package func leaveMemory(_ range: ByteRange) { file.leaveMemory(range) }

    /// Used now, for the order of eviction.
    package func touch() { file.use(store.clock.now()) }
}
