import Glibc
import TestKit

/// What a mount of random origins has beside its origin, and what happens to its daemon.
struct RandomShape: CustomStringConvertible {
    static let mostSources = 3

    var hasMirror = false
    var hasTier = false
    /// More than one are a catalogue.
    var sources = 1
    /// `reelfs restart` while programs read. Its daemon is in the background, so that its last words are lost.
    var isRestarted = false
    /// `kill -9` while programs read, and a mount over the same cache.
    var isKilled = false

    /// The first mounts have these, for a round each, so that a short run has seen each kind.
    private static let first = [
        Self(hasTier: true), Self(hasMirror: true, sources: 2), Self(hasMirror: true, isRestarted: true),
        Self(hasTier: true, sources: 3, isRestarted: true, isKilled: true), Self(hasMirror: true, hasTier: true),
        Self(isKilled: true), Self(),
    ]

    /// - Parameter number: of the mount in this run.
    /// - Returns: the shape, and how many rounds the mount is to live.
    static func of(mount number: Int, _ random: inout SeededGenerator) -> (Self, rounds: Int) {
        if number < first.count { return (first[number], 1) }
        let shape = Self(
            hasMirror: .random(using: &random), hasTier: .random(using: &random),
            sources: max(1, Int.random(in: 0...mostSources, using: &random)), isRestarted: .random(using: &random),
            isKilled: Int.random(in: 0..<3, using: &random) == 0)
        return (shape, Int.random(in: 1...4, using: &random))
    }

    var description: String {
        let parts = [
            (sources > 1, "\(sources) sources"), (hasMirror, "mirror"), (hasTier, "tier"), (isRestarted, "restarts"),
            (isKilled, "kill"),
        ]
        let words = parts.filter(\.0).map(\.1)
        return words.isEmpty ? "plain" : words.joined(separator: " ")
    }
}

/// A mount of random origins.
struct RandomMount {
    private enum Daemon {
        case child(ForegroundMount)
        case background(Mounted)
    }

    private static let mistake = "refesh"

    let shape: RandomShape
    let sources: ArraySlice<RandomSource>
    private let scene: Scene
    private let findings: RandomFindings
    private var daemon: Daemon
    /// The catalogue holds a mistake.
    private var hasMistake = false
    /// The daemon has been waited for: its number may be another process's by now.
    private var isOver = false

    /// - Parameter all: of which it has as many as its shape says.
    init(
        _ scene: Scene, _ all: [RandomSource], _ shape: RandomShape, _ tier: RandomTier, _ findings: RandomFindings
    ) throws {
        (self.scene, self.shape, self.findings, sources) = (scene, shape, findings, all.prefix(shape.sources))
        for source in sources { source.enter(isAlone: shape.sources == 1, hasMirror: shape.hasMirror) }
        daemon = try Self.mount(scene, sources, shape, tier)
    }

    private static func mount(
        _ scene: Scene, _ sources: ArraySlice<RandomSource>, _ shape: RandomShape, _ tier: RandomTier
    ) throws -> Daemon {
        var options = ["--cache-size", "16M", "--timeout", "\(RandomReaders.timeout)", "--refresh", "1"]
        if shape.hasTier { options += tier.options }
        var address = sources[0].address
        if shape.sources > 1 {
            address = catalogue(scene)
            try writeFile(address, sources.map(\.table).joined().utf8)
        } else if shape.hasMirror {
            options += ["--mirror", sources[0].mirror]
        }
        if shape.isRestarted {
            return .background(try scene.mount(address, options, environment: RandomTier.keys))
        }
        return .child(try ForegroundMount(scene, address, options, environment: RandomTier.keys))
    }

    private static func catalogue(_ scene: Scene) -> String { scene.work("random.toml") }

    private var pid: pid_t {
        switch daemon {
        case .child(let mount): mount.child.pid
        case .background(let mount): mount.pid
        }
    }

