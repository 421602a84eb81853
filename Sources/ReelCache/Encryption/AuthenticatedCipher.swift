import CCrypto
import ReelThreads

/// AES-256-GCM under one key, by libcrypto (NIST SP 800-38D; EVP_CIPHER_CTX(3)), for any number of threads.
///
/// Random nonces of 96 bits: SP 800-38D, section 8.3, allows 2^32 of them for a key.
final class AuthenticatedCipher: Sendable {
    static let nonceSize = 12
    /// The longest tag; a shorter one is the beginning of it.
    static let tagSize = 16

    /// Contexts hold the expanded key; each is used by one thread at a time.
    ///
    /// `@unchecked Sendable`: the thread that took it out of `spares` has it alone.
    private struct Context: @unchecked Sendable {
        let pointer: OpaquePointer

        init(_ key: SecretBytes) {
            precondition(key.count == 32)
            guard let pointer = EVP_CIPHER_CTX_new(),
                EVP_CipherInit_ex(
                    pointer, EVP_aes_256_gcm(), nil, key.bytes.bindMemory(to: UInt8.self).baseAddress, nil, 1) == 1
            else { fatalError("libcrypto has no AES-256-GCM, or no memory") }
            self.pointer = pointer
        }
    }

    private let key: SecretBytes
    /// No more than threads usually read at once.
    private let spares: Lock<[Context]>
    private static let mostSpares = 4

    /// - Parameter key: 32 bytes.
    init(_ key: SecretBytes) {
        self.key = key
        var first: [Context] = []
        first.reserveCapacity(Self.mostSpares)
        spares = Lock(first)
    }

    deinit { spares.withLock { for spare in $0 { EVP_CIPHER_CTX_free(spare.pointer) } } }

    /// Encrypts. - Parameters:
    ///   - sealed: gets as many bytes; may be the same memory.
    ///   - nonce: 12 bytes, never the same twice under a key.
    ///   - tag: gets 12 to 16 bytes.
    ///   - context: bytes that the tag covers too.
    func seal(
        _ bytes: UnsafeRawBufferPointer, into sealed: UnsafeMutableRawBufferPointer, nonce: UnsafeRawBufferPointer,
        tag: UnsafeMutableRawBufferPointer, context: UnsafeRawBufferPointer
    ) {
        precondition((12...Self.tagSize).contains(tag.count))
        let isSealed = withContext { pointer in
            begin(pointer, 1, nonce, context) && update(pointer, bytes, into: sealed)
                && EVP_CIPHER_CTX_ctrl(pointer, EVP_CTRL_AEAD_GET_TAG, Int32(tag.count), tag.baseAddress) == 1
        }
        // It fails for a wrong call alone, and bytes that are not sealed must never be written.
        guard isSealed else { fatalError("libcrypto does not encrypt") }
    }

    /// Decrypts in place. - Returns: false where bytes, nonce, tag or context are not those that were sealed: `bytes`
    /// holds nonsense then.
    func open(
        _ bytes: UnsafeMutableRawBufferPointer, nonce: UnsafeRawBufferPointer, tag: UnsafeRawBufferPointer,
        context: UnsafeRawBufferPointer
    ) -> Bool {
        precondition((12...Self.tagSize).contains(tag.count))
        return withContext { pointer in
            begin(pointer, 0, nonce, context)
                && EVP_CIPHER_CTX_ctrl(
                    pointer, EVP_CTRL_AEAD_SET_TAG, Int32(tag.count),
                    UnsafeMutableRawPointer(mutating: tag.baseAddress))
                    == 1
                && update(pointer, UnsafeRawBufferPointer(bytes), into: bytes)
        }
    }

    private func withContext(_ body: (OpaquePointer) -> Bool) -> Bool {
        let context = spares.withLock { $0.popLast() } ?? Context(key)
        defer {
            let isKept = spares.withLock { spares in
                guard spares.count < Self.mostSpares else { return false }
                spares.append(context)
                return true
            }
            if !isKept { EVP_CIPHER_CTX_free(context.pointer) }
        }
        return body(context.pointer)
    }

    private func begin(
        _ pointer: OpaquePointer, _ direction: Int32, _ nonce: UnsafeRawBufferPointer, _ context: UnsafeRawBufferPointer
    ) -> Bool {
        var count: Int32 = 0
        return EVP_CipherInit_ex(
            pointer, nil, nil, nil, nonce.baseAddress?.assumingMemoryBound(to: UInt8.self), direction) == 1
            && EVP_CipherUpdate(
                pointer, nil, &count, context.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(context.count))
                == 1
    }

    /// All bytes, and the end, at which an opener compares the tag.
    private func update(
        _ pointer: OpaquePointer, _ bytes: UnsafeRawBufferPointer, into result: UnsafeMutableRawBufferPointer
    ) -> Bool {
        precondition(result.count == bytes.count)
        var count: Int32 = 0
        let from = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        let to = result.baseAddress?.assumingMemoryBound(to: UInt8.self)
        guard bytes.isEmpty || EVP_CipherUpdate(pointer, to, &count, from, Int32(bytes.count)) == 1 else {
            return false
        }
        // GCM has no padding: nothing is written here.
        var end: (UInt64, UInt64) = (0, 0)
        return withUnsafeMutableBytes(of: &end) {
            EVP_CipherFinal_ex(pointer, $0.baseAddress?.assumingMemoryBound(to: UInt8.self), &count) == 1
        }
    }
}

/// The name of a parameter, which libcrypto keeps a pointer to: a `String` would be gone by then. core_names.h
private func name(_ text: StaticString) -> UnsafePointer<CChar> {
    UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
}

extension SecretBytes {
    /// 32 bytes that reveal nothing of this key, by HKDF with SHA-256 (RFC 5869; EVP_KDF-HKDF(7)).
    func derived(salt: [UInt8] = [], _ info: [UInt8], count: Int = 32) -> SecretBytes {
        let result = SecretBytes(count: count)
        var (salt, info, digest) = (salt, info, Array("SHA256".utf8CString))
        let isDone = salt.withUnsafeMutableBytes { salt in
            info.withUnsafeMutableBytes { info in
                digest.withUnsafeMutableBufferPointer { digest in
                    var parameters = [
                        OSSL_PARAM_construct_utf8_string(name("digest"), digest.baseAddress, 0),
                        OSSL_PARAM_construct_octet_string(name("key"), memory.baseAddress, memory.count),
                        OSSL_PARAM_construct_octet_string(name("info"), info.baseAddress, info.count),
                    ]
                    if !salt.isEmpty {
                        parameters.append(
                            OSSL_PARAM_construct_octet_string(name("salt"), salt.baseAddress, salt.count))
                    }
                    parameters.append(OSSL_PARAM_construct_end())
                    let kind = EVP_KDF_fetch(nil, "HKDF", nil)
                    defer { EVP_KDF_free(kind) }
                    guard let context = EVP_KDF_CTX_new(kind) else { return false }
                    defer { EVP_KDF_CTX_free(context) }
                    let base = result.memory.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    return EVP_KDF_derive(context, base, count, parameters) == 1
                }
            }
        }
        guard isDone else { fatalError("libcrypto has no HKDF, or no memory") }
        return result
    }
}
