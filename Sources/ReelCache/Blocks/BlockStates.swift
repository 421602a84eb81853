import ReelCore

/// The state of each block of one version, and the sums that follow from these states.
///
/// The origin chooses the length of a file: only extents that were touched take memory, and four bytes for each extent
/// before the last of them. The extents are in arrays, because every hit looks here, and a dictionary allocates in a
/// build without optimisation.
struct BlockStates: Sendable {
    /// 64 blocks.
    struct Extent: Sendable {
        private static let verified: UInt8 = 0x80

        let number: Int
        /// A byte a block: its state, and whether its bytes were verified since the program started.
        private var states = [UInt8](repeating: 0, count: BlockSize.blocksPerExtent)
        fileprivate(set) var filledBlocks = 0
        /// In the order of `UseClock`.
        var lastUse: Int64
        /// The last use that the extent's row has.
        var writtenUse: Int64
        /// Checksums of filled blocks that no row has yet.
        var sums: ExtentSums?

        fileprivate init(_ number: Int, lastUse: Int64) {
            self.number = number
            self.lastUse = lastUse
            writtenUse = lastUse
        }

        fileprivate func state(_ index: Int) -> BlockState {
            BlockState(rawValue: states[index] & ~Self.verified) ?? .empty
        }

        fileprivate func isVerified(_ index: Int) -> Bool { states[index] & Self.verified != 0 }

        fileprivate mutating func set(_ state: BlockState, _ isVerified: Bool, at index: Int) {
            states[index] = state.rawValue | (isVerified ? Self.verified : 0)
        }

        mutating func set(_ sum: BlockSum?, of index: Int) {
            if sums == nil, sum != nil { sums = ExtentSums() }
            sums?[index] = sum
        }

        /// Marks the durable blocks of an extent that was just touched.
        fileprivate mutating func load(_ word: UInt64) {
            for index in states.indices where word & 1 << UInt64(index) != 0 { set(.durable, false, at: index) }
            filledBlocks = word.nonzeroBitCount
        }

        /// Marks those of these blocks that are durable as verified. - Returns: how many of them were not before.
        fileprivate mutating func verify(_ word: UInt64) -> Int {
            var count = 0
            for index in states.indices
            where word & 1 << UInt64(index) != 0 && state(index) == .durable && !isVerified(index) {
                states[index] |= Self.verified
                count += 1
            }
            return count
        }

        /// The bits of the blocks that are in one of these states.
        func word(of wanted: BlockState...) -> UInt64 { word { wanted.contains(state($0)) } }

        var filledWord: UInt64 { word { state($0).isFilled } }
        fileprivate var certainWord: UInt64 { word { state($0) == .durable && isVerified($0) } }

        private func word(_ isIn: (Int) -> Bool) -> UInt64 {
            states.indices.reduce(0) { isIn($1) ? $0 | 1 << UInt64($1) : $0 }
        }
    }

    /// Bytes; `BlockSize.openEnd` until the end is known.
    var length: Int64
    private(set) var filledBlocks = 0
    private(set) var durableBlocks = 0
    /// Durable and verified.
    private(set) var certainBlocks = 0
    /// In filled blocks on the disk.
    private(set) var bytesOnDisk: Int64 = 0
    /// The last use of extents that were never touched.
    private let defaultUse: Int64
    /// In the order in which they were touched.
    private var touched: [Extent] = []
    /// By number of the extent, its place in `touched`; below zero where it was never touched.
    private var places: [Int32] = []

    init(length: Int64, lastUse: Int64) {
        self.length = length
        defaultUse = lastUse
    }

    /// Takes one row of the index. Bits behind the end do not count.
    mutating func load(_ number: Int, word: UInt64, lastUse: Int64) {
        guard number >= 0, number < (blockCount + 63) / 64, extent(number) == nil else { return }
        let word = word & Self.bits(of: 0..<blockCount, inExtent: number)
        touch(number, lastUse: lastUse)
        update(number) { $0.load(word) }
        filledBlocks += word.nonzeroBitCount
        durableBlocks += word.nonzeroBitCount
        bytesOnDisk = durableBytes
    }

    // MARK: Looking

    var blockCount: Int { Self.blockCount(length) }
    /// One behind the last extent that was touched.
    var extentCount: Int { places.count }

    subscript(block: Int) -> BlockState {
        guard block >= 0, block / 64 < places.count, places[block / 64] >= 0 else { return .empty }
        return touched[Int(places[block / 64])].state(block % 64)
    }

    func isVerified(_ block: Int) -> Bool {
        guard block >= 0, block / 64 < places.count, places[block / 64] >= 0 else { return false }
        return touched[Int(places[block / 64])].isVerified(block % 64)
    }

    /// nil where it was never touched.
    func extent(_ number: Int) -> Extent? {
        guard number >= 0, number < places.count, places[number] >= 0 else { return nil }
        return touched[Int(places[number])]
    }

