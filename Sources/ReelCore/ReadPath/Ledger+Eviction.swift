/// Finds the blocks that an open file can give up when the cache is full.
extension Ledger {
    /// Whether a block of which some bytes are there can go: no request brings the others, and no read waits for it.
    /// Bytes that come once stay.
    /// - Parameter isScarce: it can go as well where no request brings bytes of it at this moment. As each connection
    ///   is in one block at a time, no more blocks than connections have to stay then.
    package func isAbandoned(_ block: Int, isScarce: Bool) -> Bool {
        guard comesAgain else { return false }
        let bytes = BlockSize.bytes(of: block, length: length)
        if isScarce {
            return !planner.streams.all.contains { $0.isSent && $0.retryAt == nil && bytes.contains($0.position) }
        }
        return !planner.streams.all.contains { $0.rest.overlaps(bytes) }
            && !planner.waiting.all.contains { $0.range.overlaps(bytes) }
    }

    /// The blocks of `blocks` that are filled and that no reader is near, in the same order.
    /// - Parameters:
    ///   - sparingReadahead: false: only blocks that a read waits for, or that are being written, stay. Bytes that were
    ///     read ahead are then fetched twice, but bytes that a read waits for need the room.
    ///   - answered: reads of which all bytes are there, and that have no answer yet.
    package func expendable(
        _ blocks: [Range<Int>], sparingReadahead: Bool, answered: [ByteRange] = []
    ) -> [Range<Int>] {
        let blockCount = Int((length + BlockSize.block - 1) / BlockSize.block)
        func touched(_ range: ByteRange) -> Range<Int> { BlockSize.blocks(touching: range, length: length) }
        var kept = answered.map(touched)
        for read in planner.waiting.all { kept.append(touched(read.range)) }
        for cursor in planner.cursors.all where sparingReadahead {
            let lower = max(0, cursor.position - BlockSize.block)
            let upper = min(length, cursor.position + max(planner.cursors.window(of: cursor), Readahead.first))
            kept.append(touched(ByteRange(lower, upper)))
        }
        // What lies before a reader of a body that comes once, it can have no second time.
        if !comesAgain, let position = planner.cursors.last?.position, let stream = planner.streams.all.first {
            kept.append(touched(ByteRange(position, max(position, stream.position))))
        }
        // A write that is going on may reach this far.
        for stream in planner.streams.all {
            let upper = min(length, stream.position + BlockSize.gathered)
            kept.append(touched(ByteRange(min(stream.position, upper), upper)))
        }
        var runs: [Range<Int>] = []
        for blocks in blocks {
            let bounds = blocks.clamped(to: 0..<blockCount)
            var next = bounds.lowerBound
            // Passes over missing bytes in few steps: the origin chooses how long a file is.
            while next < bounds.upperBound {
                let limit = min(length, Int64(bounds.upperBound) * BlockSize.block)
                let offset = present.firstCovered(from: Int64(next) * BlockSize.block, limit: limit)
                guard offset < limit else { break }
                let block = Int(offset / BlockSize.block)
                next = block + 1
                guard present.isFilled(block), !kept.contains(where: { $0.contains(block) }) else { continue }
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
