import Glibc
import ReelCache
import ReelCore
import ReelListener
import ReelSources
import ReelVolume

/// The options of one mount, wherever they were given. Each is a row of ``OptionTable``. Touches neither files nor the
/// system.
struct MountOptions: Hashable, Sendable {
    var cacheDirectory: String?
    /// Bytes.
    var cacheSize: Int64 = 10 << 30
    /// What files are known by in the cache.
    var cacheKey = CacheKey.url
    /// Seconds without use after which cached data is evicted, nil for no limit.
    var cacheAge: Int64?
    var minimumFree = CacheLimits.Floor.percent(5)
    /// Seconds before a stalled read fails.
    var timeout = 30
    /// Age in seconds at which an access fetches a listing again; 0: at each access.
    var refresh: Int64 = 300
    /// Bytes to fetch of the next file once one is played through; 0: none.
    var prebuffer: Int64 = 4 << 20
    /// Files after the one that is played which are fetched whole; 0: none.
    var keepNext = 0
    /// The newest episodes of each feed which are fetched whole; 0: none.
    var keepNew = 0
    /// Which folders to list after mounting.
    var warm = Warming.none
    /// Bytes of one file that one program may cause to be fetched beyond what it reads.
    var probeLimit: Int64 = 4 << 20
    /// Shows `NAME.rclonelink` as the symbolic link NAME.
    var links = false
    /// A file that became longer is the same file.
    var growing = false
    /// nil: the mounting user.
    var user: UInt32?
    var group: UInt32?
    var umask: UInt32 = 0
    /// nil: yes for root, no for ordinary users.
    var allowOther: Bool?
    var headers: [HeaderOption] = []
    /// The daemon reads it, and sends its contents to the source's origin only.
    var credentialsFile: String?
    /// A Netscape cookie file.
    var cookieFile: String?
    /// PEM files: a client certificate, its key unless the certificate's file holds it, and authorities.
    var certificateFile: String?
    var keyFile: String?
    var authorityFile: String?
    /// Prints a bearer token.
    var tokenCommand: Command?
    /// Where the key of an encrypted cache comes from, nil if the cache is plain.
    var encryption: KeySource?
    /// The parser of the command line reads it; options beside it take precedence.
    var optionFile: String?
    /// Prints where the bytes of a file come from now.
    var resolver: Command?
    /// Further bases of the source's tree, in order of preference.
    var mirrors: [ResourceURL] = []
    /// The address of a bucket that mounts share, nil if none.
    var tier: String?
    /// The base of the source's tree at a shared HTTP cache, which is asked first.
    var via: ResourceURL?
    /// Whether that cache gets the source's credentials.
    var viaCredentials = false
    /// Bytes, a power of two, nil for a mebibyte with `via`, else a block.
    var align: Int64?
    var userAgent: String?
    /// The URL of an S3 service, nil for AWS.
    var endpoint: ResourceURL?
    /// The region of a bucket, nil for the one that the environment or the service names.
    var region: String?
    /// The paths of a private key and of a list of host keys, for SFTP, nil for those of ssh(1).
    var sshKey: String?
    var sshKnownHosts: String?
    /// The path of a file that gets a line for each request.
    var requestLog: String?
    /// The address of the HTTP server, nil if there is none.
    var listen: ListenAddress?
    /// The path of a file with the user and password that its clients must bring.
    var listenCredentials: String?
    /// By which browsers know it behind a proxy.
    var listenOrigins: [ServedOrigin] = []
    /// Run with the paths that a refresh found changed.
    var onChange: Command?
    /// The name of a file that is there only while the tree can be trusted, nil if there is none.
    var anchor: String?
    /// The rate of all requests together.
    var limitRate = RateSchedule.off
    /// Shows only what plays without the network, and asks for nothing.
    var onlyCached = false
    var logLevel = "notice"
    var foreground = false
    /// mount(8)'s `remount`: a running mount cannot be changed, and a second one must not be stacked on it.
    var isRemount = false

    /// Bytes at whose multiples requests begin and end.
    var alignment: Int64 { align ?? (via == nil ? BlockSize.block : 1 << 20) }

    /// Whether other users may access the mount.
    var sharesWithOthers: Bool { allowOther ?? (geteuid() == 0) }

    /// The source as `SourceKinds` reads it: the address of a bucket names its endpoint.
    func address(of source: String) -> String { SourceKinds.spelled(source, endpoint: endpoint) }

