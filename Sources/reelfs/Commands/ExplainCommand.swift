import ArgumentParser
import ReelVolume

struct ExplainCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show what was fetched of a file, when, for which program, and why.",
        discussion: "The daemon remembers the requests of the last hours, and forgets them when the mount ends.")

    @Argument(help: "File or directory on a mount.", completion: .file()) var path: String
    @Flag(help: "Print JSON.") var json = false

    func perform() throws -> Int32 {
        let place = try MountedPath(path)
        let explanation: Explanation = try place.daemon.result(of: .explain(place.path))
        if json { sayJSON(explanation) } else { say(explanationText(explanation)) }
        return 0
    }
}
