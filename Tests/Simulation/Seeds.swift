import Glibc
import ReelThreads
import TestKit

/// Runs seeds, each in a process of its own, until the time is over:
///
///     Simulate [--seed N] [--seeds COUNT] [--seconds S] [--summary | --story | --points]
///
/// A process for each, as what a seed does may follow from where its objects lie; and a deadlock, or a trap, ends one
/// seed alone.
struct Seeds {
    private static let most = 5

    private let first: UInt64
    private let count: UInt64
    private let limit: Duration
    /// What is printed of each seed beside what it finds.
    private let detail: String?

    init(_ words: [String]) {
        func number(_ name: String) -> UInt64? {
            words.firstIndex(of: name).flatMap { $0 + 1 < words.count ? UInt64(words[$0 + 1]) : nil }
        }
        detail = ["--summary", "--story", "--points"].first { words.contains($0) }
        limit = .seconds(Int64(number("--seconds") ?? 60))
        count = number("--seeds") ?? .max
        first = number("--seed") ?? UInt64.random(in: 0...UInt64(UInt32.max))
    }

    /// - Returns: the status of the process.
    func run() throws -> Int32 {
        let start = ContinuousClock.now
        var (done, found) = (UInt64(0), 0)
        say("simulation: from seed \(first)")
        while done < count, found < Self.most, ContinuousClock.now - start < limit {
            let words = [CommandLine.arguments[0], "--one", "\(first &+ done)", detail ?? ""]
            let end = try ChildProcess.run(words, within: .seconds(600))
            done += 1
            if end.status != 0 { found += 1 }
            if end.status != 0 || detail != nil { say("\(end.output)\(end.errors)") }
        }
        say("\(done) seeds in \(ContinuousClock.now - start), \(found) with a finding")
        return found == 0 ? 0 : 1
    }
}

/// One seed, in this process.
struct Seed {
    let number: UInt64
    let detail: String?

    /// - Returns: the status of the process.
    func run() throws -> Int32 { try withTemporaryDirectory(below: "/dev/shm") { run(in: $0) } }

    private func run(in place: String) -> Int32 {
        let world = World(seed: number, directory: place + "/world")
        mkdir(world.directory, 0o700)
        defer { removeTree(world.directory) }
        let showsStory = detail == "--story" || detail == "--points"
        let (simulation, left) = Simulation.run(
            seed: number, order, tell: showsStory ? { @Sendable in say($0) } : nil, showsPoints: detail == "--points"
        ) {
            do { try world.run() } catch { world.findings.find("\(error)") }
        }
        let findings = world.findings.all + (left.isEmpty ? [] : ["threads that still run: \(left)"])
        say("seed \(number): \(simulation.elapsed), \(simulation.points) points, story \(simulation.digest)")
        for finding in findings { say("seed \(number) found: \(finding)") }
        return findings.isEmpty ? 0 : 1
    }

    private var order: Simulation.Order {
        number % 2 == 0 ? .random(0.1) : .priorities(changes: 3 + Int(number % 7), points: 200_000)
    }
}

@Sendable private func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(1, bytes, bytes.count)
}
