import Glibc

/// A program of the user's own and its arguments, as an option names them. It runs without a shell (``CommandRuns``).
struct Command: Hashable, Sendable {
    /// The program, a path or a name to be found along PATH, and its arguments.
    let words: [String]

    /// Reads words between spaces. A word, or a part of it, may stand in quotes, `"…"` or `'…'`; a backslash makes the
    /// next character part of the word, but not within `'…'`. No other character has a meaning of its own.
    ///
    /// nil: there is no word, a quote is left open, or a word holds a control character.
    init?(parsing text: String) {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var isEscaped = false
        for character in text {
            if isEscaped {
                word = (word ?? "") + String(character)
                isEscaped = false
            } else if character == "\\", quote != "'" {
                isEscaped = true
            } else if let open = quote {
                if character == open { quote = nil } else { word?.append(character) }
            } else if character == "\"" || character == "'" {
                quote = character
                word = word ?? ""
            } else if character == " " || character == "\t" {
                if let word { words.append(word) }
                word = nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        if let word { words.append(word) }
        let isSound = words.allSatisfy { $0.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }
        guard quote == nil, !isEscaped, isSound, words.first?.isEmpty == false else { return nil }
        self.words = words
    }

    private init(_ words: [String]) { self.words = words }

    /// The same with the path of its program made absolute: the daemon runs it in another directory.
    var absolute: Command {
        name.utf8.contains(UInt8(ascii: "/")) ? Command([reelfs.absolute(name)] + words.dropFirst()) : self
    }

    /// The text that is read as these characters of a word.
    static func escaped(_ characters: String) -> String {
        String(characters.flatMap { " \t\"'\\".contains($0) ? ["\\", $0] : [$0] })
    }

    /// The name of the program, for logs and errors: its arguments may hold secrets.
    var name: String { words[0] }

    /// Refuses a program that cannot be started, where the option is read and not at its first use.
    func requireProgram(_ option: String) throws(Failure) {
        if name.utf8.contains(UInt8(ascii: "/")) {
            guard access(name, X_OK) != 0 || isDirectory(name) else { return }
            let why = isDirectory(name) ? "it is a folder" : reason()
            throw .usage("the command of option \(option), \(shown(name)), cannot be started: \(why)")
        }
        let folders = (environment("PATH") ?? "/usr/sbin:/usr/bin:/sbin:/bin").split(separator: ":")
        guard folders.contains(where: { access("\($0)/\(name)", X_OK) == 0 && !isDirectory("\($0)/\(name)") }) else {
            throw .usage("the command of option \(option), \(shown(name)), is in no folder of PATH")
        }
    }

    private func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}
