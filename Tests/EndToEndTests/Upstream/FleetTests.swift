import ReelCore
import TestKit
import Testing

/// The simulation behind the page "A fleet".
@Suite struct FleetTests {
    /// - Returns: what the origin sends, by design, of the table with that title.
    private func sent(_ output: String, _ title: String) -> [String: String] {
        let table = output.split(separator: "### ").first { $0.hasPrefix(title) } ?? ""
        let rows = table.split(separator: "\n").filter { $0.hasPrefix("| 8 |") }
            .map { $0.split(separator: "|").map { trimmed($0) } }
        return Dictionary(uniqueKeysWithValues: rows.map { ($0[1], $0[2]) })
    }

    @Test func eightMountsNeedWhatThePageSays() throws {
        let script = repository + "/Tests/Bench/fleet.py"
        let end = try ChildProcess.run(["python3", "-B", script, "8"])
        try #require(end.status == 0 && end.errors.isEmpty, "\(end)")
        #expect(sent(end.output, "One film, in the course") == ["alone": "8", "via": "1", "tier": "1"])
        #expect(sent(end.output, "One film, all within") == ["alone": "8", "via": "1", "tier": "1"])
        #expect(try ChildProcess.run(["python3", "-B", script, "8"]).output == end.output)
    }
}
