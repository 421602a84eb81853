import Glibc
import ReelCore
import ReelThreads

/// The reader and filler of an object, which can therefore give up parts of it.
package protocol ObjectHolder: AnyObject, Sendable {
    /// Frees those of `blocks` that no reader needs right now, with `discard`. Called by the thread that writes, and
    /// never under a lock of the cache.
    /// - Parameters:
    ///   - blocks: filled ones, in the order in which they are to go.
    ///   - scarce: nil: all of them. Else nothing but these is left: so many bytes of what was fetched ahead have to go
    ///     as well, and not more.
    /// - Returns: bytes freed.
    func relinquish(_ blocks: [Range<Int>], scarce: Int64?) -> Int64

    /// A program has it open: pruning on a person's request leaves it alone.
    var isInUse: Bool { get }
}

extension ObjectHolder {
    /// A holder that does not tell counts as in use.
    package var isInUse: Bool { true }
}

/// How a read of the cache ended.
package enum CacheRead: Hashable, Sendable {
    case bytes(Int)
    /// Some of the bytes are not there, or not any more.
    case missing
    /// These blocks were not what was written. They are lost: nothing of them is there any more.
    case damaged([Range<Int>])
}

/// One version's data file in use: which blocks of it are filled, and how bytes get in and out.
///
/// All that writes or discards comes from one thread; reads, and what they find to be lost, come from any.
package final class CacheObject: Sendable {
    /// The version that it holds bytes of.
    package var version: Version { file.version }
    /// Bytes; `BlockSize.openEnd` until its end is known.
    package var length: Int64 { file.length }
    /// The blocks that are filled now, as a copy.
    var filled: BlockMap { file.withBlocks { $0.filled } }

    private struct Holder { weak var holder: (any ObjectHolder)? }
    private let held = Lock(Holder())
    let file: DataFile
    let store: ObjectStore

    init(_ file: DataFile, _ store: ObjectStore) {
        self.file = file
        self.store = store
    }

    deinit { store.committer.closed(file) }

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
        store.quota.release(file.withBlocks { table in blocks.reduce(0) { $0 + table.lose($1) } })
    }

    /// The same of blocks that were read and were not what was written.
    func loseDamaged(_ blocks: [Range<Int>]) {
        lose(blocks)
        store.found(damaged: blocks.reduce(0) { $0 + $1.count })
    }

    /// Empties blocks: first the rows of filled ones, durably, then the bytes on disk or in memory, then the quota.
    package func discard(_ blocks: Range<Int>) throws(CacheError) { try store.evictor.discard(blocks, of: file) }

    /// Gives up blocks that are not whole: no row tells of them.
    package func abandonFragments() throws(CacheError) {
        for run in runs(of: file.withBlocks { $0.inFlight.keys.sorted() }) { try discard(run) }
    }

    /// The body of a version with an open end came whole: its row tells the length from here on, so that it is found as
    /// a version of that length, and another object of that version makes way. Before `settle`, on the thread that
    /// writes.
    /// - Returns: false where the disk has not all of it: it goes with its last holder.
    package func record(length: Int64) -> Bool { store.record(length, of: file) }

    /// The version ends at this length: for readers from here on, who find no end before.
    package func settle(length: Int64) {
        store.quota.release(file.settle(length: length, now: store.clock.now()))
        store.committer.filled(length)
    }

    /// The data file itself, where every byte of it is there and verified; it stays open as long as this object.
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

    /// The kernel reads the file itself from now on, unseen, perhaps also after all is closed (a mapping): meanwhile
    /// nothing of it is evicted. Only open and close tell of its use.
    package func share() {
        file.isShared = true
        useAll()
    }

    /// A handle that read the file itself was closed.
    package func useAll() {
        let now = store.clock.now()
        file.use(now)
        file.withBlocks { $0.use(0..<$0.blockCount, now: now) }
    }

    /// Whole extents that are not read soon: they leave the page cache as soon as they are durable.
    package func leaveMemory(_ range: ByteRange) { file.leaveMemory(range) }

    /// Used now, for the order of eviction.
    package func touch() { file.use(store.clock.now()) }
}
