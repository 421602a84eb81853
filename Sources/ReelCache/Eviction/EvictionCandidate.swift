import ReelCore

/// One extent that could make way.
struct EvictionCandidate {
    /// Row of the object.
    let object: Int64
    let extent: Int
    /// The first or last of its file: players read these first.
    let isEdge: Bool
    let lastUse: Int64
    /// Bytes in filled blocks.
    let bytes: Int64
    /// nil where the file is closed.
    let file: DataFile?

    /// Edges go last; otherwise the extent whose last use is oldest goes first. The query of
    /// `IndexConnection.evictionCandidates` has the same order.
    static func goesBefore(_ one: EvictionCandidate, _ other: EvictionCandidate) -> Bool {
        (one.isEdge ? 1 : 0, one.lastUse, one.object, one.extent)
            < (other.isEdge ? 1 : 0, other.lastUse, other.object, other.extent)
    }

    /// The candidates of a file in use.
    static func all(of file: DataFile) -> [EvictionCandidate] {
        let last = Int((file.version.length - 1) / BlockSize.extent)
        return file.withBlocks { $0.states.usedExtents }.map { extent, bytes, lastUse in
            EvictionCandidate(
                object: file.row, extent: extent, isEdge: extent == 0 || extent == last, lastUse: lastUse, bytes: bytes,
                file: file)
        }
    }

    /// Blocks by number in the file.
    var blocks: Range<Int> { extent * BlockSize.blocksPerExtent..<(extent + 1) * BlockSize.blocksPerExtent }
}

extension ArraySlice<EvictionCandidate> {
    /// Takes from the front what goes in one transaction: opens and transfers wait for the index until it has gone, and
    /// a file costs as much time as many bytes do. - Parameter wanted: no more than have these bytes.
    mutating func takeBatch(_ wanted: Int64 = .max) -> [EvictionCandidate] {
        var batch: [EvictionCandidate] = []
        var sum: Int64 = 0
        while batch.count < 256, sum < Swift.min(wanted, 256 << 20), let next = popFirst() {
            batch.append(next)
            sum += next.bytes
        }
        return batch
    }
}

/// A search of the index that goes on where files stay that it has found: it ends once it has enough bytes, and all of
/// these may be of one file that a mapping, or a handle of a lazily ended mount, still reads.
struct EvictionSearch {
    /// Rows of closed files that stay.
    var spared: Set<Int64> = []
    private var sparedBefore = -1
    private var wanted: Int64

    init(_ wanted: Int64) { self.wanted = wanted }

    /// Whether a file stayed that the last one counted on, or there was none.
    var goesOn: Bool { spared.count > sparedBefore }

    /// - Returns: how many bytes to look for: four times as many each time, so that few searches pass many such files.
    mutating func begin() -> Int64 {
        sparedBefore = spared.count
        defer { wanted = wanted > .max / 4 ? .max : wanted * 4 }
        return wanted
    }
}

extension DataFile {
    /// Whether bytes of it may go: not what the kernel reads itself, nor a body that comes once, as its end is not
    /// known, and cannot be fetched again.
    var mayMakeRoom: Bool { row >= 0 && !isReadDirectly && !isOpenEnded }
}

extension IndexConnection {
    /// The key of a candidate's file, nil where it has gone since.
    func key(of candidate: EvictionCandidate) throws(CacheError) -> String? {
        if let file = candidate.file { return file.version.key }
        return try row(candidate.object)?.version.key
    }

    /// Extents of files in use that could go.
    func evictionCandidates(
        of files: [DataFile], usedBefore limit: Int64 = .max, evenPinned: Bool = false
    ) throws(CacheError) -> [EvictionCandidate] {
        var found: [EvictionCandidate] = []
        for file in files {
            if !evenPinned, try isPinned(file.version.key) { continue }
            found += EvictionCandidate.all(of: file).filter { $0.lastUse < limit }
        }
        return found
    }

    /// Extents of closed files that could go, in order, until they have `wanted` bytes.
    /// - Parameters:
    ///   - limit: only extents last used before this.
    ///   - key: only files of this key, pinned or not, nil for all that are not pinned.
    ///   - isClosed: whether the file of a row of `objects` is closed.
    func evictionCandidates(
        _ wanted: Int64, usedBefore limit: Int64, key text: String?, isClosed: (Int64) -> Bool
    ) throws(CacheError) -> [EvictionCandidate] {
        var found: [EvictionCandidate] = []
        var sum: Int64 = 0
        // Both edges are named, as the index of uses begins with them: the search ends at the limit.
        let sql = """
            SELECT e.object, e.extent, e.word, e.last_use, e.edge, o.length FROM extents e JOIN objects o \
            ON o.id = e.object WHERE \(text == nil ? "o.key NOT IN (SELECT key FROM pins)" : "o.key = ?") \
            \(limit == .max ? "" : "AND e.edge IN (0, 1) AND e.last_use < ? ")ORDER BY e.edge, e.last_use
            """
        let values: [Value] = (text.map { [key($0)] } ?? []) + (limit == .max ? [] : [.integer(limit)])
        try query(sql, values) { row in
            guard isClosed(row.integer(0)) else { return true }
            let extent = Int(clamping: row.integer(1))
            let bytes = BlockStates.bytes(
                of: UInt64(bitPattern: row.integer(2)), inExtent: extent,
                length: max(0, min(row.integer(5), BlockSize.longestFile)))
            found.append(
                EvictionCandidate(
                    object: row.integer(0), extent: extent, isEdge: row.flag(4), lastUse: row.integer(3),
                    bytes: bytes, file: nil))
            sum += bytes
            return sum < wanted
        }
        return found
    }
}
