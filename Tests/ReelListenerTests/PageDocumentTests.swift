import ReelCore
import Testing

@testable import ReelListener

@Suite struct PageDocumentTests {
    private func page() throws -> (text: String, policy: String) {
        let answer = Page.answer()
        guard case .text(let bytes) = answer.body else { throw NoPage() }
        let policy = answer.headers.first { $0.name == "Content-Security-Policy" }?.value
        return (String(decoding: bytes, as: UTF8.self), try #require(policy))
    }

    private struct NoPage: Error {}

    @Test("Only the page's own style and script are believed, by a word that is another one each time")
    func nonce() throws {
        let (one, two) = (try page(), try page())
        func word(_ page: (text: String, policy: String)) throws -> String {
            let start = try #require(page.policy.firstRange(of: "'nonce-")).upperBound
            return String(page.policy[start...].prefix { $0 != "'" })
        }
        let (first, second) = (try word(one), try word(two))
        #expect(first != second && first.count >= 20)
        #expect(one.text.ranges(of: "nonce=\"\(first)\"").count == 2)
        #expect(one.text.ranges(of: "<script").count == 1 && one.text.ranges(of: "<style").count == 1)
        #expect(one.policy.hasPrefix("default-src 'none'; "))
        #expect(one.policy.contains("connect-src 'self'") && one.policy.contains("frame-ancestors 'none'"))
    }

    @Test("The page names no other host, and puts no text into the document as markup")
    func content() throws {
        let text = try page().text
        // The name of SVG's elements is no address that is asked.
        let shown = text.replacing("http://www.w3.org/2000/svg", with: "")
        #expect(!shown.contains("http://") && !shown.contains("https://") && !shown.contains("src=\""))
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "{style}", "{nonce}"] {
            #expect(!text.contains(word), "\(word)")
        }
        for name in ["playing", "chart", "cache-used", "leaving", "origins", "programs", "files", "news"] {
            #expect(text.contains("id=\"\(name)\""), "\(name)")
        }
    }
}
