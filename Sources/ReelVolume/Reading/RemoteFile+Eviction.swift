import ReelCache
import ReelCore
import ReelThreads

/// Gives up bytes when the cache is full.
extension RemoteFile {
    /// Takes blocks out of the cache. On the origin's thread, which is the one that writes, or when nothing is under
    /// way: a hole punched under a write would lose it.
    /// - Parameter evenPinned: false: takes none of a file that is pinned.
    /// - Returns: bytes freed.
    func drop(_ blocks: Range<Int>, evenPinned: Bool = true) -> Int64 {
        let before = object.bytesOnDisk
        // If this fails, the bytes are still there.
        attempt { () throws(CacheError) in try object.discard(blocks, evenPinned: evenPinned) }
        noticeRemovals()
        return before - object.bytesOnDisk
    }
}

extension RemoteFile: ObjectHolder {
    var isInUse: Bool { openHandles > 0 }

    func relinquishPart(_ block: Int, isScarce: Bool) {
        guard !object.isReadDirectly else { return }
        if ask({ $0.ledger.isAbandoned(block, isScarce: isScarce) }) { _ = drop(block..<block + 1) }
    }

    func expendable(_ blocks: [Range<Int>]) -> [Range<Int>] {
        if object.isReadDirectly || object.wasLent { return [] }
        return ask { $0.expendable(blocks, sparingReadahead: $0.ledger.openHandles > 0) }
    }

    // Counts bytes that left unread as wasted.
    func noticeRemovals() { decide { $0.notice() } }

    func relinquish(_ blocks: [Range<Int>], scarce: Int64?, evenPinned: Bool) -> Int64 {
        guard !object.isReadDirectly else { return 0 }
        // Without an open handle no reader needs the bytes that were read ahead.
        var runs = ask { $0.expendable(blocks, sparingReadahead: scarce == nil && $0.ledger.openHandles > 0) }
        let isByExtents = object.wasLent
        if isByExtents { runs = object.freeExtents(of: runs) }
        guard let scarce else {
            // Each discard is a transaction: extents that lie side by side go in one.
            return (isByExtents ? runs : Array(RangeSet(runs).ranges)).reduce(0) {
                $0 + drop($1, evenPinned: evenPinned)
            }
        }
        // From the end: the bytes that are read soonest go last.
        var freed: Int64 = 0
        for run in runs.reversed() where freed < scarce {
            let count = Int((scarce - freed + BlockSize.block - 1) / BlockSize.block)
            let last = isByExtents ? run : max(run.lowerBound, run.upperBound - count)..<run.upperBound
            freed += drop(last, evenPinned: evenPinned)
        }
        return freed
    }
}
