import Glibc
import ReelCache

/// The options of one mount, from `-o` and from long options alike. Pure: files and the system are not touched.
package struct MountOptions: Hashable, Sendable {
    package var cacheDirectory: String?
    /// Bytes.
    package var cacheSize: Int64 = 10 << 30
    /// Seconds after its last use, when what is cached goes; nil: never for its age.
    package var cacheAge: Int64?
    package var minimumFree = CacheLimits.Floor.percent(5)
    /// Seconds until a read that gets nothing fails.
    package var timeout = 30
    /// Seconds until a listing is asked for again when somebody looks; 0: at each look.
    package var refresh: Int64 = 300
    /// Bytes of the next file that are fetched when one is played through; 0: none.
    package var prebuffer: Int64 = 4 << 20
    /// nil: the mounter's.
    package var user: UInt32?
    package var group: UInt32?
    package var umask: UInt32 = 0
    /// nil: yes for root, no for everybody else.
    package var allowOther: Bool?
    package var headers: [Header] = []
    /// `FILE`: what only the source's origin may see, read by the daemon.
    package var credentialsFile: String?
    /// `FILE`: further options; read by who parses the command line, the options beside it win.
    package var optionFile: String?
    package var userAgent: String?
    package var logLevel = "notice"
    package var foreground = false
    /// mount(8)'s `remount`: nothing of a running mount can be changed, and a second one must not be stacked.
    package var isRemount = false

    package enum Header: Hashable, Sendable {
        case field(name: String, value: String)
        /// `@FILE`: lines of `Name: value`, read by the daemon.
        case file(String)
    }

    package init() {}

    /// Whether other users may look into the mount.
    package var sharesWithOthers: Bool { allowOther ?? (geteuid() == 0) }

    /// Takes `-o`'s whole text. - Parameter isSloppy: mount(8)'s `-s`, unknown words are ignored.
    package mutating func apply(list: String, isSloppy: Bool = false) throws(Failure) {
        for option in givenOptions(list) { try apply(option, isSloppy: isSloppy) }
    }

    /// Takes one option; an error names the line it stands on.
    package mutating func apply(_ option: GivenOption, isSloppy: Bool = false) throws(Failure) {
        do {
            try apply(option.name, option.value)
        } catch {
            let isUnknown = error.sentence.hasPrefix(Self.unknown)
            if isSloppy, isUnknown { return }
            if isUnknown, option.followsHeader {
                throw .usage(
                    "\(Self.unknown) behind header=, where a comma of the value is written `\\,`, or the value in quotes"
                )
            }
            throw option.place.map { .usage("\($0): \(error.sentence)") } ?? error
        }
    }

    private static let unknown = "unknown option"

    /// Each option's name, with hyphens.
    package enum Name: String, CaseIterable, Sendable {
        case cacheDirectory = "cache-dir"
        case cacheSize = "cache-size"
        case cacheAge = "cache-age"
        case minimumFree = "min-free"
        case prebuffer, refresh, timeout, uid, gid, umask
        case allowOther = "allow-other"
        case noAllowOther = "no-allow-other"
        case config, credentials, header
        case userAgent = "user-agent"
        case logLevel = "log-level"
        case foreground, remount
    }

    /// Whether such an option exists. - Parameter name: with hyphens.
    static func isKnown(_ name: String) -> Bool { Name(rawValue: name) != nil || misplaced.contains(name) }

    /// What would be a secret for everybody to read.
    private static let misplaced = ["username", "password", "pass", "token"]

    /// Takes one option by its name, with hyphens or underscores.
    package mutating func apply(_ key: String, _ value: String?) throws(Failure) {
        let name = hyphenated(key)
        guard let option = Name(rawValue: name) else {
            if Self.misplaced.contains(name) {
                throw .usage("option \(name) would be for everybody to read; put it into a file: credentials=FILE")
            }
            throw .usage("\(Self.unknown) \"\(shown(key))\"; `reelfs mount --help` lists the known ones")
        }
        switch option {
        case .cacheDirectory: cacheDirectory = try text(name, value)
        case .cacheSize: cacheSize = try size(name, value)
        case .cacheAge: cacheAge = try duration(name, value)
        case .minimumFree: minimumFree = try floor(name, value)
        case .prebuffer: prebuffer = value == "0" ? 0 : try size(name, value)
        case .refresh: refresh = try duration(name, value)
        case .timeout: timeout = Int(try number(name, value, 1...86_400, "seconds, 1 to 86400"))
        case .uid: user = UInt32(try number(name, value, 0...4_294_967_294, "a number"))
        case .gid: group = UInt32(try number(name, value, 0...4_294_967_294, "a number"))
        case .umask: umask = try octal(name, value)
        case .allowOther: allowOther = try flag(name, value)
        case .noAllowOther: allowOther = try !flag(name, value)
        case .config: optionFile = try text(name, value)
        case .credentials: credentialsFile = try text(name, value)
        case .header: headers.append(try header(text(name, value)))
        case .userAgent: userAgent = try printable(name, value)
        case .logLevel: logLevel = try level(name, value)
        case .foreground: foreground = try flag(name, value)
        case .remount: isRemount = try flag(name, value)
        }
    }
}

/// The options of one `-o`, without those that mean nothing here.
package func givenOptions(_ list: String) -> [GivenOption] {
    var hasHeader = false
    return splitOptions(list).compactMap { word in
        let pair = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let key = String(pair[0])
        defer { if key == "header" { hasHeader = true } }
        if isIgnored(key) { return nil }
        return GivenOption(key, pair.count > 1 ? String(pair[1]) : nil, followsHeader: hasHeader)
    }
}

/// Cuts at commas; `\,` is a comma of the value and `\\` a backslash. A value in quotes, `name="a,b"`, is one value, as
/// mount(8) has it; `\"` is a quote in it.
package func splitOptions(_ list: String) -> [String] {
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

/// What fstab, mount(8) and systemd put beside a filesystem's own options; the kernel or mount(8) deals with it, or it
/// means nothing to a read-only tree of media.
package func isIgnored(_ key: String) -> Bool {
    key.hasPrefix("x-") || key.hasPrefix("X-") || ignoredWords.contains(key)
}

package let ignoredWords = [
    "defaults", "rw", "ro", "atime", "noatime", "relatime", "norelatime", "strictatime", "lazytime", "nolazytime",
    "diratime", "nodiratime", "dev", "nodev", "suid", "nosuid", "exec", "noexec", "auto", "noauto", "user", "nouser",
    "users", "owner", "group", "nofail", "fail", "_netdev", "_rnetdev", "comment", "sync", "async", "dirsync", "silent",
    "loud", "mand", "nomand", "iversion", "noiversion", "symfollow", "nosymfollow",
    // mountinfo's, which mount(8) gives back with a remount.
    "default_permissions", "user_id", "group_id", "max_read",
]
