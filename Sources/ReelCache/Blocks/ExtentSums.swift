import ReelCore

/// The proofs of one extent's blocks; in a row 64 times `BlockSum.plainSize` or `BlockSum.sealedSize` bytes.
struct ExtentSums: Sendable, Equatable {
    private var values = [BlockSum](repeating: BlockSum(plain: 0), count: BlockSize.blocksPerExtent)
    /// Blocks whose proof is known.
    private(set) var known: UInt64 = 0

    init() {}

    /// From the bytes of a row; nil for nonsense.
    /// - Parameters:
    ///   - word: the row's filled blocks.
    ///   - size: of one proof, in bytes.
    init?(_ bytes: [UInt8], filled word: UInt64, size: Int) {
        guard bytes.count == BlockSize.blocksPerExtent * size else { return nil }
        bytes.withUnsafeBytes { bytes in
            for index in values.indices {
                withUnsafeMutableBytes(of: &values[index].words) {
                    $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[index * size..<(index + 1) * size]))
                }
            }
        }
        known = word
    }

    /// - Parameter size: of one proof.
    func bytes(size: Int) -> [UInt8] {
        values.flatMap { value in withUnsafeBytes(of: value.words) { Array($0[..<size]) } }
    }

    /// - Parameter index: of the block in the extent.
    subscript(_ index: Int) -> BlockSum? {
        get { known & (1 << UInt64(index)) == 0 ? nil : values[index] }
        set {
            let bit: UInt64 = 1 << UInt64(index)
            values[index] = newValue ?? BlockSum(plain: 0)
            known = newValue == nil ? known & ~bit : known | bit
        }
    }

    /// Only those of these blocks.
    func limited(to word: UInt64) -> ExtentSums {
        var result = self
        result.known &= word
        return result
    }

    /// The older proofs, replaced by these where they are known.
    func over(_ older: ExtentSums) -> ExtentSums {
        var result = older
        for index in values.indices { if let value = self[index] { result[index] = value } }
        return result
    }
}
