import ArgumentParser
import ReelVolume

extension ArgumentHelp {
    fileprivate static let pathsOnMount = ArgumentHelp("Files or directories on a mount.", valueName: "path")
}

struct PinCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin", abstract: "Keeps what is or will be cached of these files until it is unpinned.",
        discussion: "A directory stands for the files that are listed below it now; it fetches nothing by itself.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 {
        try care("pin", paths) { report in
            var text = "\(count(report.files, "file")) pinned."
            if report.unlistedDirectories > 0 {
                text += " Left out, as nobody has listed them yet: "
                text += (report.unlistedDirectories == 1 ? "1 directory" : "\(report.unlistedDirectories) directories")
                text += " (`ls -R` lists them)."
            }
            return text
        }
    }
}

struct UnpinCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin", abstract: "Lets what is cached of these files make way again.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    func perform() throws -> Int32 { try care("unpin", paths) { "\(count($0.files, "file")) unpinned." } }
}

struct EvictCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict", abstract: "Removes what is cached of these files, pinned or not.",
        discussion: "What the readers of an open file need right now stays, and so does a pin.")

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
