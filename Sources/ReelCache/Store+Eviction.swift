import ReelCore

/// One extent that could make way.
struct EvictionCandidate {
    /// Row of the object.
    let object: Int64
    let extent: Int
    /// The first or last of its file: what a player asks for first.
    let isEdge: Bool
    let lastUse: Int64
    /// Bytes in filled blocks.
    let bytes: Int64
    /// nil where nobody has it open, nor had a moment ago.
    let file: DataFile?

    /// Edges last, and otherwise what was used longest ago first.
    static func goesBefore(_ one: EvictionCandidate, _ other: EvictionCandidate) -> Bool {
        (one.isEdge ? 1 : 0, one.lastUse, one.object, one.extent)
            < (other.isEdge ? 1 : 0, other.lastUse, other.object, other.extent)
    }

    /// Blocks by number in the file.
    var blocks: Range<Int> { extent * BlockSize.blocksPerExtent..<(extent + 1) * BlockSize.blocksPerExtent }
}

extension Store {
    /// Frees about `wanted` bytes of what is not pinned, by extents: files that nobody has open and open ones alike, in
    /// the order of `EvictionCandidate`. What the readers of an open file need right now stays; only where nothing else is
    /// left, what was read ahead for them goes.
    /// - Parameters:
    ///   - slack: so much more goes where it costs nobody anything.
    ///   - limit: nothing that was used later than this goes.
    ///   - closedOnly: to be said by any thread but the one that writes.
    ///   - sparesOpen: files that somebody has open stay whole.
    /// - Returns: bytes freed.
    func evict(
        _ wanted: Int64, slack: Int64 = 0, usedBefore limit: Int64 = .max, closedOnly: Bool = false,
        sparesOpen: Bool = false
    ) throws(CacheError) -> Int64 {
        guard disk.mayWriteIndex, wanted > 0 else { return 0 }
        let candidates = try candidates(wanted + slack, usedBefore: limit) { file in
            if closedOnly { return files.isHeld(file.row) }
            return sparesOpen && files.held(file.row)?.holder?.isInUse == true
        }
        var freed: Int64 = 0
        for isScarce in [false, true] {
            let goal = isScarce ? wanted : wanted + slack
            var rest = candidates[...]
            while freed < goal, !rest.isEmpty {
                var batch: [EvictionCandidate] = []
                var sum: Int64 = 0
                while freed + sum < goal, let next = rest.popFirst() {
                    batch.append(next)
                    sum += next.bytes
                }
                freed += try evict(batch, scarce: isScarce ? goal - freed : nil, closedOnly)
            }
        }
        return freed
    }

    /// Whatever could go, in order: of open files all extents, of closed ones as many as are wanted.
    private func candidates(
        _ wanted: Int64, usedBefore limit: Int64, sparing isSpared: (DataFile) -> Bool
    ) throws(CacheError) -> [EvictionCandidate] {
        var found: [EvictionCandidate] = []
        let open = files.all
        // What comes once, as nobody knows its end, cannot be fetched again.
        for file in open where file.row >= 0 && !file.isPinned && !file.isReadDirectly && !file.isOpenEnded {
            if isSpared(file) { continue }
            let last = Int((file.version.length - 1) / BlockSize.extent)
            for (extent, bytes, lastUse) in file.withBlocks({ $0.usedExtents }) where lastUse < limit {
                found.append(
                    EvictionCandidate(
                        object: file.row, extent: extent, isEdge: extent == 0 || extent == last, lastUse: lastUse,
                        bytes: bytes, file: file))
            }
        }
        let rows = Set(open.map(\.row))
        let closed = try writer.use { (index) throws(CacheError) -> [EvictionCandidate] in
            var closed: [EvictionCandidate] = []
            var sum: Int64 = 0
            let sql = """
                SELECT e.object, e.extent, e.word, e.last_use, e.edge, o.length FROM extents e JOIN objects o \
                ON o.id = e.object WHERE o.key NOT IN (SELECT key FROM pins) ORDER BY e.edge, e.last_use
                """
            try index.query(sql) { row in
                guard !rows.contains(row.integer(0)), row.integer(3) < limit else { return true }
                var map = BlockMap(length: max(0, min(row.integer(5), Store.longestFile)))
                let extent = Int(clamping: row.integer(1))
                map.load(extent: extent, word: UInt64(bitPattern: row.integer(2)))
                closed.append(
                    EvictionCandidate(
                        object: row.integer(0), extent: extent, isEdge: row.flag(4), lastUse: row.integer(3),
                        bytes: map.filledBytes, file: nil))
                sum += map.filledBytes
                return sum < wanted
            }
            return closed
        }
        return (found + closed).sorted(by: EvictionCandidate.goesBefore)
    }

