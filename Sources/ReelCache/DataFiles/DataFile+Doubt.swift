import ReelCore

/// Finds out whether another program has touched the file.
extension DataFile {
    /// Whether the file is as long as it must be, with data in all written places.
    var hasNoHoles: Bool { descriptor.isLong(length) && holes().isEmpty }

    /// Another program has touched the file: its blocks on the disk are verified again before they count.
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
