import ArgumentParser
import CLinux
import Glibc
import ReelFuse

struct MountCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount", abstract: "Mounts a URL, a directory listing or a list of URLs.")

    @Argument(
        help: "The URL of a file, of a listing or of a playlist, or the path of a list.",
        completion: .file())
    var source: String
    @Argument(help: "An existing directory.", completion: .directory)
    var mountpoint: String
    @Option(
        name: .short,
        help: ArgumentHelp(
            "Options as in fstab, separated by commas; each long option below can stand here.", valueName: "options"))
    var o: [String] = []
    @Option(
        help: ArgumentHelp(
            "Where bytes are kept (default: ~/.cache/reelfs; root: /var/cache/reelfs).", valueName: "dir"),
        completion: .directory)
    var cacheDir: String?
    @Option(help: ArgumentHelp("The most that the cache may hold: K, M, G, T (default: 10G).", valueName: "size"))
    var cacheSize: String?
    @Option(
        help: ArgumentHelp("What was not used for so long goes: s, m, h, d (default: no limit).", valueName: "time"))
    var cacheAge: String?
    @Option(help: ArgumentHelp("What of the disk stays free: a size, or N% (default: 5%).", valueName: "size"))
    var minFree: String?
    @Option(
        help: ArgumentHelp(
            "What is fetched of the next file when one is played through; 0: nothing (default: 4M).",
            valueName: "size"))
    var prebuffer: String?
    @Option(
        help: ArgumentHelp(
            "Age at which a listing is asked for again: s, m, h, d; 0: at each look (default: 5m).", valueName: "time"))
    var refresh: String?
    @Option(help: ArgumentHelp("Until a read that gets nothing fails (default: 30).", valueName: "seconds"))
    var timeout: String?
    @Option(help: ArgumentHelp("Owner of the files (default: who mounts).", valueName: "number"))
    var uid: String?
    @Option(help: ArgumentHelp("Group of the files (default: who mounts).", valueName: "number"))
    var gid: String?
    @Option(help: ArgumentHelp("Permission bits to take away, octal (default: 0).", valueName: "mask"))
    var umask: String?
    @Flag(help: "Other users may look, too (default for root).")
    var allowOther = false
    @Flag(help: "Nobody else may look, not even root (default for everybody else).")
    var noAllowOther = false
    @Option(
        help: ArgumentHelp("A file with options, one a line: name = value.", valueName: "file"), completion: .file())
    var config: String?
    @Option(
        help: ArgumentHelp(
            "A file, 0600, with username=, password=, token= or header= for the source's origin.", valueName: "file"),
        completion: .file())
    var credentials: String?
    @Option(
        help: ArgumentHelp(
            "\"Name: value\" for each request, or @FILE with such lines; may be repeated.", valueName: "line"))
    var header: [String] = []
    @Option(
        help: ArgumentHelp("What the origin sees as User-Agent (default: reelfs and its version).", valueName: "text"))
    var userAgent: String?
    @Option(
        help: ArgumentHelp("\(logLevels.joined(separator: ", ")) (default: notice).", valueName: "level"),
        completion: .list(logLevels))
    var logLevel: String?
    @Flag(help: "Read-only, which it always is.")
    var ro = false
    @Flag(help: "Stay in the foreground, log to stderr.")
    var foreground = false
    // What mount(8) hands to its helpers: sloppy, fake, no mtab, verbose, namespace, type.
    @Flag(name: .short, help: .hidden) var sloppy = false
    @Flag(name: .short, help: .hidden) var fake = false
    @Flag(name: .customShort("n"), help: .hidden) var noMtab = false
    @Flag(name: .shortAndLong, help: "Say what is mounted where.") var verbose = false
    @Option(name: .customShort("N"), help: .hidden) var namespace: String?
    @Option(name: .customShort("t"), help: .hidden) var type: String?
    @Flag(name: .customLong(Self.helperFlag), help: .hidden) var isHelper = false

    /// Put before the words where mount(8), mount.fuse3 or automount is the caller.
    static let helperFlag = "as-mount-helper"

    func perform() throws -> Int32 {
        // What options name is looked for there, too.
        if let namespace { try enterMountNamespace(namespace) }
        try requireReadable(source)
        let options = try mountOptions()
        if fake {
            tell(mountpoint)
            return 0
        }
        let path: String
        switch try Mountpoint.prepare(mountpoint, for: source, isRemount: options.isRemount) {
        case .free(let free): path = free
        case .mounted(let mount):
            remark(aboutRemountOf: mount)
            return 0
        }
        try UserMount.check(options)
        let request = MountRequest(source: source, mountpoint: path, options: options)
        if options.foreground { return Daemon.run(request, ready: nil) }
        try DaemonLaunch.start(request)
        if isHelper, redacted(source) != source {
            writeLine(
                "reelfs: warning: the source's user and password are hidden from mountinfo, so mount(8) does not "
                    + "recognise its line of fstab; put both into a file: credentials=FILE",
                .warning)
        }
        tell(path)
        return 0
    }

    func mountOptions() throws(Failure) -> MountOptions {
        let options = try MountOptions(givenOptions(), isSloppy: sloppy) { (file) throws(Failure) in
            try requireAbsolute([("config", file)])
        }
        var paths = [("cache-dir", options.cacheDirectory), ("credentials", options.credentialsFile)]
        for case .file(let path) in options.headers { paths.append(("header", path)) }
        try requireAbsolute(paths)
        return options
    }

    /// In fstab and autofs nobody knows which directory a relative path would count from.
    private func requireAbsolute(_ paths: [(name: String, path: String?)]) throws(Failure) {
        guard isHelper else { return }
        for (name, path) in paths {
            guard let path, !path.hasPrefix("/") else { continue }
            throw .usage("option \(name) must be an absolute path in fstab, \(shown(path)) is none")
        }
    }

    private func givenOptions() -> [GivenOption] {
        var given = o.flatMap { reelfs.givenOptions($0) }
        let values: [(String, String?)] = [
            ("config", config), ("credentials", credentials), ("cache-dir", cacheDir), ("cache-size", cacheSize),
            ("cache-age", cacheAge), ("min-free", minFree), ("timeout", timeout), ("refresh", refresh),
            ("prebuffer", prebuffer), ("uid", uid), ("gid", gid), ("umask", umask), ("user-agent", userAgent),
            ("log-level", logLevel),
        ]
        given += values.compactMap { name, value in value.map { GivenOption(name, $0) } }
        given += header.map { GivenOption("header", $0) }
        let flags = [("allow-other", allowOther), ("no-allow-other", noAllowOther), ("foreground", foreground)]
        given += flags.compactMap { name, isGiven in isGiven ? GivenOption(name, nil) : nil }
        return given
    }

    /// mount(8)'s `-v`: one line, without secrets.
    private func tell(_ path: String) {
        guard verbose else { return }
        let options = givenOptions().map { $0.visible }.joined(separator: ", ")
        writeAll(
            1,
            Array(
                ("reelfs: \(shownSource) mounted on \(shown(path))" + (options.isEmpty ? "" : " (\(options))") + "\n")
                    .utf8
            ))
    }

    private var shownSource: String { withoutControls(withoutQuery(source), by: "?") }

    /// mount(8) gives what mountinfo shows back to a remount: that is no wish to change anything.
    private func remark(aboutRemountOf mount: Mount) {
        let isShared = mount.options.contains("allow_other")
        let names = givenOptions().map { hyphenated($0.name) }.filter { MountOptions.isKnown($0) }
            .filter { !["remount", isShared ? "allow-other" : "no-allow-other"].contains($0) }
        guard !names.isEmpty else { return }
        writeLine(
            "reelfs: note: \(shown(mountpoint)) stays mounted as it is: \(names.joined(separator: ", ")) cannot change "
                + "before it is mounted anew", .notice)
    }
}

/// mount(8)'s `-N`: a process's number or the path of a namespace. Before any thread exists, as setns(2) demands.
private func enterMountNamespace(_ name: String) throws(Failure) {
    let path = name.utf8.allSatisfy { (0x30...0x39).contains($0) } ? "/proc/\(name)/ns/mnt" : name
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .usage("namespace \(shown(name)): \(reason())") }
    defer { close(descriptor) }
    // CLONE_NEWNS, which Glibc's module hides behind _GNU_SOURCE.
    guard setns(descriptor, 0x0002_0000) == 0 else {
        throw Failure(status: .system, sentence: "namespace \(shown(name)) cannot be entered: \(reason())")
    }
}