    /// Applies one option; an error names the line of its file.
    /// - Parameters:
    ///   - isSloppy: mount(8)'s `-s`, which ignores unknown options.
    ///   - isInFstab: the option comes from fstab or autofs, where a relative path has no meaning.
    mutating func apply(
        _ option: GivenOption, isSloppy: Bool = false, isInFstab: Bool = false
    ) throws(Failure) {
        let name = hyphenated(option.name)
        do {
            guard let row = OptionTable[name] else {
                if isSloppy, !Self.isCredential(name) { return }
                throw unknown(option)
            }
            // A daemon leaves the directory in which it was called.
            try row.apply(&self, name, option.absolute.value)
            if isInFstab, let path = option.value.flatMap({ row.form?.path($0) }),
                path.utf8.first != UInt8(ascii: "/")
            {
                throw Failure.usage("option \(name) needs an absolute path in fstab, and \(shown(path)) is relative")
            }
        } catch {
            let sentence = (error as? Failure)?.sentence ?? "\(error)"
            throw .usage(option.place.map { "\($0): \(sentence)" } ?? sentence)
        }
    }

    private func unknown(_ option: GivenOption) -> Failure {
        let name = hyphenated(option.name)
        if Self.isCredential(name) {
            return .usage("option \(name) would be visible to other users; put it into a file: credentials=FILE")
        }
        if option.followsHeader {
            return .usage("unknown option after header=; write a comma in a value as `\\,`, or the value in quotes")
        }
        let advice = OptionWords.advice(on: name.lowercased()) ?? "`reelfs mount --help` lists all options"
        return .usage("unknown option \"\(shown(option.name))\": \(advice)")
    }

    /// Whether the option exists, or is refused with a reason of its own. - Parameter name: with hyphens.
    static func isKnown(_ name: String) -> Bool { OptionTable[name] != nil || isCredential(name) }

    /// Options of other mount programs, which would show a secret to every user.
    private static func isCredential(_ name: String) -> Bool {
        ["username", "password", "pass", "token"].contains(name)
    }
}

/// The options of one `-o`, without those that have no effect here.
func givenOptions(_ list: String) -> [GivenOption] {
    var hasHeader = false
    return splitOptions(list).compactMap { word in
        let pair = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let key = String(pair[0])
        defer { if key == "header" { hasHeader = true } }
        if isIgnored(key) { return nil }
        return GivenOption(key, pair.count > 1 ? String(pair[1]) : nil, followsHeader: hasHeader)
    }
}

/// Splits at commas; `\,` is a comma of the value and `\\` a backslash. A value may stand in quotes, `name="a,b"`, as
/// in mount(8); there `\"` is a quote.
func splitOptions(_ list: String) -> [String] {
    var words: [String] = []
    var word = ""
    var isEscaped = false
    var isQuoted = false
    for character in list {
        if isEscaped {
            let isMeant = character == "," || character == "\\" || isQuoted && character == "\""
            if !isMeant { word.append("\\") }
            word.append(character)
            isEscaped = false
        } else if character == "\\" {
            isEscaped = true
        } else if character == "\"", isQuoted || word.firstIndex(of: "=") == word.indices.last {
            isQuoted.toggle()
        } else if character == ",", !isQuoted {
            words.append(word)
            word = ""
        } else {
            word.append(character)
        }
    }
    if isEscaped { word.append("\\") }
    words.append(word)
    return words.filter { !$0.isEmpty }
}

/// Whether an option belongs to fstab, mount(8), systemd or the kernel, or has no effect on a read-only tree of media.
func isIgnored(_ key: String) -> Bool {
    key.hasPrefix("x-") || key.hasPrefix("X-") || ignoredWords.contains(key)
}

/// Options that are accepted and have no effect.
let ignoredWords = [
    "defaults", "rw", "ro", "atime", "noatime", "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime",
    "nolazytime", "diratime", "nodiratime", "dev", "nodev", "suid", "nosuid", "exec", "noexec", "auto", "noauto",
    "user", "nouser", "users", "nousers", "owner", "noowner", "group", "nogroup", "nofail", "fail", "_netdev",
    "_rnetdev", "comment", "sync", "async", "dirsync", "silent", "loud", "mand", "nomand", "iversion", "noiversion",
    "symfollow", "nosymfollow",
    // Of sshfs and of older FUSE programs: what a mount does by itself.
    "reconnect", "nonempty", "auto_unmount", "kernel_cache", "auto_cache", "big_writes",
    // mount(8) passes these from mountinfo with a remount.
    "default_permissions", "user_id", "group_id", "max_read",
]