    /// Touched extents in the order of the file.
    var extents: some Sequence<Extent> { places.lazy.filter { $0 >= 0 }.map { touched[Int($0)] } }

    func lastUse(ofExtent number: Int) -> Int64 { extent(number)?.lastUse ?? defaultUse }

    /// In all filled blocks.
    var filledBytes: Int64 { bytes(of: filledBlocks, hasLast: self[blockCount - 1].isFilled) }
    var durableBytes: Int64 { bytes(of: durableBlocks, hasLast: self[blockCount - 1] == .durable) }

    private func bytes(of count: Int, hasLast: Bool) -> Int64 {
        Int64(count) * BlockSize.block - (hasLast ? Int64(blockCount) * BlockSize.block - length : 0)
    }

    var filled: RangeSet<Int> { blocks(\.filledWord) }
    /// The blocks that rows of the index cover.
    var durable: RangeSet<Int> { blocks { $0.word(of: .durable) } }
    /// Durable and verified.
    var certain: RangeSet<Int> { blocks(\.certainWord) }

    private func blocks(_ word: (Extent) -> UInt64) -> RangeSet<Int> {
        var blocks = RangeSet<Int>()
        for extent in extents {
            var rest = word(extent)
            while rest != 0 {
                let lower = rest.trailingZeroBitCount
                let upper = lower + (~(rest >> UInt64(lower))).trailingZeroBitCount
                blocks.insert(contentsOf: extent.number * 64 + lower..<extent.number * 64 + upper)
                rest &= .max << UInt64(upper)
            }
        }
        return blocks
    }

    /// Extents with filled blocks: their bytes, and when they were last used.
    var usedExtents: [(extent: Int, bytes: Int64, lastUse: Int64)] {
        extents.filter { $0.filledBlocks > 0 }.map {
            ($0.number, Self.bytes(of: $0.filledWord, inExtent: $0.number, length: length), $0.lastUse)
        }
    }

    // MARK: Changing

    /// Does nothing where the extent was never touched.
    mutating func update(_ number: Int, _ body: (inout Extent) -> Void) {
        guard number >= 0, number < places.count, places[number] >= 0 else { return }
        body(&touched[Int(places[number])])
    }

    private mutating func touch(_ number: Int, lastUse: Int64) {
        if number >= places.count { places += Array(repeating: -1, count: number + 1 - places.count) }
        guard places[number] < 0 else { return }
        places[number] = Int32(touched.count)
        touched.append(Extent(number, lastUse: lastUse))
    }

    /// - Precondition: the file has this block.
    mutating func set(_ block: Int, _ state: BlockState, isVerified: Bool) {
        count(block, -1)
        touch(block / 64, lastUse: defaultUse)
        update(block / 64) { $0.set(state, isVerified, at: block % 64) }
        count(block, 1)
    }

    /// Counts these blocks as verified, as far as they are durable.
    mutating func trust(_ blocks: RangeSet<Int>) {
        for range in blocks.ranges {
            for number in range.lowerBound / 64...(range.upperBound - 1) / 64 {
                var count = 0
                update(number) { count = $0.verify(Self.bits(of: range, inExtent: number)) }
                certainBlocks += count
            }
        }
    }

    /// Takes a block out of the sums, or into them.
    private mutating func count(_ block: Int, _ sign: Int) {
        let state = self[block]
        guard state.isFilled else { return }
        filledBlocks += sign
        update(block / 64) { $0.filledBlocks += sign }
        if state != .memory { bytesOnDisk += Int64(sign) * BlockSize.bytes(of: block, length: length).count }
        guard state == .durable else { return }
        durableBlocks += sign
        if isVerified(block) { certainBlocks += sign }
    }

    // MARK: Words

    private static func blockCount(_ length: Int64) -> Int { Int((length + BlockSize.block - 1) / BlockSize.block) }

    /// The bits of those of `blocks` that lie in this extent.
    private static func bits(of blocks: Range<Int>, inExtent extent: Int) -> UInt64 {
        let lower = max(blocks.lowerBound - extent * 64, 0)
        let upper = min(blocks.upperBound - extent * 64, 64)
        guard lower < upper else { return 0 }
        return (upper == 64 ? .max : (1 << UInt64(upper)) - 1) & ~((1 << UInt64(lower)) - 1)
    }

    /// Bytes in the blocks of a word. Bits behind the end do not count.
    /// - Parameters:
    ///   - extent: may be any number, as an index may hold any.
    ///   - length: of the file.
    static func bytes(of word: UInt64, inExtent extent: Int, length: Int64) -> Int64 {
        let last = blockCount(length) - 1
        guard last >= 0, (0...last / 64).contains(extent) else { return 0 }
        let word = word & bits(of: 0..<last + 1, inExtent: extent)
        let hasLast = extent == last / 64 && word & 1 << UInt64(last % 64) != 0
        let missing = hasLast ? Int64(last + 1) * BlockSize.block - length : 0
        return Int64(word.nonzeroBitCount) * BlockSize.block - missing
    }
}
