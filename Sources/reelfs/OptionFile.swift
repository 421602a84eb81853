import Glibc
import ReelCache

/// One option as given by `-o`, as a long option, or by a line of a file.
package struct GivenOption: Hashable, Sendable {
    package var name: String
    package var value: String?
    /// `FILE, line N`; nil on the command line.
    package var place: String?
    /// It follows a `header=` of the same list. If it is not an option, it may be the rest of a header whose comma was
    /// not written `\,`: a secret.
    package var followsHeader = false

    package init(_ name: String, _ value: String?, place: String? = nil, followsHeader: Bool = false) {
        self.followsHeader = followsHeader
        self.name = name
        self.value = value
        self.place = place
    }

    /// Whether the value holds a secret.
    var isSecret: Bool { secretStart != nil }

    private var secretStart: String.Index? { value.flatMap { OptionTable[hyphenated(name)]?.form?.secretStart($0) } }

    /// Without secrets.
    package var visible: String {
        let name = hyphenated(name)
        if followsHeader, !MountOptions.isKnown(name) { return "…" }
        guard let value else { return name }
        return "\(name)=\(secretStart.map { "\(value[..<$0]) …" } ?? shown(value))"
    }
}

func hyphenated(_ key: String) -> String { String(key.map { $0 == "_" ? "-" : $0 }) }

/// The options of `config=FILE`, one per line: `name = value`, `name=value` or `name`. Lines that begin with `#` are
/// comments.
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
        let read = try OptionText(file, kind: "config file", isSecret: false)
        let inFile = try parseOptionFile(read.text, path: file)
        if !read.isClosed, inFile.contains(where: \.isSecret) {
            throw .usage("config file \(shown(file)) holds a header and is readable by others: run `chmod 600` on it")
        }
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

/// What a file held that an option names.
struct OptionText {
    let text: String
    /// Group and others can neither read nor write it.
    let isClosed: Bool

    /// Reads a file that nobody but root and this user could have written, or put in its place: its lines are options, or
    /// go to the origin, and this process may read files that the author of another could not.
    /// - Parameters:
    ///   - kind: for the sentence, as `config file`.
    ///   - limit: bytes.
    ///   - isSecret: it has to be closed to others.
    init(_ path: String, kind: String, limit: Int64 = 1 << 20, isSecret: Bool) throws(Failure) {
        let name = "\(kind) \(shown(path))"
        let descriptor: Int32
        do throws(PathError) {
            // Without waiting, should somebody have put a FIFO there.
            descriptor = try openTrusted(absolute(path), O_RDONLY | O_NONBLOCK)
        } catch {
            guard case .system(_, let number) = error else { throw .usage("\(name): \(error)") }
            throw .usage("\(name) cannot be opened: \(reason(number))")
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= limit else {
            throw .usage(
                "\(name) is not a regular file of at most \(limit < 1 << 20 ? "\(limit >> 10) KiB" : "\(limit >> 20) MiB")"
            )
        }
        guard status.st_uid == 0 || status.st_uid == geteuid() else {
            throw .usage("\(name) belongs neither to root nor to the mounting user")
        }
        isClosed = status.st_mode & 0o077 == 0
        if isSecret, !isClosed { throw .usage("\(name) is accessible to others: run `chmod 600` on it") }
        guard status.st_mode & 0o022 == 0 else { throw .usage("\(name) is writable by others: run `chmod go-w` on it") }
        text = String(decoding: readAll(descriptor), as: UTF8.self)
    }
}
