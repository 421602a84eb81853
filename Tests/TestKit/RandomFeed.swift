import ReelCore

/// A podcast's feed, in one of the forms that feeds have, right or with lies in it.
struct RandomFeed {
    /// The newest first.
    var episodes: [RandomOrigin.File]
    /// A query behind their URLs.
    var signature: String

    private struct Item {
        var title: String
        /// Seconds since 1970, nil if it says none.
        var published: Int64?
        var href: String
        var length: String
    }

    private enum Form: CaseIterable { case rss, atom, json }

    func answer() -> [ServerStep] { answer(.rss, items) }

    private var items: [Item] {
        episodes.map {
            Item(title: $0.title, published: $0.published, href: $0.path + signature, length: "\($0.now.length)")
        }
    }

    /// Episodes are missing or in another order, with lengths that are none, beside some that lead nowhere. Titles and
    /// dates stay right, as an episode keeps the name that it once had.
    func wrongAnswer(_ random: inout SeededGenerator) -> [ServerStep] {
        var items = items
        for index in items.indices where Bool.random(using: &random) {
            let length = episodes[index].now.length
            let lies = ["\(length + 1)", "\(length / 2)", "0", "-1", "", "x", "\(1 << 44)", "99999999999999999999"]
            items[index].length = lies.randomElement(using: &random)!
        }
        if Int.random(in: 0..<4, using: &random) == 0 { items.removeAll { _ in Bool.random(using: &random) } }
        for href in Self.odd.shuffled(using: &random).prefix(Int.random(in: 0...4, using: &random)) {
            let length = Int64.random(in: 0...100_000, using: &random)
            items.append(Item(title: "odd \(length)", published: nil, href: href, length: "\(length)"))
        }
        if Bool.random(using: &random) { items.shuffle(using: &random) }
        return answer(Form.allCases.randomElement(using: &random)!, items)
    }

    private func answer(_ form: Form, _ items: [Item]) -> [ServerStep] {
        switch form {
        case .rss:
            let text = items.map { item in
                let date = item.published.map { "<pubDate>\(httpDateText($0))</pubDate>" } ?? ""
                return "<item><title>\(Self.marked(item.title))</title>\(date)<enclosure "
                    + "url=\"\(Self.marked(item.href))\" type=\"audio/mpeg\" length=\"\(item.length)\"/></item>\n"
            }.joined()
            return page(
                "application/rss+xml",
                "<rss version=\"2.0\"><channel><title>Talks</title>\n\(text)</channel></rss>\n")
        case .atom:
            let text = items.map { item in
                let date = item.published.map { "<published>\(Self.moment($0))</published>" } ?? ""
                return "<entry><title>\(Self.marked(item.title))</title>\(date)<link rel=\"enclosure\" "
                    + "href=\"\(Self.marked(item.href))\" type=\"audio/mpeg\"/></entry>\n"
            }.joined()
            return page(
                "application/atom+xml",
                "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>Talks</title>\n\(text)</feed>\n")
        case .json:
            let text = items.map { item in
                let date = item.published.map { "\"date_published\": \"\(Self.moment($0))\", " } ?? ""
                return "{ \"title\": \"\(Self.quoted(item.title))\", \(date)\"attachments\": [{ "
                    + "\"url\": \"\(Self.quoted(item.href))\", \"mime_type\": \"audio/mpeg\" }] }"
            }.joined(separator: ",\n")
            let version = "\"version\": \"https://jsonfeed.org/version/1.1\""
            return page("application/feed+json", "{ \(version), \"title\": \"Talks\", \"items\": [\n\(text)\n] }\n")
        }
    }

    private func page(_ type: String, _ text: String) -> [ServerStep] {
        ServerStep.answer(200, [("Content-Type", type)], body: text)
    }

    private static func moment(_ seconds: Int64) -> String { isoDay(seconds) + "T00:00:00Z" }

    private static func marked(_ text: String) -> String {
        text.map { ["&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;"][$0] ?? String($0) }.joined()
    }

    private static func quoted(_ text: String) -> String {
        text.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : String($0) }.joined()
    }

    /// Links to nowhere and to other places.
    private static let odd = [
        "javascript:alert(1)", "http://127.0.0.1:1/other.mp3", "//[::", "/gone.mp3", "#", "http://other/x.mp3", "/", "",
    ]
}
