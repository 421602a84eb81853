/// The proof of a block's bytes: their XXH3 in a plain cache; nonce and tag of AES-256-GCM in an encrypted one.
struct BlockSum: Hashable, Sendable {
    /// Bytes of an XXH3.
    static let plainSize = 8
    /// Bytes of nonce and tag.
    static let sealedSize = AuthenticatedCipher.nonceSize + AuthenticatedCipher.tagSize

    /// In the order of memory, which is the least significant byte first, as on all machines that Swift knows.
    var words: SIMD4<UInt64>

    /// Not that of SIMD4, which allocates unless it is optimised.
    static func == (one: BlockSum, other: BlockSum) -> Bool {
        one.words[0] == other.words[0] && one.words[1] == other.words[1] && one.words[2] == other.words[2]
            && one.words[3] == other.words[3]
    }

    init(words: SIMD4<UInt64>) { self.words = words }

    init(plain: UInt64) { words = SIMD4(plain, 0, 0, 0) }

    /// The checksum, in a plain cache.
    var plain: UInt64 { words[0] }

    /// With a random nonce, and a tag of zeros.
    static func fresh() -> BlockSum {
        BlockSum(words: SIMD4(.random(in: .min ... .max), UInt64(UInt32.random(in: .min ... .max)), 0, 0))
    }

    /// Calls with the bytes of nonce and tag.
    func withSealed<Result>(_ body: (_ nonce: UnsafeRawBufferPointer, _ tag: UnsafeRawBufferPointer) -> Result)
        -> Result
    {
        withUnsafeBytes(of: words) {
            body(
                UnsafeRawBufferPointer(rebasing: $0[..<AuthenticatedCipher.nonceSize]),
                UnsafeRawBufferPointer(rebasing: $0[AuthenticatedCipher.nonceSize..<Self.sealedSize]))
        }
    }
}
