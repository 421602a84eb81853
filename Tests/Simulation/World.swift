import Glibc
import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import ReelVolume
import Synchronization
import TestKit

/// What has gone wrong, in the order in which it was found.
final class Findings: Sendable {
    private let sentences = Mutex<[String]>([])

    var all: [String] { sentences.withLock { $0 } }

    func find(_ sentence: String) {
        Simulation.tell("FOUND \(sentence)")
        sentences.withLock { $0.append(sentence) }
    }
}

/// What a mount has beside its origin, and what happens to it.
struct Shape: CustomStringConvertible {
    let cap: Int64
    let isEncrypted: Bool
    let hasMirror: Bool
    let hasTier: Bool
    /// The process dies at some moment, and the next mount finds what it has written until then.
    let isKilled: Bool
    let hasCommands: Bool

    init(_ random: inout SeededGenerator) {
        cap = [4 << 20, 16 << 20, 64 << 20].randomElement(using: &random)!
        isEncrypted = Int.random(in: 0..<3, using: &random) == 0
        hasMirror = Bool.random(using: &random)
        hasTier = Int.random(in: 0..<3, using: &random) == 0
        isKilled = Int.random(in: 0..<3, using: &random) == 0
        hasCommands = Bool.random(using: &random)
    }

    var description: String {
        let parts = [
            (isEncrypted, "encrypted"), (hasMirror, "mirror"), (hasTier, "tier"), (isKilled, "killed"),
            (hasCommands, "commands"),
        ]
        return (["cap \(cap >> 20) MiB"] + parts.filter(\.0).map(\.1)).joined(separator: ", ")
    }
}

/// One seed: an origin of errors and lies, a mount of it, and programs that read.
struct World {
    static let timeout = Duration.seconds(3)
    /// A deadline, and the second above it that is promised.
    static let longest = timeout + .seconds(1)

    let seed: UInt64
    let directory: String
    let findings = Findings()
    let bucket = ScriptedBucket(serverless: ())

    func run() throws {
        var random = SeededGenerator(seed: seed)
        let origin = RandomOrigin(seed: random.next())
        let shape = Shape(&random)
        Simulation.tell("\(shape)")
        var cache = directory + "/cache-0"
        for number in 0..<Int.random(in: 1...3, using: &random) {
            let mount = try Mount(self, origin, shape, cache, seed: random.next())
            for _ in 0..<Int.random(in: 1...2, using: &random) {
                storm(mount, origin, shape, &random)
                origin.calm()
                bucket.fault = nil
                expectNewest(mount, origin, &random)
            }
            if shape.isKilled {
                let left = directory + "/cache-\(number + 1)"
                let killer = Thread("killer") { [cache] in copyTree(cache, to: left) }
                storm(mount, origin, shape, &random)
                killer?.join()
                Simulation.tell("killed, and what it left is \(left.suffix(7))")
                cache = left
            }
            mount.stop()
        }
    }

    /// Programs read while everything has trouble.
    private func storm(
        _ mount: Mount, _ origin: RandomOrigin, _ shape: Shape, _ random: inout SeededGenerator
    ) {
        Simulation.tell("weather \(origin.storm())")
        let players = (0..<Int.random(in: 1...4, using: &random)).compactMap { number in
            Player(mount, origin, findings, seed: random.next()).start("player-\(number)")
        }
        let command = shape.hasCommands ? Commands(mount, origin, seed: random.next()).start() : nil
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            Simulation.sleep(.milliseconds(Int64.random(in: 1...3000, using: &random)))
            origin.replaceSome()
            if shape.hasTier { bucket.fault = Self.faults.randomElement(using: &random)! }
        }
        for player in players { player.join() }
        command?.join()
    }

    private static let faults: [ScriptedBucket.Fault?] = [
        nil, nil, nil, .status(403), .status(503), .silent, .stallAfter(65_536), .resetAfter(200_001), .wrongBytes,
        .swapped, .truncated, .errorOf(2), .dropsWrites, .knowsNoCondition, .ignoresConditions,
    ]

    /// Once the origin is well, each file is read whole as what it is.
    private func expectNewest(_ mount: Mount, _ origin: RandomOrigin, _ random: inout SeededGenerator) {
        for index in origin.files.indices {
            let end = now() + .seconds(20)
            var difference: String?
            repeat {
                let player = Player(mount, origin, findings, seed: random.next())
                difference = player.difference(ofFile: index)
                if difference != nil { Simulation.sleep(.milliseconds(100)) }
            } while difference != nil && now() < end
            if let difference { findings.find("the origin is well, and after 20 s \(difference)") }
        }
    }
}

