import Glibc

/// One option as given by `-o`, as a long option, or by a line of a file.
package struct GivenOption: Hashable, Sendable {
    package var name: String
    package var value: String?
    /// `FILE, line N`; nil on the command line.
    package var place: String?
    /// It follows a `header=` of the same list. If it is not an option, it may be the rest of a header whose comma was not
    /// written `\,`: a secret.
    package var followsHeader = false

    package init(_ name: String, _ value: String?, place: String? = nil, followsHeader: Bool = false) {
        self.followsHeader = followsHeader
        self.name = name
        self.value = value
        self.place = place
    }

    /// Without secrets.
    package var visible: String {
        let name = hyphenated(name)
        if followsHeader, !MountOptions.isKnown(name) { return "…" }
        guard let value else { return name }
        return "\(name)=\(OptionTable[name]?.form?.withoutSecrets(value) ?? shown(value))"
    }
}

func hyphenated(_ key: String) -> String { String(key.map { $0 == "_" ? "-" : $0 }) }

/// The options of `config=FILE`, one per line: `name = value`, `name=value` or `name`. Lines that begin with `#` are comments.
///
/// Spaces around name and value are dropped. Nothing needs an escape: a comma is a comma.
package func parseOptionFile(_ text: String, path: String) throws(Failure) -> [GivenOption] {
    var options: [GivenOption] = []
    for line in numberedLines(text) {
        let place = "\(shown(path)), line \(line.number)"
        let pair = line.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = trimmedSpaces(pair[0])
        guard !name.isEmpty, !name.contains(where: \.isWhitespace) else {
            throw .usage("\(place): a line must be `name = value`, or the name of an option")
        }
        guard hyphenated(name) != "config" else { throw .usage("\(place): config cannot stand in such a file") }
        options.append(GivenOption(name, pair.count > 1 ? trimmedSpaces(pair[1]) : nil, place: place))
    }
    return options
}

extension MountOptions {
    /// The options as given, and those of the file that `config` names, over which the given ones take precedence.
    init(_ given: [GivenOption], isSloppy: Bool = false, isInFstab: Bool = false) throws(Failure) {
        self.init()
        for option in given { try apply(option, isSloppy: isSloppy, isInFstab: isInFstab) }
        guard let file = optionFile else { return }
        // Once more in order of precedence: first the file, then the options beside it.
        self.init()
        let inFile = try parseOptionFile(try readOptionFile(file, kind: "config file"), path: file)
        for option in inFile + given { try apply(option, isSloppy: isSloppy, isInFstab: isInFstab) }
    }
}

/// Lines that are neither empty nor a comment, with their numbers from 1.
func numberedLines(_ text: String) -> [(number: Int, text: Substring)] {
    text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated().compactMap { index, line in
        let text = line.drop { $0 == " " || $0 == "\t" }
        return text.isEmpty || text.first == "#" ? nil : (index + 1, text)
    }
}

func trimmedSpaces(_ text: Substring) -> String {
    let head = text.drop(while: \.isWhitespace)
    return String(head.reversed().drop(while: \.isWhitespace).reversed())
}

/// A small text that an option names. - Parameter kind: for the sentence, as `config file`.
func readOptionFile(_ path: String, kind: String) throws(Failure) -> String {
    // Without waiting, should somebody have put a FIFO there.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw .usage("\(kind) \(shown(path)) cannot be opened: \(reason())") }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= 1 << 20 else {
        throw .usage("\(kind) \(shown(path)) is no regular file of at most 1 MiB")
    }
    return String(decoding: readAll(descriptor), as: UTF8.self)
}
