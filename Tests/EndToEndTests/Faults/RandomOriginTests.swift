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
            let seconds = number("REELFS_RANDOM_SECONDS") ?? 120
            var random = number("REELFS_RANDOM_SEED").map { SeededGenerator(seed: UInt64($0)) } ?? SeededGenerator()
            let findings = RandomFindings()
            let origin = RandomOrigin(seed: random.next())
            print("random origin: seed \(random.seed), \(seconds) s")
            var server = try origin.server(port: 0)
            defer { server.stop() }
            var copy = try origin.mirror(port: 0)
            defer { copy.stop() }
            var tier = try RandomTier()
            defer { tier.stop() }
            try withScene(limit: .seconds(seconds + 180)) { scene in
                var shape = RandomShape.first[0]
                var mount = try ForegroundMount(scene, server.address, shape, copy, tier)
                defer { mount.child.signal(SIGKILL) }
                let end = ContinuousClock.now + .seconds(seconds)
                var round = 0
                while ContinuousClock.now < end, findings.end == nil {
                    round += 1
                    let bucket = shape.hasTier ? ", tier " + tier.storm(&random) : ""
                    let weather = "\(shape): " + origin.storm() + bucket
                    findings.round = "round \(round), seed \(random.seed), \(weather)"
                    let readers = RandomReaders(origin, scene.mountpoint, findings)
                    readers.start(Self.readers, seed: random.next())
                    for _ in 0..<Int.random(in: 5...20, using: &random) {
                        let pause = Duration.milliseconds(Int.random(in: 10...1000, using: &random))
                        eventually(within: pause) { mount.hasEnded(findings) }
                        origin.replaceSome()
                        tier.loseSome(&random)
                    }
                    readers.finish()
                    if mount.hasEnded(findings) { break }
                    origin.calm()
                    tier.calm()
                    expectNewest(origin, scene, findings)
                    // A connection's thread and what the server notes of it are kept until it ends.
                    server.stop()
                    server = try origin.server(port: server.port)
                    copy.stop()
                    copy = try origin.mirror(port: copy.port)
                    let bucketed = tier.requests
                    try tier.renew()
                    if round % 4 == 0 {
                        mount.unmount(findings)
                        shape = RandomShape.of(mount: round / 4, &random)
                        mount = try ForegroundMount(scene, server.address, shape, copy, tier)
                    }
                    print(
                        "random origin: round \(round), \(weather.prefix(120)): \(findings.summary)"
                            + (bucket.isEmpty ? "" : "; tier: \(bucketed.reads) GET, \(bucketed.writes) PUT"))
                }
                mount.unmount(findings)
            }
            #expect(findings.count == 0, "seed \(random.seed): \(findings.sentences.joined(separator: "\n"))")
            #expect(findings.received > 0)
        }

        /// Once the origin is well, each file is read whole as what it is.
        private func expectNewest(_ origin: RandomOrigin, _ scene: Scene, _ findings: RandomFindings) {
            let readers = RandomReaders(origin, scene.mountpoint, findings)
            for index in origin.files.indices {
                var difference: String?
                // A circuit has to close, a listing to be asked for again, and what was confirmed to be 5 s old.
                eventually(within: .seconds(20)) {
                    difference = readers.difference(ofFile: index)
                    if difference != nil { usleep(100_000) }
                    return difference == nil
                }
                guard let difference else { continue }
                let asked = origin.files[index].asked.joined(separator: "\n")
                findings.find("the origin is well, and after 20 s \(difference); it was asked:\n\(asked)")
            }
        }

        private func number(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }
    }
}

/// What a mount of random origins has beside its origin.
struct RandomShape: CustomStringConvertible {
    var hasMirror = false
    var hasTier = false

    /// Those of the first mounts, so that a short run has seen each kind.
    static let first = [Self(hasTier: true), Self(hasMirror: true), Self(hasMirror: true, hasTier: true), Self()]

    /// - Parameter number: of the mount in this run.
    static func of(mount number: Int, _ random: inout SeededGenerator) -> Self {
        if number < first.count { return first[number] }
        return Self(hasMirror: Bool.random(using: &random), hasTier: Bool.random(using: &random))
    }

    var description: String {
        let parts = [(hasMirror, "mirror"), (hasTier, "tier")].filter(\.0).map(\.1)
        return parts.isEmpty ? "plain" : parts.joined(separator: " ")
    }
}

extension ForegroundMount {
    fileprivate init(
        _ scene: Scene, _ source: String, _ shape: RandomShape, _ mirror: ScriptedServer, _ tier: RandomTier
    ) throws {
        try self.init(
            scene, source,
            ["--cache-size", "16M", "--timeout", "\(RandomReaders.timeout)", "--refresh", "1"]
                + (shape.hasMirror ? ["--mirror", mirror.address] : []) + (shape.hasTier ? tier.options : []),
            environment: RandomTier.keys)
    }

    fileprivate func hasEnded(_ findings: RandomFindings) -> Bool {
        if findings.end != nil { return true }
        guard let end = child.poll() else { return false }
        findings.end = end
        findings.find("the program has ended with \(end.status): \(end.errors.suffix(2000))")
        return true
    }

    fileprivate func unmount(_ findings: RandomFindings) {
        if hasEnded(findings) { return }
        do {
            let end = try ChildProcess.run([program, "umount", path])
            if end.status != 0 { findings.find("umount: \(end)") }
            let last = try child.wait(within: .seconds(20))
            if last.status != 0 { findings.find("after umount \(last.status): \(last.errors.suffix(2000))") }
        } catch { findings.find("umount: \(error)") }
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
        var end: ChildProcess.End?
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
    /// How the program ended of itself; nil: it has not.
    var end: ChildProcess.End? {
        get { state.withLock { $0.end } }
        set { state.withLock { $0.end = newValue } }
    }
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
                "\(state.calls) calls, \(state.received >> 20) MiB, longest \(state.longest), \(state.count) findings; "
                + errors.joined(separator: ", ")
        }
    }
}
