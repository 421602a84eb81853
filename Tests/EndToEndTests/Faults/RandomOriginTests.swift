import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// Promises 1, 2 and 11 against an origin that does anything.
    ///
    /// `REELFS_RANDOM_SECONDS=3600` makes it an hour, `REELFS_RANDOM_SEED` does what a failed run has done, as far as
    /// threads can do that.
    @Suite struct RandomOriginTests {
        private static let readers = 6

        @Test("An origin of random errors and lies: right bytes or an error, in time, and the program stays")
        func storms() throws {
            let seconds = number("REELFS_RANDOM_SECONDS") ?? LongTests.many(120, elseOnly: 20)
            var random = number("REELFS_RANDOM_SEED").map { SeededGenerator(seed: UInt64($0)) } ?? SeededGenerator()
            let findings = RandomFindings()
            var sources: [RandomSource] = []
            defer { for source in sources { source.stop() } }
            for number in 0..<RandomShape.mostSources {
                sources.append(try RandomSource(number, seed: random.next()))
            }
            print("random origin: seed \(random.seed), \(seconds) s")
            var tier = try RandomTier()
            defer { tier.stop() }
            try withScene(limit: .seconds(seconds + 240)) { scene in
                let end = ContinuousClock.now + .seconds(seconds)
                var round = 0
                var number = 0
                while ContinuousClock.now < end, !findings.hasEnded {
                    let (shape, rounds) = RandomShape.of(mount: number, &random)
                    number += 1
                    findings.round = "mount \(number), seed \(random.seed), \(shape)"
                    var mount = try RandomMount(scene, sources, shape, tier, findings)
                    defer { mount.abandon() }
                    for _ in 0..<rounds where ContinuousClock.now < end && !findings.hasEnded {
                        round += 1
                        try storm(scene, &mount, &tier, findings, round, &random)
                        for source in mount.sources { try source.renew() }
                        try tier.renew()
                    }
                    mount.unmount()
                }
            }
            #expect(findings.count == 0, "seed \(random.seed): \(findings.sentences.joined(separator: "\n"))")
            #expect(findings.received > 0)
        }

        /// Programs read while everything has trouble; then all is well, and each file is read.
        private func storm(
            _ scene: Scene, _ mount: inout RandomMount, _ tier: inout RandomTier, _ findings: RandomFindings,
            _ round: Int, _ random: inout SeededGenerator
        ) throws {
            let shape = mount.shape
            let weather = "\(shape): " + mount.sources.map { $0.origin.storm() }.joined(separator: "; ")
            findings.round = "round \(round), seed \(random.seed), \(weather)"
            let readers = mount.sources.map { RandomReaders($0, scene.mountpoint, findings) }
            for reader in readers { reader.start(Self.readers / shape.sources, seed: random.next()) }
            for _ in 0..<Int.random(in: 5...20, using: &random) {
                let pause = Duration.milliseconds(Int.random(in: 10...1000, using: &random))
                eventually(within: pause) { mount.hasEnded() }
                mount.sources.randomElement(using: &random)!.origin.replaceSome()
                if shape.hasTier { tier.storm(&random) }
                try mount.edit(&random)
                mount.restart(&random)
            }
            if shape.isKilled { mount.crash() }
            for reader in readers { reader.finish() }
            if mount.hasEnded() { return }
            for source in mount.sources { source.origin.calm() }
            let bucket = shape.hasTier ? "; tier \(tier.calm())" : ""
            // Its last answers may go on for 40 s.
            findings.round += bucket
            if shape.isKilled { try mount.mountAgain(tier) }
            try mount.settle()
            for source in mount.sources { expectNewest(source, scene, mount, findings) }
            print("random origin: round \(round), \(weather.prefix(100)): \(findings.summary)\(bucket)")
        }

        /// Once the origin is well, each file is read whole as what it is.
        private func expectNewest(
            _ source: RandomSource, _ scene: Scene, _ mount: RandomMount, _ findings: RandomFindings
        ) {
            let origin = source.origin
            let readers = RandomReaders(source, scene.mountpoint, findings)
            for index in origin.files.indices where !mount.hasEnded() {
                var difference: String?
                // A circuit has to close, a listing to be asked for again, and what was confirmed to be 5 s old.
                eventually(within: .seconds(20)) {
                    difference = readers.difference(ofFile: index)
                    if difference != nil { usleep(100_000) }
                    return difference == nil
                }
                guard let difference else { continue }
                let asked = origin.files[index].asked.joined(separator: "\n")
                let told = readers.explanation(ofFile: index)
                findings.find("the origin is well, and after 20 s \(difference); it was asked:\n\(asked)\n\(told)")
            }
        }

        private func number(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }
    }
}

/// What went wrong in a run, and how much was tried.
final class RandomFindings: Sendable {
    private struct State {
        var sentences: [String] = []
        var count = 0
        var calls = 0
        var failures: [Int32: Int] = [:]
        var received: Int64 = 0
        var longest = Duration.zero
        var lastFailure = ""
        var round = ""
        var hasEnded = false
        var isCrashed = false
        var restarts = 0
    }
    private let state = Mutex(State())

    /// Printed at once, as the run may be long.
    func find(_ sentence: String) {
        state.withLock { state in
            state.count += 1
            guard state.sentences.count < 20 else { return }
            state.sentences.append("\(state.round): \(sentence)")
            print("random origin: found in \(state.round): \(sentence)")
        }
    }

    func call(_ time: Duration, _ number: Int32?) {
        state.withLock { state in
            state.calls += 1
            state.longest = max(state.longest, time)
            if let number { state.failures[number, default: 0] += 1 }
        }
    }

    func bytes(_ count: Int) { state.withLock { $0.received += Int64(count) } }

    var round: String {
        get { state.withLock { $0.round } }
        set { state.withLock { $0.round = newValue } }
    }
    /// Whether the program has ended by itself.
    var hasEnded: Bool {
        get { state.withLock { $0.hasEnded } }
        set { state.withLock { $0.hasEnded = newValue } }
    }
    /// Whether the test has killed the daemon, and no other one serves yet.
    var isCrashed: Bool {
        get { state.withLock { $0.isCrashed } }
        set { state.withLock { $0.isCrashed = newValue } }
    }

    /// When a call begins or ends.
    struct Moment {
        var time: ContinuousClock.Instant
        /// Odd while a daemon takes the place of another one.
        var restarts: Int
    }

    var moment: Moment { state.withLock { Moment(time: .now, restarts: $0.restarts) } }
    func beginOrEndRestart() { state.withLock { $0.restarts += 1 } }
    var count: Int { state.withLock { $0.count } }
    var sentences: [String] { state.withLock { $0.sentences } }
    var received: Int64 { state.withLock { $0.received } }
    var lastFailure: String {
        get { state.withLock { $0.lastFailure } }
        set { state.withLock { $0.lastFailure = newValue } }
    }

    var summary: String {
        state.withLock { state in
            let errors = state.failures.sorted { $0.key < $1.key }.map {
                "\($0.value) × \(String(cString: strerror($0.key)))"
            }
            return
                "\(state.calls) calls, \(state.received >> 20) MiB, longest \(state.longest), "
                + "\(state.restarts / 2) restarts, \(state.count) findings; "
                + errors.joined(separator: ", ")
        }
    }
}
