import ReelCore

/// The extents of one version of which something was ever there, as the origin chooses how long a file is: four bytes
/// for each before the last of them that was not. Arrays, as every hit asks, and a dictionary allocates in a build
/// without optimisation.
struct TouchedExtents: Sendable {
    /// 64 blocks.
    struct Extent: Sendable {
        private static let verified: UInt8 = 0x80

        let number: Int
        /// A byte a block: its state, and whether its bytes were verified since the program started.
        private(set) var states = [UInt8](repeating: 0, count: BlockSize.blocksPerExtent)
        var filledBlocks = 0
        /// In the order of `UseClock`, and as its row has it.
        var lastUse: Int64
        var writtenUse: Int64
        /// Checksums of filled blocks that no row has yet.
        var sums: ExtentSums?

        fileprivate init(_ number: Int, lastUse: Int64) {
            self.number = number
            self.lastUse = lastUse
            writtenUse = lastUse
        }

        func state(_ index: Int) -> BlockState { BlockState(rawValue: states[index] & ~Self.verified) ?? .empty }
        func isVerified(_ index: Int) -> Bool { states[index] & Self.verified != 0 }

        mutating func set(_ state: BlockState, _ isVerified: Bool, at index: Int) {
            states[index] = state.rawValue | (isVerified ? Self.verified : 0)
        }

        mutating func set(_ sum: UInt64?, of index: Int) {
            if sums == nil, sum != nil { sums = ExtentSums() }
            sums?[index] = sum
        }

        /// Of an extent that was just touched: these are durable.
        mutating func load(_ word: UInt64) {
            for index in states.indices where word & 1 << UInt64(index) != 0 {
                states[index] = BlockState.durable.rawValue
            }
            filledBlocks = word.nonzeroBitCount
        }

        /// - Returns: how many were not verified before.
        mutating func verify(_ word: UInt64) -> Int {
            var count = 0
            for index in states.indices where word & 1 << UInt64(index) != 0 && !isVerified(index) {
                states[index] |= Self.verified
                count += 1
            }
            return count
        }

        var filledWord: UInt64 { word(of: .memory, .written, .syncing, .durable, .unkept) }

        /// The bits of the blocks that are in one of these states.
        func word(of wanted: BlockState...) -> UInt64 {
            states.indices.reduce(0) { wanted.contains(state($1)) ? $0 | 1 << UInt64($1) : $0 }
        }
    }

    /// In the order in which they were touched.
    private(set) var all: [Extent] = []
    /// By number of the extent, its place in `all`; below zero where it was never touched.
    private var places: [Int32] = []

    /// One behind the last that was touched.
    var end: Int { places.count }

    subscript(number: Int) -> Extent? {
        guard number >= 0, number < places.count, places[number] >= 0 else { return nil }
        return all[Int(places[number])]
    }

    func state(of block: Int) -> BlockState {
        guard block >= 0, block / 64 < places.count, places[block / 64] >= 0 else { return .empty }
        return all[Int(places[block / 64])].state(block % 64)
    }

    func isVerified(_ block: Int) -> Bool {
        guard block >= 0, block / 64 < places.count, places[block / 64] >= 0 else { return false }
        return all[Int(places[block / 64])].isVerified(block % 64)
    }

    /// - Precondition: there is such an extent.
    mutating func touch(_ number: Int, lastUse: Int64) {
        if number >= places.count { places += Array(repeating: -1, count: number + 1 - places.count) }
        guard places[number] < 0 else { return }
        places[number] = Int32(all.count)
        all.append(Extent(number, lastUse: lastUse))
    }

    /// Nothing where it was never touched.
    mutating func update(_ number: Int, _ body: (inout Extent) -> Void) {
        guard number >= 0, number < places.count, places[number] >= 0 else { return }
        body(&all[Int(places[number])])
    }
}