    /// Whether the program has ended by itself, which is a finding.
    func hasEnded() -> Bool {
        if findings.hasEnded || findings.isCrashed { return findings.hasEnded }
        var words = ""
        switch daemon {
        case .child(let mount):
            guard let end = mount.child.poll() else { return false }
            words = "\(end.status): \(end.errors.suffix(2000))"
        case .background(let mount):
            if isRunning(mount.pid) { return false }
            words = "words that are lost"
        }
        findings.hasEnded = true
        findings.find("the program has ended with \(words)")
        return true
    }

    /// Now and then the catalogue becomes another one, or one with a mistake.
    mutating func edit(_ random: inout SeededGenerator) throws {
        guard shape.sources > 1, Int.random(in: 0..<3, using: &random) == 0 else { return }
        sources.randomElement(using: &random)!.change(&random)
        hasMistake = Int.random(in: 0..<5, using: &random) == 0
        try write()
    }

    /// All sources are in the catalogue.
    mutating func settle() throws {
        guard shape.sources > 1, !findings.hasEnded else { return }
        hasMistake = false
        for source in sources { source.list() }
        try write()
    }

    private func write() throws {
        // Without a source it is no catalogue.
        if sources.allSatisfy(\.table.isEmpty) { sources.first?.list() }
        let tables = sources.map(\.table).joined()
        try writeFile(Self.catalogue(scene), (tables + (hasMistake ? "\(Self.mistake) = 3\n" : "")).utf8)
        kill(pid, SIGHUP)
    }

    /// Now and then another daemon takes the place of this one.
    mutating func restart(_ random: inout SeededGenerator) {
        guard shape.isRestarted, Int.random(in: 0..<4, using: &random) == 0 else { return }
        guard case .background(let mount) = daemon, !hasEnded() else { return }
        findings.beginOrEndRestart()
        defer { findings.beginOrEndRestart() }
        do {
            daemon = .background(try scene.restart(mount, mayWarn: true, environment: RandomTier.keys))
            if hasMistake { findings.find("a restart has taken a catalogue with a mistake") }
        } catch {
            // Then all stays as it was.
            if !hasMistake || !"\(error)".contains(Self.mistake) { findings.find("restart: \(error)") }
        }
    }

    /// A crash. - Returns: once the watcher has removed the mount.
    mutating func crash() {
        if hasEnded() { return }
        isOver = true
        findings.isCrashed = true
        switch daemon {
        case .child(let mount):
            mount.child.signal(SIGKILL)
            _ = try? mount.child.wait()
        case .background(let mount): mount.crash()
        }
        let path = scene.mountpoint
        if !eventually(within: .seconds(20), { !mountTable().contains { $0.mountpoint == path } }) {
            findings.find("20 s after kill -9 the mount stands there")
        }
    }

    /// Over what the cache of the one that crashed has kept.
    mutating func mountAgain(_ tier: RandomTier) throws {
        daemon = try Self.mount(scene, sources, shape, tier)
        (findings.isCrashed, isOver, hasMistake) = (false, false, false)
    }

    mutating func unmount() {
        if hasEnded() { return }
        isOver = true
        do {
            let end = try ChildProcess.run([program, "umount", scene.mountpoint])
            // It waits for a busy disk, though not forever.
            if end.status != 0, !end.errors.contains("is still writing the cache") {
                findings.find("umount: \(end); the daemon: \(threads(of: pid))")
            }
            switch daemon {
            case .child(let mount):
                let last = try mount.child.wait(within: .seconds(20))
                if last.status != 0 { findings.find("after umount \(last.status): \(last.errors.suffix(2000))") }
            case .background(let mount):
                if !eventually(within: .seconds(20), { !isRunning(mount.pid) }) {
                    findings.find("20 s after umount the daemon runs: \(threads(of: mount.pid))")
                }
            }
        } catch { findings.find("umount: \(error)") }
    }

    /// However it stands, its daemon ends. One in the background is the scene's.
    func abandon() {
        if case .child(let mount) = daemon, !isOver, !findings.hasEnded { mount.child.signal(SIGKILL) }
    }
}
