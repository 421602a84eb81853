import Glibc
import ReelCache
import ReelCore

/// Where the key of an encrypted cache comes from, as `--encrypt` names it.
enum KeySource: Hashable, Sendable {
    /// A file of the user's or of root's, closed to all others.
    case file(String)
    /// A file of systemd's `LoadCredential=` or `LoadCredentialEncrypted=`. systemd.exec(5)
    case credential(String)
    /// The output of a program that runs without a shell.
    case command(Command)

    /// Bytes: a key in base64 is 44 long.
    private static let limit: Int64 = 4 << 10

    init(parsing text: String) throws(Failure) {
        let pair = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let value = pair.count == 2 ? String(pair[1]) : ""
        switch pair[0] {
        case "file" where !value.isEmpty: self = .file(value)
        case "credential"
        where !value.isEmpty && !value.utf8.contains(UInt8(ascii: "/")) && value != "." && value != "..":
            self = .credential(value)
        case "command":
            guard let command = Command(parsing: value) else {
                throw .usage("option encrypt: command: needs a program, with its quotes closed")
            }
            self = .command(command)
        default: throw .usage("option encrypt must be file:PATH, credential:NAME or command:COMMAND")
        }
    }

    /// Reads the key. Errors repeat nothing of it. - Parameter time: for the command.
    func key(within time: Duration) throws(Failure) -> SecretBytes {
        var bytes = try bytes(within: time)
        defer { wipe(&bytes) }
        guard let key = Self.key(bytes) else {
            throw .usage("\(name): a key is 32 bytes, raw, in hexadecimal or in base64")
        }
        return key
    }

    /// For sentences.
    private var name: String {
        switch self {
        case .file(let path): "key file \(shown(path))"
        case .credential(let name): "credential \(shown(name))"
        case .command(let command): "key command \(shown(command.name))"
        }
    }

    private func bytes(within time: Duration) throws(Failure) -> [UInt8] {
        switch self {
        case .file(let path): return try TrustedText(path, kind: "key file", limit: Self.limit, isSecret: true).bytes
        case .credential(let name):
            guard let directory = environment("CREDENTIALS_DIRECTORY") else {
                throw .usage(
                    "\(self.name): there is no CREDENTIALS_DIRECTORY; run reelfs from a unit with LoadCredential=")
            }
            // systemd lets the unit's user in by an access control list, which looks like a mode for the group.
            return try TrustedText(directory + "/" + name, kind: "credential", limit: Self.limit, isSecret: false).bytes
        case .command(let command):
            do throws(CommandFailure) {
                return try CommandRuns().run(command, limit: Int(Self.limit), within: time)
            } catch {
                throw .mount("\(name) \(Self.sentence(error))")
            }
        }
    }

    /// Nothing of what it wrote, which may be a key.
    private static func sentence(_ failure: CommandFailure) -> String {
        switch failure {
        case .timedOut: "gave no key in time"
        case .tooLong: "wrote more than a key"
        case .stopped: "was stopped"
        case .notStarted, .status, .signal: failure.words
        }
    }

    /// nil for anything that is no key.
    static func key(_ bytes: [UInt8]) -> SecretBytes? {
        if bytes.count == CacheKeyFile.size { return bytes.withUnsafeBytes { SecretBytes($0) } }
        let spaces: [UInt8] = [0x20, 0x09, 0x0A, 0x0D]
        let text = bytes.drop { spaces.contains($0) }.reversed().drop { spaces.contains($0) }.reversed()
        let isHexadecimal = text.count == 2 * CacheKeyFile.size
        guard var key = isHexadecimal ? hexadecimal(Array(text)) : base64Decoded(Array(text)) else { return nil }
        defer { wipe(&key) }
        return key.count == CacheKeyFile.size ? key.withUnsafeBytes { SecretBytes($0) } : nil
    }

    private static func hexadecimal(_ text: [UInt8]) -> [UInt8]? {
        let digits = text.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == text.count else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
