import ArgumentParser
import Glibc

/// Turns the words of the command line into an exit status.
enum Program {
    static let version = "0.1.0"

    /// Runs a command to its end. - Parameter arguments: with the program's own name.
    static func run(_ arguments: [String]) -> Int32 {
        // The library reads them there.
        guard arguments.first?.isEmpty == false else {
            return Failure(
                status: .system, sentence: "the words of the command line are in /proc, which is not mounted"
            )
            .printed()
        }
        hideSecrets()
        // The kernel sends it if a data file is opened while the cache holds a lease on it (fcntl(2)); its default ends
        // the process. Daemon and commands alike take leases.
        signal(SIGIO, SIG_IGN)
        if arguments.dropFirst().first == DaemonLaunch.subcommand { return Daemon.runFromPipe() }
        if arguments.dropFirst().first == Watcher.subcommand { return Watcher.runFromPipe() }
        do {
            if arguments.count == 3, arguments[1] == "help" {
                try HelpTopic.show(arguments[2], command: Reelfs.help(of: arguments[2]))
                return 0
            }
            var command = try parse(arguments)
            if let command = command as? any ReelfsCommand { return try command.perform() }
            // The parser's own command: throws the help of the command that was named.
            try command.run()
            return 0
        } catch let failure as Failure {
            return failure.printed()
        } catch {
            if Reelfs.exitCode(for: error) == .success {
                print(Reelfs.fullMessage(for: error))
                return 0
            }
            let message = sentence(Reelfs.message(for: error))
            return Failure.usage("\(message) (see `\(helpCommand(Reelfs.fullMessage(for: error)))`)").printed()
        }
    }

    /// - Parameter arguments: with the program's own name, which may be `mount.reelfs`.
    static func parse(_ arguments: [String]) throws -> any ParsableCommand {
        var words = Array(arguments.dropFirst())
        let name = arguments.first?.split(separator: "/").last
        if name?.hasPrefix("mount.") == true || isMountForm(words) {
            words = ["mount", "--\(MountCommand.helperFlag)"] + words
        } else {
            try refuseUnknownCommand(words)
        }
        words = try words.map(flagWithoutValue)
        // The dump is help, too.
        if words.first == "--experimental-dump-help" { return try Reelfs.parseAsRoot(words) }
        // Sentences about a mistake want all options.
        return try (try? OptionView.$current.withValue(.named(in: words)) { try Reelfs.parseAsRoot(words) })
            ?? OptionView.$current.withValue(.plain) { try Reelfs.parseAsRoot(words) }
    }

    /// The parser knows no flag that may have a value.
    private static func flagWithoutValue(_ word: String) throws(Failure) -> String {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0] == "--allow-other" else { return word }
        return try choice("allow-other", String(parts[1])) ? "--allow-other" : "--no-allow-other"
    }

    /// `reelfs SOURCE MOUNTPOINT -o …`: the form in which mount.fuse3 runs it.
    private static func isMountForm(_ words: [String]) -> Bool {
        guard let first = words.first else { return false }
        if first == "-o" { return true }
        // Any other word is a command, well written or not.
        let isSource = first.utf8.contains { "/:".utf8.contains($0) } || words.contains("-o")
        return words.count > 1 && !first.hasPrefix("-") && !Reelfs.subcommandNames.contains(first) && isSource
    }

    /// Names the word that is no command: the parser would count the words behind it.
    private static func refuseUnknownCommand(_ words: [String]) throws(Failure) {
        var (place, known) = ("reelfs", Reelfs.configuration.subcommands)
        for word in words {
            // `reelfs URL`, options and the parser's own `help` have other sentences.
            if known.isEmpty || word.hasPrefix("-") || word == "help" || word.utf8.contains(where: "/:".utf8.contains) {
                return
            }
            guard let command = known.first(where: { $0.names.contains { $0 == word } }) else {
                let near = nearest(to: word, of: known.flatMap { $0.names })
                let hint = near.map { ": the nearest is `\(place) \($0)`" } ?? ""
                throw .usage("'\(shown(word))' is no command\(hint) (see `\(place) --help`)")
            }
            (place, known) = ("\(place) \(word)", command.configuration.subcommands)
        }
    }

    private static func sentence(_ message: String) -> String {
        // The parser repeats words, which may contain URLs and line ends.
        let message = withoutSecrets(message)
        let line = message.split(separator: "\n").first.map { String($0) } ?? message
        let words = line.split(separator: "'", omittingEmptySubsequences: false)
        guard words.count > 2, words[0] == "Unknown option " else {
            // Sentences of the parser are like all others.
            return printable(line.prefix(1).lowercased() + line.dropFirst())
        }
        let advice = OptionWords.advice(on: hyphenated(words[1].drop { $0 == "-" }.lowercased()))
        return printable("unknown option \(words[1])" + (advice.map { ": \($0)" } ?? ""))
    }

    /// - Parameter message: the parser's whole one, which ends with `See 'reelfs COMMAND --help' for more information.`
    private static func helpCommand(_ message: String) -> String {
        let words = message.split(separator: "\n").last?.split(separator: "'") ?? []
        return words.count == 3 && words[1].hasSuffix(" --help") ? String(words[1]) : "reelfs --help"
    }
}

/// A command of the program.
protocol ReelfsCommand {
    /// - Returns: the exit status.
    func perform() throws -> Int32
}

/// The root of the commands.
struct Reelfs: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reelfs", abstract: "Remote media as ordinary files.",
        discussion: "`reelfs help TOPIC` shows a page of the manual, `reelfs help topics` their list.",
        version: "reelfs \(Program.version)",
        subcommands: [
            MountCommand.self, UmountCommand.self, RestartCommand.self, ServeCommand.self, StatusCommand.self,
            TopCommand.self,
            ExplainCommand.self, PrefetchCommand.self, OfflineCommand.self, LimitRateCommand.self, CacheCommand.self,
            PinCommand.self,
            UnpinCommand.self, EvictCommand.self, RefreshCommand.self, DoctorCommand.self,
        ])

    static let subcommandNames = configuration.subcommands.flatMap { $0.names } + ["help"]

    /// nil if no command has this name.
    static func help(of name: String) -> String? {
        configuration.subcommands.first { $0.names.contains { $0 == name } }.map { helpMessage(for: $0) }
    }
}

extension ParsableCommand {
    /// With its other spellings.
    fileprivate static var names: [String] { [_commandName] + configuration.aliases }
}
