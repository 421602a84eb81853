/// Shows which bytes of one version are in the cache: fetch planning asks the cache's table of blocks through it.
///
/// Each answer holds for its moment. Only the thread that calls `Ledger.arrived` adds bytes; bytes can leave at any
/// time, which `removals` counts.
package protocol PresentBytes: AnyObject, Sendable {
    /// The length of the version in bytes; `BlockSize.openEnd` until its end is known.
    var length: Int64 { get }
    /// Whether every byte is there.
    var isComplete: Bool { get }
    /// A count that goes up each time that bytes leave.
    var removals: UInt64 { get }

    /// Whether all of `range` is there. Allocates nothing: each hit asks.
    func covers(_ range: ByteRange) -> Bool
    /// First byte at or behind `offset`, and before `limit`, that is missing; `limit` where none is.
    func firstMissing(from offset: Int64, limit: Int64) -> Int64
    /// First byte at or behind `offset`, and before `limit`, that is there; `limit` where none is.
    func firstCovered(from offset: Int64, limit: Int64) -> Int64
    /// Where the gap around the missing byte `offset` begins, but not before its block.
    func startOfGap(at offset: Int64) -> Int64
    /// Whether every byte of a block is there and checked.
    func isFilled(_ block: Int) -> Bool
}

extension PresentBytes {
    /// The first bytes in a row that are there, in one block, and no fewer than `count`; nil where none are.
    package func firstRun(ofAtLeast count: Int64) -> ByteRange? {
        var run = ByteRange(0, 0)
        while true {
            run.lower = firstCovered(from: run.upper, limit: length)
            guard run.lower < length else { return nil }
            let block = BlockSize.bytes(of: Int(run.lower / BlockSize.block), length: length)
            run.upper = firstMissing(from: run.lower, limit: block.upper)
            if run.count >= count { return run }
        }
    }

    /// Whether the length is not known yet.
    package var isOpenEnded: Bool { length == BlockSize.openEnd }

    /// Parts of `range` that are missing.
    package func gaps(in range: ByteRange) -> [ByteRange] {
        var gaps: [ByteRange] = []
        var offset = firstMissing(from: range.lower, limit: range.upper)
        while offset < range.upper {
            let end = firstCovered(from: offset, limit: range.upper)
            gaps.append(ByteRange(offset, end))
            offset = firstMissing(from: end, limit: range.upper)
        }
        return gaps
    }
}
