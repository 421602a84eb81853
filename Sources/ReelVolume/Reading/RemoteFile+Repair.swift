import ReelCache
import ReelCore
import ReelThreads

/// Fetches damaged blocks again at once, and nothing beside them.
extension RemoteFile {
    /// Takes blocks out of the cache. On the thread that writes. - Returns: false where they could not go.
    func dropDamaged(_ blocks: [Int]) -> Bool {
        services.store.found(damaged: blocks.map { $0..<$0 + 1 })
        for run in runs(of: blocks) { _ = drop(run) }
        return blocks.allSatisfy { !object.present.isFilled($0) }
    }

    /// Asks for the missing bytes of these blocks, without reading ahead. Reads of these blocks wait for the same
    /// bytes.
    func refetch(_ blocks: Range<Int>) -> RepairRead {
        let read = RepairRead()
        let bytes = ByteRange(
            BlockSize.bytes(of: blocks.lowerBound, length: length).lower,
            BlockSize.bytes(of: blocks.upperBound - 1, length: length).upper)
        // For no handle: it is never answered as a hit.
        wait(read, for: bytes, of: 0, until: now() + services.options.timeout, isRepair: true)
        return read
    }
}
