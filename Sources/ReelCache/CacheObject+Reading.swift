import Glibc
import ReelCore

extension CacheObject {
    /// As many bytes touch no more blocks than a word has bits.
    private static let mostAtOnce = 63 * Int(BlockSize.block)

    /// Copies bytes of blocks that the caller knows to be filled, or of the written parts of others. What the disk has and
    /// nobody has vouched for is held against its checksum: what was filled before the program started, at its first read;
    /// what no sync has made durable yet, at every read.
    /// - Parameter buffer: ends within the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> CacheRead {
        guard buffer.count > Self.mostAtOnce else { return readOnce(into: buffer, at: offset) }
        var damaged: [Range<Int>] = []
        for start in stride(from: 0, to: buffer.count, by: Self.mostAtOnce) {
            let part = UnsafeMutableRawBufferPointer(
                rebasing: buffer[start..<min(buffer.count, start + Self.mostAtOnce)])
            if case .damaged(let blocks) = readOnce(into: part, at: offset + Int64(start)) { damaged += blocks }
        }
        return damaged.isEmpty ? .bytes(buffer.count) : .damaged(damaged)
    }

    private func readOnce(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> CacheRead {
        let range = ByteRange(offset, offset + Int64(buffer.count))
        let blocks = file.blocks(touching: range)
        let now = store.clock.now()
        let (uncertain, isKnown, filled) = file.fill { state in
            state.use(blocks, now: now)
            return (state.uncertain(blocks), state.isKnown(blocks), state.map.filledBytes)
        }
        // The caller believes more than there is: it is told so.
        if !isKnown {
            let unknown = blocks.filter { block in
                file.memoryBlock(block) == nil && !file.fill { $0.isKnown(block..<block + 1) }
            }
            if !unknown.isEmpty { return .damaged(unknown.map { $0..<$0 + 1 }) }
        }
        let (count, fromMemory) = file.read(into: buffer, at: offset)
        guard count == buffer.count else {
            // Shorter: the file was cut. Not at all: the disk is sick, and what is fetched again is better not put there.
            if count < 0, file.hasFile { store.disk.failed(.system("pread", EIO)) }
            return .damaged([blocks] + file.doubt().map { $0..<$0 + 1 })
        }
        var toCheck = uncertain & ~fromMemory
        let all = ~UInt64(0) >> UInt64(64 - blocks.count)
        // What is looked at needs no other look.
        let isAllChecked = toCheck != 0 && toCheck | fromMemory == all
        if !isAllChecked, !file.isInMemory, file.hasLostBytes(of: filled) {
            // Somebody else's doing, or zeros that the filesystem keeps as holes.
            let holes = file.doubt().filter { block in !file.fill { $0.map[block] } || !isIntact(block) }
            if !holes.isEmpty { return .damaged(holes.map { $0..<$0 + 1 }) }
            file.countsNoBlocks()
            toCheck = ~fromMemory
        }
        if toCheck == 0 { return .bytes(buffer.count) }
        let bad = blocks.filter { block in
            toCheck & 1 << UInt64(block - blocks.lowerBound) != 0 && !isRight(block, in: buffer, of: range)
        }
        return bad.isEmpty ? .bytes(buffer.count) : .damaged(bad.map { $0..<$0 + 1 })
    }

    /// Whether what `buffer` has of a block that came from the disk is what was written there, or is so now; true also
    /// where nothing of the block counts any more, as whoever made it so has told.
    private func isRight(_ block: Int, in buffer: UnsafeMutableRawBufferPointer, of range: ByteRange) -> Bool {
        if isProven(block, in: buffer, of: range) { return true }
        let bytes = file.bytes(of: block)
        // It has moved meanwhile: it is in memory before it leaves the disk.
        if let memory = file.memoryBlock(block) {
            let part = range.clamped(to: bytes)
            memory.read(into: buffer.part(part, from: range.lower), at: Int(part.lower - bytes.lower))
            return true
        }
        return !file.fill { $0.map[block] || $0.partial.contains(block) }
    }

    private func isProven(_ block: Int, in buffer: UnsafeMutableRawBufferPointer, of range: ByteRange) -> Bool {
        let bytes = file.bytes(of: block)
        if !file.fill({ $0.map[block] }), file.readPieces(of: block, into: buffer, range) { return true }
        // Also where it has been filled since.
        guard file.fill({ $0.map[block] }), let sum = store.sum(of: block, in: file) else { return false }
        let isWhole = range.lower <= bytes.lower && bytes.upper <= range.upper
        let isProven =
            isWhole
            ? checksum(UnsafeRawBufferPointer(buffer.part(bytes, from: range.lower))) == sum
            : file.descriptor.read(bytes, sum, into: buffer, range)
        if isProven { file.fill { $0.verify(block) } }
        return isProven
    }

    /// Holds a filled block against its checksum, also where that was done before.
    /// - Returns: false where it is not what was written, and no read believes in it any more; true also where it is
    ///   not filled.
    func isIntact(_ block: Int) -> Bool {
        guard file.fill({ $0.map[block] }) else { return true }
        let found = file.withWhole(block) { checksum($0) }
        let wanted = file.memoryBlock(block) == nil ? store.sum(of: block, in: file) : found
        guard let found, found == wanted else {
            return !file.fill { state in
                state.doubt(block)
                return state.map[block]
            }
        }
        file.fill { $0.verify(block) }
        return true
    }
}

extension Store {
    /// The checksum that a block of this file must have; nil where the index does not tell.
    func sum(of block: Int, in file: DataFile) -> UInt64? {
        if let sum = file.fill({ $0.sum(of: block) }) { return sum }
        let extent = block / BlockSize.blocksPerExtent
        let sums = try? reader.use { (index) throws(CacheError) in try index.sums(of: file.row, extent: extent) }
        return sums?[block % BlockSize.blocksPerExtent]
    }
}
