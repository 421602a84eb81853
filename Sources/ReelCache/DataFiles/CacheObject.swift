import Glibc
import ReelCore
import ReelThreads

/// The reader and filler of an object. It knows which parts of the object it can give up.
package protocol ObjectHolder: AnyObject, Sendable {
    /// Frees those of `blocks` that no reader needs right now, with `discard`. The thread that writes calls it, never
    /// under a lock of the cache.
    /// - Parameters:
    ///   - blocks: filled ones, in the order in which they are to go.
    ///   - scarce: nil for only blocks that no reader needs. Else no other blocks are left, and this many bytes that
    ///     were fetched ahead have to go as well, and not more.
    ///   - evenPinned: for `discard`.
    /// - Returns: bytes freed.
    func relinquish(_ blocks: [Range<Int>], scarce: Int64?, evenPinned: Bool) -> Int64

    /// What no reader needs right now, of these blocks. From any thread, under the lock of `Evictor.turn`.
    func expendable(_ blocks: [Range<Int>]) -> [Range<Int>]

    /// Blocks have left by another hand. From any thread, under that lock as well.
    func noticeRemovals()

    /// Frees a block in memory of which some bytes are there, with `discard`, where no request brings the others.
    /// Called as `relinquish` is.
    /// - Parameter isScarce: also where a request is still to bring them, or a read waits for the block.
    func relinquishPart(_ block: Int, isScarce: Bool)

    /// Whether a program has it open: pruning on a person's request spares it then.
    var isInUse: Bool { get }
}

extension ObjectHolder {
    /// A holder counts as in use unless it says otherwise.
    package var isInUse: Bool { true }
    /// A holder lets nothing go ahead of need unless it says otherwise.
    package func expendable(_: [Range<Int>]) -> [Range<Int>] { [] }
    package func noticeRemovals() {}
    /// A holder keeps blocks in part unless it says otherwise.
    package func relinquishPart(_: Int, isScarce _: Bool) {}
}

/// How a read of the cache ended.
package enum CacheRead: Hashable, Sendable {
    case bytes(Int)
    /// Some of the bytes are not there, or no longer.
    case missing
    /// These blocks did not have their checksums. They are lost: the table counts them as empty.
    case damaged([Range<Int>])
}

/// One version's data file in use: reads and writes its bytes, and lets blocks go.
///
/// One thread writes and discards. Any thread reads, and loses the blocks that it finds damaged.
package final class CacheObject: Sendable {
    /// The version that it holds bytes of, as the store names it that was asked for it.
    package var version: Version { KeyScope.split(file.version) }
    /// Bytes; `BlockSize.openEnd` until its end is known.
    package var length: Int64 { file.length }

    private struct Holder { weak var holder: (any ObjectHolder)? }
    private let held = Lock(Holder())
    let file: DataFile
    let store: ObjectStore

    init(_ file: DataFile, _ store: ObjectStore) {
        self.file = file
        self.store = store
    }

    deinit { store.committer.closed(file) }

    /// The open file. A weak reference.
    package var holder: (any ObjectHolder)? {
        get { held.withLock { $0.holder } }
        set { held.withLock { $0.holder = newValue } }
    }

    /// Which bytes are there, for fetch planning.
    package var present: any PresentBytes { file }

    /// The kernel cannot read such a file itself.
    package var isEncrypted: Bool { file.cipher != nil }

    /// In all filled blocks.
    package var filledBytes: Int64 { file.withBlocks { $0.states.filledBytes } }

    /// The first and the last filled block, one where they are the same, none where no block is filled.
    package var outermostBlocks: [Int] {
        let filled = file.withBlocks { $0.states.filled }.ranges
        guard let first = filled.first?.lowerBound, let end = filled.last?.upperBound else { return [] }
        return first == end - 1 ? [first] : [first, end - 1]
    }

    /// In filled blocks on the disk.
    package var bytesOnDisk: Int64 { file.bytesOnDisk }

    /// True while some of its bytes are in memory, because the disk did not take them.
    package var isInMemory: Bool { file.cipher == nil ? file.isInMemory : file.withBlocks { $0.isKeptInMemory } }

    /// Counts these blocks as empty from now on, because they are damaged or gone. Their rows cover them until the next
    /// commit; until then their checksums keep them from being trusted. From any thread.
    package func lose(_ blocks: [Range<Int>]) {
        store.quota.release(file.withBlocks { table in blocks.reduce(0) { $0 + table.lose($1) } })
    }

    /// Loses blocks that a read found damaged, and counts them.
    func loseDamaged(_ blocks: [Range<Int>]) {
        lose(blocks)
        store.found(damaged: blocks.reduce(0) { $0 + $1.count })
    }

    /// Empties blocks: first the rows of filled ones, durably, then the bytes on disk or in memory, then their part of
    /// the quota. - Parameter evenPinned: false: does nothing where the file is pinned.
    package func discard(_ blocks: Range<Int>, evenPinned: Bool = true) throws(CacheError) {
        try store.evictor.discard(blocks, of: file, evenPinned: evenPinned)
    }

    /// Gives up blocks that are not whole: no row covers them.
    package func abandonFragments() throws(CacheError) {
        for run in runs(of: file.withBlocks { $0.inFlight.keys.sorted() }) { try discard(run) }
    }

    /// Writes the length of a version with an open end, whose body came whole, into its row. Later opens find it as a
    /// version of that length, and another object of that version makes way. On the thread that writes, before
    /// `settle`.
    /// - Returns: false where the disk does not have all of it: the object goes with its last holder.
    package func record(length: Int64) -> Bool {
        if file.cipher != nil { sealEnd(length) }
        return store.record(length, of: file)
    }

    /// Ends the version at this length: readers find the end from now on, and not before.
    package func settle(length: Int64) {
        store.quota.release(file.settle(length: length, now: store.clock.now()))
        store.committer.filled(length)
    }

    /// The descriptor of the data file, where every byte is there, verified, and not encrypted; nil elsewhere. It stays
    /// open as long as this object. No byte of an offered file leaves until `settle`.
    package func offer() -> Int32? {
        guard file.hasFile, file.cipher == nil, !file.isInMemory, file.isReadDirectly || store.disk.failure == nil,
            file.descriptor.tellsOpens, file.withBlocks({ $0.offer() })
        else { return nil }
        guard file.hasNoHoles else {
            settle()
            _ = file.doubt()
            return nil
        }
        return file.descriptor.number
    }

    /// The handle of an offer was closed. Call it once for each offer.
    package func settle() { file.withBlocks { $0.settleOffer() } }

    /// Whether the kernel was given the file itself since it is in use.
    package var isShared: Bool { file.isShared }

    /// Whether no byte of it may go at present.
    package var isReadDirectly: Bool { file.isReadDirectly }

    /// The kernel reads the file itself from now on, perhaps even after the last close (a mapping). Nothing of it is
    /// evicted meanwhile, and only opens and closes count as uses.
    package func share() {
        file.isShared = true
        useAll()
    }

    /// Counts a use of the whole file: a handle that read the file itself was closed.
    package func useAll() {
        let now = store.clock.now()
        file.use(now)
        file.withBlocks { $0.useAll(now: now) }
    }

    /// Lets whole extents leave the page cache as soon as they are durable, because they are not read soon.
    package func leaveMemory(_ range: ByteRange) { file.leaveMemory(range) }

    /// Counts a use now, for the order of eviction.
    package func touch() { file.use(store.clock.now()) }
}
