import TestKit
import Testing

/// The volume in virtual time: see the page Development.
@Suite struct SimulateTests {
    private static func run(_ words: String...) throws -> ChildProcess.End {
        try ChildProcess.run([builtProgram("Simulate")] + words, within: .seconds(240))
    }

    @Test("A minute of seeds finds nothing")
    func minute() throws {
        let end = try Self.run("--seed", "1", "--seeds", "60", "--seconds", "120")
        #expect(end.status == 0, "\(end.output)\(end.errors)")
    }

    @Test("Seeds that have found something find nothing any more", arguments: [7040, 9021])
    func kept(_ seed: Int) throws {
        let end = try Self.run("--seed", "\(seed)", "--seeds", "1")
        #expect(end.status == 0, "\(end.output)\(end.errors)")
    }

    @Test("A seed gives the same story again", arguments: [1, 2])
    func again(_ seed: Int) throws {
        let ends = try (0..<2).map { _ in try Self.run("--seed", "\(seed)", "--seeds", "1", "--summary") }
        func story(_ end: ChildProcess.End) -> Substring? {
            end.output.split(separator: "\n").first { $0.hasPrefix("seed ") }
        }
        #expect(ends[0].status == 0 && story(ends[0]) != nil, "\(ends[0].output)\(ends[0].errors)")
        #expect(story(ends[0]) == story(ends[1]))
    }
}
