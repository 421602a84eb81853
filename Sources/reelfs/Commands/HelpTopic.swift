import ReelCache

/// The pages of the manual, as text files below the program's share directory, where `make install` and the package put
/// them. In the program itself they would be 150 kB more of it, which a mount never reads.
enum HelpTopic {
    /// nil where the program does not know its own place.
    private static var folder: String? {
        realPath("/proc/self/exe").flatMap { cutAtLastSlash($0) }.flatMap { cutAtLastSlash($0.above) }
            .map { $0.above + "/share/reelfs/help" }
    }

    /// `reelfs help WORD`: the help of the command, the page of that name, or both.
    /// - Parameter command: the help of the command that has this name, nil if none has.
    static func show(_ word: String, command: String?) throws(Failure) {
        let files = folder.flatMap { names(in: $0) } ?? []
        let topics = files.filter { $0.hasSuffix(".txt") }.map { String($0.dropLast(4)) }.sorted()
        let page = topics.contains(word) ? folder.flatMap { textOfFile("\($0)/\(word).txt") } : nil
        let parts = [command, page].compactMap { $0 }
        if parts.isEmpty { throw .usage("'\(shown(word))' is no command \(advice(on: word, topics))") }
        say(parts.joined(separator: "\n\n"))
    }

    private static func advice(on word: String, _ topics: [String]) -> String {
        guard !topics.isEmpty else {
            return "(see `reelfs --help`), and the manual is not installed in \(shown(folder ?? "/proc/self/exe"))"
        }
        let near = nearest(to: word, of: topics + Reelfs.subcommandNames).map { "the nearest is \($0); " } ?? ""
        return "and no topic: \(near)topics are \(topics.joined(separator: ", "))"
    }
}
