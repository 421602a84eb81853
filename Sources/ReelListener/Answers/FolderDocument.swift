import ReelCore
import ReelFilesystem

/// A text that is made while it is sent.
package protocol TextPieces: Sendable {
    /// Makes the next piece, of about `Client.piece` bytes at most, and in a time that a task may take. It is empty
    /// where entries were looked at that are not shown; nil at the end.
    mutating func next() async -> [UInt8]?
}

/// A way through a directory, as it was at its opening, of which each step adds a piece to a text.
struct FolderWalk: Sendable {
    /// Behind `.` and `..`: a reading from the beginning would count as the kernel's.
    static let first = 2
    /// Items that are looked at for one piece.
    static let mostItems = 2000

    let directory: any DirectoryHandle
    /// Drops the reference that an item with an entry counts.
    let forget: @Sendable (NodeID) -> Void
    /// The offset of the next item of the directory.
    private var offset = Self.first

    init(_ directory: any DirectoryHandle, forget: @escaping @Sendable (NodeID) -> Void) {
        (self.directory, self.forget) = (directory, forget)
    }

    /// Adds the lines of the next items. - Parameter line: nil where the item is the first of the next step.
    /// - Returns: whether there are no more; the next step begins again then.
    mutating func add(
        to text: inout [UInt8], withAttributes: Bool, _ line: (DirectoryItem) -> String?
    ) -> Bool {
        var (looked, next, isOver) = (0, offset, true)
        directory.items(from: offset, withAttributes: withAttributes) { item in
            guard text.count < Client.piece, looked < Self.mostItems, let line = line(item) else {
                isOver = false
                return false
            }
            text += line.utf8
            if let entry = item.entry { forget(entry.node) }
            (looked, next) = (looked + 1, item.nextOffset)
            return true
        }
        offset = isOver ? Self.first : next
        return isOver
    }
}

/// A listing in nginx's form, which browsers, rclone and reelfs read: a line for each entry with its name, its date in
/// UTC, and its bytes.
///
/// It is made from the directory as it was at its opening, so that neither the text nor its entries are ever in memory
/// as a whole.
package struct FolderPage: TextPieces {
    private enum Part { case head, folders, files, end }

    private let title: String
    private var part = Part.head
    private var walk: FolderWalk

    /// - Parameters:
    ///   - path: the names that lead to the folder from the root.
    ///   - forget: drops the reference that an item with an entry counts.
    package init(_ path: [String], _ directory: any DirectoryHandle, forget: @escaping @Sendable (NodeID) -> Void) {
        walk = FolderWalk(directory, forget: forget)
        title = "/" + path.map { $0 + "/" }.joined()
    }

    package mutating func next() -> [UInt8]? {
        var text: [UInt8] = []
        switch part {
        case .head:
            text += head.utf8
            part = .folders
        case .folders:
            if addLines(areFolders: true, &text) { part = .files }
        case .files:
            guard addLines(areFolders: false, &text) else { break }
            text += "</pre><hr></body>\n</html>\n".utf8
            part = .end
        case .end: return nil
        }
        return text
    }

    private var head: String {
        let title = markupText(title)
        let text =
            "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><title>Index of \(title)</title></head>\n"
            + "<body>\n<h1>Index of \(title)</h1><hr><pre>"
        return title == "/" ? text : text + "<a href=\"../\">../</a>\n"
    }

    /// Adds lines of folders or of files. - Returns: whether there are no more.
    private mutating func addLines(areFolders: Bool, _ text: inout [UInt8]) -> Bool {
        let page = self
        // Attributes make a node of each item, so folders are looked for without.
        return walk.add(to: &text, withAttributes: !areFolders) { item in
            guard item.isDirectory == areFolders else { return "" }
            return page.line(item, areFolders ? page.folder(at: item.nextOffset - 1) : item.entry?.attributes)
        }
    }

    private func folder(at offset: Int) -> Attributes? {
        var found: Attributes??
        walk.directory.items(from: offset, withAttributes: true) { item in
            guard found == nil else { return false }
            found = .some(item.entry?.attributes)
            if let entry = item.entry { walk.forget(entry.node) }
            return true
        }
        return found ?? nil
    }

    private func line(_ item: DirectoryItem, _ known: Attributes?) -> String {
        let slash = item.isDirectory ? "/" : ""
        let width = 51
        let pad = String(repeating: " ", count: max(1, width - item.name.count - slash.count))
        let date = known.map { isoTime($0.modified) } ?? "-"
        let size = item.isDirectory ? "-" : known.map { "\($0.length)" } ?? "-"
        let sizePad = String(repeating: " ", count: max(1, 20 - size.utf8.count))
        let link = "<a href=\"\(markupText(reference(item.name)))\(slash)\">\(markupText(item.name))\(slash)</a>"
        return "\(link)\(pad)\(date)\(sizePad)\(size)\n"
    }
}

