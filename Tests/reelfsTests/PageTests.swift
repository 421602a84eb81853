import ReelThreads
import ReelVolume
import TestKit
import Testing

/// The pages of the documentation, as far as a program can check them.
@Suite("Pages")
struct PageTests {
    /// What a mount does: each table has a column for tests.
    private static let promises = [
        "Semantics", "Freshness", "Versions", "Deadlines", "Offline", "Limits", "Commands", "TestedServers", "WebDAV",
        "FileServers", "Feeds", "HLS", "Resolver", "Mirrors", "SharedCaches", "Tier",
    ]

    @Test("Every test that a page names exists", arguments: PageLinkTests.pages)
    func tests(page: String) {
        let named = named(in: Self.text(of: page))
        #expect(page != "ThreatModel" || named.count > 50)
        for (suite, test) in named {
            let exists = Self.declared.members[suite]?.contains(test) == true
            #expect(exists, "\(page).md names \(suite).\(test)")
        }
    }

    @Test(
        "Every row of a page's tables names a test, or says why there is none",
        arguments: promises + ["ThreatModel", "Errors"])
    func rows(page: String) {
        // Tables with a column for tests.
        let rows = Self.tables(in: Self.text(of: page)).filter { $0[0].last == "test" }.flatMap { $0.dropFirst(2) }
        #expect(rows.count >= 3)
        for row in rows {
            let test = row.last ?? ""
            #expect(!named(in: test).isEmpty || test.hasPrefix("none: "), "\(page).md: \(row[0])")
        }
    }

    @Test("No table of the promises is without a column for tests", arguments: promises)
    func columns(page: String) {
        for table in Self.tables(in: Self.text(of: page)) where table[0] != ["page", "what"] {
            #expect(table[0].last == "test", "\(table[0])")
        }
    }

    @Test("The page's order of locks is the one that a debug build holds threads to")
    func locks() {
        let table = Self.tables(in: Self.text(of: "Architecture")).first { $0[0].first == "rank" }
        let ranks = table?.dropFirst(2).compactMap(\.first) ?? []
        #expect(ranks == LockRank.allCases.map { "`\($0)`" })
    }

    @Test("The page of metrics has the rows of the table of numbers")
    func metrics() throws {
        let text = Self.text(of: "Metrics")
        func expect(_ mark: String, _ lines: [String]) throws {
            let start = try #require(text.firstRange(of: "<!-- \(mark) -->\n")).upperBound
            let end = try #require(text.firstRange(of: "<!-- end of \(mark) -->")).lowerBound
            let table = lines.joined(separator: "\n") + "\n"
            #expect(text[start..<end] == table, "Metrics.md should say:\n\(table)")
        }
        let metrics = NumberTable.rows.compactMap { row in
            row.name.map { name in
                let label = row.label.map { "{\($0)}" } ?? ""
                let key = row.key.map { "`\($0)`" } ?? ""
                return "| `reelfs_\(name)\(label)` | \(row.kind) | \(row.unit.rawValue) | \(row.help) | \(key) |"
            }
        }
        try expect(
            "metrics", ["| metric | kind | unit | what it counts | key in JSON |", "|---|---|---|---|---|"] + metrics)
        let keys = NumberTable.rows.filter { $0.name == nil }.map { row in
            "| `\(row.key ?? "")` | \(row.kind) | \(row.unit.rawValue) | \(row.help) |"
        }
        try expect("keys", ["| key in JSON | kind | unit | what it counts |", "|---|---|---|---|"] + keys)
    }

    static func text(of page: String) -> String {
        contents(of: repository + "/Sources/reelfs/Documentation.docc/\(page).md")
    }

    /// Tests named as `Suite.test`.
    private func named(in text: String) -> [(suite: String, test: String)] {
        text.matches(of: #/`(\w+Tests)\.(\w+)`/#).map { (suite: String($0.1), test: String($0.2)) }
    }

    /// Each table as its rows of cells: the head, the line below it, then the rest.
    static func tables(in text: String) -> [[[String]]] {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.split { !$0.hasPrefix("|") }.map { table in
            table.map { line in
                line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false).map {
                    String($0.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
                }
            }
        }
    }
}
