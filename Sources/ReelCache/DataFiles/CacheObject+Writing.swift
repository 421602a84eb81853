import Glibc
import ReelCore

extension CacheObject {
    /// Writes all of `bytes`, reserves space for blocks that were empty, and seals those that become whole. Keeps bytes
    /// in memory that the disk does not take. Bytes of a block that leaves meanwhile do not count, nor does a block
    /// whose earlier bytes are lost: `present` says which bytes are there.
    /// - Throws: `.full` where neither disk nor memory has room, `.badLength`.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(CacheError) {
        guard !bytes.isEmpty else { return }
        let most = file.isOpenEnded ? BlockSize.longestFile : file.length
        guard offset >= 0, offset <= most, Int64(bytes.count) <= most - offset else { throw .badLength }
        let range = ByteRange(offset, offset + Int64(bytes.count))
        restoreLength()
        let blocks = file.blocks(touching: range)
        if file.cipher != nil {
            // One change, as each looks at the file twice.
            return try file.change { () throws(CacheError) in
                for block in blocks {
                    let part = range.clamped(to: file.bytes(of: block))
                    let slice = bytes.part(part, from: range.lower)
                    if part == file.bytes(of: block), writeSealed(slice, block) { continue }
                    try keepInMemory(slice, part, block)
                }
            }
        }
        let (new, isInMemory) = file.withBlocks { table in
            (table.untouched(blocks), blocks.contains { table.inFlight[$0]?.memory != nil })
        }
        if !isInMemory, file.hasFile, store.disk.mayWriteData, writeToDisk(bytes, range, new) { return }
        for block in blocks {
            let part = range.clamped(to: file.bytes(of: block))
            try keepInMemory(bytes.part(part, from: range.lower), part, block)
        }
    }

    /// - Parameter new: blocks of which these are the first bytes.
    /// - Returns: false where the quota has no space left, or the disk does not take the bytes.
    private func writeToDisk(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange, _ new: [Int]) -> Bool {
        let reserved = new.reduce(Int64(0)) { $0 + file.bytes(of: $1).count }
        guard reserved == 0 || store.evictor.reserve(reserved) else { return false }
        let failures = file.withBlocks { table in
            table.begin(new)
            return table.failedSyncs
        }
        do throws(CacheError) {
            try file.change { () throws(CacheError) in try file.descriptor.write(bytes, at: range.lower) }
        } catch {
            store.disk.failed(error)
            // Other programs may have filled the disk: measured now, the cap shrinks for the next write.
            store.quota.measure()
            // The bytes that were written go again.
            store.quota.release(file.withBlocks { $0.cancel(new) })
            for block in new { try? file.punch(block..<block + 1) }
            return false
        }
        store.disk.dataWasWritten()
        for block in file.blocks(touching: range) {
            let part = range.clamped(to: file.bytes(of: block))
            add(bytes.part(part, from: range.lower), part, block, failures)
        }
        return true
    }

    private func keepInMemory(
        _ bytes: UnsafeRawBufferPointer, _ part: ByteRange, _ block: Int
    ) throws(CacheError) {
        let whole = file.bytes(of: block)
        let (state, living) = file.withBlocks { ($0[block], $0.inFlight[block]?.memory) }
        // It was fetched although it was there.
        if state.isFilled { return }
        let memory: MemoryBlock
        if let living { memory = living } else { memory = try store.evictor.memoryBlock(whole.count) }
        if living == nil, state == .partial, !file.readPieces(of: block, into: memory.whole, whole) {
            loseDamaged([block..<block + 1])
        }
        memory.write(bytes, at: Int(part.lower - whole.lower))
        if living == nil {
            let reserved = file.withBlocks { $0.moveToMemory(block, memory) }
            if reserved > 0 { try? file.punch(block..<block + 1) }
            store.quota.release(reserved)
        }
        add(bytes, part, block, nil)
    }

    /// Bytes are in their place. A block is filled, and has its
    /// checksum, from here on.
    private func add(_ bytes: UnsafeRawBufferPointer, _ part: ByteRange, _ block: Int, _ failures: Int?) {
        let whole = file.withBlocks { table in
            table.add(bytes, at: part, of: block, failures: failures) ? table.inFlight[block]?.pieces : nil
        }
        guard let whole else { return }
        if sealFromMemory(block) { return }
        guard let sum = sum(of: block, whole) else { return loseDamaged([block..<block + 1]) }
        let now = store.clock.now()
        let isOnDisk = file.withBlocks { $0.seal(block, sum, now: now) && $0[block] != .memory }
        if isOnDisk { store.committer.filled(file.bytes(of: block).count) }
    }

    /// The checksum of a block of which all bytes came; nil where they are no longer there.
    private func sum(of block: Int, _ pieces: Pieces) -> BlockSum? {
        let range = file.bytes(of: block)
        if let sum = pieces.whole(range) { return BlockSum(plain: sum) }
        return file.withWhole(block) { pieces.agree(with: $0, of: range) ? BlockSum(plain: checksum($0)) : nil } ?? nil
    }

    /// Makes a file that another program has cut as long again as it must be, and doubts its blocks.
    private func restoreLength() {
        // A file with an open end is as long as its last written byte; if it is cut, the checksums do not agree.
        guard file.hasFile, !file.isOpenEnded, !file.descriptor.isLong(file.length) else { return }
        // Before ftruncate: a read of the missing bytes comes back short now, and would find zeros afterwards.
        lose(file.doubt().map { $0..<$0 + 1 })
        if ftruncate(file.descriptor.number, Int(file.length)) != 0 { store.disk.failed(.last("ftruncate")) }
        store.found(damaged: 1)
    }
}
