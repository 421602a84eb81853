import Glibc
import ReelCore
import Synchronization

extension Store {
    /// The object of a version: the living instance, or the one of the index with what it holds, or a new empty one.
    /// Where disk or index do not take it, one that lives in memory alone. Of a version with an open end always a new one.
    package func object(for version: Version) throws(CacheError) -> CacheObject {
        guard version.length >= 0, version.length <= Self.longestFile || version.isOpenEnded else { throw .badLength }
        do throws(CacheError) {
            return try objectOnDisk(version)
        } catch {
            if error == .closed { throw error }
            disk.failed(error)
            return objectInMemory(version)
        }
    }

    private func objectOnDisk(_ version: Version) throws(CacheError) -> CacheObject {
        let now = clock.now()
        return try writer.use { (index) throws(CacheError) -> CacheObject in
            if !version.isOpenEnded, let row = try index.row(of: version) {
                if row.isSuperseded {
                    try index.run("UPDATE objects SET superseded = 0 WHERE id = ?", [.integer(row.id)])
                    files.supersede(row.id, false)
                }
                if let file = try openFile(row, index) {
                    try? index.know(version.validator, of: row)
                    file.use(now)
                    return files.object(file, self)
                }
            }
            guard disk.mayWriteIndex, disk.mayWriteData else { throw disk.failure ?? .full }
            return files.object(try create(version, index, now), self)
        }
    }

    private func objectInMemory(_ version: Version) -> CacheObject {
        if !version.isOpenEnded, let file = files.all.first(where: { $0.row < 0 && $0.version == version }) {
            return files.object(file, self)
        }
        let file = DataFile(
            row: files.rowInMemory(), version: version, name: nil, descriptor: .none,
            blocks: BlockTable(length: version.length), lastUse: clock.now())
        return files.object(file, self)
    }

    func openFile(_ row: ObjectRow, _ index: Connection) throws(CacheError) -> DataFile? {
        if let file = files.file(row.id) { return file }
        if let descriptor = row.name?.open(in: directory.objects, length: row.version.length) {
            var blocks = try index.blocks(of: row)
            if let verified = seals.open(row.id, descriptor) { blocks.trust(verified) }
            let filled = blocks.filledBytes
            if !blocks.isComplete || filled != row.cached {
                // A disk that takes nothing does not take this either, and needs no tidying then.
                let values: [Value] = [.integer(filled), .integer(row.id)]
                try? index.run("UPDATE objects SET cached = ?, unclean = 1 WHERE id = ?", values)
            }
            let isPinned = try index.isPinned(row.version.key)
            // The account took the row's word for it; the map knows better.
            if filled > row.cached { room.add(filled - row.cached) }
            if filled < row.cached { room.release(row.cached - filled) }
            return DataFile(row, descriptor, blocks, isPinned: isPinned)
        }
        damage.add(1, ordering: .relaxed)
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
        let bytes = files.drop(row.id)?.bytesOnDisk ?? row.cached
        remove(row.name)
        room.release(bytes)
    }

    private func create(_ version: Version, _ index: Connection, _ now: Int64) throws(CacheError) -> DataFile {
        let name = FileName.random()
        let descriptor = try name.create(in: directory.objects, length: version.isOpenEnded ? 0 : version.length)
        reached(.fileMade)
        do throws(CacheError) {
            let row = try index.insert(version, name, lastUse: now)
            reached(.rowInserted)
            return DataFile(
                row: row, version: version, name: name, descriptor: descriptor,
                blocks: BlockTable(length: version.length), lastUse: now,
                isPinned: try index.isPinned(version.key))
        } catch {
            name.remove(in: directory.objects)
            throw error
        }
    }

