import CCurl
import ReelCore

extension OriginFailure {
    /// The failure of a request to a file server that has brought no byte, with the status that a web server would have
    /// answered.
    ///
    /// - Parameters:
    ///   - code: curl's (libcurl-errors(3)).
    ///   - response: the last reply code of FTP (RFC 959, section 4.2), 0 if there is none.
    ///   - reply: the line of that code. Only its words say why the server refuses.
    ///   - keyRefusal: nil if no host key was refused.
    ///   - method: of the request.
    ///   - hasBegun: whether a session with this server has begun before.
    ///   - knownHosts: the file of known host keys, nil for the user's own.
    init(
        file code: CURLcode, code response: Int, reply: [UInt8], errno: Int, keyRefusal: HostKeyRefusal?,
        method: String, at place: ResourceURL, hasBegun: Bool, knownHosts: String?
    ) {
        if let keyRefusal, place.fileProtocol == .sftp {
            self = .hostKey(Self.sentence(keyRefusal, at: place, knownHosts))
            return
        }
        let status: Int? =
            switch code {
            case CURLE_FTP_COULDNT_RETR_FILE where method != "GET" && (500...599).contains(response): 501
            case CURLE_LOGIN_DENIED, CURLE_REMOTE_ACCESS_DENIED, CURLE_FTP_COULDNT_RETR_FILE,
                CURLE_REMOTE_FILE_NOT_FOUND, CURLE_WEIRD_SERVER_REPLY, CURLE_FTP_WEIRD_PASS_REPLY,
                CURLE_FTP_CANT_GET_HOST, CURLE_FTP_WEIRD_PASV_REPLY, CURLE_FTP_COULDNT_SET_TYPE, CURLE_PARTIAL_FILE:
                place.fileProtocol == .sftp
                    ? Self.status(of: code) : Self.status(of: response, reply) ?? Self.status(of: code)
            // curl takes the server's last word for the end of an idle connection; also before a login, where the
            // server has too many users.
            case CURLE_OPERATION_TIMEDOUT where response == 421: Self.status(of: response, reply)
            case CURLE_BAD_DOWNLOAD_RESUME, CURLE_RANGE_ERROR: 416
            // A server drops connections while too many are not logged in yet (sshd_config(5), MaxStartups).
            case CURLE_FAILED_INIT where hasBegun: 503
            default: nil
            }
        if code == CURLE_FAILED_INIT, status == nil {
            self = .interrupted(
                "\(place.origin): the SSH session cannot begin; the known host key may be of another type than the server's"
            )
            return
        }
        guard let status else {
            self.init(code, hasHead: false, errno: errno, at: place)
            return
        }
        self = .status(status, retryAfter: nil)
    }

    private static func status(of code: CURLcode) -> Int? {
        switch code {
        case CURLE_LOGIN_DENIED: 401
        case CURLE_REMOTE_ACCESS_DENIED: 403
        case CURLE_REMOTE_FILE_NOT_FOUND: 404
        default: nil
        }
    }

    private static func status(of response: Int, _ reply: [UInt8]) -> Int? {
        let words = asciiLowercased(reply[...])
        func says(_ word: String) -> Bool { words.utf8.count < 512 && contains(words, word) }
        switch response {
        // Too many users, or the file is busy.
        case 421, 450, 451, 452: return 503
        case 430, 530, 532: return says("maximum") || says("too many") ? 503 : 401
        case 550, 553: return says("permission") || says("denied") ? 403 : 404
        default: return nil
        }
    }

    private static func contains(_ text: String, _ word: String) -> Bool {
        let (text, word) = (Array(text.utf8), Array(word.utf8))
        return text.indices.contains { text[$0...].starts(with: word) }
    }

    private static func sentence(
        _ refusal: HostKeyRefusal, at place: ResourceURL, _ knownHosts: String?
    ) -> String {
        let isIPv6 = place.host.hasPrefix("[")
        let host = isIPv6 ? String(place.host.dropFirst().dropLast()) : place.host
        let file = knownHosts.map { "'\($0)'" }
        let scan = "`ssh-keyscan -p \(place.port ?? 22) \(host) >> \(file ?? "~/.ssh/known_hosts")`"
        switch refusal {
        case .unknown:
            return "\(place.origin) has a host key that is not known; if it is the right server, add the key with "
                + scan
        case .changed:
            let name = place.port.map { "[\(host)]:\($0)" } ?? host
            return "\(place.origin) has another host key than the known one, so it may be another server; if it has a "
                + "new key, remove the old one with `ssh-keygen -R '\(name)'\(file.map { " -f \($0)" } ?? "")` and add the new one with \(scan)"
        case .revoked:
            return "\(place.origin) has a host key that is marked as revoked in the file of known hosts (@revoked), so "
                + "it may be another server; it needs a new key"
        }
    }
}
