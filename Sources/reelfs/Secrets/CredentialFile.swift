import Glibc
import ReelCore

/// The file that `credentials=FILE` names: secrets for the source's origin, and for no other.
///
/// Lines of `username=`, `password=`, `token=` (sent as `Authorization: Bearer`), `passphrase=` (of the key that
/// `key=FILE` names) and `header=Name: value`; the first two as in mount.cifs(8). For a bucket, the first three are the
/// access key, the secret key and the session's token. Lines that begin with `#` are comments. The text behind the `=`
/// is taken as it is.
struct CredentialFile: Hashable, Sendable {
    var user: String?
    var password: String?
    var token: String?
    /// The passphrase of the private key that `key=FILE` names.
    var passphrase: String?
    var headers: [HeaderField] = []

    /// Errors name the file and the line, and repeat no text of it.
    init(parsing text: String, path: String) throws(Failure) {
        for line in numberedLines(text) {
            let place = "credentials file \(shown(path)), line \(line.number)"
            let pair = line.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, pair[1].utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                throw .usage("\(place): must be username=…, password=…, token=…, passphrase=… or header=Name: value")
            }
            let value = String(pair[1])
            switch trimmedSpaces(pair[0]) {
            case "username": user = value
            case "password": password = value
            case "token":
                token = value
                headers.append(HeaderField(name: "Authorization", value: "Bearer " + value))
            case "passphrase": passphrase = value
            case "header":
                guard let field = HeaderField(parsing: value) else {
                    throw .usage("\(place): a header must be \"Name: value\"")
                }
                headers.append(field)
            default: throw .usage("\(place): only username, password, token, passphrase and header are known")
            }
        }
        // RFC 7617, section 2: the colon ends the user's name.
        if user?.contains(":") == true {
            throw .usage("credentials file \(shown(path)): a username must not contain a colon")
        }
    }

    /// Refuses a file that another user could have written or can read.
    static func load(_ path: String) throws(Failure) -> CredentialFile {
        let read = try TrustedText(path, kind: "credentials file", limit: 64 << 10, isSecret: true)
        return try CredentialFile(parsing: read.text, path: path)
    }

    /// The source with user and password inside: from here on they are treated as those of a URL are.
    /// - Parameter address: what the user wrote, whose scheme may name the kind of the source, nil for the URL itself.
    func source(_ source: ResourceURL, givenAs address: String? = nil) -> String {
        let user = user ?? source.credentials?.user ?? ""
        let password = password ?? source.credentials?.password ?? ""
        let scheme = address.flatMap { URLParts.scheme(of: trimmedBytes(Array($0.utf8)[...])) }
        let start = (scheme.map { asciiLowercased($0) } ?? source.scheme) + "://"
        let rest = String(decoding: source.text.utf8.dropFirst(source.scheme.utf8.count + 3), as: UTF8.self)
        if user.isEmpty && password.isEmpty { return start + rest }
        return start + percentEncodedSegment(user.utf8) + ":" + percentEncodedSegment(password.utf8) + "@" + rest
    }
}
