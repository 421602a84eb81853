/// The sizes that the cache, the index and the ledger share, in bytes.
package enum BlockSize {
    /// 128 KiB: the kernel asks for as much at once when it reads ahead, so one filled block answers one request.
    package static let block: Int64 = 128 << 10
    /// Blocks of an extent, one word of the map.
    package static let blocksPerExtent = 64
    /// The bytes of an extent: 8 MiB, the unit of index rows.
    package static let extent: Int64 = block * Int64(blocksPerExtent)
    /// The transport gathers this many bytes of a fast body before it hands them over: no write is longer.
    package static let gathered: Int64 = 512 << 10
    /// The longest file in bytes, which is ext4's. A length from outside that is above it is not believed.
    package static let longestFile: Int64 = 16 << 40
    /// The length of a version whose end is not known yet: more than any file has.
    package static let openEnd: Int64 = 1 << 62

    /// The blocks of a resource of that length which hold any byte of `range`; none behind its end.
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
