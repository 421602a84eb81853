import ArgumentParser
import ReelVolume

struct RefreshCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh", abstract: "List directories of a mount again now.",
        discussion: """
            A directory whose listing fails keeps what it had. A file stands for its directory. Of a catalogue, the \
            file is read again first.
            """)

    @Argument(help: ArgumentHelp("Files or directories on a mount.", valueName: "path"), completion: .file())
    var paths: [String]
    @Flag(name: .shortAndLong, help: "List all directories below them, too.") var recursive = false

    func perform() throws -> Int32 {
        var work = MaintenanceTally()
        for path in paths { work.add(path, { .refresh($0, isRecursive: recursive) }) }
        work.errors += work.report.failedDirectories.map { directory in
            "\(directory.path.isEmpty ? "/" : directory.path) could not be listed: \(directory.reason)"
        }
        return work.finish()
    }
}
