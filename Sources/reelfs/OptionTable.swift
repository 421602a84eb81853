/// All options of a mount. The command line, `-o`, option files, help, man pages, completions and the table in
/// README.md come from these rows.
enum OptionTable {
    /// In the order of help.
    static let rows: [OptionRow] = [
        OptionRow(
            name: "cache-dir", form: .directory, scope: [.mount, .doctor, .cache],
            unset: "~/.cache/reelfs, for root /var/cache/reelfs", help: "Directory of the cache"
        ) { $0.cacheDirectory = try text($1, $2) },
        OptionRow(
            name: "cache-size", form: .size, scope: .mount, default: "10G", help: "Maximum cache size: K, M, G, T"
        ) { $0.cacheSize = try size($1, $2) },
        OptionRow(
            name: "cache-key", form: .cacheKey, scope: [.mount, .source, .doctor], default: "url",
            help: "Know a file by url, path or name"
        ) { $0.cacheKey = try cacheKey($1, $2) },
        OptionRow(
            name: "cache-age", form: .time, scope: .mount, unset: "no limit",
            help: "Evict data unused for this long: s, m, h, d"
        ) { $0.cacheAge = try duration($1, $2) },
        OptionRow(
            name: "min-free", form: .size, scope: .mount, default: "5%", help: "Free disk space to keep: a size, or N%"
        ) { $0.minimumFree = try floor($1, $2) },
        OptionRow(
            name: "encrypt", form: .key, scope: [.mount, .cache],
            help: "Encrypt the cache; its key: file:PATH, credential:NAME or command:COMMAND"
        ) { $0.encryption = try KeySource(parsing: text($1, $2)) },
        OptionRow(
            name: "prebuffer", form: .size, scope: [.mount, .source], default: "4M",
            help: "Bytes to fetch of the next file once one is played through; 0: none"
        ) { $0.prebuffer = try size($1, $2, minimum: 0) },
        OptionRow(
            name: "refresh", form: .time, scope: [.mount, .source], default: "5m",
            help: "Age at which a listing is fetched again: s, m, h, d; 0: at each access"
        ) { $0.refresh = try duration($1, $2) },
        OptionRow(
            name: "timeout", form: .seconds, scope: [.mount, .source, .doctor], default: "30",
            help: "Seconds before a stalled read fails"
        ) { $0.timeout = Int(try number($1, $2, 1...86_400, "seconds, 1 to 86400")) },
        OptionRow(name: "uid", form: .number, scope: .mount, unset: "the mounting user", help: "Owner of the files") {
            $0.user = try identifier($1, $2)
        },
        OptionRow(
            name: "gid", form: .number, scope: .mount, unset: "the mounting user's", help: "Group of the files"
        ) { $0.group = try identifier($1, $2) },
        OptionRow(
            name: "umask", form: .mask, scope: .mount, default: "0", help: "Permission bits to remove, in octal"
        ) { $0.umask = try octal($1, $2) },
        OptionRow(name: "allow-other", scope: .mount, unset: "on for root", help: "Allow access by other users") {
            $0.allowOther = try flag($1, $2)
        },
        OptionRow(
            name: "no-allow-other", scope: .mount, unset: "on for ordinary users",
            help: "Deny access to all other users, root included"
        ) { $0.allowOther = try !flag($1, $2) },
        OptionRow(
            name: "config", form: .file, scope: [.mount, .doctor],
            help: "Read options from a file, a line each: name = value"
        ) { $0.optionFile = try text($1, $2) },
        OptionRow(
            name: "credentials", form: .file, scope: [.mount, .source, .doctor],
            help: "Read username=, password=, token= or header= for the source's origin from a file with mode 0600"
        ) { $0.credentialsFile = try text($1, $2) },
        OptionRow(
            name: "cookies", form: .file, scope: [.mount, .source, .doctor],
            help: "Netscape cookie file for the source's origin"
        ) { $0.cookieFile = try text($1, $2) },
        OptionRow(
            name: "cert", form: .file, scope: [.mount, .source, .doctor],
            help: "Client certificate for the source's origin, PEM"
        ) { $0.certificateFile = try text($1, $2) },
        OptionRow(
            name: "key", form: .file, scope: [.mount, .source, .doctor],
            help: "Private key of --cert, PEM"
        ) { $0.keyFile = try text($1, $2) },
        OptionRow(
            name: "cacert", form: .file, scope: [.mount, .source, .doctor], unset: "the system's",
            help: "Authorities to trust, PEM"
        ) { $0.authorityFile = try text($1, $2) },
        OptionRow(
            name: "token-command", form: .command, scope: [.mount, .source, .doctor],
            help: "Run a command that prints a bearer token"
        ) { $0.tokenCommand = try command($1, $2) },
        OptionRow(
            name: "endpoint", form: .url, scope: [.mount, .source, .doctor], unset: "AWS",
            help: "URL of the S3 service"
        ) { $0.endpoint = try endpoint($1, $2) },
        OptionRow(
            name: "region", form: .region, scope: [.mount, .source, .doctor],
            unset: "as AWS's tools have it", help: "Region of the bucket"
        ) { $0.region = try region($1, $2) },
        OptionRow(
            name: "header", form: .header, scope: [.mount, .source, .doctor], repeats: true,
            help: "Send a header \"Name: value\", or the headers in @FILE, with each request; may be repeated"
        ) { $0.headers.append(try header(text($1, $2))) },
        OptionRow(
            name: "resolver", form: .command, scope: [.mount, .source],
            help: "Ask a command for the present place of each file"
        ) { $0.resolver = try command($1, $2) },
        OptionRow(
            name: "user-agent", form: .text, scope: [.mount, .source, .doctor], unset: "reelfs and its version",
            help: "User-Agent to send"
        ) { $0.userAgent = try printable($1, $2) },
        OptionRow(
            name: "ssh-key", form: .file, scope: [.mount, .source, .doctor],
            unset: "~/.ssh/id_ed25519", help: "Private key for sftp://"
        ) { $0.sshKey = try text($1, $2) },
        OptionRow(
            name: "ssh-known-hosts", form: .file, scope: [.mount, .source, .doctor], unset: "~/.ssh/known_hosts",
            help: "Host keys for sftp://"
        ) { $0.sshKnownHosts = try text($1, $2) },
        OptionRow(
            name: "log-level", form: .level, scope: .mount, default: "notice",
            help: "Least severe messages to log: \(logLevels.joined(separator: ", "))"
        ) { $0.logLevel = try level($1, $2) },
        OptionRow(
            name: "request-log", form: .file, scope: .mount,
            help: "Write a JSON line for each request"
        ) { $0.requestLog = try text($1, $2) },
        OptionRow(name: "foreground", scope: .mount, help: "Stay in the foreground and log to stderr") {
            $0.foreground = try flag($1, $2)
        },
        OptionRow(
            name: "remount", scope: [.mount, .hidden],
            help: "Change nothing, and name the options that take effect with the next mount"
        ) { $0.isRemount = try flag($1, $2) },
    ]

    /// - Parameter name: with hyphens.
    static subscript(name: String) -> OptionRow? { rows.first { $0.name == name } }
}
