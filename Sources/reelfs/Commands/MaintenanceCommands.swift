import ArgumentParser
import ReelCore
import ReelVolume

/// A command that does one kind of maintenance for each path of a mount.
protocol PathCommand: ParsableCommand, ReelfsCommand {
    var paths: [String] { get }
    static var request: (String) -> ControlRequest { get }
    /// The result, for people.
    static func text(_ report: MaintenanceReport) -> String
}

extension PathCommand {
    /// One request a path.
    func perform() throws -> Int32 {
        var work = MaintenanceTally()
        for path in paths { work.add(path, Self.request) }
        if work.errors.isEmpty || work.report.files > 0 { say(Self.text(work.report)) }
        return work.finish()
    }
}

extension ArgumentHelp {
    fileprivate static let pathsOnMount = ArgumentHelp("Files or directories on a mount.", valueName: "path")
}

struct PinCommand: PathCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin", abstract: "Protect files in the cache from eviction.",
        discussion: """
            Protects data cached now and later; fetches nothing. A directory stands for its files that have been listed.
            """)

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    static var request: (String) -> ControlRequest { ControlRequest.pin }
    static func text(_ report: MaintenanceReport) -> String {
        let text = "\(count(report.files, "file")) pinned."
        guard report.unlistedDirectories > 0 else { return text }
        let skipped = count(report.unlistedDirectories, "directory", plural: "directories")
        return text + " Skipped, because they were never listed: \(skipped) (`ls -R` lists them)."
    }
}

struct UnpinCommand: PathCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin", abstract: "Allow files in the cache to be evicted again.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    static var request: (String) -> ControlRequest { ControlRequest.unpin }
    static func text(_ report: MaintenanceReport) -> String { "\(count(report.files, "file")) unpinned." }
}

struct EvictCommand: PathCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict", abstract: "Remove the cached data of files, even if pinned.",
        discussion: "Keeps the pins, and the data that readers of an open file need right now.")

    @Argument(help: .pathsOnMount, completion: .file()) var paths: [String]

    static var request: (String) -> ControlRequest { ControlRequest.evict }
    static func text(_ report: MaintenanceReport) -> String {
        "\(humanSize(report.bytes)) of \(count(report.files, "file")) freed."
    }
}
