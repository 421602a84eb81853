import ReelCore

extension Store {
    /// Bytes in use and the cap: the given one, but never more than what leaves 5 % of the disk free.
    package var usage: (used: Int64, cap: Int64) { room.usage }

    /// Takes `bytes` (whole blocks, the last one of a file short) from the cap before data is written. Where they do
    /// not fit, files that nobody holds are evicted, the longest unused first; then the holders of open ones are asked.
    /// False where that is not enough. Called under no lock that a holder's `relinquish` takes.
    package func makeRoom(for bytes: Int64) -> Bool {
        if room.reserve(bytes) { return true }
        while true {
            let shortfall = room.shortfall(bytes)
            if shortfall > 0, (try? evict(shortfall)) ?? 0 == 0 { break }
            if room.reserve(bytes) { return true }
        }
        // More than is needed right now, as each discard costs a transaction: a sixteenth of the cap, at most two
        // extents.
        let slack = min(room.usage.cap / 16, 2 * BlockSize.extent)
        let objects = files.objects.map { ($0, $0.file.lastUse.load(ordering: .relaxed)) }
        for (object, _) in objects.sorted(by: { $0.1 < $1.1 }) {
            guard let holder = object.holder else { continue }
            if holder.relinquish(max(0, room.shortfall(bytes)) + slack) > 0, room.reserve(bytes) { return true }
        }
        return room.reserve(bytes)
    }

    /// Room that was made and not used, or no longer.
    package func release(_ bytes: Int64) { room.release(bytes) }

    /// Removes whole files that nobody holds, the longest unused first, until `wanted` bytes are free. Rows first.
    /// - Returns: bytes freed, 0 where there is nothing to evict.
    func evict(_ wanted: Int64) throws(CacheError) -> Int64 {
        let victims = try writer.use { (index) throws(CacheError) -> [(name: FileName?, bytes: Int64)] in
            var rows: [(row: ObjectRow, bytes: Int64)] = []
            var sum: Int64 = 0
            try index.transaction { () throws(CacheError) in
                for file in files.idle {
                    let lastUse = file.lastUse.load(ordering: .relaxed)
                    try index.run(
                        "UPDATE objects SET last_use = ? WHERE id = ?", [.integer(lastUse), .integer(file.row)])
                }
                try index.query("SELECT \(ObjectRow.columns) FROM objects ORDER BY last_use, id") {
                    let row = ObjectRow($0)
                    guard !files.isHeld(row.id) else { return true }
                    let bytes = files.file(row.id)?.filledBytes ?? row.cached
                    rows.append((row, bytes))
                    sum += bytes
                    return sum < wanted
                }
                for (row, _) in rows { try index.delete(row.id) }
            }
            for (row, _) in rows { files.drop(row.id) }
            return rows.map { ($0.row.name, $0.bytes) }
        }
        // Outside of the gate: removing a long file takes a while.
        for victim in victims {
            victim.name?.remove(in: directory.objects)
            room.release(victim.bytes)
        }
        return victims.reduce(0) { $0 + $1.bytes }
    }
}
