import ArgumentParser
import Glibc
import ReelVolume

struct CacheVerifyCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verify the checksums of cached data.",
        // What the parser would write is longer than a line.
        usage: "reelfs cache verify [<options>] [<path> ...]",
        discussion: """
            A damaged block is never served: the next read fetches it again. With --repair, mounted sources fetch \
            their damaged blocks at once, and only those; sources that are not mounted drop them until the next read.
            """)

    @Argument(
        help: ArgumentHelp(
            "Files or directories on mounts (default: the whole cache directory).", valueName: "path"),
        completion: .file())
    var paths: [String] = []
    @Flag(help: "Fetch damaged blocks again.") var repair = false
    @OptionGroup var options: OptionArguments<CacheScope>
    @Flag(name: .shortAndLong, help: "Show no progress, and print nothing unless there is damage.") var quiet = false
    @Flag(help: "Print the result as JSON.") var json = false

    func validate() throws {
        if !paths.isEmpty, !options.given.isEmpty {
            throw ValidationError("--cache-dir cannot be combined with paths: the mount of a path knows its cache")
        }
    }

    func perform() throws -> Int32 {
        var report = MaintenanceReport()
        var errors: [String] = []
        var isOffline = false
        let add = { (work: (ProgressBar) throws(Failure) -> MaintenanceReport) in
            let bar = ProgressBar("verifying", isQuiet: quiet || json)
            defer { bar.end() }
            do throws(Failure) { report.add(try work(bar)) } catch { errors.append(error.sentence) }
        }
        if paths.isEmpty {
            for directory in try CacheKeeper.directories(options.cacheDirectory()) {
                add { (bar) throws(Failure) in
                    let keeper = CacheKeeper(directory)
                    let part = try keeper.verify(repairs: repair) { bar.show($0) }
                    if keeper.isOffline, part.damagedBlocks > 0 { isOffline = true }
                    return part
                }
            }
        }
        for path in paths {
            add { (bar) throws(Failure) in
                let place = try MountedPath(path)
                let request = ControlRequest(command: "verify", path: place.path, repairs: repair)
                return try place.daemon.report(request) { bar.show($0) }
            }
        }
        if json {
            say(String(decoding: encodeLine(report).dropLast(), as: UTF8.self))
        } else if !quiet || report.damagedBlocks > 0 {
            say(verifyText(report, repairs: repair, isOffline: isOffline))
        }
        for error in errors { writeLine("reelfs: \(printable(error))") }
        let isWell = report.damagedBlocks == 0 || repair && report.failure == nil
        return isWell && errors.isEmpty ? 0 : Failure.Status.mount.rawValue
    }
}

/// - Parameter isOffline: some of the damage was where no daemon could fetch.
func verifyText(_ report: MaintenanceReport, repairs: Bool, isOffline: Bool) -> String {
    var text = "\(humanSize(report.bytes)) in \(count(report.files, "file")) verified"
    guard report.damagedBlocks > 0 else { return text + ": no damage." }
    text += ": \(count(report.damagedBlocks, "damaged block")) in\n"
    text += report.damagedFiles.map { "  " + printable($0) }.joined(separator: "\n")
    guard repairs else { return text + "\nThe next read fetches them again; --repair does it now." }
    if report.refetchedBlocks > 0 { text += "\n\(count(report.refetchedBlocks, "block")) fetched again." }
    let left = report.damagedBlocks - report.refetchedBlocks
    guard left > 0 else { return text }
    text += "\n\(count(left, "block")) removed"
    if let failure = report.failure { text += ": \(failure)" } else if isOffline { text += ": not mounted" }
    return text + ". The next read fetches \(left == 1 ? "it" : "them")."
}

func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
