/// Finds the bytes that a reader has left so far behind that they need not stay in memory.
///
/// A film of some gigabytes that is read once would push everything else out of the page cache, and each of its pages
/// would be a new one: on a virtual machine that takes memory from its host as it goes, that costs more than all else
/// of a read.
package struct DropBehind: Hashable, Sendable {
    /// Bytes behind a reader that stay in memory: a player that jumps back a little finds them there. Files up to about
    /// this length stay as a whole.
    package static let kept: Int64 = 2 * BlockSize.extent

    /// The end of the last answer, in whole extents.
    private var told: Int64

    /// - Parameter start: where reading forward began.
    init(from start: Int64) { told = Self.roundedDown(start + BlockSize.extent - 1) }

    /// Extents that the reader has left behind since the last answer; nil where there are none.
    /// - Parameter position: one behind the furthest byte read in a row.
    mutating func take(_ position: Int64) -> ByteRange? {
        let end = Self.roundedDown(position - Self.kept)
        guard end > told else { return nil }
        defer { told = end }
        return ByteRange(told, end)
    }

    private static func roundedDown(_ offset: Int64) -> Int64 { max(0, offset) / BlockSize.extent * BlockSize.extent }
}
