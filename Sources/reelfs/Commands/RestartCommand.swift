import ArgumentParser
import Glibc
import ReelFuse

struct RestartCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "restart", abstract: "Replace the daemon of a mount by a new one, while files stay open.",
        discussion: """
            The new daemon is of the program that is installed now, and has the options of the old one. Reads wait \
            for a moment. The other mounts of the daemon go with it.
            """)

    @Argument(help: "Mount point.", completion: .mountpoints) var mountpoint: String

    func perform() throws -> Int32 {
        let mount = try Mountpoint.mount(on: mountpoint)
        let client = try ControlClient(of: mount)
        // Its options name commands that the new daemon runs, and files that it reads.
        guard client.owner == geteuid() else {
            throw Failure.mount("the daemon belongs to another user (uid \(client.owner)), who alone can restart it")
        }
        let handover: Handover = try client.result(of: .describe)
        let line = handover.line
        guard let command = try Program.parse(line) as? MountCommand else {
            throw Failure.mount("the options of the mount are not known to this version of reelfs")
        }
        ServiceManager.pass(handover.manager)
        try DaemonLaunch.start(command.request(at: handover.mountpoint, command.mountOptions()), line)
        return 0
    }
}

extension Handover {
    /// The command line of a daemon that takes the place of the one whose mount this is.
    var line: [String] {
        let words = options.filter { !$0.isEmpty && !["config", "foreground"].contains(hyphenated($0[0])) }.map {
            option -> [String] in
            let (name, value) = (hyphenated(option[0]), option.dropFirst().first)
            if let row = OptionTable[name], row.scope.contains(.mountpoint), (row.form == nil) == (value == nil) {
                return [value.map { "--\(name)=\($0)" } ?? "--" + name]
            }
            return ["-o", name + (value.map { "=" + $0.replacing(",", with: "\\,") } ?? "")]
        }
        return ["reelfs", "mount", "--" + MountCommand.successorFlag] + words.joined() + ["--", source, mountpoint]
    }
}
