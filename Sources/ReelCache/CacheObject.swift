import Glibc
import ReelCore
import Synchronization

/// Who reads and fills an object, and can therefore give up parts of it.
package protocol ObjectHolder: AnyObject, Sendable {
    /// Frees filled blocks of its own object with `discard`, about `wanted` bytes or more, those least likely to be
    /// read again first. Returns the bytes freed. Called from `makeRoom`, so by any thread that is about to write;
    /// never under a lock of the cache.
    func relinquish(_ wanted: Int64) -> Int64
}

/// One version's data file in use. As long as an instance lives its file is not evicted as a whole.
///
/// Bytes that are being written belong to the caller's account (`Store.makeRoom`, `Store.release`) until `markFilled`;
/// from then on to the object's, which `discard` or eviction gives back.
package final class CacheObject: Sendable {
    package let version: Version
    /// The blocks that are filled now. A copy: take it once, for a new reader.
    package var filled: BlockMap { file.fill { $0.map } }

    private struct Holder { weak var holder: (any ObjectHolder)? }
    private let held = Mutex(Holder())
    let file: DataFile
    private let store: Store

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

    /// Writes all of `bytes`. Room must have been made for the blocks they touch.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(CacheError) {
        guard !bytes.isEmpty else { return }
        guard offset >= 0, offset <= version.length, Int64(bytes.count) <= version.length - offset else {
            throw .badLength
        }
        guard !file.isBroken.load(ordering: .relaxed) else { throw .system("fdatasync", EIO) }
        let range = ByteRange(offset, offset + Int64(bytes.count))
        file.fill { $0.wrote($0.map.blocks(touching: range)) }
        try file.descriptor.write(bytes, at: offset)
    }

    /// Bytes read, fewer than asked for only at the end of the file; -1 where the cache cannot be read. Whether they
    /// are filled is the caller's to know.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
        guard !file.isBroken.load(ordering: .relaxed) else { return -1 }
        return file.descriptor.read(into: buffer, at: offset)
    }

    /// All bytes of the block were written: it is committed with the next batch. Its room is the object's now.
    /// - Returns: false where it was filled already: then its room is still the caller's.
    @discardableResult
    package func markFilled(_ block: Int) -> Bool {
        let bytes = file.fill { $0.fill(block) }
        if bytes > 0 { store.filled(bytes) }
        return bytes > 0
    }

    /// Empties filled blocks: first their rows, durably, then the bytes on disk, then the account. Parts of blocks that
    /// were written and never filled go as well, but not from the account: see `abandon`. The caller lets nobody read
    /// or fill them meanwhile.
    package func discard(_ blocks: Range<Int>) throws(CacheError) { try store.discard(blocks, of: file) }

    /// Gives up blocks that room was made for and that were not filled: their bytes on disk go, then their room.
    package func abandon(_ blocks: Range<Int>) throws(CacheError) {
        let bytes = file.fill { state in
            blocks.clamped(to: 0..<state.map.blockCount).reduce(Int64(0)) {
                $0 + (state.map[$1] ? 0 : state.map.bytes(of: $1).count)
            }
        }
        defer { store.release(bytes) }
        try store.discard(blocks, of: file)
    }

    /// The file is not to be trusted: it is read and written no more, and the next `object(for:)` starts a new one.
    package func giveUp() { file.isBroken.store(true, ordering: .relaxed) }

    /// Used now, for the order of eviction. No lock.
    package func touch() { file.lastUse.max(store.clock.now(), ordering: .relaxed) }
}
