import Glibc
import TestKit
import Testing

/// The pages of the documentation, as far as a program can check them.
@Suite("Pages")
struct PageTests {
    private static let pages = ["ThreatModel", "Semantics", "Errors"]

    @Test("Every test that a page names exists", arguments: pages)
    func tests(page: String) throws {
        let text = contents(of: HelpTests.repository + "/Sources/reelfs/Documentation.docc/\(page).md")
        let named = text.matches(of: #/`(\w+Tests)\.(\w+)`/#).map { (suite: String($0.1), test: String($0.2)) }
        #expect(page != "ThreatModel" || named.count > 50)
        let sources = try swiftFiles(below: HelpTests.repository + "/Tests").map { contents(of: $0) }
        for (suite, test) in named {
            let exists = sources.contains { source in
                ["struct", "extension"].contains { source.contains("\($0) \(suite) ") }
                    && source.contains("func \(test)(")
            }
            #expect(exists, "\(page).md names \(suite).\(test)")
        }
    }

    private func swiftFiles(below folder: String) throws -> [String] {
        let found = try ChildProcess.run(["/usr/bin/find", folder, "-name", "*.swift"])
        return found.output.split(separator: "\n").map(String.init)
    }
}
