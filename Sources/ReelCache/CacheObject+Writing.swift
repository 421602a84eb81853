import Glibc
import ReelCore

extension CacheObject {
    /// Writes all of `bytes`, and makes room for the blocks that they are the first of. What the disk does not take, as
    /// it is full, broken or gone, is kept in memory.
    /// - Parameter lost: called with blocks whose earlier bytes turned out to be lost, before anything of them changes: no
    ///   read may believe in them when it returns. These bytes are written all the same.
    /// - Throws: `.full` where neither disk nor memory has room, `.badLength`.
    package func write(
        _ bytes: UnsafeRawBufferPointer, at offset: Int64, lost: ([Range<Int>]) -> Void
    ) throws(CacheError) {
        guard !bytes.isEmpty else { return }
        guard offset >= 0, offset <= version.length, Int64(bytes.count) <= version.length - offset else {
            throw .badLength
        }
        let range = ByteRange(offset, offset + Int64(bytes.count))
        cutBack(lost)
        let blocks = file.blocks(touching: range)
        let new = file.fill { $0.untouched(blocks) }.filter { file.memoryBlock($0) == nil }
        let room = new.reduce(Int64(0)) { $0 + file.bytes(of: $1).count }
        let mayWrite = file.hasFile && store.disk.mayWriteData
        let hasRoom = mayWrite && (room == 0 || store.makeRoom(for: room))
        if hasRoom {
            let isOnDisk = !file.isInMemory || blocks.allSatisfy { file.memoryBlock($0) == nil }
            if isOnDisk, writeToDisk(bytes, range) { return }
            // What of it fitted goes again.
            for block in new { try? file.descriptor.punch(Int64(block) * BlockSize.block, BlockSize.block) }
            store.room.release(room)
        }
        for block in blocks {
            let part = range.clamped(to: file.bytes(of: block))
            try keepInMemory(bytes.part(part, from: range.lower), part, block, lost)
        }
    }

    private func writeToDisk(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange) -> Bool {
        let failures = file.fill { $0.failedSyncs }
        do throws(CacheError) {
            try file.change { () throws(CacheError) in try file.descriptor.write(bytes, at: range.lower) }
        } catch {
            store.disk.failed(error)
            // Somebody else may have filled the disk: the next write finds that the cap has shrunk.
            store.room.measure()
            return false
        }
        store.disk.dataWasWritten()
        file.wrote(bytes, range, hasRoom: true, failures: failures)
        return true
    }

    private func keepInMemory(
        _ bytes: UnsafeRawBufferPointer, _ part: ByteRange, _ block: Int, _ lost: ([Range<Int>]) -> Void
    ) throws(CacheError) {
        let lower = Int(part.lower - file.bytes(of: block).lower)
        if let living = file.memoryBlock(block) {
            living.write(bytes, at: lower)
        } else {
            // Filled on the disk: somebody asked for what was there.
            if file.fill({ $0.map[block] }) { return }
            let memory = try store.memoryBlock(file.bytes(of: block).count)
            let isHere = file.fill { $0.partial.contains(block) }
            if isHere, !file.readPieces(of: block, into: memory.whole, file.bytes(of: block)) {
                lost([block..<block + 1])
                file.forgetPieces(block..<block + 1)
            }
            memory.write(bytes, at: lower)
            // There first, and then no longer here.
            file.keep(block, in: memory)
            if isHere {
                let room = file.fill { $0.clear(block..<block + 1).partialBytes }
                try? file.descriptor.punch(Int64(block) * BlockSize.block, BlockSize.block)
                store.room.release(room)
            }
        }
        file.wrote(bytes, part, hasRoom: false)
    }

    /// A file that somebody has cut is made as long again as it must be, and doubted.
    private func cutBack(_ tell: ([Range<Int>]) -> Void) {
        guard file.hasFile, !file.descriptor.isLong(version.length) else { return }
        // While it is short, a read of what is gone comes back short; afterwards it would be zeros.
        let lost = file.doubt().map { $0..<$0 + 1 }
        tell(lost)
        lose(lost)
        if ftruncate(file.descriptor.number, Int(version.length)) != 0 { store.disk.failed(.last("ftruncate")) }
        store.damage.add(1, ordering: .relaxed)
    }
}
