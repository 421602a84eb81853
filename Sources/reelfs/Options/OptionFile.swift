/// One option as given by `-o`, as a long option, or by a line of a file.
struct GivenOption: Hashable, Sendable, Codable {
    var name: String
    var value: String?
    /// `FILE, line N`; nil on the command line.
    var place: String?
    /// Whether it follows a `header=` of the same list. If it is not an option, it may be the rest of a header whose
    /// comma was not written `\,`: a secret.
    var followsHeader = false

    init(_ name: String, _ value: String?, place: String? = nil, followsHeader: Bool = false) {
        self.followsHeader = followsHeader
        self.name = name
        self.value = value
        self.place = place
    }

    /// The same with the path in its value made absolute.
    var absolute: GivenOption { absolute(in: currentDirectory()) }

    /// - Parameter folder: an absolute path, in which a relative one starts.
    func absolute(in folder: String) -> GivenOption {
        var option = self
        option.value = value.map { OptionTable[hyphenated(name)]?.form?.absolute($0, in: folder) ?? $0 }
        return option
    }

    /// Whether the value holds a secret.
    var isSecret: Bool { secretStart != nil }

    private var secretStart: String.Index? { value.flatMap { OptionTable[hyphenated(name)]?.form?.secretStart($0) } }

    /// `NAME=VALUE` without secrets.
    var visible: String {
        let name = hyphenated(name)
        if followsHeader, !MountOptions.isKnown(name) { return "…" }
        guard let value else { return name }
        return "\(name)=\(secretStart.map { "\(value[..<$0]) …" } ?? shown(value))"
    }
}

/// An option's name as the table has it: `cache_size` is `cache-size`.
func hyphenated(_ key: String) -> String { String(key.map { $0 == "_" ? "-" : $0 }) }

/// The options of `config=FILE`, one per line: `name = value`, `name=value` or `name`. Lines that begin with `#` are
/// comments.
///
/// Spaces around name and value are dropped. Nothing needs an escape: a comma is a comma.
func parseOptionFile(_ text: String, path: String) throws(Failure) -> [GivenOption] {
    var options: [GivenOption] = []
    for line in numberedLines(text) {
        let place = "\(shown(path)), line \(line.number)"
        let pair = line.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = trimmedSpaces(pair[0])
        guard !name.isEmpty, !name.contains(where: \.isWhitespace) else {
            throw .usage("\(place): a line must be `name = value`, or the name of an option")
        }
        guard hyphenated(name) != "config" else {
            throw .usage("\(place): a config file cannot name another with config")
        }
        options.append(GivenOption(name, pair.count > 1 ? trimmedSpaces(pair[1]) : nil, place: place))
    }
    return options
}

extension MountOptions {
    /// The options as given, and those of the file that `config` names, over which the given ones take precedence.
    init(_ given: [GivenOption], isSloppy: Bool = false, isInFstab: Bool = false) throws(Failure) {
        self.init()
        for option in given { try apply(option, isSloppy: isSloppy, isInFstab: isInFstab) }
        guard optionFile != nil else { return }
        // Once more in order of precedence: first the file, then the options beside it.
        let all = try inFile() + given
        self.init()
        for option in all { try apply(option, isSloppy: isSloppy, isInFstab: isInFstab) }
    }

    /// The options of the file that `config` names.
    func inFile() throws(Failure) -> [GivenOption] {
        guard let file = optionFile else { return [] }
        let read = try TrustedText(file, kind: "config file", isSecret: false)
        let inFile = try parseOptionFile(read.text, path: file)
        if !read.isPrivate, inFile.contains(where: \.isSecret) {
            throw .usage("config file \(shown(file)) holds a header, and others can read it: run `chmod 600` on it")
        }
        return inFile
    }
}
