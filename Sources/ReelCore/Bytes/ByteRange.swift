/// Bytes `lower ..< upper` of a resource, counted from its first byte.
///
/// Offsets and lengths come from origins, indexes and other programs: there is a range for any two of them, so that
/// none can end the program.
package struct ByteRange: Hashable, Sendable, CustomStringConvertible {
    /// The first byte.
    package var lower: Int64
    /// One behind the last byte; never less than `lower`.
    package var upper: Int64

    /// Empty, at `lower`, where `upper` lies before it. Bytes before byte 0 are left out.
    package init(_ lower: Int64, _ upper: Int64) {
        self.lower = max(0, lower)
        self.upper = max(self.lower, upper)
    }

    /// Its length in bytes.
    package var count: Int64 { upper - lower }
    /// Whether it has no byte.
    package var isEmpty: Bool { lower == upper }
    /// For logs: `lower..<upper`.
    package var description: String { "\(lower)..<\(upper)" }

    /// Whether the byte at `offset` is in it.
    package func contains(_ offset: Int64) -> Bool { lower <= offset && offset < upper }
    /// Whether all of `other` is in it; for an empty one, its place.
    package func contains(_ other: ByteRange) -> Bool { lower <= other.lower && other.upper <= upper }
    /// Whether the two share a byte.
    package func overlaps(_ other: ByteRange) -> Bool { max(lower, other.lower) < min(upper, other.upper) }

    /// The bytes of this range that lie in `bounds`; empty, at the nearer bound, where there are none.
    package func clamped(to bounds: ByteRange) -> ByteRange {
        let low = min(max(lower, bounds.lower), bounds.upper)
        return ByteRange(low, max(low, min(upper, bounds.upper)))
    }
}
