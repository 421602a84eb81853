/// What an open file can give up when the cache is full.
extension Ledger {
    /// Runs of filled blocks worth about `wanted` bytes that no reader is near: those behind the readers first, from the
    /// start of the file on, then those ahead of them from the end.
    ///
    /// Where only what was read ahead is left, that goes too: bytes that somebody waits for need the room.
    package func expendable(_ wanted: Int64) -> [Range<Int>] {
        let runs = expendable(wanted, sparingReadahead: true)
        return runs.isEmpty ? expendable(wanted, sparingReadahead: false) : runs
    }

    private func expendable(_ wanted: Int64, sparingReadahead: Bool) -> [Range<Int>] {
        let map = coverage.map
        var kept: [Range<Int>] = []
        for read in waiting { kept.append(map.blocks(touching: read.range)) }
        for cursor in cursors where sparingReadahead {
            // What was just read ahead would be fetched twice.
            let lower = max(0, cursor.position - BlockSize.block)
            kept.append(map.blocks(touching: ByteRange(lower, min(length, cursor.position + cursor.window))))
        }
        for stream in streams { kept.append(map.blocks(touching: ByteRange(stream.position, stream.position + 1))) }
        let first = cursors.map(\.position).min() ?? 0
        let middle = Int(min(first, length) / BlockSize.block)
        var runs: [Range<Int>] = []
        var found: Int64 = 0
        for block in Array(0..<middle) + Array(middle..<map.blockCount).reversed() where map[block] {
            guard found < wanted else { break }
            guard !kept.contains(where: { $0.contains(block) }) else { continue }
            found += map.bytes(of: block).count
            if let last = runs.last, last.upperBound == block {
                runs[runs.count - 1] = last.lowerBound..<block + 1
            } else if let last = runs.last, last.lowerBound == block + 1 {
                runs[runs.count - 1] = block..<last.upperBound
            } else {
                runs.append(block..<block + 1)
            }
        }
        return runs
    }
}
