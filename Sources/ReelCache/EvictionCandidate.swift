import ReelCore

/// One extent that could make way.
struct EvictionCandidate {
    /// Row of the object.
    let object: Int64
    let extent: Int
    /// The first or last of its file: players ask for these first.
    let isEdge: Bool
    let lastUse: Int64
    /// Bytes in filled blocks.
    let bytes: Int64
    /// nil where the file is closed.
    let file: DataFile?

    /// Edges last, and otherwise what was used longest ago first.
    static func goesBefore(_ one: EvictionCandidate, _ other: EvictionCandidate) -> Bool {
        (one.isEdge ? 1 : 0, one.lastUse, one.object, one.extent)
            < (other.isEdge ? 1 : 0, other.lastUse, other.object, other.extent)
    }

    /// Blocks by number in the file.
    var blocks: Range<Int> { extent * BlockSize.blocksPerExtent..<(extent + 1) * BlockSize.blocksPerExtent }
}

extension IndexConnection {
    /// Extents of closed files that could go, in order, as many as have `wanted` bytes.
    /// - Parameters:
    ///   - limit: none that was used later than this.
    ///   - key: of files of this key alone, pinned or not; nil: of all that are not pinned.
    ///   - isClosed: says so of a row of `objects`.
    func evictionCandidates(
        _ wanted: Int64, usedBefore limit: Int64, key: String?, isClosed: (Int64) -> Bool
    ) throws(CacheError) -> [EvictionCandidate] {
        var found: [EvictionCandidate] = []
        var sum: Int64 = 0
        let sql = """
            SELECT e.object, e.extent, e.word, e.last_use, e.edge, o.length FROM extents e JOIN objects o \
            ON o.id = e.object WHERE \(key == nil ? "o.key NOT IN (SELECT key FROM pins)" : "o.key = ?") \
            ORDER BY e.edge, e.last_use
            """
        try query(sql, key.map { [.text($0)] } ?? []) { row in
            guard isClosed(row.integer(0)), row.integer(3) < limit else { return true }
            var map = BlockMap(length: max(0, min(row.integer(5), DataFile.longest)))
            let extent = Int(clamping: row.integer(1))
            map.load(extent: extent, word: UInt64(bitPattern: row.integer(2)))
            found.append(
                EvictionCandidate(
                    object: row.integer(0), extent: extent, isEdge: row.flag(4), lastUse: row.integer(3),
                    bytes: map.filledBytes, file: nil))
            sum += map.filledBytes
            return sum < wanted
        }
        return found
    }
}
