import ReelCore

/// The entries of a folder, as documents of it show them.
package struct FolderDocument: Sendable {
    /// One entry.
    package struct Item: Sendable {
        package var name: String
        package var isFolder: Bool
        /// Bytes; nil where no listing tells it.
        package var length: Int64?
        /// Seconds since 1970; nil where it is not known.
        package var modified: Int64?

        package init(name: String, isFolder: Bool, length: Int64?, modified: Int64?) {
            self.name = name
            self.isFolder = isFolder
            self.length = length
            self.modified = modified
        }
    }

    /// The names that lead to it from the root.
    private let path: [String]
    private let items: [Item]

    package init(_ path: [String], _ items: [Item]) {
        self.path = path
        self.items = items
    }

    /// A listing in nginx's form, which browsers, rclone and reelfs read: a line an entry with its name, its date in
    /// UTC, and its bytes.
    package var page: [UInt8] {
        let title = markupText("/" + path.map { $0 + "/" }.joined())
        var text = "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><title>Index of \(title)</title></head>\n"
        text += "<body>\n<h1>Index of \(title)</h1><hr><pre>"
        if !path.isEmpty { text += "<a href=\"../\">../</a>\n" }
        for item in items.filter(\.isFolder) + items.filter({ !$0.isFolder }) { text += line(item) }
        text += "</pre><hr></body>\n</html>\n"
        return Array(text.utf8)
    }

    /// The films and music as an extended M3U, in the order in which people see names.
    /// - Parameter base: the URL of the folder, with `/` at its end.
    package func playlist(base: String) -> [UInt8] {
        let media = items.filter { !$0.isFolder && MediaName.isMedia($0.name) }
        let lines = media.sorted { MediaName.precedes($0.name, $1.name) }.map { item in
            "#EXTINF:-1,\(withoutControls(item.name))\n\(base)\(reference(item.name))\n"
        }
        return Array(("#EXTM3U\n" + lines.joined()).utf8)
    }

    private func line(_ item: Item) -> String {
        let slash = item.isFolder ? "/" : ""
        let width = 51
        let pad = String(repeating: " ", count: max(1, width - item.name.count - slash.count))
        let date = item.modified.map { isoTime($0) } ?? "-"
        let size = item.isFolder ? "-" : item.length.map { "\($0)" } ?? "-"
        let sizePad = String(repeating: " ", count: max(1, 20 - size.utf8.count))
        let link = "<a href=\"\(markupText(reference(item.name)))\(slash)\">\(markupText(item.name))\(slash)</a>"
        return "\(link)\(pad)\(date)\(sizePad)\(size)\n"
    }
}

/// Text between tags: names come from origins.
private func markupText(_ text: String) -> String {
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

/// Line ends and other control characters of ASCII become `?`.
private func withoutControls(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? "?" : $0 }))
}
