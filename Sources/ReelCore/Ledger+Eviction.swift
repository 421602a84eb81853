/// What an open file can give up when the cache is full.
extension Ledger {
    /// Those of `blocks` that are filled and that no reader is near, in the same order.
    /// - Parameter sparingReadahead: false where only what somebody waits for, and what is being written, stays: what was
    ///   read ahead would be fetched twice, but bytes that somebody waits for need the room.
    package func expendable(_ blocks: [Range<Int>], sparingReadahead: Bool) -> [Range<Int>] {
        let map = coverage.map
        var kept: [Range<Int>] = []
        for read in waiting { kept.append(map.blocks(touching: read.range)) }
        for cursor in cursors where sparingReadahead {
            let lower = max(0, cursor.position - BlockSize.block)
            kept.append(
                map.blocks(
                    touching: ByteRange(lower, min(length, cursor.position + max(window(of: cursor), Readahead.first))))
            )
        }
        // What is being written now may reach so far.
        for stream in streams {
            let upper = min(length, stream.position + BlockSize.gathered)
            kept.append(map.blocks(touching: ByteRange(min(stream.position, upper), upper)))
        }
        var runs: [Range<Int>] = []
        for blocks in blocks {
            for block in blocks.clamped(to: 0..<map.blockCount) where map[block] {
                guard !kept.contains(where: { $0.contains(block) }) else { continue }
                if let last = runs.last, last.upperBound == block, blocks.contains(block - 1) {
                    runs[runs.count - 1] = last.lowerBound..<block + 1
                } else {
                    runs.append(block..<block + 1)
                }
            }
        }
        return runs
    }
}
