/// The proof of a block's bytes: their XXH3 in a plain cache; in an encrypted one the nonce of AES-256-GCM and the tags
/// of the block's quarters.
struct BlockSum: Hashable, Sendable {
    /// Bytes of an XXH3.
    static let plainSize = 8
    /// Bytes of nonce and tags.
    static let sealedSize = AuthenticatedCipher.nonceSize + BlockCipher.quarters * BlockCipher.tagSize

    /// In the order of memory, which is the least significant byte first, as on all machines that Swift knows.
    var words: SIMD8<UInt64>

    /// Not that of SIMD8, which allocates unless it is optimised.
    static func == (one: BlockSum, other: BlockSum) -> Bool {
        for index in 0..<8 where one.words[index] != other.words[index] { return false }
        return true
    }

    init(words: SIMD8<UInt64>) { self.words = words }

    init(plain: UInt64) { words = SIMD8(plain, 0, 0, 0, 0, 0, 0, 0) }

    /// The checksum, in a plain cache.
    var plain: UInt64 { words[0] }

    /// With a random nonce, and tags of zeros.
    static func fresh() -> BlockSum {
        var sum = BlockSum(plain: .random(in: .min ... .max))
        sum.words[1] = UInt64(UInt32.random(in: .min ... .max))
        return sum
    }
}
