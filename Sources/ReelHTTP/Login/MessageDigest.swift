import CCrypto
import ReelCore

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
