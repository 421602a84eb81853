import ReelCore

/// The questions of readers and of fetch planning. They allocate nothing where blocks are filled. Bytes behind the end
/// are neither there nor missing: there is nothing to fetch.
extension BlockTable {
    func covers(_ range: ByteRange) -> Bool { firstMissing(from: range.lower, limit: range.upper) == range.upper }

    /// First byte at or behind `offset`, and before `limit`, that is not there; `limit` where all are.
    func firstMissing(from offset: Int64, limit: Int64) -> Int64 {
        var offset = offset
        while offset < min(limit, length) {
            let block = Int(offset / BlockSize.block)
            if block % 64 == 0, states.extent(block / 64)?.filledBlocks == 64 {
                offset = min(length, offset / BlockSize.extent * BlockSize.extent + BlockSize.extent)
            } else if self[block].isFilled {
                offset = bytes(of: block).upper
            } else if let end = inFlight[block]?.pieces.end(from: offset), end > offset {
                offset = end
            } else {
                return offset
            }
        }
        return limit
    }

    /// First byte at or behind `offset`, and before `limit`, that is there; `limit` where none is.
    func firstCovered(from offset: Int64, limit: Int64) -> Int64 {
        var offset = offset
        while offset < min(limit, length) {
            let block = Int(offset / BlockSize.block)
            guard block / 64 < states.extentCount else { return limit }
            guard states.extent(block / 64) != nil else {
                offset = (offset / BlockSize.extent + 1) * BlockSize.extent
                continue
            }
            if self[block].isFilled { return offset }
            if let start = inFlight[block]?.pieces.start(from: offset) { return min(start, limit) }
            offset = bytes(of: block).upper
        }
        return limit
    }

    /// Where the gap around the missing byte `offset` begins, but not before its block.
    func startOfGap(at offset: Int64) -> Int64 {
        let block = Int(offset / BlockSize.block)
        let ends = inFlight[block]?.pieces.all.lazy.map(\.range.upper).filter { $0 <= offset }
        return ends?.max() ?? bytes(of: block).lower
    }

    /// Blocks whose checksum is compared at each read from the disk: not verified yet, or not durable, filled or not.
    /// Until a sync has ended well, a filesystem that cannot write such blocks back may drop them from the page cache,
    /// and zeros are read in their place.
    /// - Parameter blocks: 64 at most.
    /// - Returns: a bit a block, the first of `blocks` the least significant.
    func uncertain(_ blocks: Range<Int>) -> UInt64 {
        var bits: UInt64 = 0
        var block = blocks.lowerBound
        while block < blocks.upperBound {
            if self[block] != .durable || !states.isVerified(block) { bits |= 1 << UInt64(block - blocks.lowerBound) }
            block += 1
        }
        return bits
    }

    /// - Parameter now: in the order of `UseClock`.
    mutating func use(_ blocks: Range<Int>, now: Int64) {
        guard !blocks.isEmpty else { return }
        var extent = blocks.lowerBound / 64
        while extent * 64 < blocks.upperBound {
            states.update(extent) { $0.lastUse = now }
            extent += 1
        }
    }

    /// The same for all that there is: of a file without an end, or of a very long one, that is little.
    mutating func useAll(now: Int64) {
        for extent in 0..<states.extentCount where states.extent(extent) != nil {
            states.update(extent) { $0.lastUse = now }
        }
    }

    /// The block's proof where no row has it yet, or where it is kept.
    func sum(of block: Int) -> BlockSum? { states.extent(block / 64)?.sums?[block % 64] }

    /// Keeps the proofs of a row, of those of its blocks that are durable.
    mutating func keep(_ sums: ExtentSums, ofExtent number: Int) {
        guard keepsSums, let extent = states.extent(number) else { return }
        let durable = sums.limited(to: extent.word(of: .durable))
        states.update(number) { $0.sums = ($0.sums ?? ExtentSums()).over(durable) }
        dropSums(but: number)
    }

    /// Forgets proofs that rows have, where there are too many of them: 2 MiB for one file.
    mutating func dropSums(but kept: Int? = nil) {
        guard states.extents.lazy.filter({ $0.sums != nil }).count > 512 else { return }
        for number in states.extents.map(\.number) where number != kept && isDurable(number) {
            states.update(number) { $0.sums = nil }
        }
    }
}
