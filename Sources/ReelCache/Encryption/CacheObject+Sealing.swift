import Glibc
import ReelCore

/// How the bytes of an encrypted file are read and written. A block is encrypted once it is whole, and until then it is
/// in memory: no key is ever used twice for the same nonce, and after a kill a block that was not whole is forgotten as
/// it is in a plain cache.
extension CacheObject {
    /// Copies bytes that are there; no byte counts before its quarter of the block has been decrypted and is right.
    /// - Returns: damaged blocks.
    func readSealed(into buffer: UnsafeMutableRawBufferPointer, _ range: ByteRange, _ opened: OpenedBlocks)
        -> [Range<Int>]
    {
        var bad: [Range<Int>] = []
        for block in file.blocks(touching: range) {
            // Once: a file that grows meanwhile has more bytes in its last block, for which there is no memory.
            let whole = file.bytes(of: block)
            let part = range.clamped(to: whole)
            let slice = buffer.part(part, from: range.lower)
            let inside = Int(part.lower - whole.lower)..<Int(part.upper - whole.lower)
            if let memory = file.memoryBlock(block) {
                memory.read(into: slice, at: inside.lowerBound)
                continue
            }
            guard let sum = store.sum(of: block, in: file) else {
                bad.append(block..<block + 1)
                continue
            }
            let name = OpenedBlocks.Name(row: file.row, block: block, sum: sum)
            var isRight = opened.read(name, inside, into: slice)
            if !isRight {
                let quarters = BlockCipher.quarters(around: inside, of: Int(whole.count))
                isRight =
                    part == whole
                    ? open(block, whole, quarters, sum, in: slice)
                    : opened.read(name, inside, of: quarters, into: slice) { open(block, whole, quarters, sum, in: $0) }
            }
            if !isRight { bad.append(block..<block + 1) }
        }
        return bad
    }

    /// Reads and decrypts quarters of a block. - Returns: false where they are damaged.
    private func open(
        _ block: Int, _ whole: ByteRange, _ quarters: Range<Int>, _ sum: BlockSum,
        in memory: UnsafeMutableRawBufferPointer
    ) -> Bool {
        let count = file.descriptor.read(into: memory, at: whole.lower + Int64(quarters.lowerBound))
        // The disk is sick, and the next bytes better go elsewhere.
        if count < 0 { store.disk.failed(.system("pread", EIO)) }
        guard count == memory.count, let cipher = file.cipher else { return false }
        return cipher.open(memory, quarters, of: Int(whole.count), block: block, sum)
    }

    /// Encrypts and writes a whole block of which no byte was there.
    /// - Returns: false where the quota has no space left, or the disk does not take it.
    func writeSealed(_ bytes: UnsafeRawBufferPointer, _ block: Int) -> Bool {
        guard file.withBlocks({ $0[block] == .empty }), let written = write(bytes, block) else { return false }
        let now = store.clock.now()
        finish(block, written) { table in
            table.begin([block])
            return table.noteWritten(block, written.sum, room: written.count, failures: written.failures)
                && table.sealWritten(block, now: now)
        }
        return true
    }

    /// The same of a block that has become whole in memory, which it leaves then.
    func sealFromMemory(_ block: Int) -> Bool {
        guard file.cipher != nil, let memory = file.memoryBlock(block),
            let written = write(memory.bytes, block, memory.buffer)
        else { return false }
        let now = store.clock.now()
        finish(block, written) { table in
            table.noteWritten(block, written.sum, room: written.count, failures: written.failures)
                && table.sealWritten(block, now: now)
        }
        return true
    }

    /// Encrypts and writes the short last block of a version whose end has come. It stays in memory until `settle`.
    func sealEnd(_ length: Int64) {
        let (block, rest) = length.quotientAndRemainder(dividingBy: BlockSize.block)
        guard rest > 0, let memory = file.memoryBlock(Int(block)) else { return }
        let bytes = UnsafeRawBufferPointer(rebasing: memory.bytes[..<Int(rest)])
        guard let written = write(bytes, Int(block), memory.buffer) else { return }
        let isNoted = file.withBlocks {
            $0.noteWritten(Int(block), written.sum, room: rest, failures: written.failures)
        }
        if !isNoted { store.quota.release(rest) }
    }

    private struct Written: Sendable {
        var sum: BlockSum
        var count: Int64
        /// `BlockTable.failedSyncs` before the write.
        var failures: Int
    }

    /// - Parameter buffer: holds the bytes, which do not change any more, nil if they are the caller's.
    /// - Returns: nil where the bytes are not on the disk.
    private func write(_ bytes: UnsafeRawBufferPointer, _ block: Int, _ buffer: BlockBuffer? = nil) -> Written? {
        let count = Int64(bytes.count)
        guard let cipher = file.cipher, store.disk.mayWriteData, store.evictor.reserve(count) else { return nil }
        let failures = file.withBlocks { $0.failedSyncs }
        do throws(CacheError) {
            let sum = try withScratch(bytes.count) { (memory) -> Result<BlockSum, CacheError> in
                let sum = cipher.seal(bytes, into: memory, block: block)
                do throws(CacheError) {
                    try file.change { () throws(CacheError) in
                        try file.descriptor.write(
                            UnsafeRawBufferPointer(memory), at: Int64(block) * BlockSize.block)
                    }
                    return .success(sum)
                } catch {
                    return .failure(error)
                }
            }.get()
            store.disk.dataWasWritten()
            store.opened?.keep(bytes, OpenedBlocks.Name(row: file.row, block: block, sum: sum), buffer)
            return Written(sum: sum, count: count, failures: failures)
        } catch {
            store.disk.failed(error)
            // Other programs may have filled the disk: measured now, the cap shrinks for the next write.
            store.quota.measure()
            store.quota.release(count)
            try? file.punch(block..<block + 1)
            return nil
        }
    }

    /// - Parameter seal: false where the block has left meanwhile: it is nothing then.
    private func finish(_ block: Int, _ written: Written, _ seal: @Sendable (inout BlockTable) -> Bool) {
        guard file.withBlocks(seal) else {
            store.quota.release(written.count)
            try? file.punch(block..<block + 1)
            return
        }
        store.committer.filled(written.count)
    }
}
