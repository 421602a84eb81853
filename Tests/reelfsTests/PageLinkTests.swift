import Glibc
import TestKit
import Testing

/// Links between the pages of the repository: the file is there, and the heading that a link names.
@Suite("Links of the pages")
struct PageLinkTests {
    private static let documentation = repository + "/Sources/reelfs/Documentation.docc/"
    /// The pages of the documentation, without extension.
    static let pages = found(in: documentation).map { String($0.dropFirst(documentation.count).dropLast(3)) }.sorted()
    private static let files = (found(in: documentation) + found(in: repository + "/")).sorted()

    private static func found(in folder: String) -> [String] {
        let end = try? ChildProcess.run(["/usr/bin/find", folder, "-maxdepth", "1", "-name", "*.md"])
        return end?.output.split(separator: "\n").map { String($0) } ?? []
    }

    @Test("Every link leads to a file that is there, and to a heading of it", arguments: files)
    func links(file: String) {
        let folder = String(file.prefix(through: file.lastIndex(of: "/") ?? file.startIndex))
        let links = contents(of: file).matches(of: #/\]\(([^)\s]+)\)/#).map { String($0.1) }
        for link in links where !link.contains("://") {
            let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map { String($0) }
            let target = parts[0].isEmpty ? file : folder + parts[0]
            let exists = access(target, F_OK) == 0
            #expect(exists, "\(file) links to \(link), which is not there")
            guard exists, parts.count > 1 else { continue }
            let hasHeading = headings(of: contents(of: target)).contains(parts[1])
            #expect(hasHeading, "\(file) links to \(link): no such heading")
        }
    }

    @Test("The overview links to every page", arguments: pages.filter { $0 != "reelfs" })
    func overview(page: String) {
        let isNamed = contents(of: Self.documentation + "reelfs.md").contains("](\(page).md)")
        #expect(isNamed, "reelfs.md has no link to \(page).md")
    }

    @Test("Every path of the sources and tests that CONTRIBUTING.md names is there")
    func paths() {
        let text = contents(of: repository + "/CONTRIBUTING.md")
        let paths = text.matches(of: #/`((?:Sources|Tests|mount-helpers)\/[^`\s]+)`/#).map { String($0.1) }
        #expect(paths.count > 20)
        for path in paths {
            let exists = access(repository + "/" + path, F_OK) == 0
            #expect(exists, "\(path) is not there")
        }
    }

    /// The anchors of a page's headings, as a forge makes them.
    private func headings(of text: String) -> Set<String> {
        var isCode = false
        var anchors: Set<String> = []
        for line in text.split(separator: "\n") {
            if line.hasPrefix("```") { isCode.toggle() }
            guard !isCode, line.hasPrefix("#") else { continue }
            let words = line.drop { $0 == "#" }.dropFirst().lowercased()
            anchors.insert(
                String(words.filter { $0.isLetter || $0.isNumber || " -_".contains($0) }.map { $0 == " " ? "-" : $0 }))
        }
        return anchors
    }
}