/// A copy as it is at this moment, with whatever stands in the page cache: what a process that dies leaves.
private func copyTree(_ place: String, to copy: String) {
    mkdir(copy, 0o700)
    for name in names(in: place) ?? [] {
        var status = stat()
        guard lstat("\(place)/\(name)", &status) == 0 else { continue }
        if status.st_mode & S_IFMT == S_IFDIR {
            copyTree("\(place)/\(name)", to: "\(copy)/\(name)")
        } else if status.st_mode & S_IFMT == S_IFREG {
            copyFile("\(place)/\(name)", to: "\(copy)/\(name)", status)
        }
    }
}

/// Holes stay holes.
private func copyFile(_ place: String, to copy: String, _ status: stat) {
    let (input, output) = (open(place, O_RDONLY), open(copy, O_WRONLY | O_CREAT, status.st_mode & 0o777))
    defer {
        close(input)
        close(output)
    }
    var bytes = [UInt8](repeating: 0, count: 4096)
    var offset = 0
    while case let count = pread(input, &bytes, bytes.count, offset), count > 0 {
        if bytes[..<count].contains(where: { $0 != 0 }) { pwrite(output, bytes, count, offset) }
        offset += count
    }
    ftruncate(output, offset)
}

/// A volume over a cache directory, as a daemon has it.
struct Mount: Sendable {
    private let transport: SimulatedTransport
    private let store: Store
    let volume: Volume

    init(_ world: World, _ origin: RandomOrigin, _ shape: Shape, _ cache: String, seed: UInt64) throws {
        var logger = Logger(label: "simulation") { _ in StoryLog() }
        logger.logLevel = .info
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": { origin.answer($0) }, "http://mirror": { origin.answerAsMirror($0) },
        ]
        transport = SimulatedTransport(servers, seed: seed)
        let key = shape.isEncrypted ? SecretBytes(count: 32) : nil
        store = try Store(
            directory: cache, source: "http://origin/", limits: CacheLimits(cap: shape.cap), owner: "/nowhere",
            cipher: key.map { CacheCipher(master: $0) })
        let tier = shape.hasTier ? Self.tier(world.bucket, key, seed: seed) : nil
        let options = VolumeOptions(
            timeout: World.timeout, refresh: .seconds(1),
            mirrors: shape.hasMirror ? [ResourceURL("http://mirror/")!] : [], tier: tier)
        var volume: Volume?
        let end = now() + .seconds(60)
        while volume == nil {
            do {
                volume = try Volume.open(
                    "http://origin/", origin: transport, store: store, options: options, logger: logger)
            } catch {
                Simulation.tell("no mount: \(error)")
                guard now() < end else { throw error }
                Simulation.sleep(.seconds(1))
            }
        }
        self.volume = volume!
    }

    private static func tier(_ bucket: ScriptedBucket, _ key: SecretBytes?, seed: UInt64) -> TierPlace {
        let address = S3Address("s3://shared/films", endpoint: ResourceURL("http://bucket/"))!
        return TierPlace(address, name: "s3://shared/films", seal: TierSeal(key: key, bucket: address.name)) { line in
            let transport = SimulatedTransport(["http://bucket": { bucket.answer($0) }], line, seed: ~seed)
            return TierConnection(transport) { transport.shutdown() }
        }
    }

    func stop() {
        volume.shutdown()
        transport.shutdown()
        store.close()
    }
}

/// The program's log is a part of the story.
private struct StoryLog: LogHandler {
    var metadata = Logger.Metadata()
    var logLevel = Logger.Level.info

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { Simulation.tell("log: \(event.message)") }
}