    private func evict(
        _ batch: [EvictionCandidate], scarce: Int64?, _ closedOnly: Bool
    ) throws(CacheError) -> Int64 {
        var freed = try evictClosed(batch.filter { $0.file == nil })
        var files: [Int64: [EvictionCandidate]] = [:]
        for candidate in batch where candidate.file != nil { files[candidate.object, default: []].append(candidate) }
        for (row, candidates) in files {
            guard let file = candidates[0].file else { continue }
            let blocks = candidates.map(\.blocks)
            if !closedOnly, let object = self.files.held(row) {
                freed += object.holder?.relinquish(blocks, scarce: scarce.map { $0 - freed }) ?? 0
            } else {
                let before = file.bytesOnDisk
                for blocks in blocks {
                    do throws(CacheError) {
                        try discard(blocks, of: file, unlessHeld: true)
                    } catch {
                        guard error == .busy else { throw error }
                    }
                }
                freed += before - file.bytesOnDisk
            }
        }
        return freed
    }

    /// Rows first, in one transaction, then the bytes. A file of which nothing is left goes as a whole.
    private func evictClosed(_ batch: [EvictionCandidate]) throws(CacheError) -> Int64 {
        guard !batch.isEmpty else { return 0 }
        var emptied: [(row: ObjectRow, extents: [Int], isGone: Bool)] = []
        let freed = try writer.use { (index) throws(CacheError) -> Int64 in
            var freed: Int64 = 0
            try index.transaction { () throws(CacheError) in
                let objects = Dictionary(grouping: batch, by: \.object)
                for (id, candidates) in objects where files.file(id) == nil {
                    guard let row = try index.rows(where: "id = \(id)").first else { continue }
                    // A mapping, or a handle of a mount that was ended lazily, may still read it.
                    if let file = row.name?.open(in: directory.objects, length: row.version.length),
                        file.isOpenElsewhere
                    {
                        continue
                    }
                    for candidate in candidates {
                        let values: [Value] = [.integer(id), .integer(Int64(candidate.extent))]
                        try index.run("DELETE FROM extents WHERE object = ? AND extent = ?", values)
                    }
                    let left = try index.blocks(of: row).filledBytes
                    freed += row.cached - left
                    emptied.append((row, candidates.map(\.extent), left == 0))
                    if left == 0 {
                        try index.delete(id)
                    } else {
                        let values: [Value] = [.integer(left), .integer(id)]
                        try index.run("UPDATE objects SET cached = ?, unclean = 1 WHERE id = ?", values)
                    }
                }
            }
            reached(.evictionRowsCommitted)
            // Under the gate: who opens the file now must not write where a hole is about to be.
            for (row, extents, isGone) in emptied where !isGone {
                guard let file = row.name?.open(in: directory.objects, length: row.version.length) else { continue }
                for extent in extents where Store.extents.contains(extent) {
                    try? file.punch(Int64(extent) * BlockSize.extent, BlockSize.extent)
                }
            }
            return freed
        }
        // Outside of the gate: removing a long file takes a while, and its name is nobody's any more.
        for (row, _, isGone) in emptied where isGone { remove(row.name) }
        reached(.evictionPunched)
        room.release(freed)
        return freed
    }
}
