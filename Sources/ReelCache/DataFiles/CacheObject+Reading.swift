import Glibc
import ReelCore

extension CacheObject {
    /// This many bytes touch no more blocks than a word has bits.
    private static let mostAtOnce = 63 * Int(BlockSize.block)

    /// Copies bytes that are there. Compares blocks with their checksums: blocks filled before the program started at
    /// their first read, blocks that are not durable yet at every read.
    /// - Parameter buffer: ends within the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> CacheRead {
        guard buffer.count > Self.mostAtOnce else { return readOnce(into: buffer, at: offset) }
        var damaged: [Range<Int>] = []
        for start in stride(from: 0, to: buffer.count, by: Self.mostAtOnce) {
            let part = UnsafeMutableRawBufferPointer(
                rebasing: buffer[start..<min(buffer.count, start + Self.mostAtOnce)])
            switch readOnce(into: part, at: offset + Int64(start)) {
            case .bytes: continue
            case .missing: return .missing
            case .damaged(let blocks): damaged += blocks
            }
        }
        return damaged.isEmpty ? .bytes(buffer.count) : .damaged(damaged)
    }

    /// The state of the table before a read copies bytes.
    private struct Look: Sendable {
        var uncertain: UInt64
        var bytesOnDisk: Int64
        var isInMemory: Bool
        var removals: UInt64
    }

    private func readOnce(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> CacheRead {
        let range = ByteRange(offset, offset + Int64(buffer.count))
        let blocks = file.blocks(touching: range)
        let now = store.clock.now()
        while true {
            let look = file.withBlocks { table -> Look? in
                guard table.covers(range) else { return nil }
                table.use(blocks, now: now)
                return Look(
                    uncertain: table.uncertain(blocks), bytesOnDisk: table.states.bytesOnDisk,
                    isInMemory: table.isInMemory,
                    removals: table.removals)
            }
            guard let look else { return .missing }
            let bad =
                store.opened.flatMap { file.cipher == nil ? nil : $0 }.map { readSealed(into: buffer, range, $0) }
                ?? readAndCheck(into: buffer, range, look)
            // The read may have met holes: blocks have left since, or moved to memory.
            guard file.removals == look.removals else { continue }
            if bad.isEmpty { return .bytes(buffer.count) }
            loseDamaged(bad)
            return .damaged(bad)
        }
    }

    /// - Returns: damaged blocks, also elsewhere in the file.
    private func readAndCheck(
        into buffer: UnsafeMutableRawBufferPointer, _ range: ByteRange, _ look: Look
    ) -> [Range<Int>] {
        let blocks = file.blocks(touching: range)
        let (count, fromMemory) =
            look.isInMemory
            ? file.read(into: buffer, at: range.lower) : (file.descriptor.read(into: buffer, at: range.lower), 0)
        guard count == buffer.count else {
            // Fewer bytes: the file was cut. An error: the disk is sick, and the next bytes better go elsewhere.
            if count < 0, file.hasFile { store.disk.failed(.system("pread", EIO)) }
            return [blocks] + file.doubt().filter { !blocks.contains($0) }.map { $0..<$0 + 1 }
        }
        var toCheck = look.uncertain & ~fromMemory
        let all = ~UInt64(0) >> UInt64(64 - blocks.count)
        // Checksums prove more than a count of the blocks on the disk.
        let isAllChecked = toCheck != 0 && toCheck | fromMemory == all
        if !isAllChecked, !look.isInMemory, file.hasLostBytes(of: look.bytesOnDisk) {
            // Another program punched holes, or the filesystem keeps zeros as holes.
            let holes = file.doubt().filter { block in !file.isFilled(block) || !isIntact(block) }
            if !holes.isEmpty { return holes.map { $0..<$0 + 1 } }
            file.countsNoBlocks()
            toCheck = ~fromMemory
        }
        if toCheck == 0 { return [] }
        return blocks.filter { block in
            toCheck & 1 << UInt64(block - blocks.lowerBound) != 0 && !isRight(block, in: buffer, of: range)
        }.map { $0..<$0 + 1 }
    }

    /// Whether the bytes of a block in `buffer` have its checksum, if need be after a second read.
    private func isRight(_ block: Int, in buffer: UnsafeMutableRawBufferPointer, of range: ByteRange) -> Bool {
        let bytes = file.bytes(of: block)
        if !file.isFilled(block), file.readPieces(of: block, into: buffer, range) { return true }
        // This also covers a block that has been filled since.
        guard file.isFilled(block), let sum = store.sum(of: block, in: file) else { return false }
        let isWhole = range.lower <= bytes.lower && bytes.upper <= range.upper
        let isProven =
            isWhole
            ? checksum(UnsafeRawBufferPointer(buffer.part(bytes, from: range.lower))) == sum.plain
            : file.descriptor.read(bytes, sum.plain, into: buffer, range)
        if isProven { file.withBlocks { $0.verify(block) } }
        return isProven
    }

    /// Compares a filled block with its checksum, even if that was done before.
    /// - Returns: false where it is damaged, and no read believes in it any more; true also where it is not filled.
    func isIntact(_ block: Int) -> Bool {
        guard file.isFilled(block) else { return true }
        let sum = store.sum(of: block, in: file)
        guard file.memoryBlock(block) != nil || sum.map({ file.proves(block, $0) }) ?? false else {
            if let sum { store.opened?.forget(OpenedBlocks.Name(row: file.row, block: block, sum: sum)) }
            return file.withBlocks { blocks in
                blocks.doubt(block)
                return !blocks[block].isFilled
            }
        }
        file.withBlocks { $0.verify(block) }
        return true
    }
}
