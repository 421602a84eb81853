import ReelCore
import Synchronization

/// Finds out whether another program has touched the file.
extension DataFile {
    /// A count of blocks that is short so often in a row is no chance: the filesystem compresses, or keeps zeros as
    /// holes.
    private static let believed = 64

    /// True where bytes of filled blocks have gone from the disk: the file was cut and has grown again, or it was
    /// punched.
    ///
    /// Too few blocks alone prove nothing: while ext4 writes pages back, it counts some for a moment neither as
    /// reserved nor as allocated, and the sum of stat(2) is short. The file has no holes then.
    /// - Parameter bytes: in filled blocks, counted before the read.
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

    /// Whether the file is as long as it must be, with data in all written places.
    var hasNoHoles: Bool { descriptor.isLong(length) && holes().isEmpty }

    /// All blocks were compared with their checksums and are right: counting them proves nothing here.
    func countsNoBlocks() {
        if descriptor.isLong(length) { shortCounts.store(DataFile.believed, ordering: .relaxed) }
    }

    /// Another program has touched the file: its blocks on the disk are verified anew before they count.
    /// - Returns: blocks with holes where bytes were written.
    func doubt() -> [Int] {
        withBlocks { $0.doubt() }
        return holes()
    }

    /// Blocks on the disk with holes where bytes were written.
    private func holes() -> [Int] {
        let (states, flights, isWhole) = withBlocks {
            ($0.states, $0.inFlight, $0.isComplete && $0.inFlight.isEmpty)
        }
        if isWhole, descriptor.hasData(ByteRange(0, length)) { return [] }
        var holes = flights.filter { _, flight in
            flight.memory == nil && !flight.pieces.all.allSatisfy { descriptor.hasData($0.range) }
        }.map(\.key)
        for block in states.filled.ranges.joined() where flights[block] == nil && !descriptor.hasData(bytes(of: block))
        {
            holes.append(block)
        }
        return holes
    }
}
