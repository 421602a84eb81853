import Logging
import ReelHTTP
import ReelThreads

/// A PEM file that an option names, checked; libcurl reads it for each connection.
struct PEMFile {
    /// Absolute.
    let path: String
    /// Whether its private key wants a passphrase.
    let isEncrypted: Bool

    /// - Parameters:
    ///   - kind: for the sentence, as `key file`.
    ///   - label: the end of the label that must be there (RFC 7468), as `PRIVATE KEY`.
    ///   - isSecret: refuse a file that others can read.
    init(_ file: String, kind: String, mustHold label: String, isSecret: Bool) throws(Failure) {
        let text = try TrustedText(file, kind: kind, isSecret: isSecret).text
        let lines = text.split(whereSeparator: \.isNewline)
        guard lines.contains(where: { $0.hasPrefix("-----BEGIN ") && $0.hasSuffix(label + "-----") }) else {
            throw .usage("\(kind) \(shown(file)) holds no \(label.lowercased()) in PEM form")
        }
        // RFC 7468, section 11, and the older form of RFC 1421.
        isEncrypted = lines.contains { $0.hasSuffix("ENCRYPTED PRIVATE KEY-----") || $0 == "Proc-Type: 4,ENCRYPTED" }
        path = absolute(file)
    }
}

extension ClientCertificate {
    /// The certificate and key that options name, nil if none.
    init?(_ options: MountOptions, passphrase: String?) throws(Failure) {
        guard let file = options.certificateFile else {
            if options.keyFile != nil { throw .usage("option key needs the certificate that it is of: cert=FILE") }
            return nil
        }
        let isAlone = options.keyFile != nil
        let certificate = try PEMFile(file, kind: "certificate file", mustHold: "CERTIFICATE", isSecret: !isAlone)
        let key = try PEMFile(
            options.keyFile ?? file, kind: "key file", mustHold: "PRIVATE KEY", isSecret: true)
        if key.isEncrypted, passphrase == nil {
            throw .usage(
                "key file \(shown(options.keyFile ?? file)) is encrypted: write passphrase=… into the credentials file")
        }
        self.init(
            certificate: certificate.path, key: isAlone ? key.path : nil,
            passphrase: key.isEncrypted ? passphrase : nil)
        let name = shown(options.keyFile ?? file)
        switch flaw {
        case .otherKey: throw .usage("key file \(name) is not the key of the certificate in \(shown(file))")
        case .unreadableKey where key.isEncrypted:
            throw .usage("key file \(name) does not open with the passphrase of the credentials file")
        case .unreadableKey: throw .usage("key file \(name) cannot be read: it is damaged, or of an unknown kind")
        case nil: break
        }
    }
}

/// The cookies in a Netscape cookie file, a line each, as libcurl takes them (CURLOPT_COOKIELIST(3)).
func cookieLines(_ path: String) throws(Failure) -> [String] {
    let text = try TrustedText(path, kind: "cookie file", isSecret: true).text
    var cookies: [String] = []
    for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
        // Browsers write this in front of a cookie that scripts cannot read.
        if line.allSatisfy(\.isWhitespace) || line.first == "#" && !line.hasPrefix("#HttpOnly_") { continue }
        let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
        guard fields.count == 7, line.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
            throw .usage("cookie file \(shown(path)), line \(index + 1): must be seven fields with tabs between them")
        }
        cookies.append(String(line))
    }
    return cookies
}

extension TransportConfiguration {
    /// Bytes of a token: the longest on record have some thousand.
    private static let tokenLimit = 16 << 10

    /// The configuration of a transport that runs the command that prints a token.
    /// - Parameter report: gets a sentence for each run without a token, nil for each other. No output of the command
    ///   is part of it.
    func running(
        _ options: MountOptions, with commands: CommandRuns, report: @escaping @Sendable (String?) -> Void
    ) -> TransportConfiguration {
        guard let command = options.tokenCommand else { return self }
        // Sooner than the request gives up, which would report a silent origin.
        let limit = min(.seconds(30), Duration.seconds(options.timeout) * 3 / 4)
        var running = self
        running.tokenSource = { deliver in
            let thread = Thread("token") {
                let result = Result { () throws(CommandFailure) in
                    try commands.run(command, limit: Self.tokenLimit, within: limit)
                }
                switch result {
                case .success(let output):
                    let token = tokenText(output)
                    report(token == nil ? "\(shown(command.name)), the token command, printed no token" : nil)
                    deliver(token)
                case .failure(.stopped): deliver(nil)
                case .failure(let failure):
                    report("\(shown(command.name)), the token command, \(failure.words)")
                    deliver(nil)
                }
            }
            if let thread { thread.detach() } else { deliver(nil) }
        }
        return running
    }
}

/// What became of the last run of a login's command.
final class LoginTrouble: Sendable {
    private let last = Lock<String?>(nil)
    private let logger: Logger?

    init(_ logger: Logger?) { self.logger = logger }

    /// Why it gave nothing, nil if it gave something, or did not run yet.
    var sentence: String? { last.withLock { $0 } }

    func note(_ sentence: String?) {
        last.withLock { $0 = sentence }
        if let sentence { logger?.error("\(sentence)") }
    }
}

/// The one word of an output (RFC 6750, section 2.1), nil if it holds none, or several.
func tokenText(_ output: [UInt8]) -> String? {
    let word = String(decoding: output, as: UTF8.self).split(whereSeparator: \.isWhitespace)
    guard word.count == 1, word[0].utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { return nil }
    return String(word[0])
}

extension CommandFailure {
    /// The same with the last line of its stderr, without what may be a link's signature.
    var fullWords: String {
        guard case .status(_, let line) = self, !line.isEmpty else { return words }
        let shown = line.split(separator: " ").map { withoutSecrets(String($0)) }.joined(separator: " ")
        return words + ": " + printable(shown).prefix(300)
    }

    /// The end of a sentence whose subject is the command.
    var words: String {
        switch self {
        case .notStarted(let number): "cannot be run: \(reason(number))"
        case .timedOut: "was killed at its deadline"
        case .tooLong: "was killed because it printed too much"
        case .status(let status, _): "ended with status \(status)"
        case .signal(let number): "was ended by signal \(number)"
        case .stopped: "was ended with the mount"
        }
    }
}
