import ReelCore

/// The blocks of one version that a row of the index, or a list of verified blocks, names: a kilobyte for each
/// gigabyte.
///
/// `BlockTable` knows of each block how it is there; a map is what the table, and each row, is read from or told as.
struct BlockMap: Hashable, Sendable {
    let length: Int64
    /// One word an extent; bit n of word e is block `e * 64 + n`.
    private(set) var extents: [UInt64]
    private(set) var filledBlocks = 0

    init(length: Int64) {
        self.length = length
        extents = Array(repeating: 0, count: Int((length + BlockSize.extent - 1) / BlockSize.extent))
    }

    var blockCount: Int { Int((length + BlockSize.block - 1) / BlockSize.block) }
    var isComplete: Bool { filledBlocks == blockCount }

    /// Bytes in filled blocks; the last block counts for what it holds.
    var filledBytes: Int64 {
        guard filledBlocks > 0 else { return 0 }
        let short = Int64(blockCount) * BlockSize.block - length
        return Int64(filledBlocks) * BlockSize.block - (self[blockCount - 1] ? short : 0)
    }

    subscript(_ block: Int) -> Bool {
        get { extents[block / 64] & (1 << UInt64(block % 64)) != 0 }
        set {
            precondition(block >= 0 && block < blockCount, "no such block")
            guard self[block] != newValue else { return }
            extents[block / 64] ^= 1 << UInt64(block % 64)
            filledBlocks += newValue ? 1 : -1
        }
    }

    /// The bits of those of `blocks` that lie in this extent.
    static func mask(of blocks: Range<Int>, inExtent extent: Int) -> UInt64 {
        let lower = max(blocks.lowerBound - extent * 64, 0)
        let upper = min(blocks.upperBound - extent * 64, 64)
        guard lower < upper else { return 0 }
        return (upper == 64 ? .max : (1 << UInt64(upper)) - 1) & ~((1 << UInt64(lower)) - 1)
    }

    /// Takes one extent's word from the index. Bits past the end of the resource are not believed.
    mutating func load(extent: Int, word: UInt64) {
        guard extents.indices.contains(extent) else { return }
        let left = blockCount - extent * 64
        let valid: UInt64 = left >= 64 ? .max : (1 << UInt64(left)) - 1
        filledBlocks += (word & valid).nonzeroBitCount - extents[extent].nonzeroBitCount
        extents[extent] = word & valid
    }

    /// Filled blocks in order. Looks at words, not at bits, where there is nothing: the origin chooses how long a file
    /// is.
    func forEachFilled<Failure: Error>(_ body: (Int) throws(Failure) -> Void) throws(Failure) {
        for (extent, word) in extents.enumerated() {
            var rest = word
            while rest != 0 {
                try body(extent * BlockSize.blocksPerExtent + rest.trailingZeroBitCount)
                rest &= rest - 1
            }
        }
    }

    /// The bytes of a block; shorter for the last.
    func bytes(of block: Int) -> ByteRange { BlockSize.bytes(of: block, length: length) }
}
