import ReelCore
import Synchronization

/// Whether another program has touched the file.
extension DataFile {
    /// As often as this in a row no count of blocks is short by chance: the filesystem compresses, or keeps zeros as
    /// holes.
    private static let believed = 64

    /// True where bytes of filled blocks have gone from the disk: cut and grown again, or punched.
    ///
    /// Fewer blocks than bytes alone mean nothing: while ext4 writes pages back it counts some for a moment neither as
    /// reserved nor as allocated, and what stat(2) adds up is short. Then there are no holes.
    /// - Parameter bytes: of filled blocks, known before.
    func hasLostBytes(of bytes: Int64) -> Bool {
        let seen = shortCounts.load(ordering: .relaxed)
        guard seen < DataFile.believed else { return false }
        if descriptor.holds(bytes, of: length) {
            if seen > 0 { shortCounts.store(0, ordering: .relaxed) }
            return false
        }
        guard hasNoHoles else { return true }
        shortCounts.add(1, ordering: .relaxed)
        return false
    }

    /// As long as it must be, with data wherever some was written.
    var hasNoHoles: Bool { descriptor.isLong(length) && holes().isEmpty }

    /// All blocks were looked at, and are what was written: counting them tells nothing here.
    func countsNoBlocks() {
        if descriptor.isLong(length) { shortCounts.store(DataFile.believed, ordering: .relaxed) }
    }

    /// Another program has touched the file: its blocks on the disk are looked at before they count.
    /// - Returns: blocks with holes where bytes were written.
    func doubt() -> [Int] {
        withBlocks { $0.doubt() }
        return holes()
    }

    /// Blocks on the disk with holes where bytes were written.
    private func holes() -> [Int] {
        let (filled, flights, isWhole) = withBlocks { ($0.filled, $0.inFlight, $0.isComplete && $0.inFlight.isEmpty) }
        if isWhole, descriptor.hasData(ByteRange(0, length)) { return [] }
        var holes = flights.filter { _, flight in
            flight.memory == nil && !flight.pieces.all.allSatisfy { descriptor.hasData($0.range) }
        }.map(\.key)
        filled.forEachFilled { block in
            if flights[block] == nil, !descriptor.hasData(bytes(of: block)) { holes.append(block) }
        }
        return holes
    }
}
