/// Bytes `lower ..< upper` of a resource, counted from its first byte.
///
/// Offsets and lengths come from origins, indexes and other programs: there is a range for any two of them, so that
/// none can end the program.
package struct ByteRange: Hashable, Sendable, CustomStringConvertible {
    package var lower: Int64
    package var upper: Int64

    /// Empty, at `lower`, where `upper` lies before it. What lies before byte 0 is left out.
    package init(_ lower: Int64, _ upper: Int64) {
        self.lower = max(0, lower)
        self.upper = max(self.lower, upper)
    }

    package var count: Int64 { upper - lower }
    package var isEmpty: Bool { lower == upper }
    package var description: String { "\(lower)..<\(upper)" }

    package func contains(_ offset: Int64) -> Bool { lower <= offset && offset < upper }
    package func contains(_ other: ByteRange) -> Bool { lower <= other.lower && other.upper <= upper }
    package func overlaps(_ other: ByteRange) -> Bool { max(lower, other.lower) < min(upper, other.upper) }

    /// The bytes of this range that lie in `bounds`; empty, at the nearer bound, where there are none.
    package func clamped(to bounds: ByteRange) -> ByteRange {
        let low = min(max(lower, bounds.lower), bounds.upper)
        return ByteRange(low, max(low, min(upper, bounds.upper)))
    }
}
