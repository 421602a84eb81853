import ReelCore

/// Seals and opens the blocks of one data file, under a key of its own.
///
/// A file of 16 TiB has 2^27 blocks, so that each may be written 32 times before the bound on random nonces
/// (`AuthenticatedCipher`) is reached; a file is as a rule written once.
final class BlockCipher: Sendable {
    /// The format of sealed blocks, which the tag covers with block number and length: a block that was moved or cut
    /// does not open.
    private static let format: UInt64 = 1

    private let cipher: AuthenticatedCipher

    init(_ key: SecretBytes) { cipher = AuthenticatedCipher(key) }

    /// Encrypts a whole block. - Parameter sealed: gets as many bytes.
    func seal(_ bytes: UnsafeRawBufferPointer, into sealed: UnsafeMutableRawBufferPointer, block: Int) -> BlockSum {
        var sum = BlockSum.fresh()
        withUnsafeMutableBytes(of: &sum.words) { words in
            let nonce = UnsafeRawBufferPointer(rebasing: words[..<AuthenticatedCipher.nonceSize])
            let tag = UnsafeMutableRawBufferPointer(
                rebasing: words[AuthenticatedCipher.nonceSize..<BlockSum.sealedSize])
            withContext(block, bytes.count) {
                cipher.seal(bytes, into: sealed, nonce: nonce, tag: tag, context: $0)
            }
        }
        return sum
    }

    /// Decrypts a whole block in place. - Returns: false where these are not the bytes that were sealed so.
    func open(_ bytes: UnsafeMutableRawBufferPointer, block: Int, _ sum: BlockSum) -> Bool {
        sum.withSealed { nonce, tag in
            withContext(block, bytes.count) { cipher.open(bytes, nonce: nonce, tag: tag, context: $0) }
        }
    }

    private func withContext<Result>(_ block: Int, _ count: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeBytes(of: SIMD4<UInt64>(Self.format, UInt64(block), UInt64(count), 0), body)
    }
}
