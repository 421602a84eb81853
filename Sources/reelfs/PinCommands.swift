import ArgumentParser
import ReelVolume

extension ArgumentHelp {
    fileprivate static let pathsOnMount = ArgumentHelp("Files or directories on a mount.", valueName: "path")
}

struct PinCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin", abstract: "Keeps these files in the cache until they are unpinned.",
        discussion: "A directory stands for the files now listed below it. Pinning fetches nothing.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 {
        try care("pin", paths) { report in
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
        commandName: "unpin", abstract: "Allows eviction of these files again.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 { try care("unpin", paths) { "\(count($0.files, "file")) unpinned." } }
}

struct EvictCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict", abstract: "Evicts the cached data of these files, pinned or not.",
        discussion: "Data that readers of an open file need now stays in the cache. Pins stay too.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 {
        try care("evict", paths) { "\(humanSize($0.bytes)) of \(count($0.files, "file")) freed." }
    }
}

/// One request a path; what can be done is done, also where a path before it was wrong.
private func care(_ command: String, _ paths: [String], _ text: (CareReport) -> String) throws -> Int32 {
    var report = CareReport()
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
