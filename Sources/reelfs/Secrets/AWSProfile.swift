import Glibc
import ReelHTTP

/// Reads keys and region from the places that AWS's own tools read: the environment, `~/.aws/credentials` and
/// `~/.aws/config`.
struct AWSProfile {
    /// What of the environment names keys or a region.
    static let variables = [
        "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    ]

    private(set) var key: SigningKey?
    private(set) var region: String?

    /// - Parameters:
    ///   - variable: reads the environment.
    ///   - home: the user's directory, nil if there is none.
    ///   - needsKey: false: only the region is looked for.
    init(_ variable: @escaping (String) -> String? = environment, home: String?, needsKey: Bool) throws(Failure) {
        let given = { (name: String) in variable(name).flatMap { $0.isEmpty ? nil : $0 } }
        let name = given("AWS_PROFILE") ?? given("AWS_DEFAULT_PROFILE") ?? "default"
        let config = try Self.file(given("AWS_CONFIG_FILE"), home, "config")
        let profile = config?.section(name == "default" ? [name, "profile default"] : ["profile " + name]) ?? [:]
        region = given("AWS_REGION") ?? given("AWS_DEFAULT_REGION") ?? profile["region"]
        guard needsKey else { return }
        if let id = given("AWS_ACCESS_KEY_ID"), let secret = given("AWS_SECRET_ACCESS_KEY") {
            key = SigningKey(id: id, secret: secret, token: given("AWS_SESSION_TOKEN"))
            return
        }
        let credentials = try Self.file(given("AWS_SHARED_CREDENTIALS_FILE"), home, "credentials")
        for case let file? in [credentials, config] {
            let values = file.path == config?.path ? profile : file.section([name])
            guard let id = values["aws_access_key_id"], let secret = values["aws_secret_access_key"] else { continue }
            guard file.isPrivate else {
                throw .usage("\(shown(file.path)) holds keys and is accessible to others: run `chmod 600` on it")
            }
            key = SigningKey(id: id, secret: secret, token: values["aws_session_token"])
            return
        }
        let foreign = ["credential_process", "sso_session", "sso_start_url", "role_arn", "web_identity_token_file"]
        if let word = foreign.first(where: { profile[$0] != nil }) {
            throw .usage(
                "the AWS profile \(shown(name)) gets its keys by \(word), which reelfs cannot; put keys into the "
                    + "environment with `eval \"$(aws configure export-credentials --format env)\"`, or into a file: "
                    + "credentials=FILE")
        }
    }

    /// A file of sections, `[name]`, and their lines, `key = value`.
    private struct File {
        let path: String
        let isPrivate: Bool
        private var sections: [String: [String: String]] = [:]

        init(_ path: String) throws(Failure) {
            let read = try TrustedText(path, kind: "AWS file", isSecret: false)
            self.path = path
            isPrivate = read.isPrivate
            var section = ""
            for line in read.text.split(whereSeparator: \.isNewline) {
                let text = trimmedSpaces(line)
                if text.first == "[", let end = text.firstIndex(of: "]") {
                    // `[ profile  name ]`
                    let words = text[text.index(after: text.startIndex)..<end].split { $0 == " " || $0 == "\t" }
                    section = words.joined(separator: " ")
                } else if let sign = text.firstIndex(of: "="), text.first != "#", text.first != ";",
                    // Below a key without a value stand lines of its own.
                    line.first != " ", line.first != "\t"
                {
                    let name = trimmedSpaces(text[..<sign])
                    sections[section, default: [:]][name] = trimmedSpaces(text[text.index(after: sign)...])
                }
            }
        }

        /// The lines of the first section that is there.
        func section(_ names: [String]) -> [String: String] { names.lazy.compactMap { sections[$0] }.first ?? [:] }
    }

    /// - Parameter given: a path from the environment: such a file is to be there.
    private static func file(_ given: String?, _ home: String?, _ name: String) throws(Failure) -> File? {
        guard let path = given ?? home.map({ $0 + "/.aws/" + name }) else { return nil }
        if given == nil, access(path, F_OK) != 0, errno == ENOENT || errno == ENOTDIR || errno == EACCES { return nil }
        return try File(path)
    }
}
