import CCurl
import ReelCore

/// How SFTP servers are trusted, and asked.
package struct SSHAccess: Sendable {
    /// The path of the file of known host keys. nil: no server is trusted.
    package var knownHosts: String?
    /// The path of a private key; nil: those of the agent, and curl's own.
    package var privateKey: String?
    /// The user where the URL names none; nil: `.netrc` names one.
    package var user: String?

    /// Trusts no server.
    package init() {}

    func set(_ easy: borrowing EasyHandle) {
        // Without a file curl trusts every server.
        easy.set(CURLOPT_SSH_KNOWNHOSTS, knownHosts ?? "/dev/null")
        if let privateKey { easy.set(CURLOPT_SSH_PRIVATE_KEYFILE, privateKey) }
    }
}

/// CURLOPT_SSH_KEYFUNCTION(3): trusts known keys alone, and notes why another one is refused.
func judgeHostKey(
    _ easy: UnsafeMutableRawPointer?, _ known: UnsafePointer<curl_khkey>?, _ found: UnsafePointer<curl_khkey>?,
    _ match: curl_khmatch, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    if match == CURLKHMATCH_OK { return Int32(CURLKHSTAT_FINE.rawValue) }
    if let context { Unmanaged<HandleContext>.fromOpaque(context).takeUnretainedValue().keyMatch = match }
    return Int32(CURLKHSTAT_REJECT.rawValue)
}
