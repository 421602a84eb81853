import ArgumentParser
import Glibc
import ReelCore
import ReelVolume

struct PrefetchCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "prefetch", abstract: "Fetch whole files into the cache.",
        usage: "reelfs prefetch [<options>] <path> ...",
        discussion: """
            A directory stands for all files below it, and is listed where it was not yet. Fetches only what is \
            missing, so that an interrupted prefetch goes on where it stopped. Programs that read go first. Refuses \
            what the cache cannot hold.
            """)

    @Argument(help: ArgumentHelp("Files or directories on a mount.", valueName: "path"), completion: .file())
    var paths: [String]
    @Flag(help: "Pin the files first.") var pin = false
    @Flag(help: "Return at once; the daemon goes on until it is done or unmounted. `reelfs status` shows it.")
    var background = false
    @Flag(help: "Cancel the prefetches of these files or directories, and of all below them.") var cancel = false
    @Option(
        name: .customLong("limit-rate"),
        help: ArgumentHelp("Limit this prefetch, as --limit-rate of mount.", valueName: "rate"))
    var limitRate: String?

    @Option(
        help: ArgumentHelp(
            "Give up once nothing comes for so long, or off (default: off on a terminal, else 1m).", valueName: "time"))
    var timeout: String?

    func perform() throws -> Int32 {
        var work = MaintenanceTally()
        let patience = try self.patience
        let rate = try limitRate.map { try rateSchedule("limit-rate", $0) }
        if cancel {
            for path in paths { work.add { () throws(Failure) in try cancel(path) } }
            return work.finish()
        }
        // All paths of one mount at once, as its cache has to hold all of them.
        var mounts: [(daemon: ControlClient, mountpoint: String, paths: [String])] = []
        for path in paths {
            work.add { () throws(Failure) in
                let place = try MountedPath(path)
                let mountpoint = ExactText(place.mountpoint)
                if let index = mounts.firstIndex(where: { ExactText($0.mountpoint) == mountpoint }) {
                    mounts[index].paths.append(place.path)
                } else {
                    mounts.append((place.daemon, place.mountpoint, [place.path]))
                }
                return MaintenanceReport()
            }
        }
        for mount in mounts {
            work.add { () throws(Failure) in
                try fetch(mount.paths, rate, patience, mount.daemon)
                return MaintenanceReport()
            }
        }
        return work.finish()
    }

    private func cancel(_ path: String) throws(Failure) -> MaintenanceReport {
        let place = try MountedPath(path)
        let cancelled: Int = try place.daemon.result(of: .cancelPrefetch(place.path))
        if cancelled == 0 { throw .mount("\(shown(path)): no prefetch is under way") }
        return MaintenanceReport()
    }

    /// A person ends it by Ctrl-C, a script does not; in the background it waits as long as any prefetch.
    private var patience: Duration? {
        get throws(Failure) {
            if let timeout { return timeout == "off" ? nil : .seconds(try duration("timeout", timeout, 1...86_400)) }
            return background ? PrefetchRequest.usualPatience : isatty(2) != 0 ? nil : .seconds(60)
        }
    }

    private func fetch(
        _ paths: [String], _ rate: RateSchedule?, _ patience: Duration?, _ daemon: ControlClient
    ) throws(Failure) {
        let asked = PrefetchRequest(
            paths: paths, pins: pin, rate: rate, isBackground: background, patience: patience)
        let bar = ProgressBar("fetching", isQuiet: false)
        defer { bar.end() }
        let status: PrefetchStatus = try daemon.result(of: .prefetch(asked)) { line in
            guard case .prefetching(let status) = line else { return }
            switch status.phase {
            case .listing: bar.wait("listing, \(count(status.files, "file")) so far", atOnce: false)
            case .waiting: bar.wait("waiting: \(printable(status.error ?? "nothing comes"))", atOnce: true)
            default: bar.show(MaintenanceProgress(done: status.doneBytes, total: status.bytes), rateText(status))
            }
        }
        bar.end()
        for failure in status.failures {
            writeLine("reelfs: \(printable(failure.path.isEmpty ? "/" : failure.path)): \(printable(failure.reason))")
        }
        switch status.phase {
        case .done where status.failedFiles == 0: say(doneText(status))
        case .done: throw .mount("\(count(status.failedFiles, "file")) could not be fetched")
        case .refused: throw .mount(refusalText(status))
        case .cancelled: throw .mount("the prefetch was cancelled; what came stays in the cache")
        case .failed: throw .mount(status.error ?? "the prefetch failed")
        case .listing, .fetching, .waiting: say("\(startText(status)); `reelfs status` shows how far it is.")
        }
    }
}

/// `, 11.2 MiB/s, 3m left`.
func rateText(_ status: PrefetchStatus) -> String {
    if status.phase == .waiting { return ", waiting: \(printable(status.error ?? "nothing comes"))" }
    guard status.rate > 0 else { return "" }
    let rest = max(0, status.bytes &- status.doneBytes) / status.rate
    return ", \(humanSize(status.rate))/s, \(longTime(rest)) left"
}

private func doneText(_ status: PrefetchStatus) -> String {
    "\(count(status.files, "file")) in the cache, \(humanSize(status.bytes))\(status.pins ? ", pinned" : "")."
}

private func startText(_ status: PrefetchStatus) -> String {
    let missing = max(0, status.bytes &- status.doneBytes)
    return "Fetching \(humanSize(missing)) of \(count(status.files, "file")) in the background"
}

/// Why the cache cannot hold it, with the numbers.
func refusalText(_ status: PrefetchStatus) -> String {
    guard let refusal = status.refusal else { return "the cache cannot hold it" }
    let verb = status.files == 1 ? "does" : "do"
    var text = "\(count(status.files, "file")) of \(humanSize(refusal.needed)) \(verb) not fit into the cache, "
    text += "which holds \(humanSize(refusal.cap)) at most"
    if refusal.pinned > 0 { text += ", \(humanSize(refusal.pinned)) of it in other pinned files" }
    return text + "; mount with a larger cache-size, or choose fewer files"
}

/// A prefetch for `reelfs status`.
func prefetchText(_ status: PrefetchStatus) -> String {
    let paths = status.paths.map { $0.isEmpty ? "/" : printable($0) }
    let name = paths.prefix(2).joined(separator: ", ") + (paths.count > 2 ? ", …" : "")
    let size =
        "\(humanSize(status.doneBytes)) of \(humanSize(status.bytes)), \(percent(status.doneBytes, status.bytes))"
    let files = "\(status.doneFiles) of \(count(status.files, "file"))"
    switch status.phase {
    case .listing: return "\(name): listing, \(count(status.files, "file")) so far"
    case .fetching, .waiting: return "\(name): \(files), \(size)\(rateText(status))"
    case .done where status.failedFiles == 0: return "\(name): done, \(count(status.files, "file"))"
    case .done: return "\(name): done but for \(count(status.failedFiles, "file"))"
    case .refused: return "\(name): refused: \(refusalText(status))"
    case .failed: return "\(name): failed: \(printable(status.error ?? "?"))"
    case .cancelled: return "\(name): cancelled, \(size)"
    }
}
