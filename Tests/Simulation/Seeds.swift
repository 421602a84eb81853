import Glibc
import ReelThreads
import Synchronization
import TestKit

/// Runs seeds, each in a process of its own, until the time is over:
///
///     Simulate [--seed N] [--seeds COUNT] [--seconds S] [--jobs N] [--findings N] [--summary | --story | --points]
///         [LIMITS]
///     Simulate --shrink --seed N [LIMITS]
///
/// A process for each, as what a seed does may follow from where its objects lie; and a deadlock, or a trap, ends one
/// seed alone.
final class Seeds: Sendable {
    private struct State {
        var next: UInt64
        var done = 0
        var found = 0
    }

    private let first: UInt64
    private let count: UInt64
    private let limit: Duration
    private let jobs: Int
    /// It ends with this many findings.
    private let most: Int
    private let limits: Limits
    /// What is printed of each seed beside what it finds.
    private let detail: String?
    private let state: Mutex<State>

    init(_ options: Options) {
        detail = Seed.details.first { options.has($0) }
        limits = Limits(options)
        limit = .seconds(Int64(options.number("--seconds") ?? 60))
        count = options.number("--seeds") ?? .max
        first = options.number("--seed") ?? UInt64.random(in: 0...UInt64(UInt32.max))
        jobs = options.number("--jobs").map { Int($0) } ?? max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        most = options.number("--findings").map { Int($0) } ?? 5
        state = Mutex(State(next: first))
    }

    /// - Returns: the status of the process.
    func run() -> Int32 {
        let start = ContinuousClock.now
        say("simulation: from seed \(first)")
        let threads = (0..<jobs).map { _ in
            Thread("seeds") { [self] in
                while ContinuousClock.now - start < limit, let seed = take() { run(seed) }
            }
        }
        for thread in threads { thread?.join() }
        let (done, found) = state.withLock { ($0.done, $0.found) }
        say("\(done) seeds in \(ContinuousClock.now - start), \(found) with a finding")
        return found == 0 ? 0 : 1
    }

    private func take() -> UInt64? {
        state.withLock { state in
            guard state.next &- first < count, state.found < most else { return nil }
            defer { state.next &+= 1 }
            return state.next
        }
    }

    private func run(_ seed: UInt64) {
        let end = Self.end(of: seed, limits.words + (detail.map { [$0] } ?? []))
        state.withLock { state in
            state.done += 1
            if end.status != 0 { state.found += 1 }
        }
        if end.status != 0 || detail != nil { say(end.text) }
    }

    private static func end(of seed: UInt64, _ words: [String]) -> (status: Int32, text: String) {
        do {
            let words = [CommandLine.arguments[0], "--one", "\(seed)"] + words
            let end = try ChildProcess.run(words, within: .seconds(900))
            let isEndless = end.status == 128 + SIGXCPU
            let reason = isEndless ? "seed \(seed) found: no end within \(Seed.mostSeconds) s of CPU time\n" : ""
            return (end.status, end.output + end.errors + reason)
        } catch {
            return (1, "seed \(seed) found: \(error)\n")
        }
    }

    /// Takes away from a seed whatever it needs not to find the same.
    /// - Returns: the status of the process.
    func shrink() -> Int32 {
        func finding(_ limits: Limits) -> String? {
            let end = Self.end(of: first, limits.words)
            if end.status == 0 { return nil }
            let line = end.text.split(separator: "\n").first { $0.contains("found:") || $0.contains("atal error") }
            // Another number is no other finding.
            return line.map { String(String($0).filter { !$0.isNumber }.prefix(60)) } ?? "an end"
        }
        guard let wanted = finding(limits) else {
            say("seed \(first) finds nothing")
            return 0
        }
        var least = limits
        while let smaller = least.smaller.first(where: { finding($0) == wanted }) {
            least = smaller
            say("less: \(least.words.joined(separator: " "))")
        }
        say("seed \(first) needs \(least.words.joined(separator: " "))")
        return 1
    }
}

/// One seed, in this process.
struct Seed {
    static let details = ["--summary", "--story", "--points"]
    /// A bound in the time of the processor, which a busy machine does not change; a seed takes 1 to 20.
    static let mostSeconds = 60

    let number: UInt64
    private let limits: Limits
    private let detail: String?

    init(_ number: UInt64, _ options: Options) {
        self.number = number
        limits = Limits(options)
        detail = Self.details.first { options.has($0) }
    }

    /// - Returns: the status of the process.
    func run() throws -> Int32 { try withTemporaryDirectory(below: "/dev/shm") { run(in: $0) } }

    private func run(in place: String) -> Int32 {
        var limit = rlimit(rlim_cur: rlim_t(Self.mostSeconds), rlim_max: rlim_t(Self.mostSeconds + 10))
        setrlimit(__rlimit_resource_t(RLIMIT_CPU.rawValue), &limit)
        let world = World(seed: number, directory: place + "/world", limits: limits)
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
