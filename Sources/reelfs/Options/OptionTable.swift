import ReelVolume

/// All options of a mount. The command line, `-o`, option files, help, man pages, completions and the table of
/// `Options.md` come from these rows.
enum OptionTable {
    /// Help, man pages and `Options.md` show them by group, and within a group in this order.
    static let rows: [OptionRow] = [
        OptionRow(
            name: "cache-dir", group: .common, form: .directory, scope: [.mount, .doctor, .cache],
            unset: "~/.cache/reelfs or /var/cache/reelfs", help: "Cache"
        ) { $0.cacheDirectory = try text($1, $2) },
        OptionRow(
            name: "cache-size", group: .common, form: .size, scope: .mount, default: "10G",
            help: "Maximum cache size: K, M, G, T"
        ) { $0.cacheSize = try size($1, $2) },
        OptionRow(
            name: "cache-key", group: .cache, form: .cacheKey, scope: [.mount, .source, .doctor], default: "url",
            help: "Know a file by url, path or name"
        ) { $0.cacheKey = try cacheKey($1, $2) },
        OptionRow(
            name: "cache-age", group: .cache, form: .time, scope: .mount,
            help: "Evict data unused for this long: s, m, h, d"
        ) { $0.cacheAge = try duration($1, $2) },
        OptionRow(
            name: "min-free", group: .cache, form: .size, scope: .mount, default: "5%",
            help: "Free disk space to keep: a size, or N%"
        ) { $0.minimumFree = try floor($1, $2) },
        OptionRow(
            name: "encrypt", group: .cache, form: .key, scope: [.mount, .cache],
            help: "Encrypt; key: file:PATH, credential:NAME, command:CMD"
        ) { $0.encryption = try KeySource(parsing: text($1, $2)) },
        OptionRow(
            name: "prebuffer", group: .cache, form: .size, scope: [.mount, .source], default: "4M",
            help: "Start of the next file to fetch, or 0"
        ) { $0.prebuffer = try size($1, $2, minimum: 0) },
        OptionRow(
            name: "keep-next", group: .cache, form: .count, scope: [.mount, .source], default: "0",
            help: "Next files of what plays to fetch whole"
        ) { $0.keepNext = Int(try number($1, $2, 0...Keeper.most, "a number from 0 to \(Keeper.most)")) },
        OptionRow(
            name: "keep-new", group: .cache, form: .count, scope: [.mount, .source], default: "0",
            help: "Newest episodes of a feed to fetch whole"
        ) { $0.keepNew = Int(try number($1, $2, 0...Keeper.most, "a number from 0 to \(Keeper.most)")) },
        OptionRow(
            name: "probe-limit", group: .rare, form: .size, scope: [.mount, .source], default: "4M",
            help: "Bytes to fetch ahead of a scanner"
        ) { $0.probeLimit = try size($1, $2, minimum: 0) },
        OptionRow(
            name: "refresh", group: .common, form: .time, scope: [.mount, .source], default: "5m",
            help: "Maximum age of a listing: s, m, h, d"
        ) { $0.refresh = try duration($1, $2) },
        OptionRow(
            name: "warm", group: .behaviour, scope: [.mount, .source],
            help: "List the whole tree in the background after mounting"
        ) { $0.warm = try flag($1, $2) ? .all : .none },
        OptionRow(
            name: "links", group: .behaviour, scope: [.mount, .source],
            help: "Show NAME.rclonelink as the symbolic link NAME"
        ) { $0.links = try flag($1, $2) },
        OptionRow(
            name: "growing", group: .behaviour, scope: [.mount, .source],
            help: "A file that became longer is the same: recordings"
        ) { $0.growing = try flag($1, $2) },
        OptionRow(
            name: "timeout", group: .behaviour, form: .time, scope: [.mount, .source, .doctor], default: "30s",
            help: "Time before a stalled read fails"
        ) { $0.timeout = Int(try duration($1, $2, 1...86_400, "a time from 1 to 86400 seconds, such as 30 or 2m")) },
        OptionRow(
            name: "limit-rate", group: .common, form: .rate, scope: .mount,
            help: "Bytes a second: 2M, or by time 08:00,2M 23:00,off"
        ) { $0.limitRate = try rateSchedule($1, $2) },
        OptionRow(
            name: "only-cached", group: .common, scope: .mount, help: "Show only what is cached whole; ask for nothing"
        ) { $0.onlyCached = try flag($1, $2) },
        OptionRow(
            name: "uid", group: .access, form: .user, scope: .mountpoint, unset: "the mounting user",
            help: "Owner of the files, name or number"
        ) {
            $0.user = try user($1, $2)
        },
        OptionRow(
            name: "gid", group: .access, form: .group, scope: .mountpoint, unset: "the mounting user's",
            help: "Group of the files, name or number"
        ) { $0.group = try group($1, $2) },
        OptionRow(
            name: "umask", group: .access, form: .mask, scope: .mountpoint, default: "0",
            help: "Permission bits to remove, in octal"
        ) { $0.umask = try octal($1, $2) },
        OptionRow(
            name: "allow-other", group: .common, scope: .mountpoint, unset: "on for root",
            help: "Allow access by others, or =no"
        ) {
            $0.allowOther = try choice($1, $2)
        },
        OptionRow(
            name: "no-allow-other", group: .access, scope: [.mountpoint, .hidden], unset: "on for users",
            help: "The same as --allow-other=no"
        ) { $0.allowOther = try !flag($1, $2) },
        OptionRow(
            name: "config", group: .common, form: .file, scope: [.mount, .doctor],
            help: "Read options from a file, a line each: name = value"
        ) { $0.optionFile = try text($1, $2) },
        OptionRow(
            name: "credentials", group: .common, form: .file, scope: [.mount, .source, .doctor],
            help: "File (0600) of username=, password=, token=, header="
        ) { $0.credentialsFile = try text($1, $2) },
        OptionRow(
            name: "cookies", group: .source, letter: "b", form: .file, scope: [.mount, .source, .doctor],
            help: "Netscape cookie file for the source's origin"
        ) { $0.cookieFile = try text($1, $2) },
        OptionRow(
            name: "cert", group: .source, letter: "E", form: .file, scope: [.mount, .source, .doctor],
            help: "Client certificate for the source's origin, PEM"
        ) { $0.certificateFile = try text($1, $2) },
        OptionRow(
            name: "key", group: .source, form: .file, scope: [.mount, .source, .doctor],
            help: "Private key of --cert, PEM"
        ) { $0.keyFile = try text($1, $2) },
        OptionRow(
            name: "cacert", group: .source, form: .file, scope: [.mount, .source, .doctor], unset: "the system's",
            help: "Authorities to trust, PEM"
        ) { $0.authorityFile = try text($1, $2) },
        OptionRow(
            name: "token-command", group: .source, form: .command, scope: [.mount, .source, .doctor],
            help: "Run a command that prints a bearer token"
        ) { $0.tokenCommand = try command($1, $2) },
        OptionRow(
            name: "endpoint", group: .source, form: .url, scope: [.mount, .source, .doctor], unset: "AWS",
            help: "URL of the S3 service"
        ) { $0.endpoint = try endpoint($1, $2) },
        OptionRow(
            name: "region", group: .source, form: .region, scope: [.mount, .source, .doctor, .hidden],
            unset: "as for AWS's tools", help: "Region of the bucket"
        ) { $0.region = try region($1, $2) },
        OptionRow(
            name: "header", group: .common, letter: "H", form: .header, scope: [.mount, .source, .doctor],
            repeats: true,
            help: "Send \"Name: value\", or headers in @FILE; repeatable"
        ) { $0.headers.append(try header(text($1, $2))) },
        OptionRow(
            name: "resolver", group: .source, form: .command, scope: [.mount, .source],
            help: "Ask a command for the present place of each file"
        ) { $0.resolver = try command($1, $2) },
        OptionRow(
            name: "mirror", group: .sharing, form: .url, scope: [.mount, .source, .doctor], repeats: true,
            help: "Further URL of the same tree; may be repeated"
        ) { $0.mirrors.append(try mirror($1, $2)) },
        OptionRow(
            name: "tier", group: .sharing, form: .bucket, scope: .mount,
            help: "Share what is fetched in s3://BUCKET/PREFIX"
        ) { $0.tier = try bucket($1, $2) },
        OptionRow(
            name: "via", group: .sharing, form: .url, scope: [.mount, .source, .doctor],
            help: "URL of the same tree at a shared HTTP cache"
        ) { $0.via = try endpoint($1, $2) },
        OptionRow(
            name: "via-credentials", group: .sharing, scope: [.mount, .source, .doctor, .hidden],
            help: "Give the cache of --via the source's credentials"
        ) { $0.viaCredentials = try flag($1, $2) },
        OptionRow(
            name: "align", group: .sharing, form: .size, scope: [.mount, .source, .doctor, .hidden],
            unset: "1M with --via",
            help: "Size of the pieces that requests are for, a power of two"
        ) { $0.align = try alignment($1, $2) },
        OptionRow(
            name: "user-agent", group: .source, letter: "A", form: .text, scope: [.mount, .source, .doctor],
            unset: "reelfs and its version",
            help: "User-Agent to send"
        ) { $0.userAgent = try printable($1, $2) },
        OptionRow(
            name: "ssh-key", group: .source, form: .file, scope: [.mount, .source, .doctor],
            unset: "~/.ssh/id_ed25519", help: "Private key for sftp://"
        ) { $0.sshKey = try text($1, $2) },
        OptionRow(
            name: "ssh-known-hosts", group: .source, form: .file, scope: [.mount, .source, .doctor],
            unset: "~/.ssh/known_hosts",
            help: "Host keys for sftp://"
        ) { $0.sshKnownHosts = try text($1, $2) },
        OptionRow(
            name: "listen", group: .http, form: .address, scope: .mount,
            help: "Serve HTTP: PORT, HOST:PORT or unix:PATH"
        ) { $0.listen = try listenAddress($1, $2) },
        OptionRow(
            name: "listen-credentials", group: .http, form: .file, scope: .mount,
            help: "File of username= and password= for HTTP clients"
        ) { $0.listenCredentials = try text($1, $2) },
        OptionRow(
            name: "listen-origin", group: .http, form: .url, scope: .mount, repeats: true,
            help: "https://NAME of a proxy before it; may be repeated"
        ) { $0.listenOrigins.append(try listenOrigin($1, $2)) },
        OptionRow(
            name: "on-change", group: .behaviour, form: .command, scope: .mount,
            help: "Run a command with the changed paths on its stdin"
        ) { $0.onChange = try command($1, $2) },
        OptionRow(
            name: "anchor", group: .behaviour, form: .text, scope: .mount,
            help: "Show this file while the tree can be trusted"
        ) { $0.anchor = try fileName($1, $2) },
        OptionRow(
            name: "log-level", group: .rare, form: .level, scope: .mount, default: "notice",
            help: "Least severe level to log"
        ) { $0.logLevel = try level($1, $2) },
        OptionRow(
            name: "request-log", group: .rare, form: .file, scope: .mount,
            help: "Write a JSON line for each request"
        ) { $0.requestLog = try text($1, $2) },
        OptionRow(
            name: "foreground", group: .common, scope: .mountpoint, help: "Stay in the foreground and log to stderr"
        ) {
            $0.foreground = try flag($1, $2)
        },
        OptionRow(
            name: "remount", group: .rare, scope: [.mountpoint, .hidden],
            help: "Change nothing, and name the options that take effect with the next mount"
        ) { $0.isRemount = try flag($1, $2) },
    ]

    /// The rows that help shows.
    static func shown(in group: OptionRow.Group) -> [OptionRow] {
        rows.filter { $0.group == group && !$0.scope.contains(.hidden) }
    }

    /// - Parameter name: with hyphens.
    static subscript(name: String) -> OptionRow? { rows.first { $0.name == name } }
}
