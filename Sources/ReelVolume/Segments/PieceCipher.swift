import CCrypto
import ReelSources

/// Deciphers AES-128 in CBC mode, block after block, and leaves the padding where it is.
///
/// `@unchecked Sendable`: only the receiver of one request uses it, on the origin's thread.
final class PieceCipher: @unchecked Sendable {
    /// Bytes of a block, and of a key.
    static let block: Int64 = 16

    private let context: OpaquePointer

    /// nil for a key of another length.
    init?(key: [UInt8], _ vector: PieceList.InitialVector) {
        guard key.count == Self.block, let context = EVP_CIPHER_CTX_new() else { return nil }
        guard EVP_DecryptInit_ex(context, EVP_aes_128_cbc(), nil, key, vector.bytes) == 1,
            EVP_CIPHER_CTX_set_padding(context, 0) == 1
        else {
            EVP_CIPHER_CTX_free(context)
            return nil
        }
        self.context = context
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    /// The bytes of the blocks that are whole by now; nil where the library fails.
    /// - Parameter bytes: the next ones; those of a block that is not whole wait for the next call.
    func deciphered(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        var isGood = true
        let plain = [UInt8](unsafeUninitializedCapacity: bytes.count + Int(Self.block)) { output, count in
            var written: Int32 = 0
            let start = bytes.bindMemory(to: UInt8.self).baseAddress
            isGood = EVP_DecryptUpdate(context, output.baseAddress, &written, start, Int32(bytes.count)) == 1
            count = isGood ? Int(written) : 0
        }
        return isGood ? plain : nil
    }
}
