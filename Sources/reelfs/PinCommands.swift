import ArgumentParser
import ReelVolume

extension ArgumentHelp {
    fileprivate static let pathsOnMount = ArgumentHelp("Files or directories on a mount.", valueName: "path")
}

struct PinCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin", abstract: "Protect files in the cache from eviction.",
        discussion:
            "Covers data cached now and later, and fetches nothing. A directory stands for its listed files."
    )

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 {
        try maintain("pin", paths) { report in
            var text = "\(count(report.files, "file")) pinned."
            if report.unlistedDirectories > 0 {
                text += " Skipped, because they were never listed: "
                text += (report.unlistedDirectories == 1 ? "1 directory" : "\(report.unlistedDirectories) directories")
                text += " (`ls -R` lists them)."
            }
            return text
        }
    }
}

struct UnpinCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin", abstract: "Allow files in the cache to be evicted again.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 { try maintain("unpin", paths) { "\(count($0.files, "file")) unpinned." } }
}

struct EvictCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict", abstract: "Remove the cached data of files, pinned or not.",
        discussion: "Keeps pins, and what the readers of an open file need right now.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 {
        try maintain("evict", paths) { "\(humanSize($0.bytes)) of \(count($0.files, "file")) freed." }
    }
}

/// One request a path; what can be done is done, also where a path before it was wrong.
private func maintain(_ command: String, _ paths: [String], _ text: (MaintenanceReport) -> String) throws -> Int32 {
    var report = MaintenanceReport()
    var isWell = true
    for path in paths {
        do throws(Failure) {
            let place = try MountedPath(path)
            report.add(try place.daemon.report(ControlRequest(command: command, path: place.path)))
        } catch {
            isWell = false
            writeLine("reelfs: \(error.sentence)")
        }
    }
    if isWell || report.files > 0 { say(text(report)) }
    return isWell ? 0 : Failure.Status.mount.rawValue
}
