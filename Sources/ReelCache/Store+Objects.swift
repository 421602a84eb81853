import Glibc
import ReelCore

extension ObjectRow {
    /// The data file with its map; nil where the file is not what the index says.
    func open(in objects: borrowing Descriptor, map: BlockMap) -> DataFile? {
        guard let name, let descriptor = name.open(in: objects, length: version.length) else { return nil }
        let file = DataFile(
            row: id, version: version, name: name, descriptor: descriptor, map: map, lastUse: lastUse)
        return file.holds(map) ? file : nil
    }
}

extension Store {
    /// The object of a version: the living instance, or the one of the index with its map, or a new empty one.
    package func object(for version: Version) throws(CacheError) -> CacheObject {
        guard version.length >= 0, version.length <= Self.longestFile else { throw .badLength }
        let now = clock.now()
        return try writer.use { (index) throws(CacheError) -> CacheObject in
            if let row = try index.row(of: version) {
                if row.isSuperseded {
                    try index.run("UPDATE objects SET superseded = 0 WHERE id = ?", [.integer(row.id)])
                    files.supersede(row.id, false)
                }
                if let file = try openFile(row, index) {
                    try index.know(version.validator, of: row)
                    file.lastUse.max(now, ordering: .relaxed)
                    return files.object(file, self)
                }
            }
            return files.object(try create(version, index, now), self)
        }
    }

    private func openFile(_ row: ObjectRow, _ index: Connection) throws(CacheError) -> DataFile? {
        if let file = files.file(row.id), !file.isBroken.load(ordering: .relaxed) { return file }
        let map = try index.map(of: row)
        if files.file(row.id) == nil, let file = row.open(in: directory.objects, map: map) {
            if !map.isComplete { try index.run("UPDATE objects SET unclean = 1 WHERE id = ?", [.integer(row.id)]) }
            // The account took the row's word for it; the map knows better.
            if map.filledBytes > row.cached { room.add(map.filledBytes - row.cached) }
            if map.filledBytes < row.cached { room.release(row.cached - map.filledBytes) }
            return file
        }
        try remove(row, index)
        return nil
    }

    /// Takes an object out of index, directory and account; rows first. One that is held goes with its last holder.
    private func remove(_ row: ObjectRow, _ index: Connection) throws(CacheError) {
        if files.isHeld(row.id) {
            try index.run("UPDATE objects SET superseded = 1 WHERE id = ?", [.integer(row.id)])
            files.supersede(row.id, true)
            return
        }
        try index.transaction { () throws(CacheError) in try index.delete(row.id) }
        let bytes = files.drop(row.id)?.filledBytes ?? row.cached
        row.name?.remove(in: directory.objects)
        room.release(bytes)
    }

    private func create(_ version: Version, _ index: Connection, _ now: Int64) throws(CacheError) -> DataFile {
        let name = FileName.random()
        let descriptor = try name.create(in: directory.objects, length: version.length)
        do throws(CacheError) {
            let row = try index.insert(version, name, lastUse: now)
            return DataFile(
                row: row, version: version, name: name, descriptor: descriptor,
                map: BlockMap(length: version.length), lastUse: now)
        } catch {
            name.remove(in: directory.objects)
            throw error
        }
    }

    /// Takes a whole file in as a complete object, to be committed.
    func adopt(_ version: Version, _ name: FileName, _ descriptor: consuming Descriptor) throws(CacheError)
        -> CacheObject
    {
        guard ftruncate(descriptor.number, Int(version.length)) == 0 else { throw .last("ftruncate") }
        let now = clock.now()
        var descriptor = Optional(descriptor)
        let object = try writer.use { (index) throws(CacheError) -> CacheObject in
            if let old = try index.row(of: version), !old.isSuperseded { try remove(old, index) }
            let row = try index.insert(version, name, lastUse: now)
            let file = DataFile(
                row: row, version: version, name: name, descriptor: descriptor.take()!,
                map: BlockMap(length: version.length), lastUse: now)
            file.fill { $0.fillAll() }
            return files.object(file, self)
        }
        filled(version.length)
        return object
    }

    /// A superseded version: goes at once, or with its last holder. Nothing happens where it is not known.
    package func forget(_ version: Version) {
        try? writer.use { (index) throws(CacheError) in
            if let row = try index.row(of: version), !row.isSuperseded { try remove(row, index) }
        }
    }

    /// Bytes of filled blocks under this key; 0 where nothing of it is cached.
    package func cachedBytes(of key: String) -> Int64 {
        let rows = try? reader.use { (index) throws(CacheError) in
            var rows: [(id: Int64, cached: Int64)] = []
            let sql = "SELECT id, cached FROM objects WHERE key = ? AND NOT superseded"
            try index.query(sql, [.text(key)]) {
                rows.append(($0.integer(0), $0.integer(1)))
                return true
            }
            return rows
        }
        return (rows ?? []).reduce(0) { $0 + (files.file($1.id)?.filledBytes ?? $1.cached) }
    }

    /// What the cache holds, for `status`; the last used first.
    package func objects() -> [ObjectSummary] {
        let rows = try? reader.use { (index) throws(CacheError) in
            try index.rows(where: "NOT superseded ORDER BY last_use DESC")
        }
        return (rows ?? []).map { row in
            let file = files.file(row.id)
            return ObjectSummary(
                key: row.version.key, length: row.version.length, cachedBytes: file?.filledBytes ?? row.cached,
                lastUse: file?.lastUse.load(ordering: .relaxed) ?? row.lastUse)
        }
    }

    /// The last instance of an object may be gone; its file is tidied with the next commit.
    func closed(_ file: DataFile) {
        files.closed(file)
        committer.schedule()
    }

    func discard(_ blocks: Range<Int>, of file: DataFile) throws(CacheError) {
        try writer.use { (index) throws(CacheError) in
            let cleared = file.fill { $0.clear(blocks) }
            do throws(CacheError) {
                if !cleared.rows.isEmpty { try index.empty(cleared, of: file) }
            } catch {
                file.fill { $0.putBack(cleared) }
                throw error
            }
            file.fill { $0.confirm(cleared) }
            // Whole blocks, also the short last one: a hole that ends inside a page of the file frees no page.
            let count = Int64(blocks.count) * BlockSize.block
            // No row tells of them any more, whatever the disk says to the hole.
            room.release(cleared.bytes)
            if count > 0 { try file.descriptor.punch(Int64(blocks.lowerBound) * BlockSize.block, count) }
        }
    }
}

extension Connection {
    /// Durable when it returns.
    fileprivate func empty(_ cleared: FillState.Cleared, of file: DataFile) throws(CacheError) {
        var durable = file.fill { $0.durable }
        for row in cleared.rows { durable.load(extent: row.extent, word: row.word) }
        try transaction { () throws(CacheError) in
            try write(cleared.rows, of: file.row)
            let sql = "UPDATE objects SET cached = ?, unclean = 1 WHERE id = ?"
            try run(sql, [.integer(durable.filledBytes), .integer(file.row)])
        }
    }
}
