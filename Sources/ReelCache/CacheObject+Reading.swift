import Glibc
import ReelCore

extension CacheObject {
    /// Copies bytes of blocks that the caller knows to be filled, or of the written parts of others. A block that was
    /// filled before the program started is held against its checksum at its first read.
    /// - Parameter buffer: ends within the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> CacheRead {
        let range = ByteRange(offset, offset + Int64(buffer.count))
        let blocks = file.blocks(touching: range)
        let now = store.clock.now()
        var (isVerified, isKnown, filled) = file.fill { state in
            state.use(blocks, now: now)
            return (state.isVerified(blocks), state.isKnown(blocks), state.bytesOnDisk)
        }
        // The caller believes more than there is: it is told so.
        if !isKnown {
            let unknown = blocks.filter { block in
                file.memoryBlock(block) == nil && !file.fill { $0.isKnown(block..<block + 1) }
            }
            if !unknown.isEmpty { return .damaged(unknown.map { $0..<$0 + 1 }) }
        }
        let count = file.read(into: buffer, at: offset)
        guard count == buffer.count else {
            // Shorter: the file was cut. Not at all: the disk is sick, and what is fetched again is better not put there.
            if count < 0, file.hasFile { store.disk.failed(.system("pread", EIO)) }
            return .damaged([blocks] + file.doubt().map { $0..<$0 + 1 })
        }
        if isVerified, !file.isInMemory, file.hasLostBytes(of: filled) {
            // Somebody else's doing, or zeros that the filesystem keeps as holes.
            let holes = file.doubt().filter { block in !file.fill { $0.map[block] } || !isIntact(block) }
            if !holes.isEmpty { return .damaged(holes.map { $0..<$0 + 1 }) }
            file.countsNoBlocks()
            isVerified = false
        }
        if isVerified { return .bytes(buffer.count) }
        let bad = check(blocks, buffer, range)
        return bad.isEmpty ? .bytes(buffer.count) : .damaged(bad)
    }

    /// Looks at every block that nobody has looked at yet. - Returns: those that are not what was written.
    private func check(_ blocks: Range<Int>, _ buffer: UnsafeMutableRawBufferPointer, _ range: ByteRange) -> [Range<
        Int
    >] {
        var bad: [Range<Int>] = []
        for block in file.fill({ $0.unverified(blocks) }) where file.memoryBlock(block) == nil {
            let bytes = file.bytes(of: block)
            let isWhole = range.lower <= bytes.lower && bytes.upper <= range.upper
            let found: UInt64?
            if isWhole {
                found = checksum(UnsafeRawBufferPointer(buffer.part(bytes, from: range.lower)))
            } else {
                found = file.withWhole(block) { checksum($0) }
            }
            if let found, found == store.sum(of: block, in: file) {
                file.fill { $0.verify(block) }
            } else if file.fill({ $0.map[block] }) {
                bad.append(block..<block + 1)
            }
        }
        return bad
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