/// The films and music of a folder, in the order in which people see names.
package struct FolderPlaylist: TextPieces {
    /// The raw value is the query of the folder's URL.
    package enum Form: String, Sendable {
        /// Extended M3U.
        case m3u
        /// XML Shareable Playlist Format, version 1 (xspf.org).
        case xspf

        package var mediaType: String { self == .m3u ? "audio/x-mpegurl" : "application/xspf+xml" }

        fileprivate var head: String {
            switch self {
            case .m3u: "#EXTM3U\n"
            case .xspf:
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                    + "<playlist version=\"1\" xmlns=\"http://xspf.org/ns/0/\">\n<trackList>\n"
            }
        }

        fileprivate func entry(_ name: String, _ url: String) -> String {
            switch self {
            case .m3u: "#EXTINF:-1,\(withoutControls(name))\n\(url)\n"
            case .xspf: "<track><location>\(markupText(url))</location><title>\(markupText(name))</title></track>\n"
            }
        }

        fileprivate var end: String { self == .m3u ? "" : "</trackList>\n</playlist>\n" }
    }

    private let form: Form
    private let directory: any DirectoryHandle
    private let base: String
    /// Offsets of the directory's items, in the order of their names: four bytes for each.
    private let order: [UInt32]
    /// An index into `order`, nil if nothing was sent.
    private var place: Int?

    /// Sorts the names, which takes seconds for 100,000.
    /// - Parameters:
    ///   - base: the URL of the folder, with `/` at its end.
    ///   - isCancelled: makes the list end where it is.
    package init(_ form: Form, base: String, _ directory: any DirectoryHandle, isCancelled: () -> Bool) {
        var media: [(name: String, offset: UInt32)] = []
        directory.items(from: FolderWalk.first, withAttributes: false) { item in
            if !item.isDirectory, MediaName.isMedia(item.name), let offset = UInt32(exactly: item.nextOffset - 1) {
                media.append((item.name, offset))
            }
            return !isCancelled()
        }
        try? media.sort { one, other in
            if isCancelled() { throw CancellationError() }
            return MediaName.precedes(one.name, other.name)
        }
        self.form = form
        self.directory = directory
        self.base = base
        order = media.map(\.offset)
    }

    package mutating func next() -> [UInt8]? {
        guard var place else {
            place = 0
            return Array((form.head + (order.isEmpty ? form.end : "")).utf8)
        }
        if place == order.count { return nil }
        var text: [UInt8] = []
        while place < order.count, text.count < Client.piece {
            let offset = Int(order[place])
            directory.items(from: offset, withAttributes: false) { item in
                // An item that is hidden since then is left out.
                if item.nextOffset == offset + 1 {
                    text += form.entry(item.name, base + reference(item.name)).utf8
                }
                return false
            }
            place += 1
        }
        self.place = place
        return place == order.count ? text + form.end.utf8 : text
    }
}

/// Text between tags, of HTML and XML: names come from origins.
func markupText(_ text: String) -> String {
    var result = ""
    for character in withoutControls(text).unicodeScalars {
        switch character {
        case "&": result += "&amp;"
        case "<": result += "&lt;"
        case ">": result += "&gt;"
        case "\"": result += "&quot;"
        default: result.unicodeScalars.append(character)
        }
    }
    return result
}

/// Control characters, what Unicode counts as the end of a line, and what XML cannot hold become `?`.
private func withoutControls(_ text: String) -> String {
    String(
        String.UnicodeScalarView(
            text.unicodeScalars.map { scalar in
                switch scalar.value {
                case 0..<0x20, 0x7F..<0xA0, 0x2028, 0x2029, 0xFFFE, 0xFFFF: "?"
                default: scalar
                }
            }))
}
