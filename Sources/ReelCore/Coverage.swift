/// Which bytes of one version are in the cache file: whole blocks, which the index knows, and fragments of blocks that
/// a stream has not finished, which live in memory only. What lies behind the end is neither missing nor covered: there
/// is nothing to fetch.
package struct Coverage: Sendable {
    package private(set) var map: BlockMap
    package private(set) var fragments = ByteRangeSet()

    package init(_ map: BlockMap) { self.map = map }

    package var length: Int64 { map.length }
    package var isComplete: Bool { map.isComplete }

    /// The hit path's question: no allocation.
    package func covers(_ range: ByteRange) -> Bool {
        for block in map.blocks(touching: range) where !map[block] {
            guard fragments.contains(range.clamped(to: map.bytes(of: block))) else { return false }
        }
        return true
    }

    /// First byte at or behind `offset`, and before `limit`, that is not covered; `limit` where all are.
    package func firstMissing(from offset: Int64, limit: Int64) -> Int64 {
        var offset = offset
        while offset < min(limit, length) {
            let block = Int(offset / BlockSize.block)
            if map[block] {
                offset = map.bytes(of: block).upper
            } else if let fragment = fragments.range(at: offset) {
                offset = min(fragment.upper, map.bytes(of: block).upper)
            } else {
                return offset
            }
        }
        return limit
    }

    /// First byte at or behind `offset`, and before `limit`, that is covered; `limit` where none is.
    package func firstCovered(from offset: Int64, limit: Int64) -> Int64 {
        var offset = offset
        while offset < min(limit, length) {
            let block = Int(offset / BlockSize.block)
            if map[block] { return offset }
            let upper = map.bytes(of: block).upper
            if let fragment = fragments.firstRange(endingBehind: offset), fragment.lower < min(upper, limit) {
                return max(fragment.lower, offset)
            }
            offset = upper
        }
        return limit
    }

    /// Where the gap around the missing byte `offset` begins, but not before its block.
    package func startOfGap(at offset: Int64) -> Int64 {
        let block = map.bytes(of: Int(offset / BlockSize.block))
        var start = block.lower
        while let fragment = fragments.firstRange(endingBehind: start), fragment.lower < offset {
            start = fragment.upper
        }
        return start
    }

    /// Blocks that `range` would be the first to put bytes into: the cache has to find room for them.
    package func untouchedBlocks(in range: ByteRange) -> [Int] {
        map.blocks(touching: range).filter { !map[$0] && !fragments.overlaps(map.bytes(of: $0)) }
    }

    /// Notes bytes that are in the file now. - Returns: the blocks that became whole by them.
    package mutating func fill(_ range: ByteRange) -> [Int] {
        var whole: [Int] = []
        for block in map.blocks(touching: range) where !map[block] {
            let bytes = map.bytes(of: block)
            let part = range.clamped(to: bytes)
            if part != bytes {
                fragments.insert(part)
                guard fragments.contains(bytes) else { continue }
            }
            fragments.remove(bytes)
            map[block] = true
            whole.append(block)
        }
        return whole
    }

    /// Blocks that hold fragments only: what a closed file gives back, as no index knows of them.
    package var partialBlocks: [Int] {
        var blocks: [Int] = []
        for fragment in fragments.ranges {
            for block in map.blocks(touching: fragment) where blocks.last != block { blocks.append(block) }
        }
        return blocks
    }

    /// Forgets whatever lies in these blocks.
    package mutating func forget(_ blocks: Range<Int>) {
        for block in blocks {
            map[block] = false
            fragments.remove(map.bytes(of: block))
        }
    }
}
