/// Which bytes of one version are in the cache: what fetch planning asks of the cache's table of blocks.
///
/// Each answer holds for its moment. Only the thread that calls `Ledger.arrived` adds bytes; bytes can leave at any
/// time, which `removals` tells.
package protocol PresentBytes: AnyObject, Sendable {
    /// Of the version, in bytes; `BlockSize.openEnd` until its end is known.
    var length: Int64 { get }
    /// Every byte is there.
    var isComplete: Bool { get }
    /// A count that goes up each time that bytes leave.
    var removals: UInt64 { get }

    /// Whether all of `range` is there. Allocates nothing: each hit asks.
    func covers(_ range: ByteRange) -> Bool
    /// First byte at or behind `offset`, and before `limit`, that is not there; `limit` where all are.
    func firstMissing(from offset: Int64, limit: Int64) -> Int64
    /// First byte at or behind `offset`, and before `limit`, that is there; `limit` where none is.
    func firstCovered(from offset: Int64, limit: Int64) -> Int64
    /// Where the gap around the missing byte `offset` begins, but not before its block.
    func startOfGap(at offset: Int64) -> Int64
    /// Whether every byte of a block is there and checked.
    func isFilled(_ block: Int) -> Bool
}
