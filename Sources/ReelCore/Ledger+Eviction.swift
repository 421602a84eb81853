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
        // What is being written now may reach so far.
        for stream in streams {
            let upper = min(length, stream.position + BlockSize.gathered)
            kept.append(map.blocks(touching: ByteRange(min(stream.position, upper), upper)))
        }
        let first = cursors.map(\.position).min() ?? 0
        let middle = Int(min(first, length) / BlockSize.block)
        var runs: [Range<Int>] = []
        var found: Int64 = 0
        for block in FilledBlocks(map, middle: middle) {
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

/// Filled blocks from the start up to a place, then from the end back to it. Looks at words, not at bits, where there is
/// nothing: the origin chooses how long a file is.
private struct FilledBlocks: Sequence, IteratorProtocol {
    private let map: BlockMap
    private let middle: Int
    private var ahead = 0
    private var back: Int

    init(_ map: BlockMap, middle: Int) {
        self.map = map
        self.middle = middle
        back = map.blockCount - 1
    }

    mutating func next() -> Int? {
        while ahead < middle {
            if map.extents[ahead / 64] == 0 {
                ahead = (ahead / 64 + 1) * 64
            } else {
                ahead += 1
                if map[ahead - 1] { return ahead - 1 }
            }
        }
        while back >= middle {
            if map.extents[back / 64] == 0 {
                back = back / 64 * 64 - 1
            } else {
                back -= 1
                if map[back + 1] { return back + 1 }
            }
        }
        return nil
    }
}
