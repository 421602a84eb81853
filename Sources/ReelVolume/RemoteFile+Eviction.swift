import ReelCache
import ReelCore
import ReelThreads

/// Bytes that leave the cache, for want of room or because they are not what was written.
extension RemoteFile {
    /// Blocks leave the cache: first no read believes in them, then they go. On the origin's thread, which is the one
    /// that writes, or when nothing is under way: a hole punched under a write would lose it.
    /// - Returns: bytes freed.
    func drop(_ blocks: Range<Int>) -> Int64 {
        forget([blocks])
        let before = object.bytesOnDisk
        do {
            try object.discard(blocks)
        } catch {
            // The bytes are still there, and cost a request if somebody wants them.
            services.logger.warning("\(error)")
        }
        return before - object.bytesOnDisk
    }

    /// From here on no read believes in these blocks.
    func forget(_ blocks: [Range<Int>]) {
        decide { state in
            for blocks in blocks { state.ledger.forget(blocks.clamped(to: 0..<state.ledger.coverage.map.blockCount)) }
        }
        evictions.add(1, ordering: .acquiringAndReleasing)
    }

    /// The cache's disk has something else than was written to it. The blocks are fetched again: the thread that writes
    /// them learns of it before their request starts.
    func lose(_ blocks: [Range<Int>]) {
        services.logger.warning(
            "\(url): \(blocks.reduce(0) { $0 + $1.count }) damaged blocks in the cache are fetched again")
        services.store.found(damaged: blocks)
        forget(blocks)
        // What was written of them in between goes as well.
        services.origin.perform { [self] in takeOut(blocks) }
    }

    /// On the origin's thread. First no read believes in them: what is in memory alone is gone at once.
    func takeOut(_ blocks: [Range<Int>]) {
        forget(blocks)
        object.lose(blocks)
    }
}

extension RemoteFile: ObjectHolder {
    var isInUse: Bool { openHandles > 0 }

    func relinquish(_ blocks: [Range<Int>], scarce: Int64?) -> Int64 {
        guard !object.isReadDirectly else { return 0 }
        let runs = state.withLock { state in
            // What was read ahead for somebody who has gone is nobody's.
            state.ledger.expendable(blocks, sparingReadahead: scarce == nil && state.ledger.openHandles > 0)
        }
        guard let scarce else { return runs.reduce(0) { $0 + drop($1) } }
        // From the end: what is read soonest goes last.
        var freed: Int64 = 0
        for run in runs.reversed() where freed < scarce {
            let count = Int((scarce - freed + BlockSize.block - 1) / BlockSize.block)
            freed += drop(max(run.lowerBound, run.upperBound - count)..<run.upperBound)
        }
        return freed
    }
}
