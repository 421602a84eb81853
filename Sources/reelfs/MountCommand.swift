import ArgumentParser
import Glibc
import ReelFuse

struct MountCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount", abstract: "Mounts a URL, a directory listing or a list of URLs.")

    @Argument(help: "The URL of a file, of a listing or of a playlist, or the path of a list.")
    var source: String
    @Argument(help: "An existing directory.")
    var mountpoint: String
    @Option(name: .short, help: "Options as in fstab, separated by commas; each long option below can stand here.")
    var o: [String] = []
    @Option(help: "Where bytes are kept.") var cacheDir: String?
    @Option(help: "The most that the cache may hold: K, M, G, T (default: 10G).") var cacheSize: String?
    @Option(help: "What was not used for so long goes: s, m, h, d (default: no limit).") var cacheAge: String?
    @Option(help: "What of the disk stays free: a size, or N% (default: 5%).") var minFree: String?
    @Option(help: "Seconds until a read that gets nothing fails (default: 30).") var timeout: String?
    @Option(help: "Age at which a listing is asked for again: s, m, h, d (default: 5m; 0: at each look).") var refresh:
        String?
    @Option(help: "Owner of the files (default: who mounts).") var uid: String?
    @Option(help: "Group of the files (default: who mounts).") var gid: String?
    @Option(help: "Permission bits to take away, octal.") var umask: String?
    @Flag(help: "Other users may look, too.") var allowOther = false
    @Flag(help: "Read-only, which it always is.") var ro = false
    @Option(help: "\"Name: value\" for each request, or @FILE with such lines; may be repeated.") var header: [String] =
        []
    @Option(help: "What the origin sees as User-Agent.") var userAgent: String?
    @Option(help: "trace, debug, info, notice, warning, error or critical (default: notice).") var logLevel: String?
    @Flag(help: "Stay in the foreground, log to stderr.") var foreground = false
    // What mount(8) hands to its helpers: sloppy, fake, no mtab, verbose, type.
    @Flag(name: .short, help: .hidden) var sloppy = false
    @Flag(name: .short, help: .hidden) var fake = false
    @Flag(name: .customShort("n"), help: .hidden) var noMtab = false
    @Flag(name: .short, help: .hidden) var verbose = false
    @Option(name: .customShort("t"), help: .hidden) var type: String?

    func perform() throws -> Int32 {
        let options = try mountOptions()
        if fake { return 0 }
        let place = try Mountpoint.prepare(mountpoint, isRemount: options.isRemount)
        guard case .free(let path) = place else { return 0 }
        let request = MountRequest(source: source, mountpoint: path, options: options)
        return options.foreground ? Daemon.run(request, ready: nil) : try DaemonLaunch.start(request)
    }

    func mountOptions() throws(Failure) -> MountOptions {
        var options = MountOptions()
        for list in o { try options.apply(list: list, isSloppy: sloppy) }
        let values: [(String, String?)] = [
            ("cache-dir", cacheDir), ("cache-size", cacheSize), ("cache-age", cacheAge),
            ("min-free", minFree), ("timeout", timeout), ("refresh", refresh), ("uid", uid), ("gid", gid),
            ("umask", umask), ("user-agent", userAgent), ("log-level", logLevel),
        ]
        for (name, value) in values where value != nil { try options.apply(name, value) }
        for line in header { try options.apply("header", line) }
        if allowOther { options.allowOther = true }
        if foreground { options.foreground = true }
        return options
    }
}
