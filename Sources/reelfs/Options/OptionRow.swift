import ArgumentParser
import ReelSources

/// One option of ``OptionTable``.
struct OptionRow: Sendable {
    /// With hyphens.
    var name: String
    /// Where help and pages show it.
    var group: Group
    /// A short form, for those of curl(1).
    var letter: Character?
    /// nil: a flag.
    var form: ValueForm?
    var scope: Scope
    var repeats = false
    /// The initial value of the property, as on the command line.
    var `default`: String?
    /// The meaning of a property without an initial value, in words.
    var unset: String?
    /// Imperative or a noun phrase, without the final period.
    var help: String
    /// Reads the text that was given, nil for a name alone, and sets the property. Throws only ``Failure``; a closure
    /// that says so would have to spell out its parameters.
    var apply: @Sendable (_ options: inout MountOptions, _ name: String, _ text: String?) throws -> Void

    /// In the order of help: the ten that most people need come first.
    enum Group: String, CaseIterable, Sendable {
        case common = "Most used"
        case source = "Source and login"
        case cache = "Cache"
        case behaviour = "Behaviour"
        case access = "Access"
        case http = "HTTP"
        case sharing = "Sharing"
        case rare = "Rarely needed"
    }

    /// The commands that take an option as a long option; `-o` and option files take all.
    struct Scope: OptionSet, Sendable {
        let rawValue: Int

        /// A long option of `reelfs mount` alone: it concerns the mount point.
        static let mountpoint = Scope(rawValue: 1)
        /// A long option of `reelfs serve`.
        static let serve = Scope(rawValue: 32)
        /// A long option of both.
        static let mount: Scope = [.mountpoint, .serve]
        /// The sources of one mount may differ in the option.
        static let source = Scope(rawValue: 2)
        /// A long option of `reelfs doctor`.
        static let doctor = Scope(rawValue: 4)
        /// A long option of each `reelfs cache` command.
        static let cache = Scope(rawValue: 8)
        /// Not listed by help.
        static let hidden = Scope(rawValue: 16)
    }
}

/// The form of an option's value: its name in help, its completion, its paths and its secrets.
struct ValueForm: Sendable {
    var name: String
    var completion: CompletionKind?
    /// The path in the text, if it holds one: the text's end, or the program of a command.
    var path: @Sendable (String) -> String? = { _ in nil }
    var isCommand = false
    /// The start of the secret in the text, if there is one.
    var secretStart: @Sendable (String) -> String.Index? = { _ in nil }

    static let address = ValueForm(
        name: "address", path: { $0.utf8.starts(with: "unix:".utf8) ? String($0.dropFirst(5)) : nil })
    static let bucket = ValueForm(name: "bucket")
    static let cacheKey = ValueForm(name: "key", completion: .list(CacheKey.allCases.map(\.rawValue)))
    static let command = ValueForm(
        name: "cmd", path: { Command(parsing: $0).flatMap { $0.words[0].contains("/") ? $0.words[0] : nil } },
        isCommand: true, secretStart: endOfWord)
    static let count = ValueForm(name: "n")
    static let directory = ValueForm(name: "dir", completion: .directory, path: { $0 })
    static let file = ValueForm(name: "file", completion: .file(), path: { $0 })
    static let group = ValueForm(name: "group")
    static let header = ValueForm(
        name: "line", path: { $0.first == "@" ? String($0.dropFirst()) : nil },
        secretStart: { line in
            line.utf8.first == UInt8(ascii: "@")
                ? nil : line.utf8.firstIndex(of: UInt8(ascii: ":")).map { line.utf8.index(after: $0) }
        })
    static let key = ValueForm(
        name: "secret",
        path: { $0.utf8.starts(with: "file:".utf8) ? String($0.dropFirst(5)) : nil },
        secretStart: { $0.utf8.starts(with: "command:".utf8) ? endOfWord($0) : nil })
    static let level = ValueForm(name: "level", completion: .list(logLevels))
    static let mask = ValueForm(name: "mask")
    static let rate = ValueForm(name: "rate")
    static let region = ValueForm(name: "region")
    static let size = ValueForm(name: "size")
    static let text = ValueForm(name: "text")
    static let time = ValueForm(name: "time")
    static let url = ValueForm(name: "url")
    static let user = ValueForm(name: "user")

    /// By bytes, as a mark that combines with a delimiter would hide it.
    @Sendable private static func endOfWord(_ text: String) -> String.Index? {
        text.utf8.firstIndex { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    }

    /// The text with its path made absolute.
    /// - Parameter folder: an absolute path, in which a relative one starts.
    func absolute(_ text: String, in folder: String) -> String {
        guard let path = path(text), !path.isEmpty, path.utf8.first != UInt8(ascii: "/") else { return text }
        // What stands before a word in quotes is part of the word.
        let rest = isCommand ? text.drop { $0 == " " || $0 == "\t" } : text.suffix(path.count)
        return "\(text.dropLast(rest.count))\(isCommand ? Command.escaped(folder) : folder)/\(rest)"
    }
}
