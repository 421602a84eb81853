/// The sizes that the cache, the index and the ledger share.
package enum BlockSize {
    /// 128 KiB: what the kernel asks for at once when it reads ahead, so one filled block answers one request.
    package static let block: Int64 = 128 << 10
    /// 64 blocks in a row, one word of the map: 8 MiB, the unit of index rows.
    package static let blocksPerExtent = 64
    package static let extent: Int64 = block * Int64(blocksPerExtent)
    /// What the transport gathers of a fast body before it hands it over, and so the most that is written at once.
    package static let gathered: Int64 = 512 << 10
    /// The length of a version whose end nobody knows yet: more than any file has.
    package static let openEnd: Int64 = 1 << 62

    /// The blocks of a resource of that length which hold any byte of `range`; none hold what lies behind its end.
    package static func blocks(touching range: ByteRange, length: Int64) -> Range<Int> {
        let upper = min(range.upper, length)
        guard range.lower < upper else { return 0..<0 }
        return Int(range.lower / block)..<Int((upper - 1) / block) + 1
    }

    /// The bytes of a block of a resource of that length; shorter for the last, none for one behind it.
    package static func bytes(of block: Int, length: Int64) -> ByteRange {
        let lower = min(Int64(block) * Self.block, length)
        return ByteRange(lower, lower + min(Self.block, length - lower))
    }
}

/// The bitmap of filled blocks of one resource version: a kilobyte for each gigabyte.
package struct BlockMap: Hashable, Sendable {
    package let length: Int64
    /// One word an extent; bit n of word e is block `e * 64 + n`.
    package private(set) var extents: [UInt64]
    package private(set) var filledBlocks = 0

    package init(length: Int64) {
        self.length = length
        extents = Array(repeating: 0, count: Int((length + BlockSize.extent - 1) / BlockSize.extent))
    }

    package var blockCount: Int { Int((length + BlockSize.block - 1) / BlockSize.block) }
    package var isComplete: Bool { filledBlocks == blockCount }

    /// Bytes in filled blocks; the last block counts for what it holds.
    package var filledBytes: Int64 {
        guard filledBlocks > 0 else { return 0 }
        let short = Int64(blockCount) * BlockSize.block - length
        return Int64(filledBlocks) * BlockSize.block - (self[blockCount - 1] ? short : 0)
    }

    /// Bytes in filled blocks of one extent.
    package func filledBytes(inExtent extent: Int) -> Int64 { bytes(of: extents[extent], inExtent: extent) }

    /// Bytes in those blocks of one extent whose bits are set in `word`, filled or not.
    package func bytes(of word: UInt64, inExtent extent: Int) -> Int64 {
        let bytes = Int64(word.nonzeroBitCount) * BlockSize.block
        let last = blockCount - 1
        guard extent == extents.count - 1, word & (1 << UInt64(last % 64)) != 0 else { return bytes }
        return bytes - (Int64(blockCount) * BlockSize.block - length)
    }

    package subscript(_ block: Int) -> Bool {
        get { extents[block / 64] & (1 << UInt64(block % 64)) != 0 }
        set {
            precondition(block >= 0 && block < blockCount, "no such block")
            guard self[block] != newValue else { return }
            extents[block / 64] ^= 1 << UInt64(block % 64)
            filledBlocks += newValue ? 1 : -1
        }
    }

    /// The bits of those of `blocks` that lie in this extent.
    package static func mask(of blocks: Range<Int>, inExtent extent: Int) -> UInt64 {
        let lower = max(blocks.lowerBound - extent * 64, 0)
        let upper = min(blocks.upperBound - extent * 64, 64)
        guard lower < upper else { return 0 }
        return (upper == 64 ? .max : (1 << UInt64(upper)) - 1) & ~((1 << UInt64(lower)) - 1)
    }

    /// Takes one extent's word from the index. Bits past the end of the resource are not believed.
    package mutating func load(extent: Int, word: UInt64) {
        guard extents.indices.contains(extent) else { return }
        let left = blockCount - extent * 64
        let valid: UInt64 = left >= 64 ? .max : (1 << UInt64(left)) - 1
        filledBlocks += (word & valid).nonzeroBitCount - extents[extent].nonzeroBitCount
        extents[extent] = word & valid
    }

    /// Filled blocks in order. Looks at words, not at bits, where there is nothing: the origin chooses how long a file is.
    package func forEachFilled<Failure: Error>(_ body: (Int) throws(Failure) -> Void) throws(Failure) {
        for (extent, word) in extents.enumerated() {
            var rest = word
            while rest != 0 {
                try body(extent * BlockSize.blocksPerExtent + rest.trailingZeroBitCount)
                rest &= rest - 1
            }
        }
    }

    /// The bytes of a block; shorter for the last.
    package func bytes(of block: Int) -> ByteRange {
        BlockSize.bytes(of: block, length: length)
    }

    /// The blocks that hold any byte of `range`.
    package func blocks(touching range: ByteRange) -> Range<Int> {
        BlockSize.blocks(touching: range, length: length)
    }

    /// True where every byte of `range` lies in a filled block. The hit path's one question: no allocation.
    package func covers(_ range: ByteRange) -> Bool {
        blocks(touching: range).allSatisfy { self[$0] }
    }
}
