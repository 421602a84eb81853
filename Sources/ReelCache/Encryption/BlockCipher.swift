import ReelCore

/// Seals and opens the blocks of one data file, under a key of its own.
///
/// Each quarter of a block has a tag, so that a short read decrypts no more than that. The nonce of a quarter is the
/// block's, 96 random bits, with its last byte XORed with the quarter's number. So 94 bits distinguish two blocks, and
/// the bound of 2^32 on random nonces of 96 bits (`AuthenticatedCipher`) is one of 2^31 blocks: a file of 16 TiB has
/// 2^27, and is as a rule written once.
final class BlockCipher: Sendable {
    static let quarters = 4
    /// Bytes of a quarter. A short block has as many as its bytes touch, of which the last one is short.
    static let quarterSize = Int(BlockSize.block) / quarters
    /// 96 bits, which SP 800-38D, section 5.2.1.2, allows: the proofs of an extent are smaller by a fifth.
    static let tagSize = 12
    /// The format of sealed blocks, which the tag covers with block number, length and quarter: what was moved or cut
    /// does not open.
    private static let format: UInt64 = 2

    private let cipher: AuthenticatedCipher

    init(_ key: SecretBytes) { cipher = AuthenticatedCipher(key) }

    /// Encrypts a whole block. - Parameter sealed: gets as many bytes.
    func seal(_ bytes: UnsafeRawBufferPointer, into sealed: UnsafeMutableRawBufferPointer, block: Int) -> BlockSum {
        var sum = BlockSum.fresh()
        for quarter in 0..<Self.quarters(of: bytes.count) {
            let part = Self.bytes(of: quarter, bytes.count)
            Self.withProof(&sum, quarter) { nonce, tag in
                withContext(block, bytes.count, quarter) {
                    cipher.seal(
                        UnsafeRawBufferPointer(rebasing: bytes[part]),
                        into: UnsafeMutableRawBufferPointer(rebasing: sealed[part]), nonce: nonce, tag: tag,
                        context: $0)
                }
            }
        }
        return sum
    }

    /// Decrypts a whole block in place. - Returns: false where these are not the bytes that were sealed so.
    func open(_ bytes: UnsafeMutableRawBufferPointer, block: Int, _ sum: BlockSum) -> Bool {
        open(bytes, 0..<bytes.count, of: bytes.count, block: block, sum)
    }

    /// Decrypts quarters of a block in place.
    /// - Parameters:
    ///   - range: where `bytes` lie in the block, as `quarters(around:of:)` says.
    ///   - count: the block's length.
    func open(
        _ bytes: UnsafeMutableRawBufferPointer, _ range: Range<Int>, of count: Int, block: Int, _ sum: BlockSum
    ) -> Bool {
        var sum = sum
        for start in stride(from: range.lowerBound, to: range.upperBound, by: Self.quarterSize) {
            let quarter = start / Self.quarterSize
            let part = Self.bytes(of: quarter, count)
            let memory = UnsafeMutableRawBufferPointer(
                rebasing: bytes[part.lowerBound - range.lowerBound..<part.upperBound - range.lowerBound])
            let isOpen = Self.withProof(&sum, quarter) { nonce, tag in
                withContext(block, count, quarter) {
                    cipher.open(memory, nonce: nonce, tag: UnsafeRawBufferPointer(tag), context: $0)
                }
            }
            guard isOpen else { return false }
        }
        return true
    }

    /// The whole quarters that hold a range of a block of this length.
    static func quarters(around range: Range<Int>, of count: Int) -> Range<Int> {
        let end = (range.upperBound + quarterSize - 1) / quarterSize * quarterSize
        return range.lowerBound / quarterSize * quarterSize..<min(end, count)
    }

    private static func quarters(of count: Int) -> Int { (count + quarterSize - 1) / quarterSize }

    private static func bytes(of quarter: Int, _ count: Int) -> Range<Int> {
        quarter * quarterSize..<min((quarter + 1) * quarterSize, count)
    }

    /// Calls with nonce and tag of a quarter.
    private static func withProof<Result>(
        _ sum: inout BlockSum, _ quarter: Int,
        _ body: (_ nonce: UnsafeRawBufferPointer, _ tag: UnsafeMutableRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeMutableBytes(of: &sum.words) { words in
            let size = AuthenticatedCipher.nonceSize
            words[size - 1] ^= UInt8(quarter)
            defer { words[size - 1] ^= UInt8(quarter) }
            let tag = size + quarter * tagSize
            return body(
                UnsafeRawBufferPointer(rebasing: words[..<size]),
                UnsafeMutableRawBufferPointer(rebasing: words[tag..<tag + tagSize]))
        }
    }

    private func withContext<Result>(
        _ block: Int, _ count: Int, _ quarter: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeBytes(of: SIMD4(Self.format, UInt64(block), UInt64(count), UInt64(quarter)), body)
    }
}
