/// The bytes of a file as a row of cells of equal length, for people: which are there, and which are on their way.
package enum FileMap {
    /// The most cells that fit beside a name on a wide terminal; a message a second has one map for each open file.
    package static let cells = 96

    /// The state of a cell; its character stands for it in texts.
    package enum Cell: Character, Sendable {
        case cached = "#"
        /// Some of its bytes are there, and no request brings the others.
        case partial = "+"
        case coming = ">"
        case missing = "."
    }

    /// A character for each cell, from the first byte on; nil where the length is not known, or nothing.
    /// - Parameter coming: the bytes that requests under way will bring.
    package static func text(_ present: any PresentBytes, coming: [ByteRange]) -> String? {
        guard !present.isOpenEnded, present.length > 0 else { return nil }
        return String((0..<cells).map { cell(bytes(of: $0, length: present.length), present, coming).rawValue })
    }

    private static func cell(_ range: ByteRange, _ present: any PresentBytes, _ coming: [ByteRange]) -> Cell {
        let missing = present.firstMissing(from: range.lower, limit: range.upper)
        if missing >= range.upper { return .cached }
        if coming.contains(where: { $0.overlaps(range) }) { return .coming }
        let isPartial =
            missing > range.lower || present.firstCovered(from: missing, limit: range.upper) < range.upper
        return isPartial ? .partial : .missing
    }

    /// The bytes that a cell stands for: at least one, which neighbours of a short file share.
    package static func bytes(of cell: Int, length: Int64) -> ByteRange {
        // The origin chooses the length: no product of it may overflow.
        let (share, rest, count) = (length / Int64(cells), length % Int64(cells), Int64(cells))
        func start(_ cell: Int64) -> Int64 { share * cell + rest * cell / count }
        let lower = start(Int64(cell))
        return ByteRange(lower, max(lower + 1, start(Int64(cell) + 1)))
    }

    /// The cell in which a byte lies; the last one for a place behind the end.
    package static func cell(at offset: Int64, length: Int64) -> Int {
        guard length > 0 else { return 0 }
        return Int(min(Double(cells - 1), max(0, Double(offset) / Double(length) * Double(cells))))
    }
}
