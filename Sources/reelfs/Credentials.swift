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
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .usage("credentials file \(shown(path)) cannot be opened: \(reason())") }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= 64 << 10 else {
            throw .usage("credentials file \(shown(path)) is no regular file of at most 64 KiB")
        }
        guard status.st_uid == 0 || status.st_uid == geteuid() else {
            throw .usage("credentials file \(shown(path)) belongs neither to root nor to who mounts")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw .usage("credentials file \(shown(path)) is open to others: `chmod 600` it")
        }
        return try Credentials(parsing: String(decoding: readAll(descriptor), as: UTF8.self), path: path)
    }

    /// The source with user and password inside: from here on they are treated as those of a URL are.
    package func source(_ source: ResourceURL) -> String {
        let user = user ?? source.credentials?.user ?? ""
        let password = password ?? source.credentials?.password ?? ""
        if user.isEmpty && password.isEmpty { return source.text }
        let rest = source.text.utf8.dropFirst(source.scheme.utf8.count + 3)
        return source.scheme + "://" + percentEncodedSegment(user.utf8) + ":" + percentEncodedSegment(password.utf8)
            + "@"
            + String(decoding: rest, as: UTF8.self)
    }
}
