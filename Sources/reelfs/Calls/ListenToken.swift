import Glibc
import ReelCache
import ReelCore

/// The token that HTTP requests bring which change something: the file `listen.token` in the cache directory, mode
/// 0600, made by the first mount that listens and the same for all others. A user may write another one.
enum ListenToken {
    static let name = "listen.token"

    /// Bytes of a new one.
    private static let size = 32
    /// Fewer characters could be guessed.
    private static let shortest = 16

    /// - Parameter root: the cache directory, absolute.
    /// - Returns: nil where the disk takes no file.
    /// - Throws: where another user could read or write the file, or it holds no token.
    static func load(_ root: String) throws(Failure) -> String? {
        let path = "\(root)/\(name)"
        if access(path, F_OK) != 0, !make(root) { return nil }
        return try word(in: path)
    }

    private static func word(in path: String) throws(Failure) -> String {
        let text = trimmed(try TrustedText(path, kind: "token file", limit: 4 << 10, isSecret: true).text)
        guard text.utf8.count >= shortest, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .usage(
                "token file \(shown(path)) must hold one word of at least \(shortest) characters; a new one is made "
                    + "where there is none")
        }
        return text
    }

    /// The address of a server's page, which brings the token along; nil where the token is not this user's.
    /// - Parameter status: from a daemon that is this user's, so that no other's page gets the token.
    static func page(_ status: MountStatus) -> String? {
        var file = stat()
        guard let address = status.listening, address.hasPrefix("http://"), let path = status.tokenFile,
            path.hasSuffix("/" + name), lstat(path, &file) == 0, file.st_uid == geteuid(),
            let token = try? word(in: path),
            // Any other would have to be encoded.
            token.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber) })
        else { return nil }
        return address + "#token=" + token
    }

    /// - Returns: whether there is a file now, of this mount or of another that made it at the same moment.
    private static func make(_ root: String) -> Bool {
        guard let directory = try? openTrusted(root, O_RDONLY | O_DIRECTORY) else { return false }
        defer { close(directory) }
        let other = "\(name).\(random(8))"
        let file = openat(directory, other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { return false }
        defer { unlinkat(directory, other, 0) }
        let line = Array("\(random(size))\n".utf8)
        let isWritten = write(file, line, line.count) == line.count && fsync(file) == 0
        close(file)
        return isWritten && (linkat(directory, other, directory, name, 0) == 0 || errno == EEXIST)
    }

    /// Bytes of the kernel's random numbers, in hexadecimal. getrandom(2)
    private static func random(_ count: Int) -> String {
        var generator = SystemRandomNumberGenerator()
        return hexadecimal((0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }
}
