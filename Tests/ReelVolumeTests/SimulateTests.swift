import TestKit
import Testing

/// The volume in virtual time: see the page Development.
@Suite struct SimulateTests {
    private static func run(_ words: String...) throws -> ChildProcess.End {
        try ChildProcess.run([builtProgram("Simulate")] + words, within: .seconds(1000))
    }

    /// What has found nothing says where it began, too, as the seeds of a minute depend on the machine.
    @Test("A minute of fresh seeds finds nothing")
    func fresh() throws {
        let end = try Self.run("--seconds", "\(LongTests.many(600, elseOnly: 60))")
        #expect(end.status == 0, "\(end.output)\(end.errors)")
        print(end.output.split(separator: "\n").filter { $0.hasPrefix("simulation: ") }.joined())
    }

    /// An older one tells another story than the one that it was kept for, as each change of the order of events does.
    private static let newest = [6715, 80_000_246, 80_000_171, 80_000_263, 4_103_767_378]

    @Test(
        "A seed that has found something finds it no more",
        arguments: LongTests.all(
            [84, 5041, 7120, 3_094_509_911, 954_367_353, 954_400_119, 5, 3245] + newest, elseOnly: newest))
    func mended(_ seed: Int) throws {
        let end = try Self.run("--seed", "\(seed)", "--seeds", "1")
        #expect(end.status == 0, "\(end.output)\(end.errors)")
    }

    @Test("A seed gives the same story again", arguments: LongTests.all([1, 2, 10], elseOnly: [2]))
    func again(_ seed: Int) throws {
        let ends = try (0..<2).map { _ in try Self.run("--seed", "\(seed)", "--seeds", "1", "--summary") }
        func story(_ end: ChildProcess.End) -> Substring? {
            end.output.split(separator: "\n").first { $0.hasPrefix("seed ") }
        }
        #expect(ends[0].status == 0 && story(ends[0]) != nil, "\(ends[0].output)\(ends[0].errors)")
        #expect(story(ends[0]) == story(ends[1]))
    }
}
