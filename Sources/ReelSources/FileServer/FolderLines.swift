import Glibc
import ReelCore
import ReelThreads

/// Gathers the entries of a folder from the lines that a file server sends, in the pieces in which they come.
struct FolderLines: Sendable {
    enum Form: Sendable {
        /// MLSD's (RFC 3659, section 7).
        case facts
        /// The lines of `ls -l`, or of Windows' `dir`.
        case text
    }

    private let folder: ResourceURL?
    private let form: Form
    private let now: Int64
    private let limit: Int
    private var line: [UInt8] = []
    /// The rest of a line that is too long is dropped.
    private var isTooLong = false
    private var names = UniqueNames()
    /// The names so far, those of links and of what no URL can name among them.
    private var taken: Set<[UInt8]> = []
    /// Lines that name no entry.
    private var strange = 0
    private var known = 0
    /// Links whose targets the server does not describe.
    private(set) var links: ArraySlice<FolderLine> = []
    private var builder: EntryList.Builder

    /// Bytes: names have 255 at most, the facts before them some hundred.
    private static let longestLine = 8 << 10

    /// - Parameter now: seconds since 1970; dates without a year are before it.
    init(
        of folder: ResourceURL?, _ form: Form, now: Int64 = wallClock(), limit: Int = Listing.mostEntries
    ) {
        (self.folder, self.form, self.now, self.limit) = (folder, form, now, limit)
        builder = EntryList.Builder(limit: limit)
    }

    mutating func take(_ bytes: [UInt8]) throws(SourceRefusal) {
        var rest = bytes[...]
        while let end = rest.firstIndex(of: 0x0A) {
            append(rest[..<end])
            try takeLine()
            rest = rest[(end + 1)...]
        }
        append(rest)
    }

    private mutating func append(_ part: ArraySlice<UInt8>) {
        if line.count + part.count > Self.longestLine { isTooLong = true } else { line += part }
    }

    private mutating func takeLine() throws(SourceRefusal) {
        defer { (line, isTooLong) = ([], false) }
        let text = line.last == 0x0D ? line.dropLast() : line[...]
        if text.allSatisfy(isBlank) || text.starts(with: "total ".utf8) { return }
        let found = isTooLong ? nil : form == .facts ? FolderLine(facts: text) : FolderLine(text: text, now: now)
        guard let found else {
            strange += 1
            return
        }
        known += 1
        try add(found)
    }

    private mutating func add(_ found: FolderLine) throws(SourceRefusal) {
        // Neither can be a name of FTP's commands, and the line may have been cut there.
        guard found.kind != .other, !found.name.isEmpty, ![[0x2E], [0x2E, 0x2E]].contains(found.name),
            !found.name.contains(where: { [0, 0x0A, 0x0D, 0x2F].contains($0) || isFTP && $0 < 0x20 }),
            folder != nil, taken.insert(found.name).inserted
        else { return }
        guard taken.count <= limit else { throw .tooManyEntries }
        if found.kind == .link { links.append(found) } else { append(found) }
    }

    private mutating func append(_ found: FolderLine) {
        guard let url = url(of: found) else { return }
        let name = names.claim(SafeName.make(found.name), beside: builder)
        builder.append(
            SourceEntry(
                name: name, url: url, isDirectory: found.kind == .folder,
                length: found.kind == .file ? found.length : nil, modified: found.modified))
    }

    private func url(of line: FolderLine) -> ResourceURL? {
        folder?.child(encodedName(line.name[...]) + (line.kind == .folder ? [0x2F] : []), query: nil)
    }

    private var isFTP: Bool { folder?.fileProtocol == .ftp }

    /// The last line need not end.
    mutating func finish() throws(SourceRefusal) {
        if !line.isEmpty || isTooLong { try takeLine() }
        if known == 0, strange > 0 { throw .foreign("the server's list of the folder cannot be read") }
    }

    // MARK: Links

    /// The URL that the first link has if it leads to a folder, nil if there is no link.
    var nextLink: ResourceURL? {
        links.first.flatMap { link in
            var folder = link
            folder.kind = .folder
            return url(of: folder)
        }
    }

    /// Makes the first link an entry. Its length and date are those of the link itself.
    mutating func resolveLink(isFolder: Bool) {
        guard var link = links.popFirst() else { return }
        link.kind = isFolder ? .folder : .link
        (link.length, link.modified) = (nil, nil)
        append(link)
    }

    /// The links that are left count as files.
    mutating func list() -> EntryList {
        while !links.isEmpty { resolveLink(isFolder: false) }
        return builder.list()
    }
}
