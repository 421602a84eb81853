import CCrypto
import ReelCore

/// Everything that the master key of an encrypted cache seals: blocks, the index's values, names of directories.
///
/// Texts that are looked up are sealed under a nonce made from them with a keyed hash (HMAC-SHA-256), as SIV does: the
/// same text gives the same bytes, and different ones reveal only their lengths. Other values have random nonces:
/// one key seals them all as long as the cache is there, so the bound of 2^32 (`AuthenticatedCipher`) is one of rows
/// written. A million rows that are written again each hour reach it in half a year; two nonces are the same by then
/// with a chance of 2^-33, and would show how the two rows differ.
package final class CacheCipher: Sendable {
    private let blocks: SecretBytes
    private let hashes: SecretBytes
    private let lookups: AuthenticatedCipher
    private let values: AuthenticatedCipher

    /// - Parameter master: 32 random bytes.
    package init(master: SecretBytes) {
        func key(_ purpose: String) -> SecretBytes { master.derived(Array("reelfs 1 \(purpose)".utf8)) }
        blocks = key("blocks")
        hashes = key("hashes")
        lookups = AuthenticatedCipher(key("lookups"))
        values = AuthenticatedCipher(key("values"))
    }

    /// The name of a source's directory: 32 hexadecimal digits that nobody without the key can make.
    package func directoryName(_ source: String) -> String {
        hexadecimal(hash(0, source).prefix(16))
    }

    /// The cipher of a data file's blocks. The key is that of one version of one resource, as a file never holds
    /// another.
    func blockCipher(_ name: FileName, of key: String) -> BlockCipher {
        // The hash, as libcrypto takes 2 KiB of such information, and a URL may be longer.
        BlockCipher(blocks.derived(salt: name.bytes, hash(2, key)))
    }

    // MARK: Texts to be found again

    func lookup(_ text: String) -> [UInt8] {
        let nonce = Array(hash(1, text).prefix(AuthenticatedCipher.nonceSize))
        return Array(text.utf8).withUnsafeBytes { seal($0, lookups, nonce, []) }
    }

    /// nil for anything that `lookup` has not made with this key.
    func text(ofLookup bytes: [UInt8]) -> String? {
        open(bytes, lookups, []).map { String(decoding: $0, as: UTF8.self) }
    }

    // MARK: Values

    /// - Parameter context: what the value belongs to: it does not open elsewhere.
    func seal(_ bytes: UnsafeRawBufferPointer, of context: String) -> [UInt8] {
        seal(bytes, values, randomBytes(AuthenticatedCipher.nonceSize), Array(context.utf8))
    }

    func seal(_ bytes: [UInt8], of context: String) -> [UInt8] { bytes.withUnsafeBytes { seal($0, of: context) } }

    /// nil for anything that was not sealed with this key, for this context.
    func open(_ sealed: [UInt8], of context: String) -> [UInt8]? { open(sealed, values, Array(context.utf8)) }

    // MARK: Forms

    /// Nonce, ciphertext, tag. Copies the bytes nowhere else: they may be a key.
    private func seal(
        _ bytes: UnsafeRawBufferPointer, _ cipher: AuthenticatedCipher, _ nonce: [UInt8], _ context: [UInt8]
    ) -> [UInt8] {
        let end = nonce.count + bytes.count
        let size = end + AuthenticatedCipher.tagSize
        return [UInt8](unsafeUninitializedCapacity: size) { result, count in
            let all = UnsafeMutableRawBufferPointer(result)
            all.copyBytes(from: nonce)
            nonce.withUnsafeBytes { nonce in
                context.withUnsafeBytes { context in
                    cipher.seal(
                        bytes, into: UnsafeMutableRawBufferPointer(rebasing: all[nonce.count..<end]), nonce: nonce,
                        tag: UnsafeMutableRawBufferPointer(rebasing: all[end..<size]), context: context)
                }
            }
            count = size
        }
    }

    private func open(_ sealed: [UInt8], _ cipher: AuthenticatedCipher, _ context: [UInt8]) -> [UInt8]? {
        let end = sealed.count - AuthenticatedCipher.tagSize
        guard end >= AuthenticatedCipher.nonceSize else { return nil }
        var bytes = Array(sealed[AuthenticatedCipher.nonceSize..<end])
        let isOpen = bytes.withUnsafeMutableBytes { bytes in
            sealed.withUnsafeBytes { sealed in
                context.withUnsafeBytes { context in
                    cipher.open(
                        bytes, nonce: UnsafeRawBufferPointer(rebasing: sealed[..<AuthenticatedCipher.nonceSize]),
                        tag: UnsafeRawBufferPointer(rebasing: sealed[end...]), context: context)
                }
            }
        }
        // Behind a wrong tag may be a key all the same.
        if !isOpen { wipe(&bytes) }
        return isOpen ? bytes : nil
    }

    /// HMAC-SHA-256 (RFC 2104). - Parameter purpose: keeps hashes of the same text for different purposes apart.
    private func hash(_ purpose: UInt8, _ text: String) -> [UInt8] {
        authenticationCode(hashes.bytes, [purpose] + Array(text.utf8))
    }
}

/// HMAC-SHA-256 (RFC 2104; HMAC(3)).
func authenticationCode(_ key: UnsafeRawBufferPointer, _ message: [UInt8]) -> [UInt8] {
    var result = [UInt8](repeating: 0, count: 32)
    result.withUnsafeMutableBytes { authenticate(message, key, into: $0) }
    return result
}

extension SecretBytes {
    /// The same of a message, as a key.
    func authenticationCode(_ message: [UInt8]) -> SecretBytes {
        let result = SecretBytes(count: 32)
        authenticate(message, bytes, into: result.memory)
        return result
    }
}

/// - Parameter result: 32 bytes.
private func authenticate(
    _ message: [UInt8], _ key: UnsafeRawBufferPointer, into result: UnsafeMutableRawBufferPointer
) {
    let code = result.baseAddress?.assumingMemoryBound(to: UInt8.self)
    guard HMAC(EVP_sha256(), key.baseAddress, Int32(key.count), message, message.count, code, nil) != nil
    else { fatalError("libcrypto has no HMAC-SHA-256") }
}
