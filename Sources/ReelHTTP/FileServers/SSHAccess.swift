import CCurl
import Glibc
import ReelCore

/// How SFTP servers are trusted, and asked.
package struct SSHAccess: Sendable {
    /// The path of the file of known host keys. nil: no server is trusted.
    package var knownHosts: String?
    /// It is another file than the user's own.
    package var hasOtherKnownHosts = false
    /// The path of a private key, nil for those of the agent, and curl's own.
    package var privateKey: String?
    /// The user where the URL names none, nil if `.netrc` names one.
    package var user: String?

    /// Trusts no server.
    package init() {}

    func set(_ easy: borrowing EasyHandle) {
        // Without a file curl trusts every server.
        easy.set(CURLOPT_SSH_KNOWNHOSTS, knownHosts ?? "/dev/null")
        if let privateKey { easy.set(CURLOPT_SSH_PRIVATE_KEYFILE, privateKey) }
    }
}

/// Why the key of an SSH server is refused.
enum HostKeyRefusal {
    /// No line of the known hosts names the server.
    case unknown
    /// They have another key of it.
    case changed
    /// A line with `@revoked` holds the key.
    case revoked
}

/// CURLOPT_SSH_KEYFUNCTION(3): trusts known keys alone, and notes why another one is refused.
func judgeHostKey(
    _ easy: UnsafeMutableRawPointer?, _ known: UnsafePointer<curl_khkey>?, _ found: UnsafePointer<curl_khkey>?,
    _ match: curl_khmatch, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let context else { return Int32(CURLKHSTAT_REJECT.rawValue) }
    let handle = Unmanaged<HandleContext>.fromOpaque(context).takeUnretainedValue()
    switch match {
    case CURLKHMATCH_OK: handle.keyRefusal = refusal(of: found, in: handle.transfer?.loop.configuration.ssh.knownHosts)
    case CURLKHMATCH_MISMATCH: handle.keyRefusal = .changed
    default: handle.keyRefusal = .unknown
    }
    return Int32((handle.keyRefusal == nil ? CURLKHSTAT_FINE : CURLKHSTAT_REJECT).rawValue)
}

/// Looks for the key among those that are marked as revoked (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): libssh2 knows no
/// marks. The hosts of such a line do not count, as a key that somebody else may have proves no host.
private func refusal(of key: UnsafePointer<curl_khkey>?, in path: String?) -> HostKeyRefusal? {
    guard let key = key?.pointee, let path, let file = fopen(path, "re") else { return .unknown }
    defer { fclose(file) }
    let bytes = UnsafeRawBufferPointer(start: key.key, count: key.len == 0 ? strlen(key.key) : key.len)
    // From libssh it is base64 already, with a length; the key itself begins with the length of its type's name.
    let text = bytes.first == 0 ? base64(Array(bytes)) : Array(bytes)
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while getline(&line, &capacity, file) > 0, let line {
        let words = String(cString: line).utf8.split { isBlank($0) || $0 == 0x0D || $0 == 0x0A }
        // Marker, hosts, type, key.
        if words.first?.elementsEqual("@revoked".utf8) == true, words.dropFirst(3).first?.elementsEqual(text) == true {
            return .revoked
        }
    }
    return nil
}
