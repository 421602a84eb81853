import Glibc
import ReelCore

/// What `credentials=FILE` holds: secrets for the source's origin, and for no other.
///
/// Lines of `username=`, `password=`, `token=` (sent as `Authorization: Bearer`) and `header=Name: value`, as
/// mount.cifs(8) has the first two; `#` begins a line of comment. What stands behind the `=` counts as it is.
package struct Credentials: Hashable, Sendable {
    package var user: String?
    package var password: String?
    package var headers: [Header] = []

    package struct Header: Hashable, Sendable {
        package var name: String
        package var value: String
    }

    /// Errors name the file and the line, and repeat nothing of it.
    package init(parsing text: String, path: String) throws(Failure) {
        for line in numberedLines(text) {
            let place = "credentials file \(shown(path)), line \(line.number)"
            let pair = line.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, pair[1].utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                throw .usage("\(place): must be username=…, password=…, token=… or header=Name: value")
            }
            let value = String(pair[1])
            switch trimmedSpaces(pair[0]) {
            case "username": user = value
            case "password": password = value
            case "token": headers.append(Header(name: "Authorization", value: "Bearer " + value))
            case "header":
                guard let parsed = try? header(value), case .field(let name, let value) = parsed else {
                    throw .usage("\(place): a header must be \"Name: value\"")
                }
                headers.append(Header(name: name, value: value))
            default: throw .usage("\(place): only username, password, token and header are known")
            }
        }
        // RFC 7617, section 2: the colon ends the user's name.
        if user?.contains(":") == true { throw .usage("credentials file \(shown(path)): a username holds no colon") }
    }

    /// Refuses a file that anybody else could have written or may read.
    static func load(_ path: String) throws(Failure) -> Credentials {
        let read = try OptionText(path, kind: "credentials file", limit: 64 << 10, isSecret: true)
        return try Credentials(parsing: read.text, path: path)
    }

    /// The source with user and password inside: from here on they are treated as those of a URL are.
    package func source(_ source: ResourceURL, as text: String) -> String {
        guard user != nil || password != nil, let scheme = text.firstRange(of: "://") else { return text }
        let (user, password) = (user ?? source.credentials?.user ?? "", password ?? source.credentials?.password ?? "")
        let rest = text[scheme.upperBound...]
        let end = rest.firstIndex { "/?#".contains($0) } ?? rest.endIndex
        let host = rest[..<end].lastIndex(of: "@").map { rest.index(after: $0) } ?? rest.startIndex
        return text[..<scheme.upperBound] + percentEncodedSegment(user.utf8) + ":"
            + percentEncodedSegment(password.utf8)
            + "@" + rest[host...]
    }
}
