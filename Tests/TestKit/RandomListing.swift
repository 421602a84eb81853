/// A folder's listing as web servers write it, right or with lies in it.
struct RandomListing {
    var folder: String
    var files: [RandomOrigin.File]

    private struct Line {
        var href: String
        var length: String
        var date = "14-Nov-2023 22:13"
    }

    private enum Form: CaseIterable { case nginx, apache, json }

    func answer() -> [ServerStep] { answer(.nginx, lines) }

    private var lines: [Line] {
        let folders = folder.isEmpty ? [Line(href: "sub/", length: "-")] : []
        return folders
            + files.map { file in
                let length = file.isStream ? "-" : "\(file.now.length)"
                return Line(href: escaped(String(file.name.dropFirst(folder.count))), length: length)
            }
    }

    /// Files are listed longer, shorter or not at all, with dates of no calendar, beside names that are none.
    func wrongAnswer(_ random: inout SeededGenerator) -> [ServerStep] {
        var lines = lines
        for index in lines.indices where !lines[index].href.hasSuffix("/") && Bool.random(using: &random) {
            let length = Int64(lines[index].length) ?? 0
            let lies = [
                "\(length + 1)", "\(max(0, length - 1))", "\(length / 2)", "\(length + 5_000_000)", "0", "-", "1.5M",
                "7K",
                "9223372036854775807", "99999999999999999999", "-1", "", "\(1 << 44)",
                "\(files.first?.now.length ?? 1)",
            ]
            lines[index].length = lies.randomElement(using: &random)!
            let dates = ["14-Nov-2023 22:13", "31-Feb-9999 99:99", "01-Jan-1970 00:00", "", "2023-11-14 22:14", "x"]
            lines[index].date = dates.randomElement(using: &random)!
        }
        if Int.random(in: 0..<4, using: &random) == 0 { lines.removeAll { _ in Bool.random(using: &random) } }
        for href in Self.odd.shuffled(using: &random).prefix(Int.random(in: 0...6, using: &random)) {
            lines.append(Line(href: href, length: "\(Int64.random(in: 0...100_000, using: &random))"))
        }
        if Bool.random(using: &random) { lines.shuffle(using: &random) }
        return answer(Form.allCases.randomElement(using: &random)!, lines)
    }

    private func answer(_ form: Form, _ lines: [Line]) -> [ServerStep] {
        let title = "<title>Index of /\(folder)</title></head><body><h1>Index of /\(folder)</h1>"
        switch form {
        case .nginx:
            let text = lines.map { line in
                "<a href=\"\(line.href)\">\(line.href)</a>   \(line.date)   \(line.length)\r\n"
            }.joined()
            return page("<html><head>\(title)<hr><pre><a href=\"../\">../</a>\r\n\(text)</pre><hr></body></html>\r\n")
        case .apache:
            let text = lines.map { line in
                "<tr><td><a href=\"\(line.href)\">\(line.href)</a></td><td align=\"right\">\(line.date)  </td>"
                    + "<td align=\"right\">\(line.length)</td></tr>\n"
            }.joined()
            return page("<html><head>\(title)<table><tr><th>Name</th></tr>\n\(text)</table></body></html>\n")
        case .json:
            let text = lines.map { line in
                let isFolder = line.href.hasSuffix("/")
                // nginx writes the name as it is.
                let name = unescaped(isFolder ? String(line.href.dropLast()) : line.href)
                return "{ \"name\":\"\(name)\", \"type\":\"\(isFolder ? "directory" : "file")\", "
                    + "\"mtime\":\"\(line.date)\"\(line.length == "-" ? "" : ", \"size\":\(line.length)") }"
            }.joined(separator: ",\n")
            return ServerStep.answer(200, [("Content-Type", "application/json")], body: "[\n\(text)\n]")
        }
    }

    private func page(_ text: String) -> [ServerStep] {
        ServerStep.answer(200, [("Content-Type", "text/html")], body: text)
    }

    private func unescaped(_ href: String) -> String {
        String(decoding: escapedBytes(href), as: UTF8.self)
    }

    private func escapedBytes(_ href: String) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = Array(href.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%"), rest.count >= 2,
                let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            else {
                bytes.append(byte)
                continue
            }
            bytes.append(code)
            rest = rest.dropFirst(2)
        }
        return bytes
    }

    /// Links to nowhere, to other places and with names that no file may have.
    private static let odd = [
        "..%2Fevil.mkv", "%2e%2e", ".", "..", "a%00b.mkv", "%FF%FE.mkv", "//evil.example/x.mkv", "javascript:alert(1)",
        "?C=N;O=D", String(repeating: "x", count: 300) + ".mkv", "a%0Ab.mkv", "http://127.0.0.1:1/other.mkv", "%",
        "%zz.mkv",
        "e\u{301}.mkv", "\u{e9}.mkv", "#fragment", "film-0.mkv?x=1", "&#x202e;.mkv", "&amp;.mkv", "/", "./",
        "deep/er/x.mkv",
        "%5C..%5C", "con.mkv", "user:secret@host.mkv", "?\u{301}/../../x", "\u{1F1E9}\u{1F1EA}", "[", "a]b",
        "film-0.mkv/",
    ]
}
