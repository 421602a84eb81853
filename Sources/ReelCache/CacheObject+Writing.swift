import Glibc
import ReelCore

extension CacheObject {
    /// Writes all of `bytes`, and makes room for the blocks that they are the first of. What the disk does not take, as
    /// it is full, broken or gone, is kept in memory.
    /// - Returns: blocks whose earlier bytes turned out to be lost; these ones are written all the same.
    /// - Throws: `.full` where neither disk nor memory has room, `.badLength`.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(CacheError) -> [Int] {
        guard !bytes.isEmpty else { return [] }
        guard offset >= 0, offset <= version.length, Int64(bytes.count) <= version.length - offset else {
            throw .badLength
        }
        let range = ByteRange(offset, offset + Int64(bytes.count))
        let blocks = file.blocks(touching: range)
        var lost = cutBack()
        let new = file.fill { $0.untouched(blocks) }.filter { file.memoryBlock($0) == nil }
        let room = new.reduce(Int64(0)) { $0 + file.bytes(of: $1).count }
        let mayWrite = file.hasFile && store.disk.mayWriteData
        let hasRoom = mayWrite && (room == 0 || store.makeRoom(for: room))
        if hasRoom, !file.isInMemory || blocks.allSatisfy({ file.memoryBlock($0) == nil }) {
            if writeToDisk(bytes, range) { return lost }
            store.room.release(room)
        } else if hasRoom {
            store.room.release(room)
        }
        for block in blocks {
            let part = range.clamped(to: file.bytes(of: block))
            let lower = Int(part.lower - range.lower)
            let slice = UnsafeRawBufferPointer(rebasing: bytes[lower..<lower + Int(part.count)])
            if try !keepInMemory(slice, part, block) { lost.append(block) }
        }
        return lost
    }

    private func writeToDisk(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange) -> Bool {
        do throws(CacheError) {
            try file.descriptor.write(bytes, at: range.lower)
        } catch {
            store.disk.failed(error)
            // Somebody else may have filled the disk: the next write finds that the cap has shrunk.
            store.room.measure()
            return false
        }
        store.disk.dataWasWritten()
        file.wrote(bytes, range, toDisk: true)
        return true
    }

    /// - Returns: false where the block had bytes on the disk that cannot be had back.
    private func keepInMemory(_ bytes: UnsafeRawBufferPointer, _ part: ByteRange, _ block: Int) throws(CacheError)
        -> Bool
    {
        // Filled on the disk: somebody asked for what was there.
        if file.fill({ $0.map[block] }), file.memoryBlock(block) == nil { return true }
        let range = file.bytes(of: block)
        var isWhole = true
        let memory: MemoryBlock
        if let living = file.memoryBlock(block) {
            memory = living
        } else {
            memory = try store.memoryBlock(range.count)
            isWhole = move(block, to: memory)
        }
        memory.write(bytes, at: Int(part.lower - range.lower))
        file.keep(block, in: memory)
        file.wrote(bytes, part, toDisk: false)
        return isWhole
    }

    /// A block that is on the disk in part goes on in memory.
    private func move(_ block: Int, to memory: MemoryBlock) -> Bool {
        guard file.fill({ $0.partial.contains(block) }) else { return true }
        let isWhole = file.readBack(block, into: memory)
        let room = file.fill { $0.clear(block..<block + 1).partialBytes }
        if !isWhole { file.forgetPieces(block..<block + 1) }
        try? file.descriptor.punch(Int64(block) * BlockSize.block, BlockSize.block)
        store.room.release(room)
        return isWhole
    }

    /// A file that somebody has cut is made as long again as it must be, and doubted.
    /// - Returns: blocks that are gone.
    private func cutBack() -> [Int] {
        guard file.hasFile, let status = try? file.descriptor.status(), status.st_size != version.length else {
            return []
        }
        if ftruncate(file.descriptor.number, Int(version.length)) != 0 { store.disk.failed(.last("ftruncate")) }
        let lost = file.doubt()
        for block in lost { lose([block..<block + 1]) }
        store.damage.add(1, ordering: .relaxed)
        return lost
    }
}

extension DataFile {
    /// Copies what was written of a block to memory. - Returns: false where it is not what came.
    func readBack(_ block: Int, into memory: MemoryBlock) -> Bool {
        let range = bytes(of: block)
        guard let pieces = pieces(of: block) else { return false }
        for piece in pieces.all {
            let lower = Int(piece.range.lower - range.lower)
            let part = UnsafeMutableRawBufferPointer(rebasing: memory.whole[lower..<lower + Int(piece.range.count)])
            guard descriptor.read(into: part, at: piece.range.lower) == part.count else { return false }
        }
        return pieces.agree(with: memory.bytes, of: range)
    }
}
