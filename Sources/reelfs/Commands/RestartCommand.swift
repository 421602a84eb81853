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
        if let refusal = handover.refusal { throw Failure.mount(refusal) }
        var words = handover.words
        words.predecessor = client.path
        ServiceManager.pass(handover.manager)
        LeftEnvironment.adopt(handover.environment ?? [:])
        try DaemonLaunch.start(words.request(at: handover.mountpoint, words.options()), words)
        return 0
    }
}

extension Handover {
    /// What a daemon is told that takes the place of the one whose mount this is.
    var words: MountWords {
        let all = options.filter { !$0.isEmpty }.map { GivenOption($0[0], $0.dropFirst().first) }
        let given = all.filter { !["config", "foreground"].contains(hyphenated($0.name)) }
        return MountWords(source: source, mountpoint: mountpoint, given: given)
    }
}