    /// See `CacheObject.record`. The row of an open end has a length that no file has: a crash before leaves nothing.
    func record(_ length: Int64, of file: DataFile) -> Bool {
        guard file.hasFile else { return false }
        do throws(CacheError) {
            guard file.withBlocks({ $0.isOnDisk(upTo: length) }) else { throw .full }
            try file.change { () throws(CacheError) in
                if ftruncate(file.descriptor.number, Int(length)) != 0 { throw .last("ftruncate") }
            }
            var version = file.version
            version.length = length
            try writer.use { (index) throws(CacheError) in
                if let old = try index.row(of: version), !old.isSuperseded { try remove(old, index) }
                try index.run("UPDATE objects SET length = ? WHERE id = ?", [.integer(length), .integer(file.row)])
            }
            return true
        } catch {
            if error != .full { disk.failed(error) }
            files.supersede(file.row, true)
            return false
        }
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
            let sql = "SELECT id, \(ObjectRow.cached) FROM objects WHERE key = ? AND NOT superseded"
            try index.query(sql, [.text(key)]) {
                rows.append(($0.integer(0), $0.integer(1)))
                return true
            }
            return rows
        }
        return (rows ?? []).reduce(0) { $0 + (files.file($1.id)?.bytesOnDisk ?? $1.cached) }
    }

    /// The same of all keys that begin with `prefix`, those of which nothing is cached left out.
    /// - Parameter isDeep: also of those with a slash behind it, in their path.
    package func cachedBytes(below prefix: String, isDeep: Bool) -> [ExactText: Int64] {
        // Text in the index's order, which is that of the bytes: up to the first that begins with something higher.
        let sql = """
            SELECT id, key, \(ObjectRow.cached) FROM objects WHERE key >= ? AND key < ? AND NOT superseded
            """
        let rows = try? reader.use { (index) throws(CacheError) in
            var rows: [(id: Int64, key: ExactText, cached: Int64)] = []
            try index.query(sql, [.text(prefix), .text(prefix + "\u{10FFFF}")]) {
                let key = $0.text(1)
                let name = key.utf8.dropFirst(prefix.utf8.count).prefix { $0 != UInt8(ascii: "?") }
                if isDeep || !name.contains(UInt8(ascii: "/")) {
                    rows.append(($0.integer(0), ExactText(key), $0.integer(2)))
                }
                return true
            }
            return rows
        }
        var result: [ExactText: Int64] = [:]
        for row in rows ?? [] {
            let bytes = files.file(row.id)?.bytesOnDisk ?? row.cached
            if bytes > 0 { result[row.key, default: 0] += bytes }
        }
        return result
    }

    /// The last instance of an object may be gone; its file is tidied with the next commit.
    func closed(_ file: DataFile) {
        files.closed(file)
        committer.schedule()
    }

    /// - Parameter unlessHeld: nothing is done where somebody holds the file: what he believes to be there must stay.
    func discard(_ blocks: Range<Int>, of file: DataFile, unlessHeld: Bool = false) throws(CacheError) {
        guard file.row >= 0 else {
            _ = file.clear(blocks)
            return
        }
        try writer.use { (index) throws(CacheError) in
            // What is idle under the gate stays idle there.
            if unlessHeld, files.isHeld(file.row) { return }
            guard let cleared = file.clear(blocks) else { throw .busy }
            do throws(CacheError) {
                if !cleared.rows.isEmpty { try index.empty(cleared, of: file) }
            } catch {
                file.withBlocks { $0.putBack(cleared) }
                committer.schedule()
                // Nothing is left of what was written of others; nor is their room.
                room.release(cleared.partialBytes)
                disk.failed(error)
                throw error
            }
            reached(.discardRowsCommitted)
            // No row tells of them any more, whatever the disk says to the hole.
            room.release(cleared.bytes + cleared.partialBytes)
            // Whole blocks, also the short last one: a hole that ends inside a page of the file frees no page.
            let count = Int64(blocks.count) * BlockSize.block
            if count > 0, cleared.bytes + cleared.partialBytes > 0 {
                try file.change { () throws(CacheError) in
                    try file.descriptor.punch(Int64(blocks.lowerBound) * BlockSize.block, count)
                }
            }
            reached(.discardPunched)
        }
    }
}

extension Connection {
    /// Durable when it returns.
    fileprivate func empty(_ cleared: BlockTable.Cleared, of file: DataFile) throws(CacheError) {
        let durableBytes = file.withBlocks { $0.durableBytes }
        try transaction { () throws(CacheError) in
            try write(cleared.rows, of: file)
            let sql = "UPDATE objects SET cached = ?, unclean = 1 WHERE id = ?"
            try run(sql, [.integer(durableBytes), .integer(file.row)])
        }
    }
}
