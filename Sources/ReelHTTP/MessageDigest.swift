import CCrypto

/// A hash of libcrypto in hexadecimal digits (EVP_Digest(3)), for Digest logins.
enum MessageDigest {
    case md5, sha256

    /// nil: this libcrypto refuses the hash, as it refuses MD5 where FIPS rules.
    func hex(_ text: String) -> String? {
        let kind = self == .md5 ? EVP_md5() : EVP_sha256()
        var sum = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        let bytes = Array(text.utf8)
        guard EVP_Digest(bytes, bytes.count, &sum, &count, kind, nil) == 1 else { return nil }
        return hexadecimal(sum.prefix(Int(count)))
    }
}

/// Two lower-case digits a byte.
func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}
